"""Several files are one sample: the slides of a patient, by a column of a manifest. h5py and numpy say what is in them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from array_files import make_bags, open_arrays, write_h5
from trust import audit, audited

LAYOUTS: dict[str, dict[str, Any]] = {"contiguous": {}, "row chunks": {"chunks": (1, 1)}, "gzip": {"compression": "gzip"}}
PATIENTS = {f"slide_{i:02}.h5": f"P-{(i * 7) % 5}" for i in range(12)}  # neighbours belong to different ones


def write_manifest(folder: Path, rows: list[str], header: str = "path,patient,label", name: str = "slides.csv") -> Path:
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def label_of(patient: str) -> int:
    return int(patient[2:]) % 2


def joined(bags: dict[str, Any], field: str) -> dict[str, np.ndarray[Any, Any]]:
    """What each patient's bag must hold."""
    return {patient: np.concatenate([bags[key][field] for key in bags if PATIENTS[key] == patient]) for patient in set(PATIENTS.values())}


@pytest.fixture(params=list(LAYOUTS))
def slides(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    bags = make_bags(tmp_path / "slides", **LAYOUTS[request.param])
    manifest = write_manifest(tmp_path, [f"slides/{key},{PATIENTS[key]},{label_of(PATIENTS[key])}" for key in bags])
    for path in tmp_path.rglob("*.*"):
        os.utime(path, (1e9, 1e9))
    return manifest, bags


def of(manifest: Path, **arguments: Any) -> fb.Loader:
    return open_arrays(manifest, **{"group_by": "patient", "fields": ("features", "coords", "label"), "batch_size": 2, "shuffle": True,
                                    **arguments})


# ---- what comes


@pytest.mark.parametrize("collate", [fb.Pad(), fb.Ragged()])
@pytest.mark.parametrize("io", ["auto", "pread", "uring", "slow:latency_us=2000"])
def test_a_sample_is_all_files_of_its_patient(
    slides: tuple[Path, dict[str, Any]], collate: Any, io: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, bags = slides
    monkeypatch.setenv("FULLBORE_IO", io)
    features_of, coords_of = joined(bags, "features"), joined(bags, "coords")
    with of(manifest, collate=collate) as loader:
        for _ in range(2):
            seen = []
            for batch in loader:
                features, coords, labels = batch
                for i, key in enumerate(batch.sample_keys):
                    seen.append(key)
                    assert labels[i] == label_of(key)
                    n = len(features_of[key])
                    mine = features[i] if isinstance(features, fb.RaggedRows) else features.values[i, :n]
                    own = coords[i] if isinstance(coords, fb.RaggedRows) else coords.values[i, :n]
                    np.testing.assert_array_equal(mine, features_of[key])
                    np.testing.assert_array_equal(own, coords_of[key])
            assert sorted(seen) == sorted(set(PATIENTS.values()))


def test_padding_and_lengths_are_those_of_the_patient(slides: tuple[Path, dict[str, Any]]) -> None:
    manifest, bags = slides
    want = joined(bags, "features")
    with of(manifest, collate=fb.Pad()) as loader:
        for _ in range(2):
            for batch in loader:
                features = batch[0]
                assert features.lengths.tolist() == [len(want[key]) for key in batch.sample_keys]
                assert not features.values[~features.mask].any()


def test_instances_are_drawn_from_all_files_together(slides: tuple[Path, dict[str, Any]]) -> None:
    manifest, bags = slides
    features_of, coords_of = joined(bags, "features"), joined(bags, "coords")
    files_met = set()
    with of(manifest, transforms=[fb.SampleInstances(7)]) as loader:
        for _ in range(6):
            for batch in loader:
                features, coords, _ = batch
                for i, key in enumerate(batch.sample_keys):
                    rows = [int(np.flatnonzero((features_of[key] == row).all(axis=1))[0]) for row in features[i]]
                    assert rows == sorted(set(rows)) or len(features_of[key]) < 7
                    np.testing.assert_array_equal(coords[i], coords_of[key][rows])
                    ends = np.cumsum([len(bags[k]["features"]) for k in bags if PATIENTS[k] == key])
                    files_met |= {(key, int(np.searchsorted(ends, row, side="right"))) for row in rows}
    assert len(files_met) == len(PATIENTS), "every slide gives some"


def test_a_field_of_one_shape_comes_from_the_first_file(slides: tuple[Path, dict[str, Any]]) -> None:
    manifest, bags = slides
    first = {PATIENTS[key]: bags[key]["slide"] for key in sorted(bags, reverse=True)}
    with of(manifest, collate=fb.Pad(), fields=("features", "slide")) as loader:
        for batch in loader:
            for i, key in enumerate(batch.sample_keys):
                np.testing.assert_array_equal(batch[1][i], first[key])


def test_casts_go_into_the_right_rows(slides: tuple[Path, dict[str, Any]]) -> None:
    manifest, bags = slides
    want = joined(bags, "features")
    with of(manifest, collate=fb.Pad(), dtype="float16", transforms=[fb.Normalize([0.5], [0.25])], fields=("features",)) as loader:
        for batch in loader:
            for i, key in enumerate(batch.sample_keys):
                expected = ((want[key] - np.float32(0.5)) / np.float32(0.25)).astype(np.float16)
                np.testing.assert_allclose(batch[0].values[i, : len(expected)], expected, atol=2e-3)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads_gives_the_same(slides: tuple[Path, dict[str, Any]], threads: int) -> None:
    manifest, _ = slides
    with of(manifest, collate=fb.Ragged(), threads=2) as loader:
        want = [(batch.sample_keys, np.array(batch[0].values)) for batch in loader]
    with of(manifest, collate=fb.Ragged(), threads=threads) as loader:
        for (keys, values), batch in zip(want, loader, strict=True):
            assert list(batch.sample_keys) == list(keys)
            np.testing.assert_array_equal(batch[0].values, values)


def test_npz_files_and_numbers_as_names(tmp_path: Path) -> None:
    for i in range(6):
        np.savez(tmp_path / f"{i}.npz", features=np.full((i + 1, 2), i, "f4"))
    rows = [f'{{"path": "{i}.npz", "patient": {i // 3}}}' for i in range(6)]
    (tmp_path / "slides.jsonl").write_text("\n".join(rows) + "\n")
    with open_arrays(tmp_path / "slides.jsonl", group_by="patient", collate=fb.Ragged(), batch_size=2) as loader:
        (batch,) = list(loader)
    assert list(batch.sample_keys) == ["0", "1"] and batch[0].offsets.tolist() == [0, 6, 21]
    assert batch[0].values[:, 0].tolist() == [0] + [1] * 2 + [2] * 3 + [3] * 4 + [4] * 5 + [5] * 6


def test_labels_of_a_table_are_those_of_the_patients(slides: tuple[Path, dict[str, Any]]) -> None:
    manifest, _ = slides
    table = write_manifest(manifest.parent, [f"P-{i},{i * 10}" for i in range(5)], "patient,survival", "patients.csv")
    with of(manifest, collate=fb.Pad(), labels=table, fields=("features", "survival")) as loader:
        for batch in loader:
            assert batch[1].tolist() == [int(key[2:]) * 10 for key in batch.sample_keys]


# ---- as everywhere


def test_a_run_goes_on_where_it_was_left(slides: tuple[Path, dict[str, Any]]) -> None:
    manifest, _ = slides
    with of(manifest, collate=fb.Pad()) as loader:
        whole = [np.array(batch[0].values) for batch in loader]
    with of(manifest, collate=fb.Pad()) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with of(manifest, collate=fb.Pad()) as loader:
        loader.load_state_dict(state)
        rest = [np.array(batch[0].values) for batch in loader]
    assert len(rest) == len(whole) - 1 and all(np.array_equal(a, b) for a, b in zip(rest, whole[1:], strict=True))


def test_another_grouping_is_another_data_set(slides: tuple[Path, dict[str, Any]]) -> None:
    manifest, bags = slides
    with of(manifest, collate=fb.Pad()) as loader:
        next(iter(loader))
        state, count = loader.state_dict(), loader.sample_count
    assert count == len(set(PATIENTS.values()))
    with open_arrays(manifest.parent / "slides", sample="file", collate=fb.Pad(), fields=("features",)) as loader:
        assert loader.sample_count == len(bags)
    moved = write_manifest(manifest.parent, [f"slides/{key},{'P-0' if key == 'slide_01.h5' else PATIENTS[key]},0" for key in bags])
    os.utime(moved, (1.1e9, 1.1e9))
    with of(moved, collate=fb.Pad()) as loader, pytest.raises(fb.Error, match="another data set|differ|not the one"):
        loader.load_state_dict(state)


def test_groups_are_audited_and_cached(slides: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    manifest, bags = slides
    want = joined(bags, "features")
    for _ in range(2):
        with audited(tmp_path / "log"), of(manifest, collate=fb.Pad(), cache_dir=tmp_path / "cache", cache_limit="64MiB") as loader:
            for batch in loader:
                for i, key in enumerate(batch.sample_keys):
                    np.testing.assert_array_equal(batch[0].values[i, : len(want[key])], want[key])
    code, report = audit(tmp_path / "log")
    assert code == 0 and all(epoch["verdict"] == "proved" for stream in report["streams"] for epoch in stream["epochs"])


def test_a_bad_file_is_named_and_its_patient_replaced(slides: tuple[Path, dict[str, Any]]) -> None:
    manifest, _ = slides
    bad = manifest.parent / "slides" / "slide_05.h5"
    bad.write_bytes(bad.read_bytes()[:700])
    with of(manifest, collate=fb.Pad()) as loader, pytest.raises(fb.Error, match=r"slide_05\.h5"):
        list(loader)
    with of(manifest, collate=fb.Pad(), on_error="skip") as loader:
        seen = [key for batch in loader for key in batch.sample_keys]
    assert PATIENTS["slide_05.h5"] not in seen and len(seen) == 5
    assert set(seen) <= set(PATIENTS.values())


def test_a_file_that_vanishes_is_named(slides: tuple[Path, dict[str, Any]]) -> None:
    manifest, _ = slides
    with of(manifest, collate=fb.Pad()) as loader:
        (manifest.parent / "slides" / "slide_03.h5").unlink()
        with pytest.raises(fb.Error, match=r"slide_03\.h5.*vanished|vanished.*slide_03\.h5"):
            for _ in range(3):
                list(loader)


# ---- what is refused


@pytest.mark.parametrize(("rows", "match"), [
    (["slides/slide_00.h5,P-1,0", "slides/slide_01.h5,P-1,1"], r"line 3.*the label of 'P-1' differs from the one at line 2"),
    (["slides/slide_00.h5,P-1,0", "slides/slide_00.h5,P-2,0"], r"line 3.*names the same file as line 2"),
    (["slides/slide_00.h5,P-1,0", "slides/gone.h5,P-1,0"], r"missing: slides/gone\.h5 \(line 3\)"),
    (["slides/slide_00.h5,P-1,0", "slides/slide_01.h5,,0"], r"line 3.*column 'patient'"),
])
def test_a_manifest_that_contradicts_itself(tmp_path: Path, rows: list[str], match: str) -> None:
    make_bags(tmp_path / "slides", 2)
    with pytest.raises(fb.Error, match=match):
        of(write_manifest(tmp_path, rows), collate=fb.Pad())


def test_what_cannot_be_grouped(slides: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    manifest, _ = slides
    with pytest.raises(fb.Error, match="group_by= names 'ward'") as caught:
        of(manifest, group_by="ward", collate=fb.Pad())
    assert "path, patient, label" in str(caught.value)
    with pytest.raises(fb.Error, match=r"fb\.Pad\(\)"):
        of(manifest)
    with pytest.raises(fb.Error, match="whole files"):
        of(manifest, sample="row", collate=fb.Pad())
    with pytest.raises(fb.Error, match="needs a manifest"):
        of(manifest.parent / "slides", collate=fb.Pad())
    with pytest.raises(fb.Error, match="group_by="):
        of(manifest, group_by=3, collate=fb.Pad())
    write_h5(tmp_path / "odd.h5", {"features": np.zeros((4, 9), "f4"), "coords": np.zeros((4, 2), "i4")})
    odd = write_manifest(manifest.parent, ["slides/slide_00.h5,P-1,0", "odd.h5,P-1,0"], name="odd.csv")
    with of(odd, collate=fb.Pad()) as loader, pytest.raises(fb.Error, match=r"odd\.h5"):
        list(loader)
