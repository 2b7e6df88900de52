"""Functions of the user's inside the transforms."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from PIL import Image

NUMPY: dict[str, Any] = {"framework": "numpy", "layout": "NHWC"}


def batches(*args: Any, **kwargs: Any) -> list[Any]:
    with fb.Loader(*args, **NUMPY, **kwargs) as loader:
        return [tuple(array.copy() for array in batch) for batch in loader]


def test_a_function_sees_the_pixels_and_its_result_goes_on(photos: Path) -> None:
    seen = {}

    def invert(image: Any) -> Any:
        seen[image.shape] = image.dtype
        return 255 - image

    plain = batches(photos, batch_size=8, transforms=[fb.Resize((40, 50))])
    mapped = batches(photos, batch_size=8, transforms=[fb.Resize((40, 50)), fb.Map(invert)])
    assert seen == {(40, 50, 3): np.dtype("uint8")}
    for (a, la), (b, lb) in zip(plain, mapped, strict=True):
        assert np.array_equal(255 - a, b) and np.array_equal(la, lb)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_function_may_stand_anywhere(photos: Path, position: int) -> None:
    steps: list[Any] = [fb.Resize((40, 50)), fb.CenterCrop(32)]
    steps.insert(position, fb.Map(lambda image: np.ascontiguousarray(image[:, ::-1])))
    steps.append(fb.Map(lambda image: image[:, ::-1]))  # and back, as a view
    expected = batches(photos, batch_size=24, transforms=[fb.Resize((40, 50)), fb.CenterCrop(32)])[0][0]
    got = batches(photos, batch_size=24, transforms=steps)[0][0]
    assert np.abs(got.astype(int) - expected).max() <= (0 if position else 3)  # a mirrored resize rounds its halves the other way


def test_another_size_is_planned_anew(photos: Path) -> None:
    with fb.Loader(photos, batch_size=4, **NUMPY, transforms=[fb.Map(lambda image: image[5:35, 10:50]), fb.Resize((16, 20))]) as loader:
        batch = next(iter(loader))
        for array, key in zip(batch[0], batch.sample_keys, strict=True):
            whole = Image.open(photos / key).crop((10, 5, 50, 35))
            assert np.array_equal(array, np.asarray(whole.resize((20, 16), Image.Resampling.BILINEAR)))


def test_a_promised_size_is_believed_and_held_to(photos: Path) -> None:
    steps = [fb.Map(lambda image: image[:12, :10], size=(12, 10))]
    assert batches(photos, batch_size=8, transforms=steps)[0][0].shape == (8, 12, 10, 3)
    with pytest.raises(fb.SampleError, match="comes out 11 x 10 .* but the batch's images are 12 x 10"):
        batches(photos, batch_size=8, transforms=[fb.Map(lambda image: image[:11, :10], size=(12, 10))])


def noisy(image: Any, label: Any, rng: np.random.Generator) -> Any:
    return (image * rng.uniform(0.2, 1.0)).astype(np.uint8), label + int(rng.integers(1000))


def test_results_do_not_depend_on_threads_and_every_position_has_its_own_draw(photos: Path) -> None:
    def run(threads: int, **more: Any) -> Any:
        steps = [fb.RandomResizedCrop(24), fb.Map(noisy), fb.RandomHorizontalFlip()]
        return batches(photos, batch_size=8, shuffle=True, threads=threads, transforms=steps, **more)

    one, three = run(1), run(3)
    for (a, la), (b, lb) in zip(one, three, strict=True):
        assert np.array_equal(a, b) and np.array_equal(la, lb)
    labels = np.concatenate([label for _, label in one])
    assert len(set(labels.tolist())) > 18  # of 24: not all the same draw
    assert any(not np.array_equal(a, b) for (_, a), (_, b) in zip(one, run(1, seed=1), strict=True))


def test_a_function_added_shifts_nobody_elses_draws(photos: Path) -> None:
    steps = [fb.RandomResizedCrop(24), fb.RandomHorizontalFlip(), fb.ColorJitter(0.5)]
    plain = batches(photos, batch_size=24, transforms=steps)[0][0]
    with_map = batches(photos, batch_size=24, transforms=[steps[0], fb.Map(lambda image, label, rng: image), *steps[1:]])[0][0]
    assert np.array_equal(plain, with_map)


def test_the_generator_is_a_good_one(photos: Path) -> None:
    drawn: list[Any] = []

    def draw(image: Any, label: Any, rng: np.random.Generator) -> Any:
        drawn.append((rng.random(200), rng.integers(0, 10, 200), rng.normal(size=200), rng.permutation(5)))
        return image

    batches(photos, batch_size=24, threads=1, transforms=[fb.Resize((8, 8)), fb.Map(draw)])
    uniform, integers, normal = (np.concatenate([d[i] for d in drawn[:24]]) for i in range(3))  # the next epoch has begun
    assert len(uniform) == 4800 and len(np.unique(uniform)) == 4800
    assert abs(uniform.mean() - 0.5) < 0.02 and abs(normal.mean()) < 0.06 and abs(normal.std() - 1) < 0.05
    assert np.bincount(integers, minlength=10).min() > 380


def test_signatures_decide_what_a_function_gets(photos: Path) -> None:
    got: list[Any] = []

    def with_option(image: Any, radius: int = 3) -> Any:
        got.append(radius)
        return image

    class Callable2:
        def __call__(self, image: Any, label: Any) -> Any:
            got.append(type(label))
            return image

    for function in (with_option, Callable2(), np.ascontiguousarray, lambda *args: got.append(len(args)) or args[0]):
        batches(photos, batch_size=24, threads=1, transforms=[fb.Resize((8, 8)), fb.Map(function)])
    assert 3 in got and int in got and got[-1] == 1
    with pytest.raises(fb.Error, match="cannot be called with"):
        fb.Loader(photos, transforms=[fb.Map(lambda a, b, c, d: a)])
    with pytest.raises(fb.Error, match="not a function"):
        fb.Map(3)  # type: ignore[arg-type]


def test_labels_can_be_replaced(photos: Path) -> None:
    paths = sorted(str(p) for p in photos.rglob("*.jpg"))
    labels = {"pose": np.arange(len(paths) * 3, dtype=np.float32).reshape(-1, 3), "age": np.arange(len(paths))}

    def change(image: Any, label: Any) -> Any:
        assert set(label) == {"pose", "age"} and label["pose"].shape == (3,) and type(label["age"]) is int
        label["pose"] *= -1
        return image, {"pose": label["pose"]}

    _, pose, age = batches(paths, labels=labels, batch_size=len(paths), transforms=[fb.Resize((8, 8)), fb.Map(change)])[0]
    assert np.array_equal(pose, -labels["pose"]) and np.array_equal(age, labels["age"])


def test_a_kept_or_changed_input_harms_nobody(photos: Path) -> None:
    kept: list[Any] = []

    def keep(image: Any) -> Any:
        kept.append(image)
        copy = image.copy()
        return copy

    def spoil(image: Any) -> Any:
        result = image.copy()
        image[:] = 0
        return result

    expected = batches(photos, batch_size=4, transforms=[fb.Resize((8, 8))])
    got = batches(photos, batch_size=4, threads=2, transforms=[fb.Resize((8, 8)), fb.Map(keep), fb.Map(spoil)])
    assert all(np.array_equal(a, b) for (a, _), (b, _) in zip(expected, got, strict=True))
    sums = {int(image.astype(int).sum()) for image in kept}
    assert len(kept) >= 24 and sums == {int(a.astype(int).sum()) for batch, _ in expected for a in batch}


KEEPERS = """
import sys, threading
import numpy as np
import fullbore as fb

