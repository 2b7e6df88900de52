"""Batches on a device: the emulated one, and a stand-in for CUDA's driver. torch has no CUDA here: what streams do is only counted."""

from __future__ import annotations

import gc
import shutil
import subprocess
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from fullbore._device import device_name

ROOT = Path(__file__).resolve().parents[2]
EMULATED = "emulated:4GB/s,200us"
STEPS = [fb.RandomResizedCrop(16), fb.RandomHorizontalFlip()]


def open_loader(source: Path, **arguments: Any) -> fb.Loader:
    return fb.Loader(source, **{"batch_size": 5, "shuffle": True, "transforms": STEPS, "framework": "numpy", **arguments})


def contents(loader: fb.Loader, epochs: int = 2) -> list[tuple[bytes, list[int], list[str]]]:
    return [(np.asarray(images).tobytes(), np.asarray(labels).tolist(), batch.sample_keys)
            for _ in range(epochs) for batch in loader for images, labels in [batch]]


# ---- the emulated device


@pytest.mark.parametrize("device", ["emulated", EMULATED, "emulated:50MB/s,2ms"])
def test_the_same_batches_come_out_of_the_device(photos: Path, device: str) -> None:
    with open_loader(photos) as plain, open_loader(photos, device=device) as shipped:
        assert contents(shipped) == contents(plain)
        figures = shipped.stats()["device"]
        assert figures["is_pinned"] and figures["shipped_batches"] >= 10 and figures["name"].startswith("emulated")
        assert figures["copied_bytes"] >= 2 * 24 * 16 * 16 * 3
        assert plain.stats()["device"] is None


def test_batches_are_cpu_tensors_of_the_devices_memory(photos: Path) -> None:
    torch = pytest.importorskip("torch")
    with open_loader(photos, device=EMULATED, framework="torch") as loader:
        batch = next(iter(loader))
        images, labels = batch
        assert images.device.type == "cpu" and batch._core.memory() == ("emulated", 0)
        moved = batch.to("cpu", torch.float64, non_blocking=True)
        assert moved[0].dtype == torch.float64 and moved.sample_keys == batch.sample_keys
        assert torch.equal(images.double(), moved[0]) and labels.dtype == torch.int64


def test_batches_on_the_device_stay_as_they_are(photos: Path) -> None:
    with open_loader(photos, device=EMULATED) as loader:
        kept = [batch for _ in range(3) for batch in loader]
        before = [batch[0].copy() for batch in kept]
        for _ in loader:
            pass
        assert all(np.array_equal(batch[0], copy) for batch, copy in zip(kept, before, strict=True))
    assert all(np.array_equal(batch[0], copy) for batch, copy in zip(kept, before, strict=True))  # also after the loader is closed


def test_a_state_is_continued_and_epochs_are_left_with_a_device(photos: Path) -> None:
    with open_loader(photos) as plain:
        whole = contents(plain, 1)
    with open_loader(photos, device=EMULATED) as loader:
        for number, _ in enumerate(loader):
            if number == 1:
                break
        state = loader.state_dict()
    with open_loader(photos, device=EMULATED) as loader:
        loader.load_state_dict(state)
        assert contents(loader, 1) == whole[2:]


def test_a_loader_on_a_device_pickles_and_gives_single_samples(photos: Path) -> None:
    import pickle

    with open_loader(photos, device=EMULATED) as loader, pickle.loads(pickle.dumps(loader)) as copy:
        assert contents(copy, 1) == contents(loader, 1)
        assert loader.dataset[3][0].shape == (3, 16, 16)


def test_device_memory_that_is_full_is_said(photos: Path) -> None:
    with open_loader(photos, device="emulated:1GB/s,1us,10KB") as loader, pytest.raises(fb.Error, match="no memory.*batch_size="):
        list(loader)


# ---- cast and normalise on the device


