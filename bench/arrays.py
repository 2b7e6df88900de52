"""Arrays and sound against bare C loops, h5py and soundfile: a part of `make bench`.

    bench/arrays.py [--quick] [--rounds N] [--threads N] [--only rows bags sound]

Files are made once, in .cache: rows of 4 KB and 1 KB in the layouts that h5py users have, slides of 500 to 4000 features of 1024 float32
with coordinates, 30,000 WAV files of about 60 KB. Page cache warm, unless it says cold. Sides take turns within each round; figures are
medians. Everything behind the table goes to build/bench-arrays.json.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import run as bench

BUILD = Path(os.environ.get("FB_BUILD_DIR", bench.ROOT / "build"))
COMMAND = os.environ.get("FULLBORE_COMMAND", bench.COMMAND)
CACHE = bench.ROOT / ".cache"
BATCH, SLIDES_A_BATCH, CLIPS, SAMPLES = 8192, 4, 1024, 24_000
ROW_LAYOUTS = {
    "contiguous": {},
    "64-row chunks": {"chunks": 64},
    "64-row chunks, gzip-4": {"chunks": 64, "compression": "gzip", "compression_opts": 4},
}


def floor(name: str, *arguments: object) -> dict:
    return bench.run_json([str(BUILD / "bench" / name), *map(str, arguments)])


def peer(*arguments: object) -> dict:
    return bench.run_json([sys.executable, "bench/arrays_peers.py", *map(str, arguments)])


def ours(source: Path, *arguments: object, threads: int = 2) -> dict:
    record = bench.run_json([COMMAND, "bench", str(source), "--threads", str(threads), *map(str, arguments), "--json"])
    if record.get("bad_samples") or record.get("bad"):
        raise SystemExit(f"bench: {source} has bad samples")
    return record


def rate(records: list[dict]) -> float:
    return bench.median(records, "samples_per_second")


def cpu(records: list[dict]) -> float:
    """CPU microseconds per sample: what a busy neighbour changes least. Of samples decoded, as in run.py: at the end of a run the engine
    has worked on an epoch that never comes."""
    return statistics.median(r["cpu_seconds_per_1000_samples"] * done_share(r) for r in records) * 1000


def done_share(record: dict) -> float:
    decoded = next((stage["items"] for stage in record.get("stages", []) if stage["name"] == "decode"), record["samples"])
    return min(1.0, record["samples"] / decoded)


def turns(b: "bench.Bench", sides: dict[str, Callable[[], dict]]) -> dict[str, list[dict]]:
    """Each side once in each round."""
    seen: dict[str, list[dict]] = {name: [] for name in sides}
    for _ in range(b.options.rounds):
        for name, side in sides.items():
            seen[name].append(side())
    return seen


def against(b: "bench.Bench", what: str, seen: dict[str, list[dict]], other: str, wanted: str, how: str, unit: str = "/s") -> None:
    """A row for the rate, and for a floor one for the CPU time."""
    mine, theirs = rate(seen["ours"]), rate(seen[other])
    b.row(f"{what}: {unit} against {other}", f"{mine:.0f}", f"{theirs:.0f}", f"{mine / theirs:.2f}", wanted, how)
    if other.startswith("the bare"):
        b.row(f"{what}: CPU us against {other}", f"{cpu(seen['ours']):.2f}", f"{cpu(seen[other]):.2f}",
              f"{cpu(seen[other]) / cpu(seen['ours']):.2f}", wanted, how)


# ---------------------------------------------------------------------------------------------------------------------- files


def made(path: Path, make: Callable[[Path], None]) -> Path:
    """The file or folder, made under another name first: half of one is never taken for the whole."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name("making-" + path.name)
        print(f"  making {path.relative_to(bench.ROOT)}", flush=True)
        make(part)
        part.rename(path)
    return path


def row_file(layout: str, width: int, rows: int) -> Path:
    import h5py
    import numpy as np

    def make(path: Path) -> None:
        options = dict(ROW_LAYOUTS[layout])
        if "chunks" in options:
            options["chunks"] = (options["chunks"], width)
        rng = np.random.default_rng(0)
        with h5py.File(path, "w") as file:
            data = file.create_dataset("features", (rows, width), "f4", **options)
            for at in range(0, rows, 4096):
                n = min(4096, rows - at)
                data[at:at + n] = np.round(rng.standard_normal((n, width)) * 64) / 64  # deflate leaves a bit more than half
            file["labels"] = np.arange(rows)

    return made(CACHE / "arrays" / f"rows-{layout.replace(' ', '_').replace(',', '')}-{width}x{rows}.h5", make)


