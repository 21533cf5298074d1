"""Reports in Chinese: every message has a translation, and no number, file, flag or name is changed by it."""

from __future__ import annotations

import io
import re
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

from profiler import open_run, registry
from profiler.analyzers.checking import check
from profiler.analyzers.compared_loads import curves
from profiler.analyzers.diagnosis import diagnose
from profiler.analyzers.fairness.rules import RULES
from profiler.analyzers.flames import Kinds, compared, flames_of
from profiler.analyzers.inspection import inspect
from profiler.analyzers.recommend import recommend, whatif
from profiler.analyzers.run_names import told_apart
from profiler.model.diagnosis import Diagnosis
from profiler.reports import wording
from profiler.reports.check import print_check, to_check_markdown
from profiler.reports.flamegraph import to_flamegraph_html
from profiler.reports.goodput import print_goodput, to_goodput_markdown
from profiler.reports.goodput_html import to_goodput_html
from profiler.reports.html import to_html
from profiler.reports.json_document import to_json
from profiler.reports.language import LANGUAGES, Catalogue, named, said, speaking
from profiler.reports.markdown import to_markdown
from profiler.reports.recommendation_terminal import print_recommendations, print_whatif
from profiler.reports.terminal import print_diagnosis
from profiler.reports.translated import translated
from tests.conftest import Lab
from tests.reports import documents
from tests.reports.chinese import missed, untranslated, untranslated_inspection
from tests.reports.test_html import Outline
from tests.strategies import ROOT

EXAMPLES = sorted(path.name for path in (ROOT / "examples/runs").iterdir() if path.is_dir())
TABLES = sorted((ROOT / "reports/lang").rglob("*.tsv"))
CASES = ("small-kv", "few-sequences-no-log", "throttled", "tp-slow-comm")
NUMBER = re.compile(r"(?<![A-Za-z\d])\d(?:[\d,.]*\d)?")


@cache
def example(name: str) -> Diagnosis:
    runs = ROOT / "examples/runs" / name
    slo = {"ttft": 0.5, "tpot": 0.05}
    return diagnose(open_run(runs / "run-A"), open_run(runs / "run-B"), slo=slo, engines=registry.engines())


def shown(diagnosis: Diagnosis, language: str) -> tuple[str, str, str]:
    """The page's text, the comment, and the terminal page."""
    console = Console(file=io.StringIO(), width=400)
    with speaking(language):
        page, comment = to_html(diagnosis), to_markdown(diagnosis)
        print_diagnosis(diagnosis, console, verbose=True)
    assert isinstance(console.file, io.StringIO)
    return page, comment, console.file.getvalue()


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_message_of_the_examples_has_a_translation(name: str) -> None:
    assert untranslated(example(name)) == set()


@pytest.mark.parametrize("case", CASES)
def test_every_message_of_a_known_cause_has_a_translation(case: str, lab: Lab) -> None:
    assert untranslated(lab(case).forward) == set()


@pytest.mark.parametrize("case", CASES)
def test_every_message_about_one_run_has_a_translation(case: str, lab: Lab) -> None:
    for run in (lab(case).a, lab(case).b):
        assert untranslated_inspection(inspect(run)) == set()


def test_every_row_by_launching_operator_has_a_translation() -> None:
    every = documents.inspection().devices[0].operators
    with speaking("zh"):
        shown = [wording.launched_by(row) for row in every]
        heads = [said(head) for head in ("launching operator", "Launching operator", "operator", "Time on the host")]
    assert shown[:2] == [row.name for row in every[:2]]
    assert shown[2:] == ["其余 21 个算子", "被 replay 的 graph（cudaGraphLaunch）", "不在任何算子之内", "未知"]
    assert all(re.search("[\u4e00-\u9fff]", head) for head in heads)
    found = untranslated_inspection(documents.inspection())
    assert not any("operator" in text or "graph" in text for text in found)


@pytest.mark.parametrize("case", CASES)
def test_every_rule_and_curve_has_a_translation(case: str, lab: Lab) -> None:
    pair = lab(case)
    rules, loads = check(pair.a, pair.b), curves(told_apart((pair.a, pair.b)), {"ttft": 0.5, "tpot": 0.05})
    drawing = (
        lambda console: print_check(rules, console, verbose=True),
        lambda _: to_check_markdown(rules),
        lambda console: print_goodput(loads, console, verbose=True),
        lambda _: to_goodput_markdown(loads),
        lambda _: to_goodput_html(loads),
    )
    assert missed(*drawing) == set()


@pytest.mark.parametrize("kind", ["gpu", "host"])
def test_a_flamegraph_has_a_translation(kind: Kinds, lab: Lab) -> None:
    pair = lab("tp-slow-comm")
    one, two = flames_of(pair.a, kind), flames_of(pair.b, kind)
    assert one is not None and two is not None
    alone = missed(lambda _: to_flamegraph_html(one, ("run-A",), ""))
    both = compared(one, two, (1.0, 1.0))
    assert alone | missed(lambda _: to_flamegraph_html(both, ("run-A", "run-B"), "an output token")) == set()


