"""Runs with several loads: the curves and tables of ``goodput`` in the report of a diagnosis, with the SLO as a line."""

from __future__ import annotations

import json
import re

from msgspec.structs import replace

from profiler.analyzers.compared_loads import several_loads
from profiler.analyzers.diagnosis import diagnose
from profiler.model.run import Run
from profiler.reports.html import to_html
from profiler.reports.load_figures import load_figures
from tests.analyzers.test_goodput import SLO, bench, run
from tests.reports.test_html import Outline


def sweep(name: str, slower: float) -> Run:
    """Two loads."""
    light = bench(0.05 * slower, 0.01 * slower, max_concurrency=1, duration=100.0)
    return run(name, light, bench(0.08 * slower, 0.015 * slower, slow=20, max_concurrency=8))


def test_one_load_draws_no_curve() -> None:
    alone = run("a", bench(0.05, 0.01)), run("b", bench(0.06, 0.01))
    assert several_loads(alone, SLO) is None
    assert diagnose(*alone, slo=SLO).loads is None


def test_the_report_has_the_curves_with_the_slo_and_every_number() -> None:
    document = diagnose(sweep("a", 1.0), sweep("b", 1.2), slo=SLO)
    assert document.loads is not None
    page = to_html(document)
    outline = Outline(page)
    assert "P99 TTFT against requests in flight" in outline.text
    assert "SLO: ttft 100.0 ms, tpot 20.00 ms" in outline.text
    assert "profiler check" not in outline.text.split("Against load")[-1].split("Metrics of the runs")[0]
    titles = {figure["title"]: figure["id"] for figure in load_figures(document.loads)}
    found = re.search(rf'data-figure="{titles["P99 TTFT against requests in flight"]}">(.*?)</script>', page)
    assert found is not None
    lines = {line["name"]: line for line in json.loads(found[1])["data"]}
    assert set(lines) == {"a", "b", "SLO"}
    assert lines["SLO"]["y"] == [SLO["ttft"]] * 2
    first = document.loads.runs[0].points[0]
    assert f"{first.sent:,}" in {cell for row in outline.rows for cell in row}


def test_without_an_slo_no_line_is_drawn() -> None:
    loads = several_loads((sweep("a", 1.0), sweep("b", 1.2)), {})
    assert loads is not None
    assert all('"SLO"' not in str(figure["data"]) for figure in load_figures(loads))


def test_more_loads_than_a_page_holds_are_left_out_and_that_is_said() -> None:
    document = diagnose(sweep("a", 1.0), sweep("b", 1.2))
    assert document.loads is not None
    curve = document.loads.runs[0]
    many = replace(document.loads, runs=(replace(curve, points=curve.points * 60),))
    text = Outline(to_html(replace(document, loads=many))).text
    assert "Left out of this page for its size: the curves against load" in text
