"""The cases of bench/same.py, run by each side's own Python: `same_cases.py ROUND INPUTS HOME OTHERS_HOME COMMAND [PATTERN...]`.

Round 1 loads the inputs and writes files and states into HOME; round 2 goes on from what the other side left in its home. Prints one
JSON object: case -> lines of text, which must be the same on both sides. A case of the same name in both rounds must give the same lines
in both, too.
"""

import fnmatch
import hashlib
import json
import logging
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np

INPUTS, HOME, OTHER, COMMAND = Path(), Path(), Path(), ""
STAGE_JOURNAL = ".fullbore-stage"  # in the order in which threads were done; `opened/staged` goes on from it
VERBS = ("info", "bench", "index", "watch", "report", "doctor", "pack", "verify", "unpack", "stage", "build", "audit")
IMAGENET = fb.Normalize.imagenet()
RRC = [fb.RandomResizedCrop(64), fb.RandomHorizontalFlip()]
SMALL = [fb.Resize((16, 16))]
MEL = [fb.Mono(), fb.CropOrPad(4096, random=True), fb.LogMel(n_fft=256, hop_length=64, n_mels=32)]
Lines = list[str]
Case = tuple[str, dict[str, Any]]


def shade(image: np.ndarray, label: Any, rng: np.random.Generator) -> np.ndarray:
    return (image * rng.uniform(0.5, 1.0)).astype(np.uint8)


# ------------------------------------------------------------------------------------------------------------------- cases as data

TRANSFORMS: dict[str, list[fb.Transform]] = {
    "rrc": [*RRC, IMAGENET],
    "rrc-bicubic": [fb.RandomResizedCrop(48, scale=(0.3, 1.0), interpolation="bicubic"), IMAGENET],
    "rrc-nearest": [fb.RandomResizedCrop((40, 56), interpolation="nearest")],
    "rrc-draft": [fb.RandomResizedCrop(32, draft=True)],
    "eval": [fb.Resize(72), fb.CenterCrop(64), IMAGENET],
    "max-size": [fb.Resize(60, max_size=70), fb.CenterCrop(80)],
    "draft": [fb.Resize((50, 50), draft=True)],
    "crop": [fb.RandomCrop(64, padding=(3, 5), pad_if_needed=True, fill=(9, 99, 200), padding_mode="constant")],
    "crop-reflect": [fb.Resize((40, 40)), fb.RandomCrop(32, padding=6, padding_mode="reflect")],
    "pad-edge": [fb.Resize((40, 40)), fb.Pad((1, 2, 3, 4), padding_mode="edge")],
    "pad-symmetric": [fb.Resize((40, 40)), fb.Pad(7, padding_mode="symmetric")],
    "flips": [fb.Resize((48, 40)), fb.RandomHorizontalFlip(0.5), fb.RandomVerticalFlip(0.5)],
    "jitter": [fb.RandomResizedCrop(48), fb.ColorJitter(0.4, 0.4, 0.4, 0.1), fb.RandomGrayscale(0.3), IMAGENET],
    "grey": [fb.CenterCrop(96), fb.Grayscale()],
    "map": [fb.RandomResizedCrop(48), fb.Map(shade), fb.RandomHorizontalFlip(), IMAGENET],
}

