"""Writes the table of figures in docs/statistics.md from the engine's own table (src/meter/metrics.c).

    tools/make_statistics.py [--check]

--check changes nothing and exits with 1 if the page is not what it would write. It needs the package: `make build` first.
"""

import json
import sys
from pathlib import Path

from fullbore import _fullbore

PAGE = Path(__file__).resolve().parent.parent / "docs/statistics.md"
BEGIN, END = "<!-- figures: written by tools/make_statistics.py -->\n", "<!-- end of figures -->\n"


def table() -> str:
    lines = ["| in `stats()` | in `metrics()` | unit | kind | meaning |", "|---|---|---|---|---|"]
    for row in json.loads(_fullbore.describe_stats()):
        lines.append(f"| `{row['path']}` | `fullbore_{row['name']}` | {row['unit']} | {row['kind']} | {row['help']} |")
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    before, rest = page.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    old = PAGE.read_text()
    new = with_table(old)
    if "--check" in sys.argv[1:]:
        sys.exit(old != new and "docs/statistics.md is not what src/meter/metrics.c says: run tools/make_statistics.py")
    PAGE.write_text(new)