@pytest.mark.parametrize("dtype", [None, "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "channels_last"])
def test_normalising_on_the_device_gives_the_same_numbers_and_sends_bytes(photos: Path, dtype: Any, layout: Any) -> None:
    torch = pytest.importorskip("torch")
    options: dict[str, Any] = {"transforms": [*STEPS, fb.Normalize.imagenet()], "dtype": dtype, "layout": layout, "framework": "torch"}
    with open_loader(photos, **options) as plain, open_loader(photos, device=EMULATED, device_normalize=True, **options) as shipped:
        for a, b in zip(plain, shipped, strict=True):
            assert torch.equal(a[0], b[0]) and a[0].dtype == b[0].dtype and a[0].shape == b[0].shape and torch.equal(a[1], b[1])
            assert a.sample_keys == b.sample_keys and a.state == b.state
        assert shipped.stats()["device"]["copied_bytes"] < 24 * 3 * 16 * 16 * 1.5 * 2  # one byte each, and at most an epoch guessed ahead
        assert torch.equal(shipped.dataset[3][0], plain.dataset[3][0])


def test_floats_without_normalize_are_made_on_the_device_too(photos: Path) -> None:
    torch = pytest.importorskip("torch")
    with open_loader(photos, dtype="float32", framework="torch") as plain, \
            open_loader(photos, dtype=torch.float32, framework="torch", device="emulated", device_normalize=True) as shipped:
        assert all(torch.equal(a[0], b[0]) for a, b in zip(plain, shipped, strict=True))


@pytest.mark.parametrize(("more", "text"), [
    ({"device": None}, "needs a device"), ({"framework": "numpy"}, "framework="), ({"transforms": STEPS}, "nothing to normalise"),
    ({"transforms": [fb.Normalize.imagenet(), *STEPS]}, "not the last"), ({"dtype": "uint8"}, "nothing to normalise"),
])
def test_what_cannot_be_normalised_on_a_device_is_said(photos: Path, more: dict[str, Any], text: str) -> None:
    pytest.importorskip("torch")
    options = {"transforms": [*STEPS, fb.Normalize.imagenet()], "framework": "auto", "device": EMULATED, "device_normalize": True, **more}
    with pytest.raises(ValueError, match=text):
        open_loader(photos, **options)


# ---- names


@pytest.mark.parametrize(("given", "name"), [
    (None, None), ("cpu", None), ("cuda", "cuda"), ("cuda:3", "cuda:3"), (2, "cuda:2"), ("emulated", "emulated"), (EMULATED, EMULATED),
])
def test_devices_are_named_as_torch_names_them(given: Any, name: str | None) -> None:
    assert device_name(given) == name


def test_a_torch_device_is_a_name(photos: Path) -> None:
    torch = pytest.importorskip("torch")
    assert device_name(torch.device("cuda", 1)) == "cuda:1" and device_name(torch.device("cpu")) is None
    with open_loader(photos, device=torch.device("cpu")) as loader:
        assert loader.stats()["device"] is None


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "mps", 1.5, -1, "emulated:fast", "emulated:1GB/s,2", ["cuda"]])
def test_a_device_that_is_none_is_refused(photos: Path, device: Any) -> None:
    with pytest.raises(ValueError, match=r"device|emulated:12GB/s"):
        open_loader(photos, device=device)


# ---- CUDA


@pytest.fixture(scope="session")
def fake_cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in for the driver's library, built here."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler to build the stand-in with")
    out = tmp_path_factory.mktemp("cuda") / "libfake_cuda.so"
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{ROOT / 'src'}", str(ROOT / "tests/device/fake_cuda.c"), "-o", str(out)], check=True)
    return out


Run = Callable[..., "subprocess.CompletedProcess[str]"]
script = textwrap.dedent