# name -> (source, arguments of the loader)
LOADERS: dict[str, Case] = {
    **{f"photos/{name}": ("photos", {"transforms": steps, "shuffle": True}) for name, steps in TRANSFORMS.items()},
    **{f"photos/{dtype}": ("photos", {"transforms": [*RRC, IMAGENET], "dtype": dtype}) for dtype in ("float16", "float32")},
    "photos/bfloat16": ("photos", {"transforms": [*RRC, IMAGENET], "dtype": "bfloat16", "framework": "torch"}),
    **{f"photos/plain-{dtype}": ("photos", {"transforms": RRC, "dtype": dtype}) for dtype in ("uint8", "float16", "float32")},
    **{f"photos/{layout}": ("photos", {"transforms": [*RRC, IMAGENET], "layout": layout}) for layout in ("NCHW", "NHWC", "channels_last")},
    **{f"photos/threads-{n}": ("photos", {"transforms": [*RRC, IMAGENET], "shuffle": True, "threads": n}) for n in (1, 2, 5)},
    **{
        f"photos/rank-{rank}-of-4": ("photos", {"transforms": RRC, "shuffle": True, "rank": rank, "world_size": 4, "batch_size": 5})
        for rank in (0, 3)
    },
    "photos/ram": ("photos", {"transforms": RRC, "shuffle": True, "cache_ram": "64MiB", "memory": "512MiB"}),
    "photos/disk": ("photos", {"transforms": RRC, "shuffle": True, "cache_dir": "HOME/disk-cache"}),
    "photos/tar": ("photos.tar", {"transforms": RRC, "shuffle": True}),
    "photos/glob": ("photos/*/*1.jpg", {"transforms": SMALL}),
    "photos/masks": (
        "masks.csv",
        {
            "fields": ("image", "mask", "score"),
            "shuffle": True,
            "batch_size": 4,
            "transforms": [*RRC, fb.RandomCrop(80, pad_if_needed=True, mask_fill=255), fb.ColorJitter(0.4), IMAGENET],
        },
    ),
    "photos/box": (
        "masks.csv",
        {
            "fields": ("image", "x0", "y0", "x1", "y1"),
            "batch_size": 4,
            "transforms": [fb.CropBox("x0", "y0", "x1", "y1", margin=0.1), *SMALL],
        },
    ),
    "photos/small": ("small", {"transforms": RRC, "shuffle": True}),
    "photos/damaged": ("damaged", {"transforms": RRC, "shuffle": True, "on_error": "skip"}),
    "photos/damaged-raise": ("damaged", {"transforms": RRC}),
    "photos/damaged-most": ("damaged", {"transforms": RRC, "on_error": "skip", "max_errors": 3}),
    "order/plain": ("many", {"transforms": SMALL}),
    "order/shuffled": ("many", {"transforms": SMALL, "shuffle": True, "batch_size": 7}),
    "order/drop-last": ("many", {"transforms": SMALL, "shuffle": True, "drop_last": True}),
    "order/window": ("many", {"transforms": SMALL, "shuffle": "window", "window": 20}),
    "order/weights": ("many", {"transforms": SMALL, "shuffle": True, "weights": np.arange(103) + 1.0}),
    "order/balanced": ("many", {"transforms": SMALL, "shuffle": True, "weights": "balanced"}),
    "order/classes": ("many", {"transforms": SMALL, "classes": 2, "class_seed": 4, "per_class": 9}),
    "order/fraction": ("many", {"transforms": SMALL, "fraction": 0.3, "shuffle": True}),
    "order/indices": ("many", {"transforms": SMALL, "indices": [5, 1, 99, 3], "batch_size": 2}),
    "order/train": ("many", {"transforms": SMALL, "split": ("train", 0.8), "shuffle": True}),
    "order/val": ("many", {"transforms": SMALL, "split": ("val", 0.8)}),
    "order/sampler": ("many", {"transforms": SMALL, "sampler": list(range(0, 100, 3))}),
    "order/labels": ("many", {"transforms": SMALL, "labels": {"v": np.arange(206, dtype=np.float32).reshape(103, 2)}, "shuffle": True}),
    **{f"order/rank-{rank}-of-4": ("many", {"transforms": SMALL, "shuffle": True, "rank": rank, "world_size": 4}) for rank in (0, 3)},
    **{
        f"rows/{layout}": (f"rows/{layout}.h5", {"fields": ("features", "labels"), "shuffle": True, "batch_size": 100})
        for layout in (
            "contiguous",
            "row-chunks",
            "chunks",
            "gzip",
            "gzip-shuffle-fletcher32",
            "lzf",
            "split-columns",
            "split-columns-gzip",
            "one-chunk-gzip",
        )
    },
    "rows/mixed": ("mixed/*", {"fields": ("features", "labels"), "sample": "row", "shuffle": True, "batch_size": 50}),
    "rows/window": ("rows/gzip.h5", {"fields": ("features", "labels"), "shuffle": "window", "window": 200, "batch_size": 50}),
    "rows/preload": ("rows/gzip.h5", {"preload": True, "shuffle": True, "batch_size": 100}),
    "rows/bfloat16": (
        "rows/chunks.h5",
        {"fields": ("features",), "dtype": "bfloat16", "transforms": [fb.Normalize([1.0], [2.0])], "batch_size": 100, "framework": "torch"},
    ),
    "rows/spoilt": ("spoilt.h5", {"fields": ("features", "labels"), "shuffle": True, "batch_size": 100, "on_error": "skip"}),
    "bags/pad": ("bags/*.h5", {"sample": "file", "collate": fb.Pad(), "batch_size": 4, "shuffle": True}),
    "bags/ragged": ("bags-gzip/*.h5", {"sample": "file", "collate": fb.Ragged(), "batch_size": 4, "shuffle": True}),
    "bags/instances": (
        "bags-gzip/*.h5",
        {"sample": "file", "fields": ("features", "coords"), "transforms": [fb.SampleInstances(12)], "batch_size": 4},
    ),
    "bags/patients": (
        "slides.csv",
        {"group_by": "patient", "fields": ("features", "coords", "label"), "collate": fb.Pad(), "batch_size": 2},
    ),
    "bags/patients-instances": (
        "slides.csv",
        {"group_by": "patient", "fields": ("features",), "transforms": [fb.SampleInstances(9)], "batch_size": 2},
    ),
    "bags/ram": ("bags/*.h5", {"sample": "file", "collate": fb.Pad(), "batch_size": 4, "cache_ram": "16MiB", "memory": "512MiB"}),
    "sound/pad": ("sound", {"collate": fb.Pad(), "batch_size": 5, "shuffle": True}),
    "sound/clips": ("sound", {"transforms": [fb.CropOrPad(6000)], "dtype": "int16"}),
    "sound/mono": ("sound", {"transforms": [fb.Mono(), fb.CropOrPad(6000, random=True)], "shuffle": True}),
    "sound/mel": ("sound", {"transforms": [*MEL, fb.Normalize([-40.0], [20.0])], "shuffle": True}),
    "sound/mel-32": ("sound", {"transforms": [fb.CropOrPad(4096), fb.LogMel(n_fft=256, hop_length=64, n_mels=32, exact=False)]}),
    "sound/augment": (
        "sound",
        {"transforms": [*MEL, fb.SpecAugment(freq_mask_param=8, time_mask_param=20, n_time_masks=2)], "shuffle": True},
    ),
    "sound/disk": ("sound", {"transforms": [fb.CropOrPad(6000)], "cache_dir": "HOME/disk-cache-sound"}),
    **{f"arrays/{kind}": (kind, {"sample": "file", "batch_size": 5, "shuffle": True}) for kind in ("npy", "npz", "npz-packed")},
    "arrays/safetensors": ("safetensors", {"sample": "file", "batch_size": 5, "shuffle": True, "framework": "torch"}),
    "arrays/npz-float16": ("npz", {"sample": "file", "fields": ("volume",), "dtype": "float16", "batch_size": 5}),
}

