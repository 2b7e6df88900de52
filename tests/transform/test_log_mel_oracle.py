"""Log-mel spectrograms equal librosa's and torch's definitions.

With exact=1 (the default) every number is within 1e-4 (dB, or natural log) of the definition in float64. With exact=0 the transform is in
float32, as torch's is: within 1e-4 where a mel has more than 1e-5 of the power of the loudest, and nowhere further off than twice what
torch.stft in float32 is.
"""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
TOOL = Path(os.environ.get("FB_BUILD_DIR", ROOT / "build")) / "tests" / "transform" / "log_mel_tool"
librosa = pytest.importorskip("librosa")
import scipy.io.wavfile  # noqa: E402
import torch  # noqa: E402

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL.name} is not built (FB_BUILD_DIR says where)")

WINDOWS = {"hann": 0, "hamming": 1, "ones": 2}
DEFAULTS = dict(sr=48000, n_fft=1024, hop_length=256, win_length=0, n_mels=64, fmin=0.0, fmax=0.0, window="hann", htk=0, norm=1, center=1,
                pad=0, power=2, log=0, amin=1e-10, offset=0.0, ref=1.0, top_db=80.0, exact=1)


class Tool:
    def __init__(self) -> None:
        self.process = subprocess.Popen([str(TOOL)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, x: np.ndarray, kernel: str = "avx2", **options: object) -> np.ndarray:
        o = {**DEFAULTS, **options}
        words = [WINDOWS[o["window"]] if k == "window" else o[k] for k in DEFAULTS]  # type: ignore[index]
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"run {kernel} {' '.join(map(str, words))} {x.size}\n".encode() + x.astype("<f4").tobytes())
        self.process.stdin.flush()
        answer = self.process.stdout.readline().decode().split(maxsplit=2)
        if answer[0] == "error":
            raise ValueError(answer[2].strip())
        shape = int(answer[1]), int(answer[2])
        return np.frombuffer(self.process.stdout.read(4 * shape[0] * shape[1]), np.float32).reshape(shape)


@pytest.fixture
def tool() -> Iterator[Tool]:
    t = Tool()
    yield t
    assert t.process.stdin
    t.process.stdin.close()
    assert t.process.wait(10) == 0


def has_avx2() -> bool:
    return "avx2" in Path("/proc/cpuinfo").read_text()


KERNELS = ["c", "avx2"] if has_avx2() else ["c"]


def mel(x: np.ndarray, dtype: type, **options: object) -> np.ndarray:
    """librosa's mel powers of a signal in `dtype`."""
    o = {**DEFAULTS, **options}
    bank = librosa.filters.mel(sr=o["sr"], n_fft=o["n_fft"], n_mels=o["n_mels"], fmin=o["fmin"], fmax=o["fmax"] or None, htk=bool(o["htk"]),
                               norm="slaney" if o["norm"] else None, dtype=dtype)
    s = librosa.stft(x.astype(dtype), n_fft=o["n_fft"], hop_length=o["hop_length"], win_length=o["win_length"] or None, window=o["window"],
                     center=bool(o["center"]), pad_mode="reflect" if o["pad"] else "constant",
                     dtype=np.complex128 if dtype is np.float64 else np.complex64)
    return bank @ (np.abs(s) ** o["power"])  # type: ignore[operator]


def decibels(m: np.ndarray, **options: object) -> np.ndarray:
    o = {**DEFAULTS, **options}
    to_db = librosa.power_to_db if o["power"] == 2 else librosa.amplitude_to_db
    return to_db(m, ref=np.max if o["ref"] == 0 else o["ref"], amin=o["amin"], top_db=o["top_db"] or None)


def speech() -> list[np.ndarray]:
    files = sorted((DATA / "speech").rglob("*.wav"))[:6] if DATA.exists() else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [(scipy.io.wavfile.read(f)[1] / 32768).astype(np.float32) for f in files]


