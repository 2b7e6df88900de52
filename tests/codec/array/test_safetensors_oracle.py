"""safetensors equal the format's own package, bit for bit; what that refuses is refused."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from array_tool import E_DATA, E_UNSUPPORTED, Refused, Tool

DTYPES = [torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32, torch.uint64, torch.int64, torch.float16,
          torch.bfloat16, torch.float32, torch.float64, torch.bool]
SHAPES = [(), (5,), (0,), (3, 0), (4, 3), (2, 3, 4), (1, 2, 1, 2, 1, 2)]


def made(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    n = int(np.prod(shape, dtype=int)) * dtype.itemsize
    if not n:
        return torch.zeros(shape, dtype=dtype)
    raw = torch.from_numpy(np.random.default_rng(seed).integers(0, 2 if dtype == torch.bool else 256, n).astype(np.uint8))
    return raw.view(dtype).reshape(shape)


def test_every_dtype_and_shape_equals_the_package(tool: Tool) -> None:
    tensors = {f"layer.{i}/{j} x": made(dtype, shape, i) for i, dtype in enumerate(DTYPES) for j, shape in enumerate(SHAPES)}
    data = safetensors.torch.save(tensors, metadata={"format": "pt", "note": "x" * 1000})
    kind, arrays = tool.load(data)
    assert kind == "safetensors" and {a.name for a in arrays} == set(tensors)
    for a in arrays:
        t = tensors[a.name]
        assert a.shape == tuple(t.shape) and a.dtype == str(t.dtype).removeprefix("torch.")
        assert tool.rows(a).tobytes() == bytes(t.untyped_storage()), a.name


def file(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype: str, shape: object, start: object, end: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


GOOD = tensor("F32", [2, 2], 0, 16)
REFUSED = {
    "overlaps another one": file({"a": GOOD, "b": tensor("F32", [2, 2], 8, 24)}, bytes(24)),
    "leaves a gap before it": file({"a": GOOD, "b": tensor("F32", [1], 20, 24)}, bytes(24)),
    "belong to no tensor": file({"a": GOOD}, bytes(17)), "reaches beyond the end": file({"a": GOOD}, bytes(15)),
    "does not have the size": file({"a": tensor("F32", [2, 3], 0, 16)}, bytes(16)),
    "no valid data_offsets": file({"a": tensor("F32", [2, 2], 16, 0)}, bytes(16)),
    "no valid data_offsets ": file({"a": tensor("F32", [2, 2], -16, 0)}, bytes(16)),
    "not a whole number from 0 up": file({"a": tensor("F32", [2, -2], 0, 16)}, bytes(16)),
    "not a whole number from 0 up ": file({"a": tensor("F32", [2.0], 0, 8)}, bytes(8)),
    "more than 8 dimensions": file({"a": tensor("F32", [1] * 9, 0, 4)}, bytes(4)),
    "has no shape": file({"a": tensor("F32", "2", 0, 4)}, bytes(4)),
    "is not described by": file({"a": 5}, bytes(4)), "is not described by ": file({"a": {**GOOD, "x": 1}}, bytes(16)),
    "has no dtype": file({"a": tensor(3, [1], 0, 4)}, bytes(4)),  # type: ignore[arg-type]
    "is not JSON": file(b"{nonsense", bytes(4)), "is not JSON: duplicate": file(b'{"a": {}, "a": {}}'), "is not JSON ": file(b"{" * 5000),
    "header claims 1000 bytes": file({"a": GOOD}, bytes(16), 1000), "name that is too long": file({"a" * 256: GOOD}, bytes(16)),
    "holds no tensors": file({}), "holds no tensors ": file({"__metadata__": {"a": "b"}}),
    "257 tensors": file({str(i): tensor("U8", [0], 0, 0) for i in range(257)}),
    "at most 4 MiB are read": file(b"{" + b" " * (5 << 20) + b"}"),
    "size its shape asks for": file({"a": tensor("F64", [2**62, 8], 0, 16)}, bytes(16)),
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_broken_file_is_refused_by_name(tool: Tool, words: str) -> None:
    with pytest.raises(Refused, match=words.strip()) as refused:
        tool.load(REFUSED[words])
    assert refused.value.code in (E_DATA, E_UNSUPPORTED)
    if not any(limit in words for limit in ("tensors", "4 MiB", "8 dim", "too long", "described by ")):
        with pytest.raises(safetensors.SafetensorError):
            safetensors.deserialize(REFUSED[words])


def test_a_file_cut_off_anywhere_is_refused(tool: Tool) -> None:
    whole = safetensors.torch.save({"a": torch.arange(6.0), "b": torch.arange(4)})
    for n in range(len(whole)):
        with pytest.raises(Refused):
            tool.load(whole[:n])


def test_a_dtype_that_is_not_read_is_listed_with_the_reason(tool: Tool) -> None:
    tensors = {"small": torch.zeros(4).to(torch.float8_e4m3fn), "usual": torch.arange(3.0)}
    _, arrays = tool.load(safetensors.torch.save(tensors))
    by_name = {a.name: a for a in arrays}
    assert tool.rows(by_name["usual"]).tolist() == [0, 1, 2]
    with pytest.raises(Refused, match='"small" cannot be read: its dtype'):
        tool.rows(by_name["small"])
    with pytest.raises(Refused, match="no tensor of the file"):
        tool.load(safetensors.torch.save({"small": tensors["small"]}))
