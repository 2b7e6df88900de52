"""Is the copy to a device hidden behind the steps?

    bench/device.py FOLDER [--rounds N] [--command fullbore] [--quick]

An emulated accelerator wants 0.8 of what the loader can give; batches (uint8) go to an emulated device on links of different speed. A
loader that copied each batch when it is asked for would lose the time of the copy in every step: `not hidden` says what would be left.
Sides take turns within a round; figures are medians. The second table has steps so slow that nothing but the copy could be in the way: on a
machine that is busy with other things it is the one to look at.
"""

import argparse
import json
import statistics
import subprocess

BATCH, BATCH_BYTES = 64, 64 * 3 * 224 * 224
LINKS = {"none": None, "12 GB/s": 12e9, "1 GB/s": 1e9, "0.4 GB/s": 0.4e9, "0.1 GB/s": 0.1e9}


def bench(options: argparse.Namespace, *extra: str) -> dict:
    command = [options.command, "bench", options.folder, "--dtype", "uint8", "--batch-size", str(BATCH), *extra, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def device_of(rate: float | None) -> list[str]:
    return [] if rate is None else ["--device", f"emulated:{rate / 1e6:.0f}MB/s,20us"]


def utilization(options: argparse.Namespace, step_ms: float, rate: float | None, epochs: int) -> dict:
    return bench(options, "--step-ms", f"{step_ms:.3f}", "--epochs", str(epochs), *device_of(rate))


def links(step_ms: float) -> dict[str, float | None]:
    """Those that are fast enough for the steps at all."""
    return {name: rate for name, rate in LINKS.items() if rate is None or BATCH_BYTES / rate * 1e3 < 0.9 * step_ms}


def show(title: str, step_ms: float, records: dict[str, list[dict]]) -> None:
    print(f"\n{title}: steps of {step_ms:.1f} ms")
    print(f"{'link':10} {'copy ms':>8} {'busy':>7} {'waiting':>8} {'not hidden':>11}")
    for name, rate in links(step_ms).items():
        copy_ms = BATCH_BYTES / rate * 1e3 if rate else 0.0
        busy = statistics.median(r["accelerator_utilization_ratio"] for r in records[name])
        wait = statistics.median(r["exposed_wait_ratio"] for r in records[name])
        print(f"{name:10} {copy_ms:8.1f} {busy:7.3f} {wait:8.3f} {step_ms / (step_ms + copy_ms):11.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="is the copy to a device hidden behind the steps?")
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--command", default="fullbore")
    parser.add_argument("--quick", action="store_true", help="one epoch, two rounds")
    options = parser.parse_args()
    rounds, epochs = (2, 1) if options.quick else (options.rounds, 3)
    free = statistics.median(bench(options, "--epochs", str(epochs), *device_of(12e9))["samples_per_second"] for _ in range(rounds))
    print(f"as fast as it goes, with the copy: {free:.0f} samples per second")
    wanted = BATCH / free / 0.8 * 1e3
    for title, step_ms in (("0.8 of that", wanted), ("0.2 of that", 4 * wanted)):
        records: dict[str, list[dict]] = {name: [] for name in LINKS}
        for _ in range(rounds):
            for name, rate in links(step_ms).items():
                records[name].append(utilization(options, step_ms, rate, epochs))
        show(title, step_ms, records)


if __name__ == "__main__":
    main()
