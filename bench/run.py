"""Measures the engine against bare C loops and torch's DataLoader on the same files and prints the ratios: what `make bench` runs.

    bench/run.py [--quick] [--rounds N] [--photos N] [--threads N] [--only SECTION...] [--readme]

Sides that are compared take turns within each round, so that a noisy neighbour hits all of them; figures are medians over the rounds. Every
side reports how many samples came; a missing one stops the bench. The whole result goes to build/bench.json; nothing is sent anywhere.
"""

import argparse
import contextlib
import json
import os
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import tables

ROOT = Path(__file__).resolve().parent.parent
COMMAND = str(ROOT / ".venv/bin/fullbore")
FLOOR_IMAGE = str(ROOT / "build/bench/floor_image")
FLOOR_IO = str(ROOT / "build/bench/floor_io")
IMAGENET = "normalize mean=0.485,0.456,0.406 std=0.229,0.224,0.225"
RRC = "random_resized_crop size=224,224; random_horizontal_flip p=0.5"
SPEC = {"float32": f"{RRC}; {IMAGENET}", "uint8": RRC}
BATCH = 64
EPOCHS = 8  # of known files: enough that what happens once (memory touched for the first time) does not count
COPIES = 4  # of each photograph in a first epoch, for the same reason: a data set of 100,000 starts once too


class Bench:
    """One run: what was asked, what was measured, what is printed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.photos = ROOT / ".cache" / f"photos-{options.photos}"
        self.results: dict[str, object] = {}
        self.rows: list[tuple[str, ...]] = []

    def row(self, what: str, ours: str, other: str, ratio: str, wanted: str, how: str) -> None:
        self.rows.append((what, ours, other, ratio, wanted, how))
        print(f"  {what}: {ours} | {other} | {ratio} (wanted {wanted})", flush=True)

    def save(self) -> None:
        path = ROOT / "build/bench.json"
        self.results["rows"] = self.rows
        path.write_text(json.dumps(self.results, indent=1) + "\n")
        print(f"\nall figures: {path.relative_to(ROOT)}")


def run_json(command: list[str], env: dict[str, str] | None = None) -> dict:
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, cwd=ROOT)
    if result.returncode:
        raise SystemExit(f"bench: {shlex.join(command)}\nended with {result.returncode}: {result.stderr[-2000:]}")
    return json.loads(result.stdout)


def ours(folder: Path, *extra: str, dtype: str = "float32", threads: int = 2, transform: str = "rrc224", batch: int = BATCH,
         env: dict[str, str] | None = None) -> dict:
    return run_json([COMMAND, "bench", str(folder), "--transform", transform, "--batch-size", str(batch), "--dtype", dtype, "--threads",
                     str(threads), *extra, "--json"], env)


def make_photos(folder: Path, count: int) -> None:
    subprocess.run([sys.executable, "tools/make_photos.py", str(folder), "--count", str(count)], cwd=ROOT, check=True)


def median(records: list[dict], key: str) -> float:
    return statistics.median(r[key] for r in records)


def cpu_per_1000_decoded(record: dict) -> float:
    """CPU seconds per 1000 images decoded after the first batch. At the end of a run the engine has already worked on the batches of an
    epoch that never comes; that is work done, so it counts as such. For the floors decoded and delivered are the same."""
    if "stages" not in record:
        return record["cpu_seconds_per_1000_samples"]
    decoded = next(stage["items"] for stage in record["stages"] if stage["name"] == "decode")
    return record["cpu_seconds_per_1000_samples"] * (record["samples"] - BATCH) / (decoded - BATCH)


def check_count(record: dict, expected: int, who: str) -> None:
    if record["samples"] != expected:
        raise SystemExit(f"bench: {who} delivered {record['samples']} samples, {expected} were due")


# ------------------------------------------------------------------------------------------------------------------ sections

SUM_OF_EPOCH = """
import sys, numpy, fullbore as fb
with fb.Loader(sys.argv[1], batch_size=64, shuffle=True, seed=0, framework="numpy",
               transforms=[fb.RandomResizedCrop(224), fb.RandomHorizontalFlip()]) as loader:
    loader.set_epoch(1)
    print(sum(int(images.sum(dtype=numpy.uint64)) for images, *_ in loader))