def test_without_a_driver_cuda_is_refused_and_pin_memory_says_what_it_does(photos: Path, run_python: Run) -> None:
    done = run_python(script(f"""
        import fullbore as fb
        try:
            fb.Loader({str(photos)!r}, device="cuda", framework="auto")
        except fb.Error as error:
            print(error)
        with fb.Loader({str(photos)!r}, batch_size=4, transforms=[fb.Resize((8, 8))], pin_memory=True, framework="numpy") as loader:
            batch = next(iter(loader))
            print(batch._core.memory(), loader.stats()["device"]["is_pinned"], loader.stats()["device"]["reason"], loader.pin_memory)
    """), env={"FULLBORE_CUDA": "/nowhere/libcuda.so.1"})
    assert done.returncode == 0, done.stderr
    assert "no CUDA driver here" in done.stdout and done.stdout.endswith("True\n")
    assert "('host', 0) False there is no CUDA driver" in done.stdout
    assert "not page-locked" in done.stderr


def test_pinned_batches_are_pinned_and_released_by_events(photos: Path, fake_cuda: Path, run_python: Run) -> None:
    done = run_python(script(f"""
        import ctypes, fullbore as fb
        fake = ctypes.CDLL({str(fake_cuda)!r})
        fake.fake_cuda_complaints.restype = ctypes.c_char_p
        with fb.Loader({str(photos)!r}, batch_size=4, transforms=[fb.Resize((8, 8))], pin_memory=True, framework="numpy") as loader:
            for batch in loader:
                assert batch._core.memory() == ("pinned", 0)
                assert batch.pin_memory() is batch
                batch.record_stream(0x7777)
            assert loader.stats()["device"]["is_pinned"] and loader.stats()["device"]["pinned_bytes"] > 0
            del batch
        print(fake.fake_cuda_calls(b"cuEventRecord") >= 6, fake.fake_cuda_live(), fake.fake_cuda_complaints())
    """), env={"FULLBORE_CUDA": str(fake_cuda), "FAKE_CUDA_LATE": "2"})
    assert done.returncode == 0 and done.stdout == "True 0 b''\n", done.stdout + done.stderr


def test_arrays_on_cuda_are_exported_for_the_consumers_stream(photos: Path, fake_cuda: Path, run_python: Run) -> None:
    pytest.importorskip("torch")
    done = run_python(script(f"""
        import ctypes, torch, fullbore as fb
        fake = ctypes.CDLL({str(fake_cuda)!r})
        fake.fake_cuda_complaints.restype = ctypes.c_char_p
        taken = []
        torch.from_dlpack = lambda array: taken.append(array.__dlpack__(stream=0x7777, max_version=(1, 0))) or array  # no CUDA here
        options = dict(batch_size=4, transforms=[fb.Resize((8, 8))], shuffle=True)
        with fb.Loader({str(photos)!r}, device="cuda:0", **options) as loader:
            for batch in loader:
                images, labels = batch
                assert images.__dlpack_device__() == (2, 0) and batch._core.memory() == ("cuda", 0)
                for bad in (lambda: memoryview(images), lambda: images.__dlpack__(dl_device=(1, 0)), lambda: images.__dlpack__(copy=True)):
                    try:
                        bad()
                    except BufferError:
                        continue
                    raise SystemExit("it was given away as if it were in main memory")
                taken.clear()
            waits, records = fake.fake_cuda_calls(b"cuStreamWaitEvent"), fake.fake_cuda_calls(b"cuEventRecord")
            assert loader.stats()["device"]["name"] == "Fake GPU 0, CUDA 12.4"
            del batch, images, labels
        print(waits >= 12, records >= 6, fake.fake_cuda_live(), fake.fake_cuda_complaints())
    """), env={"FULLBORE_CUDA": str(fake_cuda), "FAKE_CUDA_LATE": "1"})
    assert done.returncode == 0 and done.stdout == "True True 0 b''\n", done.stdout + done.stderr


def test_a_failing_driver_is_told_in_its_words(photos: Path, fake_cuda: Path, run_python: Run) -> None:
    pytest.importorskip("torch")
    done = run_python(script(f"""
        import os, torch, fullbore as fb
        torch.from_dlpack = lambda array: array
        for plan in ("cuInit=999", "cuMemAlloc_v2=2", "cuEventRecord=700", "cuStreamCreate=801"):
            os.environ["FAKE_CUDA"] = plan
            try:
                list(fb.Loader({str(photos)!r}, batch_size=4, transforms=[fb.Resize((8, 8))], device="cuda"))
            except fb.Error as error:
                print(error)
    """), env={"FULLBORE_CUDA": str(fake_cuda)})
    assert done.returncode == 0, done.stderr
    texts = ("start: a made-up failure (999)", "out of memory (2)", "record an event", "(801)")
    for line, text in zip(done.stdout.splitlines(), texts, strict=True):
        assert text in line, done.stdout


