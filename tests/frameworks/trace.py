"""Runs an example and writes down which samples its loader yields, one line per batch and rank.

    python trace.py FILE SCRIPT ARGUMENTS...
"""

from __future__ import annotations

import json
import os
import runpy
import sys

from fullbore.batch import Batch

place, script, *arguments = sys.argv[1:]
make = Batch._of.__func__  # type: ignore[attr-defined]


def traced(kind, core, convert):  # type: ignore[no-untyped-def]
    batch = make(kind, core, convert)
    with open(f"{place}.{os.environ.get('RANK', '0')}", "a") as file:
        file.write(json.dumps([batch.state["epoch"], batch.sample_keys]) + "\n")
    return batch


Batch._of = classmethod(traced)  # type: ignore[assignment]
sys.argv = [script, *arguments]
runpy.run_path(script, run_name="__main__")
