"""Reports in Chinese: every message has a translation, and no number, file, flag or name is changed by it."""

from __future__ import annotations

import io
import re
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

from profiler import open_run, registry
from profiler.analyzers.diagnosis import diagnose
from profiler.model.diagnosis import Diagnosis
from profiler.reports.html import to_html
from profiler.reports.json_document import to_json
from profiler.reports.language import LANGUAGES, Catalogue, catalogue, said, speaking
from profiler.reports.markdown import to_markdown
from profiler.reports.terminal import print_diagnosis
from profiler.reports.translated import translated
from tests.conftest import Lab
from tests.reports import documents
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


def untranslated(diagnosis: Diagnosis) -> set[str]:
    catalogue("zh").missed.clear()
    shown(diagnosis, "zh")
    return set(catalogue("zh").missed)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_message_of_the_examples_has_a_translation(name: str) -> None:
    assert untranslated(example(name)) == set()


@pytest.mark.parametrize("case", CASES)
def test_every_message_of_a_known_cause_has_a_translation(case: str, lab: Lab) -> None:
    assert untranslated(lab(case).forward) == set()


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
    assert other.problems == document.problems
    for gap, same in zip(document.gaps, other.gaps, strict=True):
        assert (gap.metric, gap.gap, gap.interval, gap.unit) == (same.metric, same.gap, same.interval, same.unit)
        for cause, twin in zip(gap.causes, same.causes, strict=True):
            files = [
                (e.source, f.source) for e, f in zip(cause.evidence, twin.evidence, strict=True) if "." in e.source
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
    assert table.sentence("run-A waits for the disk") == "run-A 等待 磁盘"
    assert table.sentence("run-A waits for the disk; run-B waits for 3.5 ms.") == "run-A 等待 磁盘；run-B 等待 3.5 ms。"
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