"""


def same_pixels(b: Bench) -> None:
    """The floor and the engine make the same epoch: the bytes of all its samples add up to the same number."""
    floor = run_json([FLOOR_IMAGE, str(b.photos), str(b.options.threads), "1", str(BATCH), "uint8", SPEC["uint8"], "--sum"])
    check_count(floor, b.options.photos, "the floor")
    engine = int(subprocess.run([sys.executable, "-c", SUM_OF_EPOCH, str(b.photos)], capture_output=True, text=True, check=True).stdout)
    if engine != floor["byte_sum"]:
        raise SystemExit(f"bench: the floor's epoch adds up to {floor['byte_sum']}, the engine's to {engine}: they do different work")
    b.results["same_pixels"] = {"byte_sum": engine, "samples": floor["samples"]}
    print(f"  {floor['samples']} samples, bytes add up to {engine} on both sides", flush=True)


def best_workers(b: Bench) -> int:
    rates = {}
    for workers in (1, 2, 3, 4):
        rates[workers] = run_json([sys.executable, "bench/peers.py", str(b.photos), "--workers", str(workers), "--limit", "1000"])
    b.results["peer_worker_sweep"] = rates
    return max(rates, key=lambda w: rates[w]["samples_per_second"])


@contextlib.contextmanager
def unknown(folder: Path) -> Iterator[dict[str, str]]:
    """A cache directory in which the photographs are catalogued and nothing else is known about them."""
    with tempfile.TemporaryDirectory() as cache:
        env = {"XDG_CACHE_HOME": cache}
        run_json([COMMAND, "info", str(folder), "--json"], env)
        yield env


def all_known(folder: Path, count: int, cache: Path) -> dict[str, str]:
    """A cache directory with all that decoding can learn about the photographs: every one was decoded whole once."""
    env = {"XDG_CACHE_HOME": str(cache)}
    if not (cache / ".made").exists():
        shutil.rmtree(cache, ignore_errors=True)
        check_count(ours(folder, dtype="uint8", transform="resize size=32,32", env=env), count, "fullbore")
        (cache / ".made").write_text("")
    return env


def known(b: Bench) -> dict[str, str]:
    """The same for the bench's photographs."""
    return all_known(b.photos, b.options.photos, ROOT / ".cache" / f"known-{b.options.photos}")


