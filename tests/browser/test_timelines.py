"""Timelines of typical steps in a real browser: drawn, zoomed, moved through by keyboard, reached from a cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.model.diagnosis import Diagnosis
from profiler.reports.html import to_html
from profiler.reports.language import speaking
from tests.browser import chromium
from tests.conftest import Lab
from tests.reports import documents

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium.executable() is None, reason="chromium is not installed"),
]
CANVAS = "document.querySelector('#timeline-0 canvas')"
SAID = "document.querySelector('#timeline-0 output').textContent"
LEGEND = "[...document.querySelectorAll('#timeline-0 .legend > span')].map((line) => line.textContent)"
COLOURS = (
    f"(() => {{ const c = {CANVAS}; const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; "
    "const s = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) s.add([d[i], d[i + 1], d[i + 2]].join());"
    " return [...s]; })()"
)


def show(page: chromium.Page, diagnosis: Diagnosis, folder: Path) -> None:
    path = folder / "report.html"
    path.write_text(to_html(diagnosis), encoding="utf-8")
    page.scheme("light")
    page.size(1280)
    page.open(path)


def test_both_runs_are_drawn_in_both_schemes(page: chromium.Page, tmp_path: Path, shots: Path) -> None:
    show(page, documents.pair(), tmp_path)
    assert page.complaints == []
    for scheme in ("light", "dark"):
        page.scheme(scheme)
        page.screenshot(shots / f"timelines-{scheme}.png")
        # gemm and attention in the first two colours of the palette, whatever the scheme
        assert {"0,114,178", "230,159,0"} <= set(page.evaluate(COLOURS))
    assert page.evaluate(f"{CANVAS}.dataset.ready") == "8"
    assert page.evaluate("document.querySelectorAll('.steps canvas').length") == 2
    assert page.evaluate(LEGEND) == [
        "device: gemmattention",
        "host: schedule",
        "launches: cudaGraphLaunch",
        "why the device waited: in step: launch",
    ]
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []


def test_a_group_has_one_colour_on_the_page(page: chromium.Page, tmp_path: Path) -> None:
    show(page, documents.pair(), tmp_path)
    shown = page.evaluate(
        "[...document.querySelectorAll('.steps .legend > span')].flatMap((line) => [...line.querySelectorAll(':scope > span')]"
        ".map((item) => [line.firstChild.textContent + item.textContent, item.firstChild.style.backgroundColor]))"
    )
    assert len(shown) > len({name for name, _ in shown}) == len({(name, colour) for name, colour in shown})


def test_bars_rows_and_zoom_by_keyboard(page: chromium.Page, tmp_path: Path) -> None:
    show(page, documents.pair(), tmp_path)
    page.evaluate(f"{CANVAS}.focus()")
    page.press("ArrowRight", 39)
    assert page.evaluate(SAID) == "run-A, gpu 0, stream 7: flash_fwd (attention), 900 µs at 2.1 ms"
    page.press("ArrowRight", 39)
    assert "40 short events, mostly gemm, fill 1 ms of 2 ms" in page.evaluate(SAID)
    page.press("ArrowUp", 38)
    assert page.evaluate(SAID) == "run-A, launches: cudaGraphLaunch, 40 µs at -100 µs"
    whole = int(page.evaluate(f"{CANVAS}.dataset.span"))
    page.press("Enter", 13)
    assert int(page.evaluate(f"{CANVAS}.dataset.span")) == 8 * 40_000
    page.press("-", 189, "-")
    assert int(page.evaluate(f"{CANVAS}.dataset.span")) == 16 * 40_000
    page.press("Escape", 27)
    assert int(page.evaluate(f"{CANVAS}.dataset.span")) == whole
    page.evaluate("document.querySelector('#timeline-0 [data-do=in]').click()")
    assert int(page.evaluate(f"{CANVAS}.dataset.span")) == pytest.approx(whole / 2, abs=2)
    assert page.complaints == []


def test_a_cause_leads_to_its_moment(page: chromium.Page, tmp_path: Path) -> None:
    show(page, documents.pair(), tmp_path)
    page.evaluate("document.querySelectorAll('a.moment')[1].click()")
    page.settle()
    assert page.evaluate(SAID) == "run-B, gpu 0, stream 7: flash_fwd (attention), 1.8 ms at 2.1 ms"
    assert page.evaluate("location.hash") == "#timeline-0"
    assert page.evaluate(f"document.activeElement === {CANVAS}")


@pytest.mark.parametrize("width", [360, 768, 2560])
def test_it_is_never_wider_than_the_window(width: int, page: chromium.Page, tmp_path: Path) -> None:
    show(page, documents.pair(), tmp_path)
    page.size(width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(f"{CANVAS}.getBoundingClientRect().right") <= width


def test_hostile_names_are_text(page: chromium.Page, tmp_path: Path) -> None:
    show(page, documents.hostile(), tmp_path)
    page.evaluate(f"{CANVAS}.focus()")
    page.press("ArrowRight", 39)
    assert "onerror=alert(1)" in page.evaluate(SAID)
    assert page.dialogs == []
    assert page.complaints == []
    assert page.evaluate("document.querySelectorAll('main img').length") == 0


def test_the_steps_of_a_traced_pair(page: chromium.Page, lab: Lab, tmp_path: Path) -> None:
    show(page, lab("graphs-off").forward, tmp_path)
    assert page.complaints == []
    page.evaluate("document.querySelector('a.moment[data-kind=idle]').click()")
    assert "why the device waited" in page.evaluate(SAID)


@pytest.mark.parametrize("width", [360, 1280])
def test_a_page_in_chinese_works_alike(width: int, page: chromium.Page, tmp_path: Path) -> None:
    with speaking("zh"):
        show(page, documents.pair(), tmp_path)
    page.size(width)
    assert page.complaints == []
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.getElementById('theme').textContent") == "深色"
    page.evaluate("document.getElementById('theme').click()")
    assert page.evaluate("document.getElementById('theme').textContent") == "浅色"
    page.evaluate(f"{CANVAS}.focus()")
    page.press("ArrowRight", 39)
    assert page.evaluate(SAID) == "run-A，gpu 0，stream 7：flash_fwd（attention），900 µs，位于 2.1 ms"