# folder of corpora -> how a loader takes one file of it; a folder that is not there gives no case
CORPORA: dict[str, dict[str, Any]] = {
    **{
        name: {"transforms": [fb.Resize((24, 24))], "exif": True}
        for name in ("codec_jpeg", "codec_jpeg_record", "codec_png", "codec_webp", "codec_exif", "jpeg-go", "png-suite", "jpeg-exif-8")
    },
    **{name: {"sample": "file"} for name in ("array_npy", "array_npz", "array_safetensors", "npy-go")},
    "h5-pyfive": {"sample": "row", "batch_size": 4096},
    **{name: {} for name in ("array_wav", "wav-scipy")},
    "speech": {"transforms": [fb.CropOrPad(2000)]},
}

# loaders whose state after a batch the other side goes on from
STATES = (
    "photos/jitter",
    "photos/rank-3-of-4",
    "photos/masks",
    "photos/damaged",
    "order/window",
    "order/weights",
    "order/train",
    "order/classes",
    "rows/gzip",
    "rows/window",
    "bags/pad",
    "bags/patients",
    "sound/augment",
    "arrays/npz",
)

# file or folder in HOME -> the command that makes it
FILES: dict[str, list[str]] = {
    "photos.tar": ["pack", "INPUTS/photos", "-o", "OUT"],
    "manifest.tar": ["pack", "INPUTS/many", "-o", "OUT", "--threads", "3"],
    "skipped.tar": ["pack", "INPUTS/damaged", "-o", "OUT", "--skip-bad"],
    "resized.tar": ["pack", "INPUTS/photos", "-o", "OUT", "--resize-shorter", "100"],
    "decoded.npy": ["pack", "INPUTS/photos", "-o", "OUT", "--decode", "64x48"],
    "decoded-pad.npy": ["pack", "INPUTS/small", "-o", "OUT", "--decode", "32x32", "--fit", "pad"],
    "rechunked.h5": ["pack", "INPUTS/rows/gzip.h5", "-o", "OUT", "--rechunk", "10"],
    "unpacked": ["unpack", "HOME/photos.tar", "OUT"],
    "staged": ["stage", "INPUTS/photos", "OUT", "--classes", "2", "--per-class", "5", "--verify"],
    "mel.h5": [
        "build",
        "INPUTS/sound",
        "-o",
        "OUT",
        "--log-mel",
        "32",
        "--mono",
        "--length",
        "0.5s",
        "--n-fft",
        "256",
        "--split",
        "80/10/10",
        "--report",
        "/dev/null",
    ],
    "segments.h5": [
        "build",
        "INPUTS/sound",
        "-o",
        "OUT",
        "--raw",
        "--mono",
        "--segment",
        "0.25s",
        "--dtype",
        "float16",
        "--compress",
        "gzip",
        "--report",
        "/dev/null",
    ],
}

