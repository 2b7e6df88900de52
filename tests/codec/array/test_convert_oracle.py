"""Casts equal numpy's and torch's, normalising equals numpy's arithmetic, sound equals soundfile's: 0 differing bytes."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
import soundfile
import torch
from array_tool import ALAW, E_USAGE, F32, F64, MULAW, PLAIN, S16, S24, S32, SWAPPED, U8, Refused, Tool

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
FLOATS = ["float16", "float32", "float64"]
DTYPES = [*INTEGERS, *FLOATS, "bool"]
N = 3001  # not a multiple of anything


def numbers(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """All kinds of them: small, large, extreme, ties; without signalling NaNs, which no two libraries treat alike."""
    if dtype == "bool":
        return rng.integers(0, 2, N).astype(bool)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        x = np.concatenate([rng.integers(info.min, info.max, N - 400, dtype=dtype, endpoint=True), np.arange(400).astype(dtype)])
        x[:2] = info.min, info.max
        return x
    bits = {"float16": np.uint16, "float32": np.uint32, "float64": np.uint64}[dtype]
    any_bits = rng.integers(0, np.iinfo(bits).max, N, dtype=bits, endpoint=True).view(dtype)
    with np.errstate(all="ignore"):
        usual = (rng.standard_normal(N) * 10.0 ** rng.uniform(-9, 6, N)).astype(dtype)
    x = np.where(rng.random(N) < 0.3, any_bits, usual).astype(dtype)
    x[np.isnan(x)] = np.nan
    x[:6] = np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0
    return x


def same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.shape == expected.shape
    both_nan = np.isnan(got) & np.isnan(expected) if got.dtype.kind == "f" else np.zeros(got.shape, bool)
    unsigned = np.dtype(f"u{got.dtype.itemsize}")
    differ = (got.view(unsigned) != expected.view(unsigned)) & ~both_nan
    at = np.flatnonzero(differ)
    assert at.size == 0, f"{at.size} differ, first at {at[0]}: {got[at[0]]!r}, expected {expected[at[0]]!r}"


def cast(x: np.ndarray, to: str) -> tuple[np.ndarray, np.ndarray]:
    """numpy's astype, and where C defines the answer."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        y = x.astype(to)
    if x.dtype.kind != "f" or to not in INTEGERS:
        return y, np.ones(x.shape, bool)
    info = np.iinfo(to)
    with np.errstate(invalid="ignore"):
        wide = np.trunc(x.astype(np.float64))
        return y, (wide >= float(info.min)) & (wide <= float(info.max)) & (wide < 2.0**info.bits / (1 if info.min == 0 else 2))


@pytest.mark.parametrize("source", DTYPES)
def test_every_cast_equals_numpy(tool: Tool, source: str) -> None:
    rng = np.random.default_rng(1)
    x = numbers(source, rng)
    for to in DTYPES:
        expected, is_defined = cast(x, to)
        for code, stored in ((PLAIN, x), (SWAPPED, x.astype(x.dtype.newbyteorder(">")))):
            got = tool.convert(stored.tobytes(), code, source, to, N)
            same_bits(got[is_defined], expected[is_defined])


@pytest.mark.parametrize("to", INTEGERS)
def test_a_float_beyond_an_integer_gives_its_nearest_end_and_nan_gives_0(tool: Tool, to: str) -> None:
    x = np.array([np.inf, 1e30, -np.inf, -1e30, np.nan, 2.0**63, 2.0**64], "<f8")
    info = np.iinfo(to)
    high = 2**63 if to == "uint64" else info.max
    assert tool.convert(x.tobytes(), PLAIN, "float64", to, 7).tolist() == [info.max, info.max, info.min, info.min, 0, high, info.max]


@pytest.mark.parametrize("source", [*DTYPES, "bfloat16"])
def test_bfloat16_equals_torch(tool: Tool, source: str) -> None:
    rng = np.random.default_rng(2)
    if source == "bfloat16":
        bits = rng.integers(0, 65536, N).astype(np.uint16)
        t, stored = torch.from_numpy(bits.copy()).view(torch.bfloat16), bits.tobytes()
        for to in ("float32", "float64", "float16"):
            same_bits(tool.convert(stored, PLAIN, source, to, N), t.to(getattr(torch, to)).numpy())
        return
    x = numbers(source, rng)
    if source in ("uint16", "uint32", "uint64"):
        t = torch.from_numpy(x.astype(np.float32 if source != "uint16" else np.int32))
    else:
        t = torch.from_numpy(x)
    expected = t.to(torch.bfloat16)
    got = tool.convert(x.tobytes(), PLAIN, source, "bfloat16", N)
    is_nan = expected.isnan().numpy()
    assert (got[~is_nan] == expected.view(torch.uint16).numpy()[~is_nan]).all()
    assert torch.from_numpy(got.copy()).view(torch.bfloat16).isnan().numpy()[is_nan].all()


def test_every_half_survives_float32_and_float64(tool: Tool) -> None:
    bits = np.arange(65536).astype(np.uint16)
    for wide in ("float32", "float64"):
        there = tool.convert(bits.tobytes(), PLAIN, "float16", wide, 65536)
        same_bits(there, bits.view(np.float16).astype(wide))
        back = tool.convert(there.tobytes(), PLAIN, wide, "float16", 65536)
        same_bits(back.view(np.float16), bits.view(np.float16))


