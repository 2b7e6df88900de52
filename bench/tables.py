"""Puts measured figures between the marks of a page: those that say most into README.md, all of them into docs/bench.md."""

import argparse
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- measured -->\n", "<!-- /measured -->"
HEADLINES = ("img/s against", "resident memory", "busy", "first batch", "cold")


def conditions(machine: dict, options: argparse.Namespace, batch: int) -> str:
    kernel = ".".join(machine["kernel"].split(".")[:2])
    return (f"{machine['cores']} cores of an {machine['cpu']}, Linux {kernel}; {options.photos:,} photographs of 466 x 401 pixels and "
            f"100 KB on average, RandomResizedCrop(224) + flip, batch {batch}, {options.threads} threads, page cache warm unless said; "
            f"medians of {options.rounds} rounds in which the sides took turns. *First epoch*: nothing is known of the files, and the run "
            "begins with it; *known files*: an earlier epoch has left checkpoints. The bare C loop does only the unavoidable work.")


def put(page: Path, rows: list[tuple[str, ...]], intro: str) -> None:
    before, rest = page.read_text().split(BEGIN)
    after = rest.split(END)[1]
    lines = [*textwrap.wrap(intro, 140), "", "| what | fullbore | other side | ratio |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(row[:4]) + " |" for row in rows]
    page.write_text(before + BEGIN + "\n".join(lines) + "\n" + END + after)


def put_into_pages(rows: list[tuple[str, ...]], intro: str) -> None:
    put(ROOT / "README.md", [row for row in rows if any(part in row[0] for part in HEADLINES)], intro)
    put(ROOT / "docs/bench.md", rows, intro)