class Keeper:
    prev = None
    def __init__(self):
        self.all, self.lock, self.count = [], threading.Lock(), 0

    def same(self, image):
        self.prev = image                                 # mix-up with the previous sample
        return image

    def other(self, image):
        self.prev = image
        return image.copy()

    def view(self, image):
        self.prev = image
        return self.prev[:]                               # the same memory by another name

    def part(self, image):
        self.prev = image
        return image[:200]                                # contiguous, begins where the image does

    def for_ever(self, image):
        self.all.append(image)
        return image

    def previous(self, image):
        with self.lock:
            prev, self.prev = self.prev, image
        return image if prev is None else prev

    def previous_view(self, image):
        with self.lock:
            prev, self.prev = self.prev, image
        return image if prev is None else prev[:]

    def changed_later(self, image):
        with self.lock:
            prev, self.prev = self.prev, image
            if prev is not None:
                prev[:] = 7                               # it is theirs: what was returned must not change
        return image

    def fails(self, image):
        self.prev = image
        self.count += 1
        if self.count % 3 == 0:
            raise ValueError("no")
        return image

def run(maps):
    got = {}
    loader = fb.Loader(sys.argv[1], batch_size=4, threads=int(sys.argv[2]), shuffle=True, transforms=[*maps, fb.Resize((64, 64))],
                       on_error="skip", framework="numpy")
    for _ in range(3):
        for batch in loader:
            got.update({key: int(image.sum(dtype=int)) for key, image in zip(batch.sample_keys, batch[0])})
    loader.close()
    return got