def test_ties_between_halves_go_to_even_from_float32_and_float64(tool: Tool) -> None:
    halves = np.arange(0x7BFF).astype(np.uint16).view(np.float16)
    above = np.arange(1, 0x7C00).astype(np.uint16).view(np.float16)
    for wide in ("float32", "float64"):
        middle = (halves.astype(wide) + above.astype(wide)) / 2
        for x in (middle, np.nextafter(middle, np.array(np.inf, wide)), np.nextafter(middle, np.array(-np.inf, wide)), -middle):
            same_bits(tool.convert(x.tobytes(), PLAIN, wide, "float16", x.size), x.astype(np.float16))


@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize(("period", "repeat"), [(1, 1), (2, 1), (7, 1), (1024, 1), (3, 5), (4, 300)])
def test_normalising_equals_numpy(tool: Tool, source: str, period: int, repeat: int) -> None:
    rng = np.random.default_rng(3)
    x = numbers(source, rng)
    x = x[np.isfinite(x)] if x.dtype.kind == "f" else x
    mean, inv_std = rng.standard_normal(period).astype(np.float32), rng.uniform(0.1, 3, period).astype(np.float32)
    k = np.arange(x.size) // repeat % period
    for to in ("float16", "float32", "float64"):
        wide = np.float64 if to == "float64" or source in ("float64", "int32", "uint32", "int64", "uint64") else np.float32
        with np.errstate(all="ignore"):
            expected = ((x.astype(wide) - mean[k].astype(wide)) * inv_std[k].astype(wide)).astype(to)
        same_bits(tool.convert(x.tobytes(), PLAIN, source, to, x.size, mean, inv_std, repeat), expected)


SUBTYPES = {U8: "PCM_U8", S16: "PCM_16", S24: "PCM_24", S32: "PCM_32", F32: "FLOAT", F64: "DOUBLE", ALAW: "ALAW", MULAW: "ULAW"}


def raw_sound(code: int, count: int, rng: np.random.Generator) -> bytes:
    size = {U8: 1, S16: 2, S24: 3, S32: 4, ALAW: 1, MULAW: 1}.get(code)
    if size:
        return rng.integers(0, 256, count * size).astype(np.uint8).tobytes()
    return (rng.standard_normal(count) * 2).astype("<f4" if code == F32 else "<f8").tobytes()


def soundfile_reads(raw: bytes, code: int, dtype: str, channels: int = 1) -> np.ndarray:
    y, _ = soundfile.read(io.BytesIO(raw), dtype=dtype, format="RAW", subtype=SUBTYPES[code], endian="LITTLE", channels=channels,
                          samplerate=8000, always_2d=True)
    return y


@pytest.mark.parametrize("code", SUBTYPES)
def test_sound_equals_soundfile(tool: Tool, code: int) -> None:
    raw = raw_sound(code, 4099, np.random.default_rng(4))
    for dtype in ("float32", "float64"):
        same_bits(tool.convert(raw, code, "float32", dtype, 4099), soundfile_reads(raw, code, dtype)[:, 0])
    half = soundfile_reads(raw, code, "float32")[:, 0].astype(np.float16)
    same_bits(tool.convert(raw, code, "float32", "float16", 4099), half)
    if code in (U8, S16, ALAW, MULAW):
        same_bits(tool.convert(raw, code, "float32", "int16", 4099), soundfile_reads(raw, code, "int16")[:, 0])


@pytest.mark.parametrize(("code", "source", "to", "words"), [
    (S24, "float32", "int16", "24-bit sound into int16: that loses bits"), (F32, "float32", "int16", "loses bits"),
    (S16, "float32", "int32", "sound is given as float32"), (U8, "float32", "bool", "sound is given as float32")])
def test_a_conversion_that_makes_no_sense_is_refused_by_name(tool: Tool, code: int, source: str, to: str, words: str) -> None:
    with pytest.raises(Refused, match=words) as refused:
        tool.convert(b"\0" * 96, code, source, to, 12)
    assert refused.value.code == E_USAGE


def test_normalised_integers_are_refused(tool: Tool) -> None:
    with pytest.raises(Refused, match="normalised numbers have fractions"):
        tool.convert(b"\0" * 8, PLAIN, "uint8", "int16", 8, np.zeros(1), np.ones(1))


@pytest.mark.parametrize("code", SUBTYPES)
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6, 8, 9, 16, 17, 129, 130, 144, 255, 1024])
def test_planes_and_their_mean_equal_soundfile_and_numpy(tool: Tool, code: int, channels: int) -> None:
    frames = 1500 if channels < 9 else 37
    raw = raw_sound(code, frames * channels, np.random.default_rng(channels))
    sound = soundfile_reads(raw, code, "float32", channels)
    for after in (0, 11):
        padded = np.concatenate([sound, np.zeros((after, channels), np.float32)])
        same_bits(tool.planes(raw, code, "float32", channels, frames, after), np.ascontiguousarray(padded.T))
        same_bits(tool.planes(raw, code, "float16", channels, frames, after), np.ascontiguousarray(padded.T).astype(np.float16))
        same_bits(tool.mono(raw, code, "float32", channels, frames, after), padded.mean(axis=1))
    if code in (U8, S16, ALAW, MULAW):
        expected = np.ascontiguousarray(soundfile_reads(raw, code, "int16", channels).T)
        same_bits(tool.planes(raw, code, "int16", channels, frames, 0), expected)
