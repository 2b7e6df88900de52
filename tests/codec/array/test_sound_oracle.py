"""WAV and the formats of libsndfile equal soundfile, bit for bit; broken headers are read as far as the bytes go, or refused in words."""

from __future__ import annotations

import io
import struct
import warnings

import numpy as np
import pytest
import scipy.io.wavfile
import soundfile
from array_tool import DATA, E_DATA, E_UNSUPPORTED, Array, Refused, Tool
from wav_files import ALAW_TAG, AMBISONIC_TAIL, FLOAT, MULAW_TAG, PCM, chunk, ds64, extensible, fmt, riff

RAW = np.random.default_rng(7).integers(0, 256, 960).astype(np.uint8).tobytes()


def oracle(data: bytes, dtype: str = "float32") -> tuple[np.ndarray, int]:
    return soundfile.read(io.BytesIO(data), dtype=dtype, always_2d=True)


def only(tool: Tool, data: bytes) -> tuple[str, Array]:
    name, (a,) = tool.load(data)
    return name, a


def same(tool: Tool, data: bytes) -> Array:
    expected, rate = oracle(data)
    _, a = only(tool, data)
    assert (a.shape, a.rate, a.dtype) == (expected.shape, rate, "float32")
    assert tool.rows(a).tobytes() == expected.tobytes()
    for first in range(0, a.shape[0], max(1, a.shape[0] // 4)):
        n = min(5, a.shape[0] - first)
        assert tool.rows(a, first, n).tobytes() == expected[first : first + n].tobytes(), first
    return a


# ---- WAV ----


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW"])
@pytest.mark.parametrize("kind", ["WAV", "WAVEX", "RF64"])
@pytest.mark.parametrize("channels", [1, 2, 3, 8, 33])
def test_every_kind_of_wav_equals_soundfile(tool: Tool, subtype: str, kind: str, channels: int) -> None:
    x = np.random.default_rng(channels).uniform(-1, 1, (1237, channels))
    soundfile.write(f := io.BytesIO(), x, 44100, format=kind, subtype=subtype)
    a = same(tool, f.getvalue())
    assert a.storage == "contiguous"


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float32", "float64"])
def test_what_scipy_writes_equals_what_scipy_reads(tool: Tool, dtype: str) -> None:
    rng = np.random.default_rng(8)
    x = (rng.standard_normal((501, 2)) if dtype.startswith("float") else rng.integers(0, 200, (501, 2))).astype(dtype)
    scipy.io.wavfile.write(f := io.BytesIO(), 16000, x)
    _, read = scipy.io.wavfile.read(io.BytesIO(f.getvalue()))
    scale, zero = {"uint8": (128, 128), "int16": (32768, 0), "int32": (2**31, 0)}.get(dtype, (1, 0))
    expected = ((read.astype(np.float64) - zero) / scale).astype(np.float32)
    _, a = only(tool, f.getvalue())
    assert tool.rows(a).tobytes() == expected.tobytes()


LIST = chunk(b"LIST", b"INFOx")

EQUAL = {
    "other chunks before and after": riff(LIST, fmt(), LIST, chunk(b"fact", b"\0" * 4), chunk(b"data", RAW), LIST),
    "odd data": riff(fmt(bits=8), chunk(b"data", RAW[:959]), LIST),
    "half a frame at the end": riff(fmt(channels=2), chunk(b"data", RAW[:958])),
    "data size unknown": riff(fmt(), chunk(b"data", RAW, 0xFFFFFFFF), size=0xFFFFFFFF),
    "data size beyond the end": riff(fmt(), chunk(b"data", RAW, 1 << 30)),
    "data size 2^31-1": riff(fmt(), chunk(b"data", RAW, 0x7FFFFFFF)),
    "never closed, as libsndfile knows it": riff(fmt(), chunk(b"data", RAW, 0), size=8),
    "empty": riff(fmt(), chunk(b"data", b"")),
    "empty, with something behind": riff(fmt(), chunk(b"data", b""), LIST),
    "riff size too small": riff(fmt(), chunk(b"data", RAW), size=4),
    "cut off in the data": riff(fmt(), chunk(b"data", RAW))[:501],
    "garbage behind": riff(fmt(), chunk(b"data", RAW)) + b"garbage, unaligned",
    "12 bits": riff(fmt(bits=12, align=2), chunk(b"data", RAW)), "20 bits": riff(fmt(bits=20, align=3), chunk(b"data", RAW)),
    "5 bits": riff(fmt(bits=5, align=1), chunk(b"data", RAW)), "align 0": riff(fmt(align=0), chunk(b"data", RAW)),
    "align wrong": riff(fmt(align=3), chunk(b"data", RAW)),
    "A-law of 16 bits": riff(fmt(ALAW_TAG, bits=16), chunk(b"data", RAW)), "mu-law": riff(fmt(MULAW_TAG, bits=8), chunk(b"data", RAW)),
    "long format chunk": riff(fmt(extra=b"\0" * 24), chunk(b"data", RAW)),
    "extensible": riff(extensible(PCM, 2, 24), chunk(b"data", RAW)),
    "extensible float": riff(extensible(FLOAT, 1, 32), chunk(b"data", b"\0\0\x80\x3e" * 9)),
    "extensible of 20 in 24": riff(extensible(PCM, 1, 24, 20), chunk(b"data", RAW)),
    "extensible of 24 in 32": riff(extensible(PCM, 1, 32, 24), chunk(b"data", RAW)),
    "ambisonic": riff(extensible(PCM, 4, 16, tail=AMBISONIC_TAIL), chunk(b"data", RAW)),
    "RF64": riff(ds64(960), fmt(), chunk(b"data", RAW, 0xFFFFFFFF), LIST, size=0xFFFFFFFF, magic=b"RF64"),
    "RF64 beyond the end": riff(ds64(1 << 50), fmt(), chunk(b"data", RAW, 0xFFFFFFFF), size=0xFFFFFFFF, magic=b"RF64"),
    "1024 channels": riff(fmt(channels=1024), chunk(b"data", RAW * 5)),
}


@pytest.mark.parametrize("name", EQUAL)
def test_odd_headers_are_read_as_soundfile_reads_them(tool: Tool, name: str) -> None:
    same(tool, EQUAL[name])


def test_a_recording_that_was_never_closed_is_read_whatever_its_riff_size(tool: Tool) -> None:
    for size in (0, 8, 36):
        _, a = only(tool, riff(fmt(), chunk(b"data", RAW, 0), size=size))
        assert a.shape == (480, 1)


def test_24_bits_in_four_bytes_are_not_read_as_three(tool: Tool) -> None:
    x = (np.arange(-50, 50, dtype=np.int32) * 12345) << 8
    _, a = only(tool, riff(fmt(bits=24, align=4), chunk(b"data", x.tobytes())))
    assert tool.rows(a)[:, 0].tobytes() == (x / 2**31).astype(np.float32).tobytes()


def test_bw64_is_rf64(tool: Tool) -> None:
    parts = ds64(960), fmt(), chunk(b"data", RAW, 0xFFFFFFFF)
    one, two = (riff(*parts, LIST, size=0xFFFFFFFF, magic=magic) for magic in (b"RF64", b"BW64"))
    assert tool.rows(only(tool, two)[1]).tobytes() == tool.rows(only(tool, one)[1]).tobytes()


REFUSED = {
    "no data chunk": riff(fmt()), "no format chunk": riff(chunk(b"data", RAW)),
    "two format chunks": riff(fmt(), fmt(), chunk(b"data", RAW)),
    "format chunk has 14 bytes": riff(chunk(b"fmt ", b"\1\0" * 7), chunk(b"data", RAW)),
    "no channels": riff(fmt(channels=0, align=2), chunk(b"data", RAW)), "1025 channels": riff(fmt(channels=1025), chunk(b"data", RAW)),
    "0 samples per second": riff(fmt(rate=0), chunk(b"data", RAW)),
    "4294967295 samples": riff(fmt(rate=0xFFFFFFFF), chunk(b"data", RAW)),
    "numbers of 64 bits": riff(fmt(bits=64), chunk(b"data", RAW)), "numbers of 0 bits": riff(fmt(bits=0), chunk(b"data", RAW)),
    "floats of 16 bits": riff(fmt(FLOAT, bits=16), chunk(b"data", RAW)), "ds64 chunk has 8 bytes": riff(chunk(b"ds64", b"\0" * 8), fmt()),
    "cut off before it": riff(fmt(), b"LIST\0\0\0\x40abc", chunk(b"data", RAW)),
    "sound file cannot be read": riff(fmt(0x1234), chunk(b"data", RAW)),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_read_is_refused_by_name(tool: Tool, words: str) -> None:
    with pytest.raises(Refused, match=words) as refused:
        tool.load(REFUSED[words])
    assert refused.value.code in (E_DATA, E_UNSUPPORTED)


def test_a_header_cut_off_anywhere_is_refused(tool: Tool) -> None:
    whole = riff(fmt(), LIST, chunk(b"data", RAW))
    for n in range(12, whole.index(b"data") + 8):
        with pytest.raises(Refused) as refused:
            tool.load(whole[:n])
        assert refused.value.code == E_DATA and refused.value.offset >= 0


def test_scipys_odd_files_equal_soundfile(tool: Tool) -> None:
    files = sorted((DATA / "wav-scipy").glob("*.wav")) if DATA.exists() else []
    if not files:
        pytest.skip(f"{DATA} is absent")
    read = 0
    for path in files:
        data = path.read_bytes()
        try:
            oracle(data)
        except soundfile.LibsndfileError:
            with pytest.raises(Refused):
                tool.load(data)
            continue
        same(tool, data)
        read += 1
    assert read >= 15


def test_spoken_digits_equal_scipy(tool: Tool) -> None:
    files = sorted((DATA / "speech").rglob("*.wav")) if DATA.exists() else []
    if not files:
        pytest.skip(f"{DATA} is absent")
    for path in files:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, x = scipy.io.wavfile.read(path)
        _, a = only(tool, path.read_bytes())
        assert (tool.rows(a)[:, 0] == x / np.float32(32768)).all()


# ---- libsndfile's ----

OTHERS = [("FLAC", "PCM_16"), ("FLAC", "PCM_24"), ("OGG", "VORBIS"), ("OGG", "OPUS"), ("AIFF", "PCM_16"), ("AIFF", "FLOAT"),
          ("AU", "PCM_16"), ("CAF", "PCM_24"), ("W64", "PCM_16"), ("MP3", "MPEG_LAYER_III"),
          ("WAV", "IMA_ADPCM"), ("WAV", "MS_ADPCM"), ("WAV", "GSM610")]


def compressed(kind: str, subtype: str, channels: int, frames: int = 30000) -> bytes:
    t = np.arange(frames) / 48000
    x = np.stack([0.4 * np.sin(2 * np.pi * (300 + 200 * k) * t) + 0.1 * np.sin(9000 * t * t) for k in range(channels)], 1)
    soundfile.write(f := io.BytesIO(), x, 48000, format=kind, subtype=subtype)
    return f.getvalue()


@pytest.mark.parametrize(("kind", "subtype"), OTHERS)
def test_compressed_and_rare_kinds_equal_soundfile(tool: Tool, kind: str, subtype: str) -> None:
    for channels in (1, 2) if subtype != "GSM610" else (1,):
        data = compressed(kind, subtype, channels)
        expected, rate = oracle(data)
        name, a = only(tool, data)
        assert (name, a.storage, a.shape, a.rate) == ("sound", "opaque", expected.shape, rate)
        got = tool.rows(a)
        if subtype == "VORBIS":  # soundfile brings a build of its own; the last bit of a sine differs
            assert np.abs(got - expected).max() < 1e-6
        else:
            assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("kind", "subtype"), OTHERS)
def test_a_crop_of_a_recording_is_that_part_of_the_whole(tool: Tool, kind: str, subtype: str) -> None:
    _, a = only(tool, compressed(kind, subtype, 1))
    whole = tool.rows(a)
    for first in (1, 997, 4096, 20001):
        assert tool.rows(a, first, 500).tobytes() == whole[first : first + 500].tobytes(), first


@pytest.mark.parametrize(("kind", "subtype"), OTHERS)
def test_a_compressed_file_cut_off_is_refused_or_says_where_it_ends(tool: Tool, kind: str, subtype: str) -> None:
    data = compressed(kind, subtype, 1)
    for n in (20, 100, len(data) // 2):
        try:
            _, a = only(tool, data[:n])
            tool.rows(a)
        except Refused as e:
            assert e.code in (E_DATA, E_UNSUPPORTED)


def test_what_libsndfile_could_but_we_do_not_read_is_refused(tool: Tool) -> None:
    for kind in ("NIST", "VOC", "IRCAM", "PAF"):
        soundfile.write(f := io.BytesIO(), np.zeros((10, 1)), 8000, format=kind, subtype="PCM_16")
        with pytest.raises(Refused):
            tool.load(f.getvalue())


def test_a_flac_that_claims_more_than_it_has_is_refused_when_read(tool: Tool) -> None:
    data = bytearray(compressed("FLAC", "PCM_16", 1, 5000))
    assert data[:4] == b"fLaC" and data[4] & 0x7F == 0
    packed = struct.unpack_from(">Q", data, 18)[0]
    struct.pack_into(">Q", data, 18, (packed & ~((1 << 36) - 1)) | 10**9)
    _, a = only(tool, bytes(data))
    assert a.shape == (10**9, 1)
    with pytest.raises(Refused, match="the sound ends at frame"):
        tool.rows(a, 4000, 2000)