whole, part = run([]), run([fb.Map(lambda image: image[:200].copy())])
for how in sys.argv[3:]:
    print(how, end=" ", flush=True)
    keeper = Keeper()
    got, plain = run([fb.Map(getattr(keeper, how))]), part if how == "part" else whole
    if how.startswith("previous"):
        assert set(got.values()) <= set(plain.values()), how  # whole pictures, of other samples
    else:
        assert all(plain[key] == got[key] for key in got), how
    if how == "for_ever":
        assert len({image.tobytes() for image in keeper.all}) == len(plain) and len(keeper.all) >= 3 * len(plain)
print("fine")
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures whose pixels are given back to the system when they are freed: use after that is a crash."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(3)
    for i in range(12):
        colours = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(colours).resize((400, 300), Image.Resampling.NEAREST).save(folder / f"{i}.png")
    return folder


@pytest.mark.parametrize("threads", [1, 4])
def test_what_a_function_keeps_is_its_own_whatever_it_returns(large: Path, run_python: Any, threads: int) -> None:
    ways = ["same", "other", "view", "part", "for_ever", "previous", "previous_view", "changed_later", "fails"]
    done = run_python(KEEPERS, large, threads, *ways, env={"MALLOC_PERTURB_": "165", "PYTHONFAULTHANDLER": "1"})
    assert done.returncode == 0 and done.stdout.endswith("fine\n"), (done.stdout, done.stderr[-2000:])


def test_an_exception_carries_the_traceback_and_the_file(photos: Path) -> None:
    def augment(image: Any) -> Any:
        raise ValueError("too dark")

    with fb.Loader(photos, batch_size=4, transforms=[fb.Resize((8, 8)), fb.Map(augment)], **NUMPY) as loader:
        with pytest.raises(fb.SampleError, match=r"ValueError: too dark \(in augment, test_map.py line \d+\)") as caught:
            next(iter(loader))
        assert caught.value.stage == "map" and caught.value.path.endswith(".jpg")
        cause = caught.value.__cause__
        assert isinstance(cause, ValueError) and cause.__traceback__ is not None
        assert caught.value.sample is not None


def test_a_sample_whose_function_fails_can_be_skipped(photos: Path) -> None:
    def picky(image: Any, label: int) -> Any:
        if label == 1:
            raise RuntimeError("no pears")
        return image

    with fb.Loader(photos, batch_size=8, transforms=[fb.Resize((8, 8)), fb.Map(picky)], on_error="skip", **NUMPY) as loader:
        labels = np.concatenate([label for _, label in loader])
        assert len(labels) == 24 and 1 not in labels
        bad = loader.stats()["bad_samples"]
        assert len(bad) >= 8 and all(b["stage"] == "map" and "no pears" in b["cause"] for b in bad)


