"""Makes a wheel and tries it where nothing else is installed: the program behind `make wheel`.

    tools/make_wheel.py DIST

The wheel goes to DIST. It is installed into a virtual environment of its own, which sees neither the source tree nor .venv; there the
command runs and the package decodes an image. Without the trial a wheel that lacks a file would still look fine from inside the tree.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

TRIAL = """
import pathlib, subprocess, fullbore
png = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
                    "0000000c49444154789c63f87f800100048101c077d9031d0000000049454e44ae426082")
pixels = fullbore.ops.decode_image(png)
assert pixels.tolist() == [[[255, 192, 0]]], pixels
assert "site-packages" in fullbore.__file__, fullbore.__file__
assert (pathlib.Path(fullbore.__file__).parent / "py.typed").exists()
subprocess.run([pathlib.Path(fullbore.__file__).parent / "fullbore-hdf5", "--version"], check=True, stderr=subprocess.DEVNULL)
print("import fullbore: version", fullbore.__version__)
"""


def run(*command: object, **more: object) -> None:
    subprocess.run([str(c) for c in command], check=True, **more)


def build(dist: Path) -> Path:
    for old in dist.glob("fullbore-*.whl"):
        old.unlink()
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--wheel-dir",
        dist, ROOT)
    return next(dist.glob("fullbore-*.whl"))


def try_out(wheel: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        run(sys.executable, "-m", "venv", scratch)
        python = Path(scratch) / "bin/python"
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numpy", wheel)
        run(python, "-c", TRIAL, cwd=scratch)
        run(Path(scratch) / "bin/fullbore", "--version", cwd=scratch)


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: make_wheel.py DIST", file=sys.stderr)
        return 2
    wheel = build(Path(sys.argv[1]).resolve())
    try_out(wheel)
    print(f"{wheel.relative_to(Path.cwd()) if wheel.is_relative_to(Path.cwd()) else wheel}: {wheel.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
