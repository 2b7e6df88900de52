"""Include directions: who may see whom. A stage that includes another stage's header fails here, with the line.

Stage folders see base/, model/, themselves and the public header; feed/ and jobs/ hand them each other's ops. A third-party library stays in the
folder that was made for it, so that replacing it is one folder's work.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAGES = {"batch", "cache", "codec", "dataset", "device", "host", "io", "meter", "order", "transform"}
MAY_SEE = {
    "base": set(),
    "model": {"base"},
    **{stage: {"base", "model"} for stage in STAGES},
    "feed": {"base", "model"} | STAGES,
    "diagnose": {"base", "model", "meter", "host"},
    "jobs": {"base", "model", "feed", "diagnose"} | STAGES,
    "cli": {"base", "jobs"},
    "python": {"base"},
}
LIVES_IN = {
    "jpeglib.h": {"codec"}, "jerror.h": {"codec"}, "spng.h": {"codec"}, "webp/": {"codec"},
    "liburing": {"io"}, "Python.h": {"python"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def violations(src: Path) -> list[str]:
    found = []
    for path in sorted(src.rglob("*.[ch]")):
        folder = path.relative_to(src).parts[0]
        text = path.read_text()
        for match in INCLUDE.finditer(text):
            where = f"{path.relative_to(src)}:{text.count(chr(10), 0, match.start(2)) + 1}: {folder}/ includes {match[2]}"
            if match[1] == '"':
                found += own_header(src, path, folder, match[2], where)
            else:
                found += [where for name, homes in LIVES_IN.items() if match[2].startswith(name) and folder not in homes]
    return found


def own_header(src: Path, path: Path, folder: str, name: str, where: str) -> list[str]:
    """What is wrong with an include in quotes: nothing, or one line."""
    if not (src / name).is_file() and not (path.parent / name).is_file():
        return [f"{where}, which does not exist"]
    target = name.split("/")[0] if (src / name).is_file() and "/" in name else folder
    return [] if target == folder or target in MAY_SEE[folder] else [where]


def test_every_folder_has_a_rule() -> None:
    folders = {p.name for p in (ROOT / "src").iterdir() if p.is_dir()}
    assert folders - set(MAY_SEE) == set()


def test_no_folder_includes_what_it_may_not_see() -> None:
    assert violations(ROOT / "src") == []


def test_the_public_header_includes_only_the_standard_library() -> None:
    for path in (ROOT / "include").rglob("*.h"):
        names = {match[2] for match in INCLUDE.finditer(path.read_text())}
        assert names <= {"stddef.h", "stdint.h", "stdbool.h"}, path


def test_a_wrong_include_is_found(tmp_path: Path) -> None:
    for name, text in {
        "base/error.h": "", "order/order.h": '#include "base/error.h"\n',
        "codec/png.c": '#include "base/error.h"\n#include "order/order.h"\n#include <spng.h>\n',
        "io/read.c": "#include <spng.h>\n", "base/x.c": '#include "order/order.h"\n',
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert violations(tmp_path) == [
        "base/x.c:1: base/ includes order/order.h",
        "codec/png.c:2: codec/ includes order/order.h",
        "io/read.c:1: io/ includes spng.h",
    ]