def test_numpy_has_no_arrays_on_cuda(photos: Path) -> None:
    with pytest.raises(ValueError, match="numpy has no arrays on a device"):
        open_loader(photos, device="cuda")


def test_a_batch_that_cannot_be_pinned_says_why(photos: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is CUDA")
    with open_loader(photos, framework="torch") as loader, pytest.raises(fb.Error, match="no page-locked memory here"):
        next(iter(loader)).pin_memory()


# ---- streams of torch's


class FakeStream:
    def __init__(self, number: int) -> None:
        self.cuda_stream, self.synchronized = number, 0

    def synchronize(self) -> None:
        self.synchronized += 1


def test_the_current_stream_is_noted_for_pinned_batches(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    streams = {0: FakeStream(0), 1: FakeStream(55)}
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: streams[device])

    class Origin:
        used: list[int] = []

        def memory(self) -> tuple[str, int]:
            return "pinned", 0

        def use(self, stream: int) -> None:
            self.used.append(stream)

    batch = fb.Batch((torch.zeros(1),))
    batch._origin = Origin()  # type: ignore[assignment]
    batch._use_now()
    batch._use_now(0)
    batch._use_now(1)  # another device's stream: an event of ours cannot be recorded there
    assert Origin.used == [1, 1] and streams[1].synchronized == 1  # 0 is the legacy default stream, which is 1
    batch.record_stream(FakeStream(77))
    assert Origin.used[-1] == 77


# ---- the end


def test_tensors_may_outlive_the_loader_and_the_interpreter(photos: Path, run_python: Run) -> None:
    done = run_python(script(f"""
        import fullbore as fb
        loader = fb.Loader({str(photos)!r}, batch_size=4, transforms=[fb.Resize((8, 8))], device="emulated:100MB/s,2ms", framework="numpy")
        kept = [batch for batch in loader]
        loader.close()
        print(len(kept), kept[0][0].mean() > 0)
    """))
    assert done.returncode == 0 and done.stdout == "6 True\n", done.stderr


def test_after_a_fork_the_childs_copy_says_so(photos: Path, run_python: Run) -> None:
    done = run_python(script(f"""
        import os, fullbore as fb
        loader = fb.Loader({str(photos)!r}, batch_size=4, transforms=[fb.Resize((8, 8))], device="emulated:100MB/s,2ms", framework="numpy")
        batches = iter(loader)
        batch = next(batches)
        pid = os.fork()
        if pid == 0:
            for use in (lambda: batch._core.use(0), lambda: next(batches)):
                try:
                    use()
                except fb.Error as error:
                    print("child:", error, flush=True)
            del batch
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        print(sum(1 for _ in batches), loader.stats()["device"]["shipped_batches"] >= 6)
    """))
    assert done.returncode == 0 and done.stdout.count("child: ") == 2 and done.stdout.endswith("5 True\n"), done.stdout + done.stderr


def test_releasing_gives_the_devices_memory_back(photos: Path) -> None:
    with open_loader(photos, device=EMULATED) as loader:
        kept = [batch for _ in range(2) for batch in loader]
        many = loader.stats()["device"]["memory_bytes"]
        del kept
        gc.collect()
        deadline = time.monotonic() + 5
        while loader.stats()["device"]["memory_bytes"] > many // 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert loader.stats()["device"]["memory_bytes"] <= many // 2


def test_the_page_is_followed_to_the_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import re

    from made_photos import make_photos

    pytest.importorskip("torch")
    make_photos(tmp_path / "photos", 12)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "device.md").read_text(), re.M | re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/device.md", "exec"), {"__name__": "page"})