def sounds(n: int = 24000) -> list[np.ndarray]:
    rng = np.random.default_rng(9)
    t = np.arange(n) / 48000
    chirp = 0.5 * np.sin(2 * np.pi * (200 * t + 9000 * t * t))
    made = rng.uniform(-1, 1, n), rng.standard_normal(n) * 0.01 + chirp, 0.3 * np.sin(2 * np.pi * 1000 * t)
    return [x.astype(np.float32) for x in made] + speech()


def compare(got: np.ndarray, x: np.ndarray, **options: object) -> None:
    expected = decibels(mel(x, np.float64, **options), **options)
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() < 1e-4


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("options", [
    {}, {"htk": 1}, {"norm": 0}, {"htk": 1, "norm": 0, "pad": 1}, {"center": 0}, {"n_fft": 2048, "n_mels": 128, "hop_length": 512},
    {"sr": 16000, "n_fft": 400, "hop_length": 160, "n_mels": 80}, {"win_length": 800}, {"window": "hamming"}, {"window": "ones"},
    {"power": 1, "amin": 1e-5}, {"ref": 0.0}, {"ref": 0.5}, {"top_db": 0.0}, {"fmin": 300.0, "fmax": 8000.0, "n_mels": 40},
    {"n_fft": 480, "hop_length": 120}, {"n_fft": 882, "hop_length": 441, "sr": 44100}, {"n_fft": 100, "hop_length": 7, "n_mels": 10},
], ids=str)
def test_decibels_equal_librosa(tool: Tool, kernel: str, options: dict[str, object]) -> None:
    for x in sounds():
        compare(tool.run(x, kernel, **options), x, **options)


@pytest.mark.parametrize("kernel", KERNELS)
def test_float32_is_as_near_as_torch(tool: Tool, kernel: str) -> None:
    bank = librosa.filters.mel(sr=48000, n_fft=1024, n_mels=64)
    for x in sounds():
        power = mel(x, np.float64)
        t = torch.stft(torch.from_numpy(x), 1024, 256, 1024, torch.hann_window(1024), True, "constant", False, True, True).abs() ** 2
        expected, torchs = decibels(power), decibels(bank @ t.numpy())
        error = np.abs(tool.run(x, kernel, exact=0) - expected)
        assert error[power > 1e-5 * power.max()].max() < 1e-4
        assert error.max() < max(1e-4, 2 * np.abs(torchs - expected).max())


def test_the_default_gives_64_by_94_for_half_a_second(tool: Tool) -> None:
    assert tool.run(sounds()[0], KERNELS[-1]).shape == (64, 94)


