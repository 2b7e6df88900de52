"""Two builds beside each other: this checkout's and another one's, each with its own command, Python package and folder for what it
keeps."""

from dataclasses import dataclass
from pathlib import Path

import run as bench


@dataclass(frozen=True)
class Side:
    """One of them; `make build` was run in its tree."""

    name: str
    tree: Path

    @property
    def command(self) -> str:
        return str(self.tree / ".venv/bin/fullbore")

    @property
    def python(self) -> str:
        return str(self.tree / ".venv/bin/python")

    @staticmethod
    def environment(home: Path) -> dict[str, str]:
        """Catalogs and learnt records go below `home`."""
        return {"XDG_CACHE_HOME": str(home)}


def here_and_there(other: Path) -> tuple[Side, Side]:
    sides = Side("here", bench.ROOT), Side("there", other.resolve())
    for side in sides:
        if not Path(side.command).exists():
            raise SystemExit(f"there is no {side.command}: run `make build` in {side.tree}")
    return sides