@pytest.mark.parametrize(("function", "text"), [
    (lambda image: None, "returned nothing, not an image; end it with: return image"),
    (lambda image: image[..., 0], r"shape \(8, 8\), not \(height, width, 3\); grey images"),
    (lambda image: image.astype(np.int16), "array of int16, not uint8"),
    (lambda image: image.astype(np.float32), "is float32, not uint8; only the last step may give float32"),
    (lambda image: image[:0], "which no image can have"),
    (lambda image: "cat", "returned str, not an image"),
    (lambda image, label: (image, {"colour": 3}), "but the labels are 'label'"),
    (lambda image, label: (image, [1, 2]), r"of the shape \(2,\), not \(\)"),
    (lambda image, label: (image, "x"), "which is int64"),
])
def test_a_wrong_result_is_named(photos: Path, function: Any, text: str) -> None:
    with pytest.raises(fb.SampleError, match=text):
        batches(photos, batch_size=4, transforms=[fb.Resize((8, 8)), fb.Map(function)])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_the_last_function_may_give_floats(photos: Path, dtype: str, layout: str) -> None:
    def centre(image: Any) -> Any:
        return image / 127.5 - 1

    steps = [fb.Resize((8, 10)), fb.Map(centre)]
    with fb.Loader(photos, batch_size=4, dtype=dtype, layout=layout, framework="numpy", transforms=steps) as loader:
        got = next(iter(loader))[0]
    pixels = batches(photos, batch_size=4, transforms=[fb.Resize((8, 10))])[0][0]
    expected = (pixels / 127.5 - 1).astype(np.float32).astype(dtype)
    assert np.array_equal(got, expected if layout == "NHWC" else expected.transpose(0, 3, 1, 2))


def test_a_pillow_image_and_a_tensor_are_images(photos: Path) -> None:
    torch = pytest.importorskip("torch")
    pillow = batches(photos, batch_size=4, transforms=[fb.Resize((8, 8)), fb.Map(lambda image: Image.fromarray(image))])
    tensor = batches(photos, batch_size=4, transforms=[fb.Resize((8, 8)), fb.Map(lambda image: torch.from_numpy(image).permute(2, 0, 1))])
    assert np.array_equal(pillow[0][0], tensor[0][0])


def test_normalize_before_a_function_is_refused(photos: Path) -> None:
    with pytest.raises(fb.Error, match="Normalize to the end"):
        fb.Loader(photos, transforms=[fb.Normalize.imagenet(), fb.Map(lambda image: image)])


def test_the_statistics_name_functions_and_their_time(photos: Path) -> None:
    def slow(image: Any) -> Any:
        end = time.perf_counter() + 0.002
        while time.perf_counter() < end:
            pass
        return image

    with fb.Loader(photos, batch_size=8, transforms=[fb.Resize((8, 8)), fb.Map(slow)], threads=2, **NUMPY) as loader:
        for _ in loader:
            pass
        stats = loader.stats()
    (entry,) = stats["maps"]
    assert entry["name"].endswith("slow") and entry["calls"] >= 24
    assert stats["map_seconds"] >= 24 * 0.002 and stats["gil_wait_seconds"] > 0