# file of the other side -> how a loader takes it
OPENED: dict[str, dict[str, Any]] = {
    "photos.tar": {"transforms": RRC, "shuffle": True},
    "resized.tar": {"transforms": RRC},
    "decoded.npy": {"transforms": RRC, "shuffle": True},
    "rechunked.h5": {"shuffle": True, "batch_size": 100},
    "unpacked": {"transforms": RRC},
    "staged": {"transforms": RRC},
    "mel.h5": {"fields": ("features", "labels", "split"), "shuffle": True},
    "segments.h5": {"shuffle": True, "batch_size": 100},
}

# what is asked of the command, and how much of its JSON is compared: all of it but times, or its keys alone
ASKED: dict[str, tuple[list[str], bool]] = {
    **{
        f"info-{name}": (["info", f"INPUTS/{name}", "--json"], True)
        for name in ("photos", "masks.csv", "photos.tar", "rows/gzip.h5", "bags", "sound", "npz")
    },
    "info-nothing": (["info", "INPUTS/nothing", "--json"], True),
    "verify": (["verify", "HOME/photos.tar", "--json"], True),
    "index": (["index", "INPUTS/small", "--learn", "--json"], True),
    "stage": (["stage", "INPUTS/photos", "HOME/dry", "--dry-run", "--json"], False),
    "bench": (["bench", "INPUTS/photos", "--batch-size", "8", "--json"], False),
    "bench-rows": (["bench", "INPUTS/rows/gzip.h5", "--json"], False),
    "doctor": (["doctor", "INPUTS/photos", "--batch-size", "8", "--samples", "32", "--json"], False),
    "unknown-verb": (["pakc"], True),
    "unknown-option": (["info", "INPUTS/photos", "--jsno"], True),
}


# ------------------------------------------------------------------------------------------------------------------- from data to lines


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:20]


def plain(text: str) -> str:
    """Without what belongs to one side: where it keeps things, which files it is made of, the number of its process."""
    for path, name in ((HOME, "HOME"), (OTHER, "HOME"), (INPUTS, "INPUTS"), (Path(COMMAND).parents[2], "TREE")):
        text = text.replace(str(path), name)
    return text


def placed(argument: str, home: Path, out: str = "") -> str:
    return argument.replace("INPUTS", str(INPUTS)).replace("HOME", str(home)).replace("OUT", str(home / out))


def array_text(array: Any) -> str:
    if isinstance(array, (fb.Padded, fb.RaggedRows)):
        return f"{array_text(array.values)} of {array.lengths.tolist()}"
    if hasattr(array, "numpy"):  # torch's, of any type
        array = array.contiguous()
        return f"{array.dtype}{list(array.shape)} {digest(array.view(sys.modules['torch'].uint8).numpy().tobytes())}"
    return f"{array.dtype}{list(array.shape)} strides {array.strides} {digest(array.tobytes())}"


def batch_lines(title: str, batch: fb.Batch) -> Iterator[str]:
    yield f"{title}: " + ", ".join(f"{name} {array_text(array)}" for name, array in zip(batch.names, batch, strict=True))
    yield f"{title}: {batch.samples} {batch.sample_keys} repeats {batch.repeats}"
    # Of pictures only: what else is drawn shows in the arrays, and was not told apart from an empty crop once.
    yield f"{title}: draws {digest(json.dumps([draw for draw in batch.draws if draw.get('height')]).encode())}"
    yield f"{title}: state {json.dumps(batch.state)}"


