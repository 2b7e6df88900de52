"""The report page: one file, offline, drawn, readable; opened in Chromium when there is one."""

import html
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = os.environ.get("FULLBORE_COMMAND", str(Path(__file__).resolve().parents[3] / ".venv/bin/fullbore"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    script = folder / "<b>x&'.py"
    script.write_text("import time\nt = time.time()\nwhile time.time() - t < 4:\n    sum(range(20000)); time.sleep(0.01)\n")
    command = [COMMAND, "watch", "--quiet", "-o", str(folder / "run.fbr"), "--", sys.executable, str(script)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return folder / "run.fbr"


def report(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, "report", *arguments], capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def page(recording: Path) -> Path:
    path = recording.parent / "report.html"
    done = report(str(recording), "-o", str(path))
    assert done.returncode == 0, done.stderr
    return path


def test_without_a_page_the_verdict_is_printed(recording: Path) -> None:
    done = report(str(recording))
    assert done.returncode == 0 and "compute-bound" in done.stdout


def test_the_page_is_small_and_asks_for_nothing(page: Path) -> None:
    text = page.read_text()
    assert len(text) < 1_000_000
    assert not re.search(r"https?://|src=|@import|url\(", text)
    assert "default-src 'none'" in text


def test_names_are_escaped(page: Path) -> None:
    text = page.read_text()
    assert "<b>x" not in text and "&lt;b&gt;x&amp;&#39;.py" in text


def test_charts_have_a_path_for_every_layer(page: Path) -> None:
    text = page.read_text()
    for name in ("consumer", "reading", "cpu", "memory"):
        figure = re.search(rf'<figure class="chart" id="{name}".*?</figure>', text, re.S)
        assert figure and re.search(r'<path class="c\d [al]" d="M[\d.]+ [\d.]+L', figure.group())


def test_the_page_says_what_the_verdict_means_and_why_before_it_shows_curves(page: Path) -> None:
    text = page.read_text()
    assert '<p class="say">The model sets the pace' in text
    shares = [float(x) for x in re.findall(r'<i class="c\d" style="flex-grow:([\d.]+)">', text)]
    assert len(shares) == 5 and abs(sum(shares) - 1) < 0.05
    assert text.index("What if") < text.index("Evidence") < text.index("Timelines")


def test_two_runs_are_compared(recording: Path, tmp_path: Path) -> None:
    done = report(str(recording), str(recording))
    assert "starved, p50" in done.stdout
    both = tmp_path / "both.html"
    assert report(str(recording), str(recording), "-o", str(both)).returncode == 0
    text = both.read_text()
    assert "Side by side" in text and "<b>A</b>" in text and "<b>B</b>" in text
    assert not re.search(r'<td class="n hide (good|bad)">', text)  # a run is neither better nor worse than itself


def test_a_cut_recording_is_used_and_said(recording: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.fbr"
    cut.write_bytes(recording.read_bytes()[:-700])
    done = report(str(cut))
    assert done.returncode == 4 and "cut" in done.stderr and done.stdout


def test_a_newer_recording_is_refused(recording: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer.fbr"
    data = bytearray(recording.read_bytes())
    data[4:8] = struct.pack("<I", 99)
    newer.write_bytes(data)
    done = report(str(newer))
    assert done.returncode == 1 and "version 99" in done.stderr


@pytest.mark.parametrize("content", [b"", b"hello", b"FBR1", bytes(100)])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(content)
    assert report(str(other)).returncode == 3


PROBE = """<script>addEventListener('load', () => setTimeout(() => {
const charts = [...document.querySelectorAll('figure.chart svg')];
const all = q => [...document.querySelectorAll(q)];
const drawn = charts.filter(s => [...s.querySelectorAll('path.a,path.l')].some(p => p.getBBox().width > 500)).length;
const wide = all('body *').filter(e => !e.closest('svg') && e.getBoundingClientRect().right > innerWidth + 1).length;
const small = all('p,li,td,span,b,div').filter(e => e.textContent.trim() && parseFloat(getComputedStyle(e).fontSize) < 12).length;
parent.postMessage({charts: charts.length, drawn, wide, small, scroll: document.documentElement.scrollWidth, inner: innerWidth}, '*');
}, 300));</script>"""


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [1280, 400])
def test_chromium_draws_it_without_complaint(page: Path, tmp_path: Path, width: int) -> None:
    inner = tmp_path / "inner.html"
    inner.write_text(page.read_text().replace("</body>", PROBE + "</body>"))
    outer = tmp_path / "outer.html"
    outer.write_text(f"<iframe src='inner.html' style='width:{width}px;height:900px;border:0'></iframe><pre id=out></pre>"
                     "<script>onmessage = e => out.textContent = JSON.stringify(e.data)</script>")
    done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom",
                           "--enable-logging=stderr", "--virtual-time-budget=4000", "--window-size=1400,1000",
                           f"--user-data-dir={tmp_path / 'profile'}", outer.as_uri()], capture_output=True, text=True, timeout=120)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert console == []
    found = re.search(r'<pre id="out">(.*?)</pre>', done.stdout)
    assert found and found.group(1), done.stdout[-500:]
    import json
    seen = json.loads(html.unescape(found.group(1)))
    assert seen["charts"] >= 4 and seen["drawn"] == seen["charts"], seen
    assert seen["wide"] == 0 and seen["scroll"] <= seen["inner"] and seen["small"] == 0, seen
