"""WAV files by hand, right and wrong."""

from __future__ import annotations

import struct

PCM, FLOAT, ALAW_TAG, MULAW_TAG, EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")
AMBISONIC_TAIL = bytes.fromhex("00002107d3118644c8c1ca000000")


def chunk(name: bytes, data: bytes, size: int | None = None) -> bytes:
    return name + struct.pack("<I", len(data) if size is None else size) + data + b"\0" * (len(data) & 1)


def fmt(tag: int = PCM, channels: int = 1, rate: int = 8000, bits: int = 16, align: int | None = None, extra: bytes = b"") -> bytes:
    align = channels * bits // 8 if align is None else align
    return chunk(b"fmt ", struct.pack("<HHIIHH", tag, channels, rate, rate * align & 0xFFFFFFFF, align & 0xFFFF, bits) + extra)


def extensible(tag: int, channels: int, bits: int, valid: int | None = None, tail: bytes = GUID_TAIL) -> bytes:
    extra = struct.pack("<HHI", 22, bits if valid is None else valid, 0) + struct.pack("<H", tag) + tail
    return fmt(EXTENSIBLE, channels, bits=bits, extra=extra)


def ds64(data_bytes: int, riff_bytes: int = 0, frames: int = 0) -> bytes:
    return chunk(b"ds64", struct.pack("<QQQI", riff_bytes, data_bytes, frames, 0))


def riff(*chunks: bytes, size: int | None = None, magic: bytes = b"RIFF") -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return magic + struct.pack("<I", len(body) if size is None else size) + body
