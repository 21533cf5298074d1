"""The frame that a notebook shows for ``profiler.diagnose``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import profiler
from profiler.reports.json_document import to_json
from tests.strategies import ROOT

pytest.importorskip("websocket", reason="websocket-client is not installed")

from tests.browser import chromium

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium.executable() is None, reason="chromium is not installed"),
]

PAIR = ROOT / "examples" / "runs" / "recorded-vllm-cpu"
# Only so that the test may look inside; the frame that ships has no origin.
SEALED = 'sandbox="allow-scripts" '
READY = """<script>
const frame = document.querySelector("iframe");
setInterval(() => { document.documentElement.dataset.ready = frame.contentDocument.documentElement.dataset.ready; }, 20);
</script>"""


def test_a_notebook_shows_the_report(page: chromium.Page, tmp_path: Path, shots: Path) -> None:
    a, b = sorted(path for path in PAIR.iterdir() if path.is_dir())
    document = profiler.diagnose(a, b, metrics=("mean_tpot",))
    assert [gap.metric for gap in document.gaps] == ["mean_tpot"] and '"mean_tpot"' in to_json(document)
    frame: str = document._repr_html_()  # type: ignore[attr-defined]
    assert len(re.findall("[<>]", frame)) == 4 and SEALED in frame
    path = tmp_path / "cell.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{frame.replace(SEALED, '')}{READY}", encoding="utf-8")
    page.open(path)
    inside = "document.querySelector('iframe').contentDocument"
    assert page.evaluate(f"{inside}.querySelectorAll('svg.main-svg').length") > 0
    assert page.evaluate(f"{inside}.querySelector('h1').textContent")
    assert page.complaints == [] and [url for url in page.requests if not url.startswith(("file:", "about:"))] == []
    page.screenshot(shots / "notebook.png")