@pytest.mark.parametrize("case", ["small-kv", "throttled", "tp-slow-comm", "prefix-cache-off"])
def test_every_recommendation_has_a_translation(case: str, lab: Lab) -> None:
    engine = next(one for one in registry.engines() if one.name == "vllm")
    for run in (lab(case).a, lab(case).b):
        advice, guess = recommend(run, engine), whatif(run, engine, {"max_num_seqs": 4})
        found = missed(
            lambda console, advice=advice: print_recommendations(advice, console, verbose=True, plan=True),
            lambda console, guess=guess: print_whatif(guess, console, verbose=True),
        )
        assert found == set()


def test_every_default_range_and_need_of_a_setting_has_a_translation() -> None:
    prose = re.compile(r"[a-z]{3,} [a-z]{2,} [a-z]{2,}")
    with speaking("zh"):
        for engine in registry.engines():
            for knob in engine.knobs:
                words = (knob.default(None), knob.allowed.words if knob.allowed else None, knob.needs)
                left = [text for text in words if text and prose.search(named(text))]
                assert not left, (engine.name, knob.name, left)


def test_a_rule_keeps_its_own_name_behind_its_title() -> None:
    with speaking("zh"):
        assert wording.rule("same_requests") == "请求集相同（same_requests）"
        assert wording.rule("a_rule_of_another_package") == "a_rule_of_another_package"
        assert all(wording.rule(one.name) != one.name for one in RULES)
    assert wording.rule("same_requests") == "same_requests"


def test_what_a_problem_quotes_of_a_file_stays() -> None:
    with speaking("zh"):
        assert said("could not be opened: Permission denied") == "无法打开：Permission denied"
        assert said("3 of 7 requests failed") == "7 个请求中有 3 个失败"


def test_a_place_for_a_number_takes_nothing_else() -> None:
    with speaking("zh"):
        assert said("of 8,195") == "共 8,195"
        assert said("3 of 1,024") == "1,024 中的 3"
        assert said("of the others") == "of the others"


def test_a_message_without_a_translation_is_found() -> None:
    assert "decode attention takes 1.6x as long at an equal batch" in untranslated(documents.pair())


@pytest.mark.parametrize("name", EXAMPLES)
def test_numbers_stay(name: str) -> None:
    english, chinese = (
        [sorted(NUMBER.findall(Outline(text).text if "<html" in text else text)) for text in shown(example(name), lang)]
        for lang in LANGUAGES
    )
    assert [len(numbers) for numbers in english] == [len(numbers) for numbers in chinese]
    assert english == chinese


@pytest.mark.parametrize("name", EXAMPLES)
def test_data_stays(name: str) -> None:
    document = example(name)
    with speaking("zh"):
        other = translated(document)
    assert other.runs == document.runs
    assert other.kernels == document.kernels
    places = [(p.run, p.file, p.severity, p.count) for p in document.problems]
    assert [(p.run, p.file, p.severity, p.count) for p in other.problems] == places
    for gap, same in zip(document.gaps, other.gaps, strict=True):
        assert (gap.metric, gap.gap, gap.interval, gap.unit) == (same.metric, same.gap, same.interval, same.unit)
        for cause, twin in zip(gap.causes, same.causes, strict=True):
            # What is said of a file stands in brackets behind it.
            files = [
                (e.source.partition(" (")[0], f.source.partition("（")[0])
                for e, f in zip(cause.evidence, twin.evidence, strict=True)
                if "." in e.source
            ]
            assert all(before == after for before, after in files)
    assert [(k.flag, k.to, k.run) for k in other.recommendations] == [
        (k.flag, k.to, k.run) for k in document.recommendations
    ]


def test_the_page_says_its_language_and_the_document_stays_english() -> None:
    document = example(EXAMPLES[0])
    page, _, _ = shown(document, "zh")
    assert '<html lang="zh-CN">' in page
    assert '<html lang="en">' in shown(document, "en")[0]
    with speaking("zh"):
        in_chinese = to_json(document)
    assert in_chinese == to_json(document)
    assert {"差距", "公平性", "典型 step"} <= set(re.findall(r">([^<>]+)</h2>", page))


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_a_table_is_whole(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    assert all(len(row) == 2 and row[0] and row[1] for row in rows)
    assert len({key for key, _ in rows}) == len(rows)
    for key, target in rows:
        assert sorted(re.findall(r"\{\w+\}", key)) == sorted(re.findall(r"\{\w+\}", target)), key


def test_a_key_is_in_one_table() -> None:
    keys = [line.split("\t")[0] for path in TABLES for line in path.read_text("utf-8").splitlines()]
    assert len(set(keys)) == len(keys)


def test_a_place_takes_what_stands_there_and_never_another_clause() -> None:
    table = Catalogue({"{a} waits for {b}": "{a} 等待 {b}", "the disk": "磁盘"}, frozenset({"{a} waits for {b}"}))
    assert table.sentence("run-A waits for the disk") == "run-A 等待磁盘"
    assert table.sentence("run-A waits for the disk; run-B waits for 3.5 ms.") == "run-A 等待磁盘；run-B 等待 3.5 ms。"
    assert table.sentence("something else entirely") == "something else entirely"
    assert table.missed == {"something else entirely"}


@pytest.mark.parametrize("name", ["hostile", "empty", "traces_only", "null_pair"])
def test_any_document_is_drawn(name: str) -> None:
    page, comment, terminal = shown(getattr(documents, name)(), "zh")
    assert page.startswith("<!doctype html>")
    assert comment and terminal


def test_english_is_itself() -> None:
    assert said("gap") == "gap"
    assert said("{low} to {high}", low="1", high="2") == "1 to 2"
