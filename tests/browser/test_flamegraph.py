"""Flamegraphs in a real browser: drawn, zoomed, searched and moved through by keyboard."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from profiler import open_run
from profiler.analyzers.flames import Flames, Frame, compared, flames_of
from profiler.reports.flamegraph import to_flamegraph_html
from tests.browser import chromium
from tests.strategies import ROOT

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium.executable() is None, reason="chromium is not installed"),
]
HOSTILE = '</script><img src=x onerror=alert(1)>"'


@pytest.fixture(scope="module")
def pair() -> Flames:
    """The simulated pair's device time, compared."""
    runs = ROOT / "examples/runs/simulated-gpu"
    one, two = flames_of(open_run(runs / "run-A"), "gpu"), flames_of(open_run(runs / "run-B"), "gpu")
    assert one is not None
    assert two is not None
    return compared(one, two, (1.0, 1.0))


def show(page: chromium.Page, flames: Flames, folder: Path, names: tuple[str, ...] = ("run-A", "run-B")) -> None:
    path = folder / "flames.html"
    path.write_text(to_flamegraph_html(flames, names, ""), encoding="utf-8")
    page.size(1280)
    page.open(path)


def test_it_is_drawn(page: chromium.Page, pair: Flames, tmp_path: Path, shots: Path) -> None:
    for scheme in ("light", "dark"):
        page.scheme(scheme)
        show(page, pair, tmp_path)
        assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
        assert page.complaints == []
        assert int(page.evaluate("document.getElementById('flame').dataset.ready")) > 50
        page.screenshot(shots / f"flamegraph-{scheme}.png")
    colours = page.evaluate(
        "(() => { const c = document.getElementById('flame'); const d = c.getContext('2d').getImageData(0, 0, c.width, "
        "Math.min(c.height, 90)).data; const s = new Set(); for (let i = 0; i < d.length; i += 4) s.add(d[i] + ',' + "
        "d[i + 1] + ',' + d[i + 2]); return s.size; })()"
    )
    assert colours > 3


def test_zoom_and_search_by_keyboard(page: chromium.Page, pair: Flames, tmp_path: Path) -> None:
    show(page, pair, tmp_path)
    page.evaluate("document.getElementById('flame').focus()")
    page.press("ArrowDown", 40)
    first = page.evaluate("document.getElementById('flame-at').textContent")
    assert first.startswith("gpu")
    page.press("ArrowDown", 40)
    page.press("Enter", 13)
    assert page.evaluate("document.getElementById('flame').dataset.zoomed") != "0"
    page.press("Escape", 27)
    assert page.evaluate("document.getElementById('flame').dataset.zoomed") == "0"
    page.evaluate(
        "(() => { const s = document.getElementById('flame-search'); s.value = 'attention'; "
        "s.dispatchEvent(new Event('input')); })()"
    )
    assert "boxes" in page.evaluate("document.getElementById('flame-found').textContent")


@pytest.mark.parametrize("width", [360, 2560])
def test_it_is_never_wider_than_the_window(width: int, page: chromium.Page, pair: Flames, tmp_path: Path) -> None:
    show(page, pair, tmp_path)
    page.size(width)
    page.settle()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_frames_are_text(page: chromium.Page, tmp_path: Path) -> None:
    root = Frame("all", 2.0, 1.0)
    root.children[HOSTILE] = Frame(HOSTILE, 2.0, 1.0)
    show(page, Flames(root, "seconds", "stacks", HOSTILE), tmp_path, (HOSTILE, "b"))
    assert page.dialogs == []
    assert page.complaints == []
    assert page.evaluate("document.querySelectorAll('main img').length") == 0


def test_a_hundred_thousand_boxes(page: chromium.Page, tmp_path: Path) -> None:
    """The size is bounded; the time to be ready is printed by the benchmark, not asserted here."""
    rng = random.Random(7)
    root = Frame("all")
    for _ in range(400):
        frame, root.value = root, root.value + 1.0
        for depth in range(250):
            frame = frame.child(f"function_{rng.randrange(900)} (module_{depth % 40}.py:{rng.randrange(400)})")
            frame.value += 1.0
    flames = Flames(root, "samples", "stacks", "host stacks")
    path = tmp_path / "flames.html"
    text = to_flamegraph_html(flames, ("r",), "")
    path.write_text(text, encoding="utf-8")
    page.open(path)
    assert page.complaints == []
    boxes = int(page.evaluate("document.getElementById('flame').dataset.ready"))
    assert boxes > 90_000
    assert len(text) < 9_000_000
