"""What the scripts share besides their style: the options of whoever judges them, and their stopwatch."""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from stopwatch import Stopwatch


def parse(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, Stopwatch]:
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "fullbore-zoo")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()), help="checkpoints and logs go there")
    parser.add_argument("--seconds", type=float, default=7, help="of training")
    parser.add_argument("--truth", default="", metavar="FILE", help="where the time went by the script's own clock")
    parser.add_argument("--step-only", action="store_true", help="one batch again and again, nothing else: how fast the model is alone")
    args = parser.parse_args()
    return args, Stopwatch(args.seconds)


def again_and_again(loader):
    """Its first batch, for ever."""
    batch = next(iter(loader))
    while True:
        yield batch