def test_a_function_that_blocks_is_named_by_the_watchdog(photos: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setenv("FULLBORE_WATCHDOG", "1")
    release = threading.Event()

    def waits_for_ever(image: Any) -> Any:
        release.wait(20)
        return image

    with caplog.at_level(logging.WARNING, "fullbore"):
        with fb.Loader(photos, batch_size=4, transforms=[fb.Resize((8, 8)), fb.Map(waits_for_ever)], **NUMPY) as loader:
            timer = threading.Timer(3.5, release.set)
            timer.start()
            next(iter(loader))
            timer.cancel()
    assert any("inside the function" in r.getMessage() and "waits_for_ever" in r.getMessage() and ".jpg" in r.getMessage()
               for r in caplog.records)


def test_close_does_not_wait_for_a_blocked_function(run_python: Any, photos: Path) -> None:
    script = """
import sys, threading, time
import fullbore as fb
entered = threading.Event()
def stuck(image):
    entered.set()
    time.sleep(60)
loader = fb.Loader(sys.argv[1], batch_size=4, transforms=[fb.Resize((8, 8)), fb.Map(stuck)], framework="numpy")
iterator = iter(loader)
threading.Thread(target=lambda: next(iterator, None), daemon=True).start()
entered.wait(10)
since = time.monotonic()
if sys.argv[2] == "close":
    loader.close()
    print(time.monotonic() - since < 2)
"""
    for how in ("close", "exit"):
        since = time.monotonic()
        done = run_python(script, photos, how)
        assert done.returncode == 0 and time.monotonic() - since < 30, done.stderr
        assert done.stdout.strip() in ("True", "")


def test_a_function_that_comes_back_after_close_harms_nobody(run_python: Any, photos: Path) -> None:
    script = """
import gc, sys, threading, time, weakref
import fullbore as fb
class Slow:
    def __init__(self):
        self.entered, self.release, self.left = threading.Event(), threading.Event(), threading.Semaphore(0)
    def __call__(self, image):
        self.entered.set()
        self.release.wait()
        self.left.release()
        return image
slow = Slow()
loader = fb.Loader(sys.argv[1], batch_size=4, threads=2, transforms=[fb.Map(slow), fb.Resize((8, 8))], framework="numpy")
running = iter(loader)
def wait():
    try:
        next(running)
    except fb.Error as error:
        assert "closed" in str(error), error
waiter = threading.Thread(target=wait)
waiter.start()
slow.entered.wait()
since = time.monotonic()
loader.close()
assert time.monotonic() - since < 2
waiter.join()
how, seen = sys.argv[2], weakref.ref(slow)
if how != "exit":
    slow.release.set()
    slow.left.acquire()
    del loader, running, waiter, slow
    gc.collect()
    for _ in range(1000):
        if seen() is None:
            break
        time.sleep(0.01)
    assert seen() is None            # the engine let go of it
    with fb.Loader(sys.argv[1], batch_size=4, transforms=fb.Resize((8, 8)), framework="numpy") as other:
        assert sum(len(batch[0]) for batch in other) == 24
        assert other.stats()["left_behind_threads"] == 0
else:
    threading.Timer(0.02, slow.release.set).start()  # comes back while the interpreter ends, or just before
print("fine")
"""
    for how, io in (("back", "slow:iops=40"), ("back", "pread"), ("exit", "slow:iops=40"), ("exit", "pread")):
        done = run_python(script, photos, how, env={"FULLBORE_IO": io, "PYTHONFAULTHANDLER": "1"})
        assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr[-2000:]


def test_a_function_that_crashes_is_named_by_faulthandler(run_python: Any, photos: Path) -> None:
    script = """
import ctypes, faulthandler, signal, sys, threading
import fullbore as fb
faulthandler.enable()
def crash(image):
    if sys.argv[2] == "read":
        ctypes.string_at(8)
    signal.pthread_kill(threading.get_ident(), getattr(signal, sys.argv[2]))
    return image
loader = fb.Loader(sys.argv[1], batch_size=4, transforms=[fb.Map(crash), fb.Resize((8, 8))], framework="numpy")
next(iter(loader))
"""
    for how in ("read", "SIGBUS", "SIGABRT"):
        done = run_python(script, photos, how, timeout=30)
        assert done.returncode < 0 and "Fatal Python error" in done.stderr and "in crash" in done.stderr, (how, done.stderr)


def test_a_program_that_a_function_starts_can_be_ended(run_python: Any, photos: Path) -> None:
    script = """
import signal, subprocess, sys, fullbore as fb
def ask(image):
    child = subprocess.Popen(["sleep", "60"])
    child.terminate()
    assert child.wait(20) == -signal.SIGTERM
    return image
loader = fb.Loader(sys.argv[1], batch_size=4, transforms=[fb.Resize((32, 32)), fb.Map(ask)], framework="numpy")
next(iter(loader))
"""
    done = run_python(script, photos, timeout=60)
    assert done.returncode == 0, done.stderr


def test_two_loaders_with_functions_and_reopened_ones_work(photos: Path) -> None:
    for _ in range(5):
        with fb.Loader(photos, batch_size=4, transforms=[fb.Resize((8, 8)), fb.Map(lambda image: image)], **NUMPY) as a, \
                fb.Loader(photos, batch_size=4, transforms=[fb.Resize((8, 8)), fb.Map(lambda image: 255 - image)], **NUMPY) as b:
            for (x, _), (y, _) in zip(a, b, strict=True):
                assert np.array_equal(x, 255 - y)


def test_an_albumentations_object_is_called_its_own_way(photos: Path) -> None:
    class Compose:
        def set_random_seed(self, seed: int) -> None:
            self.seed = seed

        def __call__(self, *, image: Any) -> dict[str, Any]:
            return {"image": np.full_like(image, self.seed % 251)}

    Compose.__module__ = "albumentations.core.composition"
    steps = [fb.Resize((8, 8)), fb.Map(Compose())]
    one = batches(photos, batch_size=24, threads=1, transforms=steps)[0][0]
    three = batches(photos, batch_size=24, threads=3, transforms=steps)[0][0]
    assert np.array_equal(one, three) and len(np.unique(one)) > 12