class Said(logging.Handler):
    """What the engine says while a case runs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if not re.search(r"has been waited for|s for the next batch|still busy", record.getMessage()):  # these depend on the machine
            self.lines.add(f"said: {record.levelname} {record.getMessage()}")


SAID = Said()


def open_loader(source: Path, arguments: dict[str, Any]) -> fb.Loader:
    values = {name: placed(value, HOME) if name == "cache_dir" else value for name, value in arguments.items()}
    return fb.Loader(str(source), **{"batch_size": 16, "seed": 7, "framework": "numpy", "threads": 2, **values})


def taken(loader: fb.Loader, epochs: int) -> Iterator[str]:
    """Every batch of so many epochs, and the samples that were bad."""
    for epoch in range(epochs):
        for number, batch in enumerate(loader):
            yield from batch_lines(f"epoch {epoch} batch {number}", batch)
    # What was read ahead for the epoch after is left out.
    bad = {json.dumps(sample, sort_keys=True) for sample in loader.stats()["bad_samples"] if sample["epoch"] < epochs}
    yield from sorted(
        {re.sub(r"#\d+", "#ROW", f"bad: {text}") for text in bad}
    )  # which row of a bad chunk is asked for first is a matter of threads


def guarded(lines: Callable[[], Iterator[str]]) -> Lines:
    """Lines up to the end or an error, then the error, then what was said."""
    out: Lines = []
    SAID.lines.clear()
    try:
        for line in lines():
            out.append(plain(line))
    except fb.Error as error:
        out.append(plain(f"{type(error).__name__}: {error}"))
    return out + sorted(plain(line) for line in SAID.lines)


def load(source: Path, arguments: dict[str, Any], epochs: int = 2) -> Lines:
    def lines() -> Iterator[str]:
        with open_loader(source, arguments) as loader:
            yield f"{len(loader)} batches of {loader.sample_count} samples"
            yield from taken(loader, epochs)

    return guarded(lines)


def load_each(folder: Path, arguments: dict[str, Any]) -> Lines:
    """Every file of a corpus on its own, good or bad, then all of them with the bad ones left out."""
    lines = []
    for path in sorted(folder.iterdir()):

        def decoded(path: Path = path) -> Iterator[str]:
            yield array_text(fb.ops.decode_image(str(path)))

        each = guarded(decoded) if "exif" in arguments else load(path, arguments, epochs=1)
        lines += [f"{path.name}: {line}" for line in each if ": state " not in line]
    return lines + load(folder, {**arguments, "on_error": "skip", "shuffle": True}, epochs=1)


def leave_state(name: str) -> Lines:
    """One batch, the state, then the rest: what whoever has the state must give, too."""
    source, arguments = LOADERS[name]
    kept = HOME / "states" / f"{name.replace('/', '-')}.json"
    kept.parent.mkdir(exist_ok=True)

    def lines() -> Iterator[str]:
        with open_loader(INPUTS / source, arguments) as loader:
            batches = iter(loader)
            next(batches)
            kept.write_text(json.dumps(loader.state_dict()))
            for number, batch in enumerate(batches):
                yield from batch_lines(f"rest {number}", batch)

    return guarded(lines)


def take_state(name: str) -> Lines:
    source, arguments = LOADERS[name]

    def lines() -> Iterator[str]:
        with open_loader(INPUTS / source, arguments) as loader:
            loader.load_state_dict(json.loads((OTHER / "states" / f"{name.replace('/', '-')}.json").read_text()))
            for number, batch in enumerate(loader):
                yield from batch_lines(f"rest {number}", batch)

    return guarded(lines)


# ------------------------------------------------------------------------------------------------------------------- files


def command(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, env={**os.environ, **env}, cwd=HOME, timeout=300)


def masked(text: str) -> str:
    """Without times, the figures that come from them, and what is free at the moment."""
    text = re.sub(
        r"\b\d+(\.\d+)? (%|[KMG]iB (are free|of memory)|(ms|s|us|seconds|[KMG]i?B/s|[\w ]+/s|[\w ]+ per second)\b)", "TIME", plain(text)
    )
    return re.sub(
        r'("[\w.]*(?:second|_ms|_ns|per_s|rate|time|date|pid|host|cpu|wall)[\w.]*": ?)("[^"]*"|-?[\d.e+-]+|null)', r"\1TIME", text
    )


def tree_lines(path: Path) -> Lines:
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return [
        f"{p.relative_to(path.parent)} {p.stat().st_size} bytes" + f" {digest(p.read_bytes())}" * (p.name != STAGE_JOURNAL) for p in files
    ]


def make_file(name: str) -> Lines:
    """With nothing learnt before: a pack takes the records there are, and which part of a picture a record covers depends on who came
    first."""
    done = command(*(placed(argument, HOME, name) for argument in FILES[name]), XDG_CACHE_HOME=str(HOME / "empty" / name))
    beside = sorted(p for p in HOME.glob(f"{Path(name).stem}*") if p.name != name)  # names and labels of decoded pictures, say
    return [
        f"exit code {done.returncode}",
        *masked(done.stdout + done.stderr).splitlines(),
        *(line for path in [HOME / name, *beside] for line in tree_lines(path)),
    ]


def catalog_text(path: Path) -> str:
    """A catalog but for when it was made, at byte 48, and the check of its header, at byte 256 (model/catalog/catalog_format.h)."""
    data = bytearray(path.read_bytes())
    data[48:56] = data[256:264] = bytes(8)
    return digest(bytes(data))


def learnt_lines(path: Path) -> Lines:
    """Every record of a merged store, by key (model/learnt/learnt_format.h): in which order threads came to them does not matter."""
    data, at, found = path.read_bytes(), 16, []
    while struct.unpack_from("<I", data, at)[0] == 0x64724C66:
        length, key = struct.unpack_from("<IQ", data, at + 4)
        found.append(f"record {key:016x} {digest(data[at : at + 40 + length])}")
        at += 40 + (length + 7) // 8 * 8
    return sorted(found)


def kept_lines(name: str) -> Lines:
    """What `fullbore index --learn` keeps of a source: its catalog and its learnt records."""
    home = HOME / f"kept-{name}"
    done = command("index", str(INPUTS / name), "--learn", XDG_CACHE_HOME=str(home))
    lines = [f"exit code {done.returncode}", *masked(done.stdout).splitlines()]
    for path in sorted(p for p in home.rglob("*") if p.is_file()):
        title = str(path.relative_to(home))
        is_catalog = path.read_bytes()[:7] == b"fbcatlg"
        lines += (
            [f"{title} {catalog_text(path)}"]
            if is_catalog
            else [f"{title}: {line}" for line in learnt_lines(path)]
            if path.name == "merged"
            else [title]
        )
    return lines


def use_kept(name: str) -> Lines:
    """What the other side has kept is used: nothing is scanned or learnt again."""
    home = HOME / f"others-{name}"
    shutil.copytree(OTHER / f"kept-{name}", home)
    before = {p: p.read_bytes() for p in home.rglob("*") if p.is_file()}
    own = os.environ["XDG_CACHE_HOME"]
    os.environ["XDG_CACHE_HOME"] = str(home)
    try:
        with open_loader(INPUTS / name, {"transforms": RRC}) as loader:
            batches = sum(1 for _ in loader)
            learnt = loader.stats()["learnt"]
    finally:
        os.environ["XDG_CACHE_HOME"] = own
    changed = sorted(str(p.relative_to(home)) for p, content in before.items() if p.read_bytes() != content)
    shown = ("records", "stale", "written")  # how many are missed depends on how the threads meet
    return [f"{batches} batches, changed {changed}", *(f"{key}: {learnt[key]}" for key in shown)]


def leave_audit() -> Lines:
    os.environ["FULLBORE_AUDIT"] = str(HOME / "audit")
    try:
        lines = load(INPUTS / "damaged", {"transforms": RRC, "shuffle": True, "on_error": "skip"})
    finally:
        del os.environ["FULLBORE_AUDIT"]
    return [*lines, *asked(["audit", str(HOME / "audit"), "--json"], True)]


def compare_audits() -> Lines:
    """The logs of both sides, read by either: the same samples with the same bytes."""
    return [
        *asked(["audit", *(str(home / "audit") for home in sorted((HOME, OTHER)))], True),
        *asked(["audit", str(OTHER / "audit"), "--json"], True),
    ]


def leave_recording() -> Lines:
    done = command(
        "watch", "--quiet", "--interval", "0.1", "-o", str(HOME / "run.fbr"), "--", sys.executable, "-c", "sum(range(20_000_000))"
    )
    return [f"exit code {done.returncode}"]


def read_recordings() -> Lines:
    """Reports of both sides' recordings: figures and page, to the byte."""
    lines = []
    for home in sorted((HOME, OTHER)):
        recording = home / "run.fbr"
        page = HOME / f"{home.name}.html"
        done = [
            command("report", str(recording)),
            command("report", str(recording), "--json"),
            command("report", str(recording), "-o", str(page)),
        ]
        lines += [
            f"exit codes {[d.returncode for d in done]}",
            *plain(done[0].stdout + done[1].stdout).splitlines(),
            f"page {digest(plain(page.read_text()).encode()) if page.exists() else 'refused'}",  # of a newer version than this side knows
        ]
    return lines


