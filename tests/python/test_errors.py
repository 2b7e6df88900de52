"""Errors carry what happened, across processes too."""

from __future__ import annotations

import pickle

import fullbore as fb
import pytest
from fullbore import errors


@pytest.mark.parametrize("kind", [fb.Error, fb.SampleError, fb.BudgetError, errors.UsageError, errors.NotFoundError, errors.NoMemoryError])
def test_an_error_survives_pickling(kind: type[fb.Error]) -> None:
    error = kind("it broke", stage="decode", path="a/b.jpg", offset=17, sample=3, sys_errno=5, remedy="mend it")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind and str(copy) == str(error) == "decode: a/b.jpg at byte 17: it broke; mend it"
    assert (copy.cause, copy.stage, copy.path, copy.offset, copy.sample, copy.sys_errno, copy.remedy) == (
        "it broke", "decode", "a/b.jpg", 17, 3, 5, "mend it")


def test_errors_are_also_what_python_programs_expect() -> None:
    assert issubclass(errors.UsageError, ValueError)
    assert issubclass(errors.NotFoundError, FileNotFoundError)
    assert issubclass(errors.NoMemoryError, MemoryError)
    assert all(issubclass(kind, fb.Error) for kind in (fb.SampleError, fb.BudgetError, errors.UsageError, errors.NotFoundError))


def test_a_missing_folder_is_a_file_not_found_error_with_its_name(tmp_path: object) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere") as caught:
        fb.Loader(f"{tmp_path}/nowhere")
    assert isinstance(caught.value, fb.Error)
    assert caught.value.errno == 2


@pytest.mark.parametrize(("code", "sample", "stage", "kind"), [
    (-3, 7, "decode", fb.SampleError),
    (-3, -1, "decode", fb.SampleError),
    (-2, 7, "read", fb.SampleError),
    (-5, 7, "read", fb.SampleError),
    (-6, 7, "decode", fb.SampleError),
    (-6, -1, "feed", fb.BudgetError),
    (-4, -1, "order", errors.UsageError),
    (-5, -1, "order", errors.UsageError),
    (-5, -1, "dataset", errors.NotFoundError),
    (-1, -1, "feed", errors.NoMemoryError),
    (-8, -1, "feed", fb.Error),
])
def test_the_engines_codes_become_the_fitting_class(code: int, sample: int, stage: str, kind: type[fb.Error]) -> None:
    assert type(errors.from_record(code, 0, sample, -1, stage, "x", "cause", "")) is kind
