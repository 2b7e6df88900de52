"""npy and npz equal numpy.load, bit for bit; what numpy would unpickle, and what is damaged, is refused in words."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable

import numpy as np
import pytest
from array_tool import DATA, E_DATA, E_UNSUPPORTED, Refused, Tool
from numpy.lib import format as npy_format

DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "b1"]
SHAPES = [(), (1,), (7,), (0,), (3, 0, 2), (5, 3), (1, 1), (4, 3, 2), (2, 3, 4, 5), (2, 1, 2, 1, 2, 1, 2, 3)]


def made(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, int(np.prod(shape, dtype=int)) * np.dtype(dtype).itemsize).astype(np.uint8)
    if dtype.endswith("b1"):
        raw &= 1
    return raw.view(dtype).reshape(shape)


def saved(x: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    f = io.BytesIO()
    npy_format.write_array(f, x, version=version)
    return f.getvalue()


def same(tool: Tool, a: object, x: np.ndarray) -> None:
    """Whole, and in parts."""
    native = x.astype(x.dtype.newbyteorder("<"))
    got = tool.rows(a)  # type: ignore[arg-type]
    assert got.dtype == native.dtype and got.shape == x.shape
    assert got.tobytes() == native.tobytes()
    rows = x.shape[0] if x.shape else 1
    for first in range(0, rows if x.shape else 0, max(1, rows // 3)):
        count = min(2, rows - first)
        assert tool.rows(a, first, count).tobytes() == native[first : first + count].tobytes()  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_dtype_shape_order_and_version_equals_numpy(tool: Tool, dtype: str, order: str) -> None:
    for shape in SHAPES:
        x = made(order + dtype, shape)
        for layout in (x, np.asfortranarray(x)):
            for version in ((1, 0), (2, 0), (3, 0)):
                name, arrays = tool.load(saved(layout, version))
                assert name == "npy" and len(arrays) == 1 and arrays[0].name == ""
                assert arrays[0].shape == layout.shape
                same(tool, arrays[0], layout)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_equal_numpy(tool: Tool, save: Callable[..., None]) -> None:
    arrays = {f"{order}{dtype}{i}": made(order + dtype, shape, i) for i, shape in enumerate(SHAPES) for dtype in DTYPES for order in "<>"}
    names = list(arrays)[::3] + ["features", "a long name with spaces"]
    arrays |= {"features": np.arange(300000, dtype="f4").reshape(-1, 100), "a long name with spaces": np.asfortranarray(made("f8", (9, 7)))}
    f = io.BytesIO()
    save(f, **{name: arrays[name] for name in names})
    kind, found = tool.load(f.getvalue())
    assert kind == "npz" and [a.name for a in found] == names
    for a in found:
        same(tool, a, arrays[a.name])


def test_an_archive_with_64_bit_sizes_is_read(tool: Tool) -> None:
    f = io.BytesIO()
    x = made("f4", (11, 3))
    with zipfile.ZipFile(f, "w", zipfile.ZIP_DEFLATED) as z, z.open("x.npy", "w", force_zip64=True) as member:
        member.write(saved(x))
    raw = f.getvalue()
    end = raw.rindex(b"PK\5\6")
    count, size, at = struct.unpack_from("<HII", raw, end + 10)
    end64 = b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, size, at)
    locator = b"PK\6\7" + struct.pack("<IQI", 0, end, 1)
    wide = raw[:end] + end64 + locator + raw[end : end + 8] + b"\xff" * 12 + raw[end + 20 :]
    assert np.load(io.BytesIO(wide))["x"].tobytes() == x.tobytes()
    for data in (raw, wide, wide + b"", wide[:-2] + struct.pack("<H", 5) + b"hello"):
        _, (a,) = tool.load(data)
        same(tool, a, x)


def test_members_that_are_no_arrays_are_passed_over(tool: Tool) -> None:
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as z:
        z.writestr("readme.txt", "hello")
        z.writestr("folder/", "")
        z.writestr("x.npy", saved(made("f4", (3, 2))))
        z.writestr("empty", "")
    _, arrays = tool.load(f.getvalue())
    assert [a.name for a in arrays] == ["x"]


def test_other_peoples_files_equal_numpy(tool: Tool) -> None:
    files = sorted((DATA / "npy-go").glob("*.np[yz]")) if DATA.exists() else []
    if not files:
        pytest.skip(f"{DATA} is absent")
    read = 0
    for path in files:
        try:
            loaded = np.load(path)
        except ValueError:
            with pytest.raises(Refused, match="pickle"):
                tool.load(path.read_bytes())
            continue
        _, arrays = tool.load(path.read_bytes())
        for a in arrays:
            same(tool, a, loaded if path.suffix == ".npy" else loaded[a.name])
            read += 1
    assert read >= 80


# ---- refused ----


@pytest.mark.parametrize(("x", "words"), [
    (np.array([{}, None], dtype=object), "object array: its bytes are a pickle"), (np.array(["a", "bc"]), "strings"),
    (np.array([b"a"]), "strings"), (np.zeros(3, "c8"), "complex"), (np.zeros(3, "M8[s]"), "dates"),
    (np.zeros(3, "V2"), "bfloat16 is saved like this"), (np.zeros(3, [("a", "f4"), ("b", "i4")]), "structured dtype"),
    (np.zeros(3, np.longdouble), "neither of 2, 4 nor 8 bytes"),
])
def test_what_is_not_plain_numbers_is_refused_by_name(tool: Tool, x: np.ndarray, words: str) -> None:
    f = io.BytesIO()
    np.save(f, x, allow_pickle=True)
    with pytest.raises(Refused, match=words) as refused:
        tool.load(f.getvalue())
    assert refused.value.code == E_UNSUPPORTED
    archive = io.BytesIO()
    np.savez(archive, x=x)
    with pytest.raises(Refused, match=words):
        tool.load(archive.getvalue())
    np.savez(archive := io.BytesIO(), x=x, good=np.arange(5))
    _, (bad, good) = tool.load(archive.getvalue())
    assert bad.storage == "opaque" and tool.rows(good).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(Refused, match=f'"x" cannot be read: .*{words}'):
        tool.rows(bad, 0, 1)


def test_a_file_cut_off_anywhere_is_refused_with_its_offset(tool: Tool) -> None:
    whole = saved(made("f4", (9, 5)))
    for n in range(1, len(whole)):
        with pytest.raises(Refused) as refused:
            tool.load(whole[:n])
        if n >= 12:
            assert refused.value.code == E_DATA and refused.value.offset == n, n


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + struct.pack("<H" if version[0] == 1 else "<I", len(text)) + text.encode("latin1") + b"\0" * 64


@pytest.mark.parametrize("text", [
    "", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }",
    "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", "{'descr': '<f4', 'fortran_order': False, 'shape': 2, }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}",
    "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 2), }", "{'descr': [('a', '<f4'",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,), }",
])
def test_a_broken_header_is_refused(tool: Tool, text: str) -> None:
    for version in (b"\x01\x00", b"\x02\x00", b"\x03\x00"):
        with pytest.raises(Refused) as refused:
            tool.load(header(text, version))
        assert refused.value.code == E_DATA


@pytest.mark.parametrize("text", [
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", '{"shape": (2,), "descr": "<f4", "fortran_order": False}',
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }\n", "{'descr':'<f4','fortran_order':False,'shape':(2,)}   \n",
])
def test_other_ways_to_write_the_same_header_are_read(tool: Tool, text: str) -> None:
    _, (a,) = tool.load(header(text))
    assert a.shape == (2,) and a.dtype == "float32"


def test_an_unknown_version_and_a_header_of_gigabytes_are_refused(tool: Tool) -> None:
    with pytest.raises(Refused, match="version 4.0"):
        tool.load(b"\x93NUMPY\x04\x00" + b"\0" * 100)
    with pytest.raises(Refused, match="more than any header has"):
        tool.load(b"\x93NUMPY\x02\x00" + b"\xff" * 100)


# ---- archives ----


def archive(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytearray:
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w", method) as z:
        for name, data in members:
            z.writestr(name, data)
    return bytearray(f.getvalue())


def entry(raw: bytes, which: int = 0) -> int:
    at = 0
    for _ in range(which + 1):
        at = raw.index(b"PK\1\2", at) + 1
    return at - 1


X = saved(np.arange(1000, dtype="<f4"))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicates_are_refused(tool: Tool) -> None:
    with pytest.raises(Refused, match="two arrays of one name"):
        tool.load(archive([("x.npy", X), ("x.npy", X)]))
    with pytest.raises(Refused, match="two arrays of one name"):
        tool.load(archive([("x.npy", X), ("x", X)]))


def test_encrypted_members_and_other_methods_are_refused(tool: Tool) -> None:
    raw = archive([("x.npy", X)])
    raw[entry(raw) + 8] |= 1
    with pytest.raises(Refused, match="encrypted"):
        tool.load(raw)
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with pytest.raises(Refused, match=f"method {method}"):
            tool.load(archive([("x.npy", X)], method))


def test_members_in_the_same_bytes_are_refused(tool: Tool) -> None:
    raw = archive([("x.npy", X), ("y.npy", X)])
    struct.pack_into("<I", raw, entry(raw, 1) + 42, 0)
    with pytest.raises(Refused, match="the same bytes"):
        tool.load(raw)


def test_a_bomb_is_refused_before_memory_is_asked_for(tool: Tool) -> None:
    rows = 10**9
    head = io.BytesIO()
    npy_format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (rows, 100)})
    raw = archive([("x.npy", head.getvalue() + b"\0" * 4096)])
    struct.pack_into("<I", raw, entry(raw) + 24, 0xFFFFFFFE)
    with pytest.raises(Refused, match="its shape needs 400000000000 bytes"):
        tool.load(raw)
    small = (0xFFFFFFFE - len(head.getvalue())) // 4
    npy_format.write_array_header_1_0(head := io.BytesIO(), {"descr": "<f4", "fortran_order": False, "shape": (small,)})
    raw = archive([("x.npy", head.getvalue() + b"\0" * 4096)])
    struct.pack_into("<I", raw, entry(raw) + 24, len(head.getvalue()) + small * 4)
    with pytest.raises(Refused, match="too small to hold"):
        tool.load(raw)


def test_a_flipped_bit_in_a_deflated_array_is_found(tool: Tool) -> None:
    x = np.random.default_rng(5).standard_normal(5000).astype("<f4")
    raw = archive([("x.npy", saved(x))])
    end = entry(raw)
    refused = 0
    for at in range(200, end - 1, 577):
        broken = bytearray(raw)
        broken[at] ^= 16
        try:
            _, (a,) = tool.load(broken)
            tool.rows(a)
        except Refused as e:
            assert e.code == E_DATA
            refused += 1
            continue
        pytest.fail(f"a flip at {at} of {end} went unnoticed")
    assert refused > 20


def test_an_archive_cut_off_anywhere_is_refused(tool: Tool) -> None:
    raw = bytes(archive([("x.npy", X), ("y.npy", X)], zipfile.ZIP_STORED))
    for n in range(4, len(raw), 97):
        with pytest.raises(Refused) as refused:
            tool.load(raw[:n])
        assert refused.value.code == E_DATA
    for n in range(len(raw) - 200, len(raw)):
        with pytest.raises(Refused):
            tool.load(raw[:n])


def test_an_archive_without_arrays_says_so(tool: Tool) -> None:
    with pytest.raises(Refused, match="zip archive without arrays"):
        tool.load(archive([("data.pkl", b"\x80\x02}q\0.")]))
    with pytest.raises(Refused, match="zip archive without arrays"):
        tool.load(archive([]))


def test_more_than_256_arrays_are_refused(tool: Tool) -> None:
    one = saved(np.zeros(1))
    assert len(tool.load(archive([(f"{i}.npy", one) for i in range(256)]))[1]) == 256
    with pytest.raises(Refused, match="more than 256 members"):
        tool.load(archive([(f"{i}.npy", one) for i in range(257)]))
