"""How busy an accelerator is that learns from a bucket 30 ms away: as it is done today, straight from the bucket, with a cache on disk, and
from a copy that was staged before.

    python compare.py FOLDER_OF_PHOTOS [--step-ms N]

FOLDER_OF_PHOTOS is served as a bucket by bucket.py; before.py and after.py do the learning.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bucket import bucket

HERE = Path(__file__).parent
FULLBORE = shutil.which("fullbore") or shutil.which("fullbore", path=str(Path(sys.executable).parent)) or "fullbore"


def run(command, env):
    done = subprocess.run([str(part) for part in command], env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def busy(script, env, photos, *arguments):
    """Of each epoch, in per cent. Every photo must have come in each: an accelerator that gets nothing is never late."""
    epochs = re.findall(r"(\d+) photos, (\d+) % busy", run([sys.executable, HERE / script, *arguments], env))
    if [int(count) for count, _ in epochs] != [photos, photos]:
        raise SystemExit(f"{script}: {photos} photos are there, but {epochs} came")
    return [int(share) for _, share in epochs]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--step-ms", type=float, default=100)
    options = parser.parse_args()
    rows, photos = [], sum(1 for _ in options.folder.rglob("*.jpg"))
    with tempfile.TemporaryDirectory(prefix="fullbore-example-") as work, bucket(options.folder) as (url, env):
        env = {**env, "XDG_CACHE_HOME": f"{work}/catalogs", "OMP_NUM_THREADS": "1"}
        if subprocess.run([sys.executable, "-c", "import boto3"], capture_output=True).returncode == 0:
            rows.append(("boto3 in a DataLoader", busy("before.py", env, photos, url, 2, options.step_ms)))
        rows.append(("from the bucket", busy("after.py", env, photos, url, 2, options.step_ms)))
        rows.append(("with a disk cache", busy("after.py", env, photos, url, 2, options.step_ms, f"{work}/cache")))
        run([FULLBORE, "stage", url, f"{work}/staged"], env)
        rows.append(("staged before", busy("after.py", env, photos, f"{work}/staged", 2, options.step_ms)))
    print(f"{'busy':24}epoch 0   epoch 1")
    for name, (first, second) in rows:
        print(f"{name:24}{first:5} %   {second:5} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
