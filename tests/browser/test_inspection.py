"""The page of one run in a real browser: no request, no complaint, never wider than the window, in both schemes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from profiler import open_run
from profiler.analyzers.inspection import inspect
from profiler.model.inspection import InspectedOperator, Inspection
from profiler.reports.inspection_html import to_inspection_html
from tests.browser import chromium
from tests.strategies import ROOT

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium.executable() is None, reason="chromium is not installed"),
]
HOSTILE = '"><img src=x onerror=alert(1)></script><script>alert(2)</script>'


@pytest.fixture(scope="module")
def inspection() -> Inspection:
    """A run of the simulated pair."""
    return inspect(open_run(ROOT / "examples/runs/simulated-gpu/run-A"))


def show(page: chromium.Page, document: Inspection, folder: Path) -> None:
    """Write the page and open it."""
    path = folder / "run.html"
    path.write_text(to_inspection_html(document), encoding="utf-8")
    page.open(path)


def test_it_shows_every_section(page: chromium.Page, inspection: Inspection, tmp_path: Path, shots: Path) -> None:
    show(page, inspection, tmp_path)
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
    assert page.complaints == []
    titles = page.evaluate("[...document.querySelectorAll('main h2')].map((h) => h.textContent).join('|')").split("|")
    sections = {figure.section for figure in inspection.figures}
    assert {"Files", "Steps", "Devices", "Metrics"} <= set(titles)
    assert {section[0].upper() + section[1:] for section in sections} <= set(titles)
    bars = page.evaluate("[...document.querySelectorAll('svg.share rect')].map((r) => +r.getAttribute('width'))")
    device = inspection.devices[0]
    assert len(bars) == sum(
        len(d.categories) + len(d.idle) + len(d.roles) + len(d.operators) for d in inspection.devices
    )
    assert sum(bars[: len(device.categories) + len(device.idle)]) == pytest.approx(100, abs=0.1)
    for scheme in ("light", "dark"):
        page.scheme(scheme)
        page.screenshot(shots / f"inspection-{scheme}.png")


@pytest.mark.parametrize("width", [360, 768, 2560])
def test_it_is_never_wider_than_the_window(
    width: int, page: chromium.Page, inspection: Inspection, tmp_path: Path
) -> None:
    page.size(width)
    show(page, inspection, tmp_path)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_names_are_text(page: chromium.Page, inspection: Inspection, tmp_path: Path) -> None:
    figures = tuple(msgspec.structs.replace(f, name=HOSTILE, detail=HOSTILE) for f in inspection.figures)
    operator = InspectedOperator(kind="operator", name=HOSTILE, seconds=1.0, calls=1, host_seconds=1.0)
    operators = (operator, msgspec.structs.replace(operator, kind="graph"))
    devices = tuple(msgspec.structs.replace(d, operators=operators) for d in inspection.devices)
    document = msgspec.structs.replace(
        inspection, run=HOSTILE, figures=figures, facts={HOSTILE: HOSTILE}, devices=devices
    )
    show(page, document, tmp_path)
    assert page.dialogs == []
    assert page.complaints == []
    assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0
    assert page.evaluate("document.querySelector('h1').textContent") == HOSTILE
