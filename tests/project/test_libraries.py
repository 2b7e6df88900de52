"""A third-party library stays in the folder that was made for it, so that replacing it is one folder's work."""

import os
import re
import subprocess
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src"
LIVES_IN = {
    "jpeglib.h": {"codec", "jobs"}, "jerror.h": {"codec"},  # jobs writes JPEG when it shrinks
    "spng.h": {"codec"}, "webp/": {"codec"}, "zlib.h": {"codec", "dataset"},
    "hdf5.h": {"hdf5"}, "libdeflate.h": {"codec", "jobs", "hdf5"},  # deflated chunks are written by build and rechunk
    "lz4.h": {"codec"}, "zstd.h": {"codec", "dataset"},
    "sndfile.h": {"codec"}, "liburing": {"io"}, "curl/": {"io"}, "jansson.h": {"codec", "dataset", "order", "jobs"},
    "xxhash.h": {"base"}, "Python.h": {"python"},
}
INCLUDE = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.M)


def strangers(src: Path) -> list[str]:
    found = []
    for path in sorted(src.rglob("*.[ch]")):
        folder = path.relative_to(src).parts[0]
        for name in INCLUDE.findall(path.read_text()):
            homes = next((homes for library, homes in LIVES_IN.items() if name.startswith(library)), {folder})
            if folder not in homes:
                found.append(f"{path.relative_to(src)}: {name}")
    return found


def test_every_library_is_included_by_its_own_folder_only() -> None:
    assert strangers(SRC) == []


def test_a_library_in_a_wrong_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "io").mkdir()
    (tmp_path / "io/a.c").write_text("#include <stdio.h>\n#include <webp/decode.h>\n#include <liburing.h>\n")
    assert strangers(tmp_path) == ["io/a.c: webp/decode.h"]


BUILD = SRC.parent / "build/src"


def functions(library: Path, kinds: str) -> set[str]:
    """T: other objects can call them; t: they are static, or a version script hides them."""
    said = subprocess.run(["nm", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {words[2] for line in said.splitlines() if len(words := line.split()) == 3 and words[1] in kinds}


def objects(library: Path) -> list[str]:
    return [Path(name).name for name in subprocess.run(["ar", "t", library], capture_output=True, text=True, check=True).stdout.split()]


def test_no_job_is_in_the_library() -> None:
    """The jobs are programs made of the library: whoever links it does not want to carry them."""
    static, jobs = objects(BUILD / "libfullbore.a"), objects(BUILD / "jobs/libfb_jobs.a")
    assert {"pack_pack.c.o", "doctor_doctor.c.o"} <= set(jobs), jobs
    assert any(name.endswith("feed_open.c.o") for name in static), static
    assert [name for name in static if name.startswith("jobs") or name in jobs] == []
    own = {name for name in functions(BUILD / "jobs/libfb_jobs.a", "T") if name.startswith(("pack_", "stage_", "build_", "bench_"))}
    shared = functions(BUILD / "libfullbore.so", "Tt")
    assert {"pack_run", "stage_run"} <= own, own
    assert "feed_metrics" in shared, "the library was stripped: nothing can be seen in it"
    assert own & shared == set()


COMMAND = Path(os.environ.get("FULLBORE_COMMAND", SRC.parent / ".venv/bin/fullbore"))


def test_the_command_starts_without_the_libraries_that_few_runs_need() -> None:
    """libcurl brings thirty libraries along, libsndfile eight, libhdf5 has a program of its own: each start would pay for them."""
    said = subprocess.run(["readelf", "-d", COMMAND], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.+?)\]", said)
    assert any(n.startswith("libc.so") for n in needed), said
    assert [n for n in needed if re.match(r"lib(curl|sndfile|hdf5)", n)] == []