def torch_mel(x: np.ndarray, sr: int, n_fft: int, hop: int, n_mels: int) -> torch.Tensor:
    """torchaudio.transforms.MelSpectrogram with its defaults (htk, no norm, reflect), written out; float64."""
    t = torch.from_numpy(x.astype(np.float64))
    s = torch.stft(t, n_fft, hop, n_fft, torch.hann_window(n_fft, dtype=torch.float64), True, "reflect", False, True, True).abs() ** 2
    freqs = torch.linspace(0, sr // 2, n_fft // 2 + 1, dtype=torch.float64)
    top = 2595 * np.log10(1 + (sr / 2) / 700)
    points = 700 * (10 ** (torch.linspace(0, top, n_mels + 2, dtype=torch.float64) / 2595) - 1)
    slopes = points[None] - freqs[:, None]
    width = points[1:] - points[:-1]
    bank = torch.clamp(torch.minimum(-slopes[:, :-2] / width[:-1], slopes[:, 2:] / width[1:]), min=0)
    return (s.T @ bank).T


@pytest.mark.parametrize("kernel", KERNELS)
def test_natural_logarithms_equal_torchaudios_definition(tool: Tool, kernel: str) -> None:
    for x in sounds():
        expected = torch.log(torch_mel(x, 16000, 400, 160, 80) + 1e-6).numpy()
        got = tool.run(x, kernel, sr=16000, n_fft=400, hop_length=160, n_mels=80, htk=1, norm=0, pad=1, log=1, offset=1e-6, amin=1e-30)
        assert np.abs(got - expected).max() < 1e-4
        linear = tool.run(x, kernel, sr=16000, n_fft=400, hop_length=160, n_mels=80, htk=1, norm=0, pad=1, log=3)
        np.testing.assert_allclose(linear, torch_mel(x, 16000, 400, 160, 80).numpy(), rtol=1e-6)
        ten = tool.run(x, kernel, sr=16000, n_fft=400, hop_length=160, n_mels=80, htk=1, norm=0, pad=1, log=2, offset=1e-6, amin=1e-30)
        assert np.abs(ten - expected / np.log(10)).max() < 1e-4


def test_the_logarithm_is_within_its_bound(tool: Tool) -> None:
    """A window and a frame of one sample make a mel the square of that sample: any number can be fed to the logarithm."""
    magnitudes = np.concatenate([10.0 ** np.linspace(-15, 15, 20000), np.linspace(0.5, 2, 20000)]).astype(np.float32)
    options = dict(sr=2, n_fft=2, hop_length=1, n_mels=1, window="ones", center=0, norm=0, htk=1, fmin=0.0, fmax=2.0, amin=1e-37)
    x = np.repeat(magnitudes, 2) * np.tile(np.array([1, -1], np.float32), magnitudes.size)
    linear = tool.run(x, KERNELS[-1], log=3, **options)[0, ::2]
    ln = tool.run(x, KERNELS[-1], log=1, **options)[0, ::2]
    expected = np.log(np.maximum(linear.astype(np.float64), 1e-37))
    assert np.ptp(expected) > 100
    assert (np.abs(ln - expected) <= 4e-7 + 1e-6 * np.abs(expected)).all()


def test_both_kernels_give_the_same_bytes(tool: Tool) -> None:
    if len(KERNELS) < 2:
        pytest.skip("this processor has no AVX2")
    for options in ({}, {"exact": 0}, {"exact": 0, "n_fft": 882}, {"n_fft": 400, "hop_length": 160}, {"n_fft": 882, "power": 1}, {"log": 1},
                    {"n_fft": 6, "hop_length": 1, "n_mels": 2}):
        for x in sounds():
            assert tool.run(x, "c", **options).tobytes() == tool.run(x, "avx2", **options).tobytes(), options


def test_silence_is_the_floor(tool: Tool) -> None:
    got = tool.run(np.zeros(24000, np.float32), KERNELS[-1])
    assert np.abs(got + 100).max() < 1e-4


@pytest.mark.filterwarnings("ignore:n_fft=1024 is too large")
def test_lengths_around_a_frame(tool: Tool) -> None:
    rng = np.random.default_rng(3)
    for n in (1, 2, 511, 512, 513, 1023, 1024, 1025, 1279, 1280, 3000):
        x = rng.uniform(-1, 1, n).astype(np.float32)
        compare(tool.run(x, KERNELS[-1]), x)
        if n > 512:
            compare(tool.run(x, KERNELS[-1], pad=1), x, pad=1)
        else:
            with pytest.raises(ValueError, match="log_mel needs at least 513"):
                tool.run(x, KERNELS[-1], pad=1)
        if n < 1024:
            with pytest.raises(ValueError, match="log_mel needs at least 1024"):
                tool.run(x, KERNELS[-1], center=0)


@pytest.mark.parametrize(("options", "words"), [
    ({"n_fft": 1023}, "n_fft=1023: an even number"), ({"hop_length": 0}, "hop_length=0"),
    ({"win_length": 2000}, "win_length=2000 is more than"), ({"fmin": 9000.0, "fmax": 8000.0}, "from 9000 to 8000 Hz"),
    ({"power": 3}, "power=3"), ({"amin": 0}, "amin=0"), ({"n_mels": 0}, "0 mel filters"),
    ({"top_db": -1}, "must not be negative"), ({"sr": 0}, "at 0 samples")])
def test_options_that_make_no_sense_are_refused_by_name(tool: Tool, options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tool.run(np.zeros(5000, np.float32), KERNELS[-1], **options)
