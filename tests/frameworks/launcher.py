"""Imports a framework once and runs examples in forks of itself: the import takes longer than the example.

    python launcher.py PACKAGE...

Each line of standard input is a JSON object with the arguments of trace.py, the folder to run in, variables and two files for what is
printed; the answer is a line with the exit code, negative for a signal. A fork leaves through the end of the interpreter as a process of
its own does.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import sys
from pathlib import Path

TRACE = Path(__file__).parent / "trace.py"
LONG_ENOUGH_S = 240

for package in sys.argv[1:]:
    importlib.import_module(package)

for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()

signal.alarm(LONG_ENOUGH_S)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
for stream in (1, 2):
    os.dup2(os.open(job["printed"][stream - 1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
os.chdir(job["folder"])
os.environ.update(job["env"])
sys.argv = [str(TRACE), *job["arguments"]]
runpy.run_path(str(TRACE), run_name="__main__")
