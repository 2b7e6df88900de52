"""Rows equal h5py's, byte for byte: dtypes x layouts x filters x file versions, written by h5py, PyTables, and as MATLAB writes them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

h5py = pytest.importorskip("h5py", reason="h5py writes the files and is the oracle")
sys.path.insert(0, str(Path(__file__).parent))
from h5_tool import DATA, FB_E_UNSUPPORTED, HELPER, TOOL, Layout, Refused, Tool  # noqa: E402

pytestmark = pytest.mark.skipif(not (TOOL.exists() and HELPER.exists()), reason="h5_tool is not built (FB_BUILD_DIR says where)")
DTYPES = ["u1", "i1", "<u2", ">u2", "<i2", ">i2", "<u4", ">u4", "<i4", ">i4", "<u8", ">u8", "<i8", ">i8",
          "<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "bool"]
FILTERS: dict[str, dict[str, object]] = {
    "none": {},
    "gzip": {"compression": "gzip", "compression_opts": 4},
    "lzf": {"compression": "lzf"},
    "shuffle": {"shuffle": True},
    "fletcher32": {"fletcher32": True},
    "shuffle+gzip": {"compression": "gzip", "shuffle": True},
    "shuffle+lzf": {"compression": "lzf", "shuffle": True},
    "gzip+fletcher32": {"compression": "gzip", "fletcher32": True},
    "shuffle+gzip+fletcher32": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf+fletcher32": {"compression": "lzf", "fletcher32": True},
}
SHAPES = [((37,), (8,)), ((37,), (64,)), ((37, 5), (1, 5)), ((37, 5), (8, 5)), ((37, 5), (8, 3)), ((37, 5), (40, 7)),
          ((13, 6, 5), (4, 6, 5)), ((13, 6, 5), (4, 2, 3)), ((5, 4, 3, 2), (2, 3, 2, 2)), ((5, 1, 3, 1), (5, 1, 2, 1))]


@pytest.fixture
def tool() -> Iterator[Tool]:
    t = Tool()
    yield t
    t.close()


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    d = np.dtype(dtype)
    if d.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if d.kind == "f":
        return rng.normal(size=shape).astype(d)
    few = rng.integers(0, 7, shape) if rng.integers(2) else rng.integers(0, 1 << 16, shape)  # some that compress, some that do not
    return few.astype(d)


def expected_of(dataset: h5py.Dataset) -> np.ndarray:
    return np.asarray(dataset[()])


def compare(tool: Tool, a: Layout, expected: np.ndarray, rng: np.random.Generator | None = None) -> int:
    """The whole array, and some ranges of rows; returns how many comparisons."""
    assert a.shape == expected.shape, a
    there = a.shape[0] if a.shape else 1
    ranges = [(0, there)]
    if rng is not None and there > 1:
        for _ in range(4):
            first = int(rng.integers(there))
            ranges.append((first, int(rng.integers(1, there - first + 1))))
    for first, rows in ranges:
        got = tool.rows(a, first, rows)
        want = expected[first : first + rows] if a.shape else expected
        differing = int(got.tobytes() != want.astype(got.dtype.newbyteorder("="), copy=False).astype(got.dtype).tobytes())
        assert differing == 0, f"{a} differs in rows {first}..{first + rows}"
    return len(ranges)


def compare_file(tool: Tool, path: Path, rng: np.random.Generator | None = None) -> int:
    """Every dataset that is plain numbers to numpy."""
    found = tool.open(path)
    compared = 0
    with h5py.File(path) as f:
        names: list[str] = []
        f.visititems(lambda name, obj: names.append(name) if isinstance(obj, h5py.Dataset) else None)
        assert sorted(names) == sorted(found), path
        for name in names:
            dataset = f[name]
            if dataset.dtype.kind in "biuf" and dataset.shape is not None and found[name].storage != "opaque":
                compared += compare(tool, found[name], expected_of(dataset), rng)
    return compared


@pytest.mark.parametrize("libver", ["earliest", "v108", "v110"])
@pytest.mark.parametrize("filters", FILTERS)
def test_chunks_of_any_shape_equal_h5py(tool: Tool, tmp_path: Path, filters: str, libver: str) -> None:
    rng = np.random.default_rng(6)
    path = tmp_path / "a.h5"
    count = 0
    with h5py.File(path, "w", libver=libver) as f:
        for (shape, chunks), dtype in itertools.product(SHAPES, DTYPES):
            unlimited = tuple(None if rng.integers(2) else max(s, c) for s, c in zip(shape, chunks, strict=True))
            name = f"d{count % 3}/{dtype.strip('<>')}-{'big' if dtype[0] == '>' else 'little'}-{count}"
            d = f.create_dataset(name, shape, dtype, chunks=chunks, maxshape=unlimited, fillvalue=1 if count % 5 == 0 else None,
                                 **FILTERS[filters])
            if count % 7:  # some have only part of their chunks
                d[...] = values(rng, shape, dtype)
            else:
                d[: shape[0] // 2] = values(rng, (shape[0] // 2, *shape[1:]), dtype)
            count += 1
    assert compare_file(tool, path, rng) >= count


@pytest.mark.parametrize("libver", ["earliest", "v110"])
@pytest.mark.parametrize("userblock", [0, 512, 4096])
def test_contiguous_compact_and_unwritten_equal_h5py(tool: Tool, tmp_path: Path, libver: str, userblock: int) -> None:
    rng = np.random.default_rng(7)
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver, userblock_size=userblock) as f:
        for i, dtype in enumerate(DTYPES):
            for shape in [(), (0,), (1,), (9,), (9, 4), (3, 0, 2), (3, 2, 2)]:
                name = f"{i}-{'x'.join(map(str, shape))}"
                f.create_dataset("contiguous" + name, data=values(rng, shape, dtype), dtype=dtype)
                f.create_dataset("unwritten" + name, shape, dtype, fillvalue=1 if i % 2 else None)
                plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                plist.set_layout(h5py.h5d.COMPACT)
                space = h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
                made = h5py.h5d.create(f.id, f"compact{name}".encode(), h5py.h5t.py_create(np.dtype(dtype), logical=True), space, plist)
                h5py.Dataset(made)[...] = values(rng, shape, dtype)
                if shape:
                    halves = tuple(max(1, s // 2) for s in shape)
                    d = f.create_dataset("chunked" + name, shape, dtype, chunks=halves, maxshape=(None,) * len(shape))
                    d[...] = values(rng, shape, dtype)
    compared = compare_file(tool, path, rng) if len(DTYPES) * 27 <= 256 else 0
    if not compared:  # more arrays than a description holds: one file for each dtype
        for i in range(len(DTYPES)):
            part = tmp_path / f"{i}.h5"
            with h5py.File(path) as f, h5py.File(part, "w", libver=libver, userblock_size=userblock) as g:
                for name in f:
                    if name.lstrip("abcdehiknoprtuwg").split("-")[0] == str(i):
                        f.copy(name, g)
            compared += compare_file(tool, part, rng)
    assert compared > len(DTYPES) * 27


@pytest.mark.parametrize("when", ["NEVER", "ALLOC", "IFSET"])
def test_what_was_never_written_has_the_fill_value_only_where_h5py_has_it(tool: Tool, tmp_path: Path, when: str) -> None:
    """Data sets may be told never to be filled: then h5py shows zeros, whatever their fill value."""
    rng = np.random.default_rng(9)
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        layouts = ["contiguous", "chunked", "gzip", "compact", "scaleoffset"]
        for dtype, layout, part in itertools.product(["<i4", ">i2", "<f8"], layouts, [0, 3]):
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_fill_value(np.array(77, dtype))
            plist.set_fill_time(getattr(h5py.h5d, f"FILL_TIME_{when}"))
            if layout in ("contiguous", "compact"):
                plist.set_layout(getattr(h5py.h5d, layout.upper()))
            else:
                plist.set_chunk((4, 3))
            if layout == "gzip":
                plist.set_deflate(4)
            if layout == "scaleoffset" and dtype != "<f8":
                plist.set_scaleoffset(h5py.h5z.SO_INT, 0)
            kind = h5py.h5t.py_create(np.dtype(dtype))
            made = h5py.h5d.create(f.id, f"{layout} {dtype[1:]} {part}".encode(), kind, h5py.h5s.create_simple((11, 5)), plist)
            if part:
                h5py.Dataset(made)[:part] = rng.integers(1, 9, (part, 5))
    found = tool.open(path)
    with h5py.File(path) as f:
        for name in f:
            compare(tool, found[name], expected_of(f[name]), rng)


@pytest.mark.parametrize("codec", ["LZ4", "Zstd"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_lz4_and_zstd_of_hdf5plugin_equal_h5py(tool: Tool, tmp_path: Path, codec: str, shuffle: bool) -> None:
    hdf5plugin = pytest.importorskip("hdf5plugin")
    rng = np.random.default_rng(8)
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        for i, ((shape, chunks), dtype) in enumerate(itertools.product(SHAPES[::2], ["u1", "<i2", ">f4", "<f8"])):
            f.create_dataset(str(i), data=values(rng, shape, dtype), chunks=chunks, maxshape=(None,) * len(shape), shuffle=shuffle,
                             **getattr(hdf5plugin, codec)())
        f.create_dataset("small blocks", data=np.arange(5000, dtype="i4").reshape(100, 50), chunks=(60, 50),
                         **(hdf5plugin.LZ4(nbytes=1000) if codec == "LZ4" else hdf5plugin.Zstd(clevel=19)))
        f.create_dataset("noise", data=rng.integers(0, 256, (100, 50), dtype="u1"), chunks=(60, 50), **getattr(hdf5plugin, codec)())
    assert compare_file(tool, path, rng) > 20


def test_chunks_that_skip_filters_equal_h5py(tool: Tool, tmp_path: Path) -> None:
    """Chunks written one by one: a mask says which filters were not applied."""
    path = tmp_path / "a.h5"
    expected = np.arange(64, dtype="<i4").reshape(8, 8)
    with h5py.File(path, "w") as f:
        d = f.create_dataset("x", (8, 8), "<i4", chunks=(2, 8), shuffle=True, compression="gzip")
        d[...] = expected
        d.id.write_direct_chunk((2, 0), expected[2:4].tobytes(), filter_mask=3)
        shuffled = expected[4:6].ravel().view("u1").reshape(16, 4).T.tobytes()
        d.id.write_direct_chunk((4, 0), shuffled, filter_mask=2)
    assert compare(tool, tool.open(path)["x"], expected, np.random.default_rng(0)) == 5


@pytest.mark.parametrize("filters", [{}, {"shuffle": True, "compression": "gzip"}])
@pytest.mark.parametrize("beyond", [1 << 2, 1 << 7, 1 << 8, 0xFFFFFFFC])
def test_a_mask_may_skip_filters_that_are_not_there(tool: Tool, tmp_path: Path, beyond: int, filters: dict[str, object]) -> None:
    """All bits is how "none of the filters" is often written."""
    path = tmp_path / "a.h5"
    expected = np.arange(64, dtype="<i4").reshape(8, 8)
    with h5py.File(path, "w") as f:
        d = f.create_dataset("x", data=expected, chunks=(2, 8), **filters)
        d.id.write_direct_chunk((2, 0), expected[4:6].tobytes(), filter_mask=beyond | 3)
    with h5py.File(path) as f:
        expected = expected_of(f["x"])
    assert (expected[2:4] == expected[4:6]).all()
    assert compare(tool, tool.open(path)["x"], expected, np.random.default_rng(0)) == 5


def test_array_types_become_dimensions(tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    rng = np.random.default_rng(9)
    expected = rng.normal(size=(20, 3, 2)).astype(">f4")
    with h5py.File(path, "w") as f:
        for name, options in {"contiguous": {}, "chunked": {"chunks": (6,), "compression": "gzip", "shuffle": True}}.items():
            d = f.create_dataset(name, (20,), np.dtype((">f4", (3, 2))), **options)
            d[...] = expected
    found = tool.open(path)
    assert found["chunked"].chunk_shape == (6, 3, 2)
    for name in found:
        assert compare(tool, found[name], expected, rng) == 5


def test_bfloat16_and_enumerations_are_seen(tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    bits = np.arange(0x3F80, 0x3FA0, dtype="<u2")
    with h5py.File(path, "w") as f:
        t = h5py.h5t.IEEE_F32LE.copy()
        t.set_fields(15, 7, 8, 0, 7)
        t.set_size(2)
        t.set_ebias(127)
        made = h5py.h5d.create(f.id, b"brain", t, h5py.h5s.create_simple(bits.shape))
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, bits, mtype=t)
        f.create_dataset("enum", data=np.array([0, 2, 1], "<i2"), dtype=h5py.enum_dtype({"a": 0, "b": 1, "c": 2}, basetype="<i2"))
    found = tool.open(path)
    assert found["brain"].dtype == "bfloat16" and (tool.rows(found["brain"]) == bits).all()
    assert found["enum"].dtype == "int16" and tool.rows(found["enum"]).tolist() == [0, 2, 1]


def test_pytables_files_equal_h5py(tool: Tool, tmp_path: Path) -> None:
    tables = pytest.importorskip("tables")
    path = tmp_path / "a.h5"
    rng = np.random.default_rng(10)
    with tables.open_file(str(path), "w") as f:
        f.create_array("/", "plain", rng.normal(size=(30, 4)))
        f.create_carray("/", "deflated", obj=rng.integers(0, 9, (100, 8)), filters=tables.Filters(5, "zlib", shuffle=True, fletcher32=True),
                        chunkshape=(7, 8), createparents=True)
        grown = f.create_earray("/group", "grown", tables.Float32Atom(), (0, 6), createparents=True)
        for _ in range(5):
            grown.append(rng.normal(size=(11, 6)).astype("f4"))
        f.create_table("/", "table", np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "<i4"), ("b", "<f8")]))
    assert compare_file(tool, path, rng) >= 15
    table = tool.open(path)["table"]
    assert table.storage == "opaque" and table.why == "compounds of 12 bytes, as bytes"
    got = np.frombuffer(tool.rows(table).tobytes(), [("a", "<i4"), ("b", "<f8")])
    assert got.tolist() == [(1, 2.5), (3, 4.5)]


def test_files_as_matlab_writes_them(tool: Tool, tmp_path: Path) -> None:
    """A 512-byte user block, old groups, gzip chunks, "#refs#" for the insides of cells."""
    path = tmp_path / "a.mat"
    rng = np.random.default_rng(11)
    expected = rng.normal(size=(50, 20))
    with h5py.File(path, "w", userblock_size=512, libver="earliest") as f:
        f.create_dataset("X", data=expected, chunks=(10, 20), compression="gzip", compression_opts=3)
        f.create_dataset("y", data=rng.integers(0, 9, (1, 50)).astype("f8"))
        f.create_dataset("#refs#/a", data=np.zeros(3))
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + bytes([0, 2]) + b"IM")
    found = tool.open(path)
    assert sorted(found) == ["X", "y"]
    assert compare(tool, found["X"], expected, rng) == 5


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data folder is absent")
@pytest.mark.parametrize("path", sorted(DATA.glob("*")) if DATA.is_dir() else [], ids=lambda p: p.name)
def test_other_peoples_files_equal_h5py(tool: Tool, path: Path) -> None:
    compare_file(tool, path, np.random.default_rng(12))


def test_opaque_arrays_are_read_by_the_helper(tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    rng = np.random.default_rng(13)
    compound = np.zeros(40, dtype=[("a", "<i4"), ("b", "<f8"), ("c", "S5")])
    compound["a"], compound["b"], compound["c"] = np.arange(40), rng.normal(size=40), b"word"
    wide = rng.integers(0, 1 << 11, (30, 3)).astype("<i4")
    with h5py.File(path, "w") as f:
        f.create_dataset("compound", data=compound, chunks=(7,), compression="gzip")
        f.create_dataset("strings", data=np.array([b"one", b"three"], "S5"))
        f.create_dataset("complex", data=np.array([1 + 2j, 3 - 4j]))
        f.create_dataset("scaled", data=wide, chunks=(10, 3), scaleoffset=0)
        ragged = f.create_dataset("ragged", (3,), h5py.vlen_dtype(np.dtype(">i4")))
        ragged[0], ragged[2] = [1, 2, 3], [4]
        f.create_dataset("words", data=["a", "bc"], dtype=h5py.string_dtype())
        f.create_dataset("long double", data=np.array([-5.25, 0, 7, 2000], np.longdouble))
    found = tool.open(path)
    assert {a.storage for a in found.values()} == {"opaque"}
    assert tool.rows(found["compound"], 5, 9).tobytes() == compound[5:14].tobytes()
    assert tool.rows(found["strings"]).tobytes() == b"one\0\0three"
    assert tool.rows(found["complex"]).tobytes() == np.array([1 + 2j, 3 - 4j]).tobytes()
    assert "scaleoffset" in found["scaled"].why and (tool.rows(found["scaled"], 3, 20) == wide[3:23]).all()
    assert tool.rows(found["ragged"]).tolist() == [[1, 2, 3], [0, 0, 0], [4, 0, 0]] and "padded" in found["ragged"].why
    assert tool.rows(found["long double"]).tolist() == [-5.25, 0, 7, 2000] and found["long double"].dtype == "float64"
    with pytest.raises(Refused, match="variable-length strings: they have no numeric form") as e:
        tool.rows(found["words"])
    assert e.value.code == FB_E_UNSUPPORTED


def test_links_to_the_same_file_are_followed(tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f["group/x"] = np.arange(3)
        f["soft"] = h5py.SoftLink("/group/x")
        f["hard"] = f["group/x"]
        f["group/cycle"] = f["/"]
        f["dangling"] = h5py.SoftLink("/nowhere")
        f["loop"] = h5py.SoftLink("/loop")
    found = tool.open(path)
    assert sorted(found) == ["group/x", "hard", "soft"]
    assert all(tool.rows(a).tolist() == [0, 1, 2] for a in found.values())


def test_many_datasets_give_the_ones_near_the_root(tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        for i in range(300):
            f[f"deep/{i:03d}"] = i
        f["zz"] = np.arange(3)
    found = tool.open(path)
    assert len(found) == 256 and "zz" in found


def test_records_of_even_chunk_tables_are_small(tool: Tool, tmp_path: Path) -> None:
    """One row per chunk, as slide features have it: bytes per chunk, not per table."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        d = f.create_dataset("features", (0, 64), "f4", chunks=(1, 64), maxshape=(None, 64))
        for _ in range(20):
            d.resize(len(d) + 100, 0)
            d[-100:] = 1
    assert tool.open(path)["features"].chunks == 2000
    assert tool.record_bytes < 2000