def copied(b: Bench) -> Path:
    """A folder with several copies of every photograph: files of their own, about which nothing is known."""
    folder = ROOT / ".cache" / f"photos-{b.options.photos}-x{COPIES}"
    if not (folder / ".made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        for copy in range(COPIES):
            shutil.copytree(b.photos, folder / str(copy), ignore=shutil.ignore_patterns(".*"))
        (folder / ".made").write_text("")
    return folder


def first_epoch(b: Bench, dtype: str) -> dict[str, dict]:
    """Files never decoded before: the floor knows nothing either."""
    folder, threads, count = copied(b), b.options.threads, COPIES * b.options.photos
    floor = run_json([FLOOR_IMAGE, str(folder), str(threads), "1", str(BATCH), dtype, SPEC[dtype]])
    with unknown(folder) as env:
        engine = ours(folder, dtype=dtype, threads=threads, env=env)
    check_count(floor, count, "the floor")
    check_count(engine, count, "fullbore")
    return {"floor": floor, "ours": engine}


def known_files(b: Bench, dtype: str) -> dict[str, dict]:
    """Later epochs: both sides have the checkpoints of earlier decodes."""
    threads, count = b.options.threads, b.options.photos
    floor = run_json([FLOOR_IMAGE, str(b.photos), str(threads), str(EPOCHS), str(BATCH), dtype, SPEC[dtype], "--known"])
    engine = ours(b.photos, "--epochs", str(EPOCHS), dtype=dtype, threads=threads, env=known(b))
    check_count(floor, EPOCHS * count, "the floor")
    check_count(engine, EPOCHS * count, "fullbore")
    return {"floor": floor, "ours": engine}


def peer(b: Bench, dtype: str, workers: int) -> dict:
    record = run_json([sys.executable, "bench/peers.py", str(b.photos), "--workers", str(workers), "--dtype", dtype])
    check_count(record, b.options.photos, "DataLoader")
    return record


def warm(b: Bench) -> None:
    """Warm page cache, RandomResizedCrop(224) + flip: against the floor and DataLoader, in a first epoch and with known files."""
    workers = best_workers(b)
    known(b)
    for dtype in ("float32", "uint8"):
        rounds = [{"first epoch": first_epoch(b, dtype), "known files": known_files(b, dtype), "peer": peer(b, dtype, workers)}
                  for _ in range(b.options.rounds)]
        b.results[f"warm_{dtype}"] = rounds
        rival = median([r["peer"] for r in rounds], "samples_per_second")
        rival_cpu = median([r["peer"] for r in rounds], "cpu_seconds_per_1000_samples")
        how = f"{b.options.threads} threads, batch {BATCH}, {b.options.photos} photos, {b.options.rounds} rounds"
        for name, wanted in (("first epoch", ">= 2.5"), ("known files", ">= 4")):
            side = {who: [r[name][who] for r in rounds] for who in ("ours", "floor")}
            rate = {who: median(records, "samples_per_second") for who, records in side.items()}
            cpu = {who: statistics.median(map(cpu_per_1000_decoded, records)) for who, records in side.items()}
            b.row(f"{dtype}, {name}: img/s against the bare C loop", f"{rate['ours']:.0f}", f"{rate['floor']:.0f}",
                  f"{rate['ours'] / rate['floor']:.3f}", ">= 0.95", how)
            b.row(f"{dtype}, {name}: CPU s per 1000 against the bare C loop", f"{cpu['ours']:.3f}", f"{cpu['floor']:.3f}",
                  f"{cpu['ours'] / cpu['floor']:.3f}", "<= 1.05", how)
            b.row(f"{dtype}, {name}: img/s against DataLoader + Pillow", f"{rate['ours']:.0f}", f"{rival:.0f}",
                  f"{rate['ours'] / rival:.2f}", wanted, f"{how}; DataLoader at its best worker count, {workers}")
            b.row(f"{dtype}, {name}: CPU s per 1000 against DataLoader + Pillow", f"{cpu['ours']:.3f}", f"{rival_cpu:.3f}",
                  f"{cpu['ours'] / rival_cpu:.2f}", "-", how)
        if dtype == "float32":
            memory = [median([r[key] if key == "peer" else r[key]["ours"] for r in rounds], "rss_peak_bytes") / 2**20
                      for key in ("known files", "peer")]
            b.row("float32, resident memory in MiB against DataLoader + Pillow", f"{memory[0]:.0f}", f"{memory[1]:.0f}",
                  f"{memory[0] / memory[1]:.2f}", "-", how)


def accelerator(b: Bench) -> None:
    """An emulated accelerator that wants 0.9 and 0.5 of what the engine reaches."""
    env = known(b)
    free = ours(b.photos, "--epochs", str(EPOCHS), threads=b.options.threads, env=env)
    b.results["accelerator_free_run"] = free
    for share, wanted in ((0.9, 0.95), (0.5, 0.99)):
        step_ms = BATCH / (share * free["samples_per_second"]) * 1000
        records = [ours(b.photos, "--epochs", str(EPOCHS), "--step-ms", f"{step_ms:.3f}", threads=b.options.threads, env=env)
                   for _ in range(b.options.rounds)]
        b.results[f"accelerator_{share}"] = records
        how = f"--step-ms {step_ms:.1f}, batch {BATCH}, {b.options.threads} threads, {EPOCHS} epochs, {b.options.rounds} rounds"
        busy = median(records, "accelerator_utilization_ratio")
        b.row(f"accelerator wanting {share} of the rate: busy", f"{busy:.4f}", "-", f"{busy:.3f}", f">= {wanted}", how)
        gap = median(records, "epoch_gap_seconds") / (step_ms / 1000)
        b.row(f"accelerator wanting {share} of the rate: epoch gap in steps", f"{gap:.2f}", "-", f"{gap:.2f}", "<= 1.5", how)


def consumer(b: Bench) -> None:
    """A training loop in Python whose step sleeps: how busy is its accelerator, and does --step-ms say the same? bench/consumer.py has
    more."""
    import consumer as loops

    loops.measure(b, loops.Case("photos", b.photos, b.options.threads), loops.STEPS_MS[0], "sleep")


def link_many(b: Bench, count: int) -> Path:
    """A folder of `count` files: hard links to the photographs, a thousand to a class."""
    folder = ROOT / ".cache" / f"links-{count}"
    if (folder / ".made").exists():
        return folder
    photos = sorted(b.photos.glob("*/*.jpg"))
    for i in range(count):
        target = folder / f"class{i // 1000:04d}"
        if i % 1000 == 0:
            target.mkdir(parents=True, exist_ok=True)
        link = target / f"{i:07d}.jpg"
        if not link.exists():
            os.link(photos[i % len(photos)], link)
    (folder / ".made").write_text("")
    return folder


FIRST_BATCH = """
import sys, time, fullbore as fb
started = time.monotonic()
loader = fb.Loader(sys.argv[1], batch_size=64, shuffle=True, threads=int(sys.argv[2]), framework="numpy",
                   transforms=[fb.RandomResizedCrop(224), fb.RandomHorizontalFlip(), fb.Normalize.imagenet()])
images, labels = next(iter(loader))
print(time.monotonic() - started, len(images))
"""


def first_batch(b: Bench) -> None:
    """Time to the first batch of an indexed folder of 100,000 files."""
    folder = link_many(b, 100_000)
    info = run_json([COMMAND, "info", str(folder), "--json"])
    if info["samples"] != 100_000:
        raise SystemExit(f"bench: {folder} has {info['samples']} samples")
    seconds = []
    for _ in range(max(3, b.options.rounds)):
        out = subprocess.run([sys.executable, "-c", FIRST_BATCH, str(folder), str(b.options.threads)], capture_output=True, text=True,
                             check=True)
        seconds.append(float(out.stdout.split()[0]))
    b.results["first_batch_python"] = seconds
    how = f"batch {BATCH}, float32, {b.options.threads} threads"
    b.row("first batch of an indexed folder of 100,000 files, s, Python beyond the imports", f"{statistics.median(seconds):.3f}", "-", "-",
          "<= 0.3", f"{how}, {len(seconds)} times")
    if b.options.quick:
        return
    record = ours(folder, threads=b.options.threads)
    check_count(record, 100_000, "fullbore")
    b.results["first_batch"] = record
    b.row("the same, command, from its start", f"{record['time_to_first_batch_seconds']:.3f}", "-", "-", "<= 0.3",
          f"{how}, then the whole epoch: {record['samples_per_second']:.0f} img/s, {record['rss_peak_bytes'] / 2**20:.0f} MiB resident")


def small_memory(b: Bench) -> None:
    """uint8, batch 64, in 64 MiB: what is accounted stays inside."""
    record = ours(b.photos, "--memory", "64MiB", "--epochs", "2", dtype="uint8", threads=b.options.threads, env=known(b))
    b.results["small_memory"] = record
    peak = record["budget_peak_bytes"] / 2**20
    b.row("accounted memory with --memory 64MiB, MiB", f"{peak:.1f}", "64", f"{peak / 64:.2f}", "<= 1", f"uint8, batch {BATCH}")
    b.row("img/s in 64 MiB", f"{record['samples_per_second']:.0f}", "-", "-", "-", f"uint8, batch {BATCH}")


def cold(b: Bench) -> None:
    """Files dropped from the page cache before each epoch: against bare loops at their best depth."""
    threads, count = b.options.threads, b.options.photos
    for name, depths, env in (("uring", (8, 32, 64, 128), {}), ("pread", (2, 4, 8, 16, 32, 64), {"FULLBORE_IO": "pread"})):
        sweep = {d: run_json([FLOOR_IO, str(b.photos), name, str(threads), str(d), "float32", SPEC["float32"]]) for d in depths}
        best = max(sweep, key=lambda d: sweep[d]["samples_per_second"])
        pairs = []
        for _ in range(b.options.rounds):
            floor = run_json([FLOOR_IO, str(b.photos), name, str(threads), str(best), "float32", SPEC["float32"]])
            with unknown(b.photos) as cache:
                engine = ours(b.photos, "--cold", "--epochs", "1", threads=threads, env={**env, **cache})
            check_count(floor, count, "the floor")
            check_count(engine, count, "fullbore")
            pairs.append({"floor": floor, "ours": engine})
        b.results[f"cold_{name}"] = {"sweep": sweep, "best_depth": best, "rounds": pairs}
        rate = {side: statistics.median(p[side]["samples_per_second"] for p in pairs) for side in ("floor", "ours")}
        refused = "io_uring" if name == "uring" else "io_uring refused, pread"
        b.row(f"cold, {refused}: img/s against the bare loop at depth {best}", f"{rate['ours']:.0f}", f"{rate['floor']:.0f}",
              f"{rate['ours'] / rate['floor']:.3f}", ">= 0.9", f"float32, batch {BATCH}, {threads} threads, {b.options.rounds} rounds")


def large_photos(b: Bench, count: int) -> Path:
    """Mosaics of the bench's photographs, 1632 x 1224 pixels: what a camera of two megapixels writes, in size and detail."""
    from PIL import Image

    out = ROOT / ".cache" / f"large-{count}"
    if (out / ".made").exists():
        return out
    files = sorted(b.photos.rglob("*.jpg"))
    for i in range(count):
        image = Image.new("RGB", (1632, 1224))
        for k in range(9):
            with Image.open(files[(9 * i + k) % len(files)]) as part:
                image.paste(part.convert("RGB").resize((544, 408), Image.Resampling.BICUBIC), (k % 3 * 544, k // 3 * 408))
        path = out / f"class{i % 4}" / f"{i:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, quality=93, subsampling=2 if i % 4 == 0 else 0)
    (out / ".made").write_text("")
    return out


PILLOW_WHOLE = """
import json, sys, time, pathlib
from PIL import Image
files = sorted(pathlib.Path(sys.argv[1]).rglob("*.jpg"))
started = time.process_time()
for path in files:
    image = Image.open(path).convert("RGB")
    scale = 256 / min(image.size)
    image.resize((int(image.width * scale), int(image.height * scale)), Image.Resampling.BILINEAR)
print(json.dumps({"samples": len(files), "cpu_seconds_per_1000_samples": (time.process_time() - started) / len(files) * 1000}))
"""


def draft(b: Bench) -> None:
    """2-megapixel photographs for validation, resize size=256: draft=1 against decoding them whole, by the engine and by Pillow."""
    count = 100 if b.options.quick else 400
    folder = large_photos(b, count)
    env_known = all_known(folder, count, ROOT / ".cache" / f"known-large-{count}")
    sides: dict[str, list[dict]] = {name: [] for name in ("first draft", "first whole", "known draft", "known whole", "Pillow whole")}
    for _ in range(b.options.rounds):
        for name, flag in (("draft", " draft=1"), ("whole", "")):
            spec = f"resize size=256{flag}; center_crop size=224,224; {IMAGENET}"
            with unknown(folder) as env:
                sides[f"first {name}"].append(ours(folder, threads=b.options.threads, transform=spec, env=env))
            sides[f"known {name}"].append(ours(folder, threads=b.options.threads, transform=spec, env=env_known))
        sides["Pillow whole"].append(run_json([sys.executable, "-c", PILLOW_WHOLE, str(folder)]))
    for name, records in sides.items():
        for record in records:
            check_count(record, count, name)
    b.results["draft"] = sides
    cpu = {name: statistics.median(map(cpu_per_1000_decoded, records)) for name, records in sides.items()}
    how = f"{count} photographs of 1632 x 1224, {b.options.threads} threads, {b.options.rounds} rounds"
    for state in ("first", "known"):
        label = f"draft=1, {'first epoch' if state == 'first' else 'known files'}: CPU s per 1000 against"
        mine = cpu[f"{state} draft"]
        for other in (f"{state} whole", "Pillow whole"):
            what = "the engine without draft" if other != "Pillow whole" else "Pillow's whole decode + resize"
            b.row(f"{label} {what}", f"{mine:.2f}", f"{cpu[other]:.2f}", f"{cpu[other] / mine:.2f} less", ">= 2", how)


def tiny_folder(count: int) -> tuple[Path, Path]:
    """A folder of `count` links to one 8 x 8 picture, and the picture."""
    from PIL import Image

    folder = ROOT / ".cache" / f"tiny-{count}"
    picture = ROOT / ".cache/tiny.png"
    if not (folder / ".made").exists():
        Image.new("RGB", (8, 8), (200, 120, 40)).save(picture)
        (folder / "a").mkdir(parents=True, exist_ok=True)
        for i in range(count):
            link = folder / "a" / f"{i:06d}.png"
            if not link.exists():
                os.link(picture, link)
        (folder / ".made").write_text("")
    return folder, picture


def overhead(b: Bench) -> None:
    """The engine's own cost per sample: an 8 x 8 picture from the null back-end, as it is."""
    folder, picture = tiny_folder(50_000)
    records = {}
    for threads in (1, 2, 8, 64):
        records[threads] = ours(folder, "--io", f"null:file={picture}", "--epochs", "4", threads=threads, dtype="uint8",
                                transform="center_crop size=8,8")
        check_count(records[threads], 200_000, "fullbore")
    b.results["overhead"] = records
    base = records[1]["samples_per_second"]
    for threads, record in records.items():
        b.row(f"null back-end, {threads} threads: samples/s", f"{record['samples_per_second']:.0f}", "-",
              f"{record['samples_per_second'] / base:.2f} of 1 thread", "no collapse",
              f"8 x 8 PNG, batch {BATCH}, {record['cpu_seconds_per_1000_samples'] * 1000:.1f} us CPU per sample")


SECTIONS = {
    "same_pixels": same_pixels, "warm": warm, "accelerator": accelerator, "consumer": consumer, "first_batch": first_batch,
    "small_memory": small_memory, "cold": cold, "overhead": overhead, "draft": draft,
}


def print_table(b: Bench) -> None:
    print("\n| what | fullbore | other side | ratio | wanted | how |\n|---|---|---|---|---|---|")
    for row in b.rows:
        print("| " + " | ".join(row) + " |")


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures the engine against bare C loops and torch's DataLoader.")
    parser.add_argument("--quick", action="store_true", help="1,000 photos and one round: minutes become seconds, figures become rough")
    parser.add_argument("--rounds", type=int, help="default 5; with --quick 1")
    parser.add_argument("--photos", type=int, help="default 4000; with --quick 1000")
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--readme", action="store_true", help="put the figures into README.md and docs/bench.md; needs a whole run")
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    options = parser.parse_args()
    if options.readme and (options.quick or options.only != list(SECTIONS)):
        parser.error("--readme needs a whole run: without --quick and --only")
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.photos = options.photos or (1000 if options.quick else 4000)

    b = Bench(options)
    make_photos(b.photos, options.photos)
    b.results["machine"] = {"cores": len(os.sched_getaffinity(0)), "kernel": platform.release(), "cpu": cpu_name(), "load": os.getloadavg()}
    if os.getloadavg()[0] > 0.5:
        print(f"bench: others use this machine too (load {os.getloadavg()[0]:.1f}): trust ratios, not rates", file=sys.stderr)
    for name in options.only:
        print(f"{name}: {SECTIONS[name].__doc__}", flush=True)
        SECTIONS[name](b)
    print_table(b)
    b.save()
    if options.readme:
        tables.put_into_pages(b.rows, tables.conditions(b.results["machine"], options, BATCH))
    return 0


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


if __name__ == "__main__":
    sys.exit(main())