def row_offsets(path: Path) -> Path:
    """Where each row lies, for the floor."""
    import h5py
    import numpy as np

    def make(out: Path) -> None:
        with h5py.File(path) as file:
            data = file["features"]
            row_bytes, rows = data.shape[1] * 4, len(data)
            if data.chunks is None:
                offsets = data.id.get_offset() + np.arange(rows, dtype="u8") * row_bytes
            else:
                height = data.chunks[0]
                starts = np.array([data.id.get_chunk_info_by_coord((at, 0)).byte_offset for at in range(0, rows, height)], dtype="u8")
                number = np.arange(rows)
                offsets = starts[number // height] + (number % height).astype("u8") * row_bytes
        offsets.astype("<u8").tofile(out)

    return made(path.with_suffix(".offsets"), make)


def chunk_list(path: Path) -> Path:
    """Each chunk as a unit of work."""
    import h5py

    def make(out: Path) -> None:
        with h5py.File(path) as file:
            data = file["features"]
            places = [data.id.get_chunk_info_by_coord((at, 0)) for at in range(0, len(data), data.chunks[0])]
        out.write_text("".join(f"{path} {c.byte_offset}:{c.size}\n" for c in places))

    return made(path.with_suffix(".chunks"), make)


def slide_folder(layout: str, count: int) -> Path:
    import h5py
    import numpy as np

    def make(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(1)
        for i in range(count):
            n = int(rng.integers(500, 4001))
            values = (np.round(rng.standard_normal((n, 1024)) * 64) / 64).astype("f4")
            with h5py.File(folder / f"slide_{i:04d}.h5", "w") as file:
                if layout == "1-row chunks":
                    options = [{"chunks": (1, 1024), "maxshape": (None, 1024)}, {"chunks": (1, 2), "maxshape": (None, 2)}]
                else:
                    options = [{"chunks": (64, 1024), "compression": "gzip", "compression_opts": 4}, {}]
                file.create_dataset("features", data=values, **options[0])
                file.create_dataset("coords", data=rng.integers(0, 100_000, (n, 2)), **options[1])

    return made(CACHE / "arrays" / f"slides-{layout.replace(' ', '_')}-{count}", make)


def extents_of(data: "object") -> list[tuple[int, int]]:
    """(offset, length) of all chunks in order, adjacent ones merged unless they are compressed."""
    if data.chunks is None:
        return [(data.id.get_offset(), data.id.get_storage_size())]
    out: list[tuple[int, int]] = []
    for at in range(0, len(data), data.chunks[0]):
        c = data.id.get_chunk_info_by_coord((at, 0))
        if out and not data.compression and out[-1][0] + out[-1][1] == c.byte_offset:
            out[-1] = (out[-1][0], out[-1][1] + c.size)
        else:
            out.append((c.byte_offset, c.size))
    return out


def slide_list(folder: Path, fields: tuple[str, ...]) -> Path:
    import h5py

    def make(out: Path) -> None:
        with open(out, "w") as lines:
            for path in sorted(folder.glob("*.h5")):
                with h5py.File(path) as file:
                    places = [place for field in fields for place in extents_of(file[field])]
                lines.write(" ".join([str(path), *(f"{offset}:{length}" for offset, length in places)]) + "\n")

    return made(folder.with_suffix(f".{'-'.join(fields)}.extents"), make)


def speech(rng: "object", frames: int) -> "object":
    """Like speech from afar: voiced stretches with harmonics and a slow envelope, hiss and pauses between them."""
    import numpy as np

    t = np.arange(frames) / 48_000
    pitch = 2 * np.pi * np.cumsum(110 + 40 * np.sin(2 * np.pi * rng.uniform(1, 3) * t + rng.uniform(0, 6))) / 48_000
    voice = sum(np.sin(k * pitch) / k for k in (1, 2, 3, 5, 8, 13))
    envelope = np.clip(np.sin(2 * np.pi * rng.uniform(2, 5) * t + rng.uniform(0, 6)), 0, None)
    return ((voice * envelope * 0.25 + rng.standard_normal(frames) * 0.01) * 12_000).astype("<i2")


def wav_folder(count: int) -> Path:
    import numpy as np

    def make(folder: Path) -> None:
        rng = np.random.default_rng(2)
        some = [speech(rng, 48_000) for _ in range(200)]
        for i in range(count):
            frames = int(rng.integers(20_000, 40_001))
            data = np.roll(some[i % 200], int(rng.integers(48_000)))[:frames].tobytes()
            path = folder / f"speaker{i % 40:02d}" / f"{i:05d}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            head = b"RIFF" + (36 + len(data)).to_bytes(4, "little") + b"WAVEfmt " + (16).to_bytes(4, "little")
            head += b"\1\0\1\0" + (48_000).to_bytes(4, "little") + (96_000).to_bytes(4, "little") + b"\2\0\x10\0"
            path.write_bytes(head + b"data" + len(data).to_bytes(4, "little") + data)

    return made(CACHE / "arrays" / f"wav-{count}", make)


def path_list(folder: Path) -> Path:
    return made(folder.with_suffix(".paths"),
                lambda out: out.write_text("".join(f"{p}\n" for p in sorted(folder.glob("*/*.wav")))) and None)


# ------------------------------------------------------------------------------------------------------------------- sections


def rows(b: "bench.Bench") -> None:
    """Rows of one HDF5 file, batch 8192: against a bare loop of reads, libdeflate, and h5py in a DataLoader."""
    threads, quick = b.options.threads, b.options.quick
    for width, kilobytes in ((1024, 4), (256, 1)):
        for layout in ROW_LAYOUTS:
            is_gzip = "gzip" in layout
            count = (240_000 if is_gzip else 60_000) * 4 // kilobytes
            path, size = row_file(layout, width, count), f"{kilobytes} KB"
            passes = (2 if quick else 4) if is_gzip else 10 if quick else 40
            order = "window" if is_gzip else "shuffled"
            how = f"{count} rows, batch {BATCH}, {order}, {threads} threads, {b.options.rounds} rounds"
            engine = [path, "--fields", "features,labels", "--batch-size", BATCH, "--epochs", passes, "--order", order]
            if is_gzip:  # less is kept than an epoch has; see inflated()
                engine += ["--memory", "640MiB"]
                sizes = 64 * width * 4, BATCH * width * 4
                sides = {"the bare libdeflate loop": lambda: scaled(floor("floor_chunks", chunk_list(path), threads, 2, *sizes), 64)}
            else:
                sides = {"the bare loop of row reads": lambda: floor(
                    "floor_rows", path, width * 4, row_offsets(path), threads, passes, BATCH)}
            sides["ours"] = (lambda: inflated(ours(*engine, threads=threads))) if is_gzip else (
                lambda: whole(ours(*engine, threads=threads)))
            seen = turns(b, sides)
            rival = peer("rows", path, "--limit", (16_384 if is_gzip else 65_536) // (2 if quick else 1))
            b.results[f"rows_{size}_{layout}"] = {**seen, "h5py": rival}
            name = f"HDF5 rows of {size}, {layout}"
            against(b, name, seen, next(iter(sides)), ">= 0.85" if is_gzip else ">= 0.8", how, "rows/s")
            against(b, name, {**seen, "h5py, DataLoader": [rival]}, "h5py, DataLoader", ">= 20", f"{how}; h5py row by row, 2 workers",
                    "rows/s")


def whole(record: dict) -> dict:
    """The rate from the start of the program: what was done before the first batch came is not forgotten."""
    seconds = record["wall_seconds"] + record["time_to_first_batch_seconds"]
    return {**record, "samples_per_second": record["samples"] / seconds}


def inflated(record: dict) -> dict:
    """Rows whose chunks were inflated, not those that an earlier epoch had left in memory: the floor has no memory."""
    share = min(1.0, record["chunks_unfiltered"] * 64 / record["samples"])
    return {**whole(record), "samples_per_second": whole(record)["samples_per_second"] * share, "inflated_ratio": share,
            "cpu_seconds_per_1000_samples": record["cpu_seconds_per_1000_samples"] / share}


def scaled(record: dict, by: int) -> dict:
    """Units -> rows. (The last chunk is shorter: less than a thousandth.)"""
    return {**record, "samples": record["samples"] * by, "samples_per_second": record["samples_per_second"] * by,
            "cpu_seconds_per_1000_samples": record["cpu_seconds_per_1000_samples"] / by}


def bags(b: "bench.Bench") -> None:
    """Slides of 500 to 4000 x 1024 float32 with coordinates: against a bare loop over the same merged extents, libdeflate, and h5py."""
    count = 40 if b.options.quick else 200
    for layout, fields, wanted in (("1-row chunks", ("features", "coords"), ">= 0.8"), ("gzip-4", ("features",), ">= 0.85")):
        folder = slide_folder(layout, count)
        is_gzip = layout == "gzip-4"
        passes = (3 if is_gzip else 20) if b.options.quick else 3 if is_gzip else 16  # what happens once should not count
        bare = "the bare libdeflate loop" if is_gzip else "the bare loop of merged reads"
        engine = [folder, "--sample", "file", "--fields", "features,coords", "--batch-size", SLIDES_A_BATCH, "--epochs", passes]
        seen: dict[int, dict[str, list[dict]]] = {}
        for threads in (1, 2):
            sides = {bare: lambda: floor("floor_chunks", slide_list(folder, fields), threads, passes, 64 * 4096 if is_gzip else 0,
                                         SLIDES_A_BATCH * 2250 * 4096),
                     "ours": lambda: whole(ours(*engine, "--collate", "ragged", threads=threads))}
            if threads == 2:
                sides["padded"] = lambda: whole(ours(*engine, "--collate", "pad", threads=threads))
            seen[threads] = turns(b, sides)
        rival = {threads: peer("bags", folder, "--limit", 20 if is_gzip else 60, "--threads", threads) for threads in (1, 2)}
        b.results[f"bags_{layout}"] = {"threads": seen, "h5py": rival}
        how = f"{count} slides, batch {SLIDES_A_BATCH}, ragged, 2 threads, {b.options.rounds} rounds"
        name = f"bags of 500-4000 x 1024 float32, {layout}"
        best = max(rival.values(), key=lambda r: r["samples_per_second"])
        against(b, name, seen[2], bare, wanted, how, "bags/s")
        against(b, name, {**seen[2], "h5py, cached handles": [best]}, "h5py, cached handles", ">= 20", how, "bags/s")
        b.row(f"{name}: 1 -> 2 threads", f"{rate(seen[2]['ours']) / rate(seen[1]['ours']):.2f}x",
              f"floor {rate(seen[2][bare]) / rate(seen[1][bare]):.2f}x, "
              f"h5py {rival[2]['samples_per_second'] / rival[1]['samples_per_second']:.2f}x",
              "-", ">= 1.6x", how)
        b.row(f"{name}: bags/s padded", f"{rate(seen[2]['padded']):.0f}", f"{rate(seen[2]['ours']):.0f} ragged", "-", "-", how)


def sound(b: "bench.Bench") -> None:
    """30,000 WAV files of about 60 KB to (1024, 24000) float32: against a bare loop, soundfile, plain Python with numpy; warm and cold."""
    threads, count = b.options.threads, 4000 if b.options.quick else 30_000
    folder = wav_folder(count)
    engine = [folder, "--transform", f"crop_or_pad samples={SAMPLES}", "--batch-size", CLIPS]
    ours(*engine, threads=threads)  # what there is to know of the files is known
    bare = "the bare loop of open, read, close, convert"
    seen = turns(b, {bare: lambda: floor("floor_wav", path_list(folder), threads, 2, CLIPS, SAMPLES),
                     "ours": lambda: whole(ours(*engine, "--epochs", 240_000 // count, threads=threads))})
    limit = 8 * CLIPS
    rivals = {"soundfile, 4 threads": peer("soundfile", folder, "--limit", limit, "--threads", 4),
              "plain Python + numpy": max((peer("numpy", folder, "--limit", 2 * limit, "--threads", n) for n in (1, 2)),
                                          key=lambda r: r["samples_per_second"])}
    b.results["sound"] = {**seen, **rivals}
    how = f"{count} files, batch {CLIPS}, {threads} threads, {b.options.rounds} rounds"
    against(b, "WAV to (1024, 24000) float32", seen, bare, ">= 0.8", how, "files/s")
    for name, wanted in (("soundfile, 4 threads", ">= 10"), ("plain Python + numpy", ">= 2.5")):
        against(b, "WAV to (1024, 24000) float32", {**seen, name: [rivals[name]]}, name, wanted, how, "files/s")
    sweep = {depth: bench.run_json([str(BUILD / "bench/floor_io"), str(folder), "uring", str(threads), str(depth)])
             for depth in (32, 64, 128)}
    best = max(sweep, key=lambda depth: sweep[depth]["samples_per_second"])
    cold = turns(b, {"the bare io_uring loop": lambda: bench.run_json([str(BUILD / "bench/floor_io"), str(folder), "uring", str(threads),
                                                                       str(best)]),
                     "ours": lambda: whole(ours(*engine, "--cold", threads=threads))})
    b.results["sound_cold"] = {**cold, "sweep": sweep}
    b.row(f"WAV, cold: files/s against the bare io_uring loop at depth {best}, reading only", f"{rate(cold['ours']):.0f}",
          f"{rate(cold['the bare io_uring loop']):.0f}", f"{rate(cold['ours']) / rate(cold['the bare io_uring loop']):.2f}", ">= 0.9", how)


SECTIONS = {"rows": rows, "bags": bags, "sound": sound}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures arrays and sound against bare C loops, h5py and soundfile.")
    parser.add_argument("--quick", action="store_true",
                        help="fewer passes and files, one round: minutes become one or two, figures become rough")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.photos = 0
    b = bench.Bench(options)
    if os.getloadavg()[0] > 0.5:
        print(f"bench: others use this machine too (load {os.getloadavg()[0]:.1f}): trust ratios, not rates", file=sys.stderr)
    for name in options.only:
        print(f"{name}: {SECTIONS[name].__doc__}", flush=True)
        SECTIONS[name](b)
    bench.print_table(b)
    b.results |= {"rows": b.rows, "load": os.getloadavg()}
    (BUILD / "bench-arrays.json").write_text(json.dumps(b.results, indent=1) + "\n")


if __name__ == "__main__":
    main()