def open_other(name: str) -> Lines:
    lines = load(OTHER / name, OPENED[name])
    if name.endswith(".tar"):
        lines += asked(["verify", str(OTHER / name), "--json"], True)
    if name == "staged":  # nothing is left to copy
        shutil.copytree(OTHER / name, HOME / "others-staged")
        lines += asked([*FILES[name][:2], "HOME/others-staged", *FILES[name][3:], "--resume"], True)
    return lines


# ------------------------------------------------------------------------------------------------------------------- the command


def keys_of(value: Any, path: str = "") -> Iterator[str]:
    """Every key of a JSON value with the kind of what it holds; entries of a list are taken together."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from keys_of(item, f"{path}.{key}")
    elif isinstance(value, list):
        yield from sorted({line for item in value for line in keys_of(item, f"{path}[]")})
    else:
        yield f"{path}: {'number' if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__}"


def asked(arguments: list[str], is_whole: bool) -> Lines:
    done = command(*(placed(argument, HOME) for argument in arguments))
    lines = [f"exit code {done.returncode}"]
    if is_whole:
        return lines + masked(done.stdout + done.stderr).splitlines()
    return lines + list(keys_of(json.loads(done.stdout)))


def cases(round_number: int) -> dict[str, Callable[[], Lines]]:
    if round_number == 2:
        return {
            **{f"states/{name}": lambda name=name: take_state(name) for name in STATES},
            **{f"opened/{name}": lambda name=name: open_other(name) for name in OPENED},
            **{f"opened/kept-{name}": lambda name=name: use_kept(name) for name in ("photos", "many")},
            "opened/audit": compare_audits,
            "opened/recording": read_recordings,
        }
    return {
        **{f"loaders/{name}": lambda case=case: load(INPUTS / case[0], case[1]) for name, case in LOADERS.items()},
        **{
            f"corpora/{name}": lambda name=name: load_each(INPUTS / "corpora" / name, CORPORA[name])
            for name in CORPORA
            if (INPUTS / "corpora" / name).exists()
        },
        **{f"states/{name}": lambda name=name: leave_state(name) for name in STATES},
        **{f"files/{name}": lambda name=name: make_file(name) for name in FILES},
        **{f"files/kept-{name}": lambda name=name: kept_lines(name) for name in ("photos", "many", "small")},
        "files/audit": leave_audit,
        "files/recording": leave_recording,
        "command/help": lambda: asked(["--help"], True) + asked(["--version"], True),
        **{f"command/help-{verb}": lambda verb=verb: asked([verb, "--help"], True) for verb in VERBS},
        **{f"command/{name}": lambda question=question: asked(*question) for name, question in ASKED.items()},
    }


def main() -> None:
    global INPUTS, HOME, OTHER, COMMAND
    round_number, INPUTS, HOME, OTHER, COMMAND = int(sys.argv[1]), *map(Path, sys.argv[2:5]), sys.argv[5]
    patterns = sys.argv[6:] or ["*"]
    tree = Path(COMMAND).parents[2]
    assert Path(fb.__file__).is_relative_to(tree), f"{fb.__file__} does not belong to {tree}"
    logger = logging.getLogger("fullbore")
    logger.addHandler(SAID)
    logger.propagate = False
    print(json.dumps({name: run() for name, run in cases(round_number).items() if any(fnmatch.fnmatch(name, p) for p in patterns)}))


if __name__ == "__main__":
    main()
