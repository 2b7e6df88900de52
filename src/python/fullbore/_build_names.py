"""What the datasets of a build are called. The rule for labels is that of ``fullbore build`` (src/jobs/build/build_labels.c)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .errors import UsageError

OURS = ("keys", "segment", "split", "classes")


def check_fields(fields: Iterable[str]) -> None:
    """Results stand under the names that the function gave them, or not at all."""
    for name in fields:
        if name in OURS:
            raise UsageError(f"fn returned a field called {name!r}, and the file has a dataset of its own under that name", stage="build",
                             remedy="give it another name")
        _check(name, "fn returned a field")


def label_names(columns: Collection[str], main: str | None, fields: Collection[str]) -> dict[str, str]:
    """The dataset of each label: ``labels`` for the ``main`` one, their own names for others; ``label_`` before one that is taken. Who can
    keep its name is asked first, so that nobody gets another one's.

    >>> label_names(["kind", "age", "split"], "kind", ["features"])
    {'kind': 'labels', 'age': 'age', 'split': 'label_split'}
    >>> label_names(["segment", "label_segment", "labels"], None, ["labels"])
    {'segment': 'label_label_segment', 'label_segment': 'label_segment', 'labels': 'label_labels'}
    """
    taken, found = {*fields, *OURS}, dict[str, str]()
    for column in sorted(columns, key=lambda name: (name != main, name in taken or name == "labels")):
        name = "labels" if column == main else column
        while name in taken:
            name = f"label_{name}"
        _check(name, "there is a label")
        taken.add(name)
        found[column] = name
    return {column: found[column] for column in columns}


def _check(name: str, what: str) -> None:
    if not name or "/" in name or name == ".":
        raise UsageError(f"{what} called {name!r}, which is not a name that a dataset can have", stage="build",
                         remedy="give it another name, without a slash")
