"""Feeds an emulated accelerator from a photo folder and says what the figures mean: the program behind `make demo`.

    tools/demo.py FOLDER

Three runs of `fullbore bench`: as fast as it goes; an accelerator that wants half of that; one that wants half as much again. The second
stays busy, the third starves, and the command says so. The last part shows that the samples were real: an epoch through the Python
package.
"""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

COMMAND = Path(sys.executable).parent / "fullbore"
BATCH = 64


def say(text: str) -> None:
    print("\n" + textwrap.fill(" ".join(text.split()), 100), flush=True)


def bench(folder: str, *extra: str) -> dict:
    command = [str(COMMAND), "bench", folder, "--transform", "rrc224", "--batch-size", str(BATCH), *extra]
    print("\n$ fullbore " + " ".join(command[1:]), flush=True)
    result = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, text=True)
    if result.returncode:
        raise SystemExit(result.returncode)
    return json.loads(result.stdout)


def show(record: dict, *keys: str) -> None:
    for key in keys:
        value = f"{record[key] / 2**20:.1f} MiB" if key.endswith("_bytes") else f"{record[key]:,.4g}"
        print(f"    {key:34} {value}")


def feed(folder: str, rate: float, share: float) -> float:
    """Runs an accelerator that wants `share` of `rate`; returns how busy it was."""
    record = bench(folder, "--epochs", "3", "--step-ms", f"{BATCH / (rate * share) * 1000:.2f}")
    show(record, "accelerator_utilization_ratio", "exposed_wait_ratio", "epoch_gap_seconds")
    return record["accelerator_utilization_ratio"]


def count_one_epoch(folder: str) -> None:
    import fullbore as fb

    with fb.Loader(folder, batch_size=BATCH, shuffle=True, transforms=[fb.RandomResizedCrop(224), fb.RandomHorizontalFlip(),
                                                                     fb.Normalize.imagenet()]) as loader:
        keys = [key for batch in loader for key in batch.sample_keys]
    files = len(list(Path(folder).glob("*/*.jpg")))
    say(f"The same from Python: one epoch of fullbore.Loader gave {len(keys)} samples, {len(set(keys))} different ones, of {files} files.")
    if len(keys) != files or len(set(keys)) != files:
        raise SystemExit("demo: the epoch is not complete")


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: demo.py FOLDER", file=sys.stderr)
        return 2
    folder = sys.argv[1]
    say("1. How fast can this machine feed? JPEG files are read, a random crop of each is decoded, resized to 224 x 224 exactly as Pillow "
        "does it, flipped and normalised.")
    free = bench(folder, "--epochs", "3")
    show(free, "samples_per_second", "cpu_seconds_per_1000_samples", "budget_peak_bytes", "time_to_first_batch_seconds")
    rate = free["samples_per_second"]

    say(f"2. An accelerator that trains {rate / 2:,.0f} images a second, half of that. It is emulated: every {BATCH / rate * 2000:.0f} ms "
        f"it wants the next batch.")
    busy = feed(folder, rate, 0.5)
    say(f"It was busy {busy:.1%} of the time." + (
        " Whenever it asked, the batch was already there: this is what your training loop should look like." if busy > 0.98 else
        " It should be nearly always busy; other programs seem to use this machine now. Run the demo again."))

    say(f"3. One that trains {1.5 * rate:,.0f} images a second: more than this machine's cores can decode.")
    starved = feed(folder, rate, 1.5)
    say(f"It was busy {starved:.1%} of the time; the rest it waited for data. exposed_wait_ratio is that waiting, measured where it hurts: "
        f"in the call that takes the next batch. On a real machine look at it first. If it is near zero, the data is not your problem.")
    count_one_epoch(folder)
    print("\nNow with your own images and your model's step time:\n    .venv/bin/fullbore bench YOUR_FOLDER --batch-size 256 --step-ms 100")
    return 0


if __name__ == "__main__":
    sys.exit(main())
