"""Anonymous documents: what names a place or a person is gone, everything else stays."""

from __future__ import annotations

import pytest

from profiler.analyzers.anonymous import anonymized
from profiler.model.document import DocumentProblem
from profiler.reports.json_document import to_json
from tests.reports import documents


def cleaned(text: str) -> str:
    return anonymized(DocumentProblem(run="r", file="f", severity="info", detail=text)).detail


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/ada/runs/run-A/bench.json", "…/bench.json"), ("see /data/x/y.log: line 3", "see …/y.log: line 3"),
        ("http://gpu7.corp.example:8000/v1", "http://host-1/v1"), ("10.116.218.90", "address-1"),
        ("ada.l@corp.example", "user-1"), ("gpu7_4242.17000.pt.trace.json.gz", "host-1_4242.17000.pt.trace.json.gz"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"), ("vllm 0.33.0", "vllm 0.33.0"), ("38.4 sequences/step", "38.4 sequences/step"),
        ("~/models/m", "…/m"),
    ],
)  # fmt: skip
def test_places_and_people(text: str, left: str) -> None:
    assert cleaned(text) == left


def test_equal_hosts_get_equal_names() -> None:
    assert cleaned("http://a:1/x http://b:1/x http://a:1/y") == "http://host-1/x http://host-2/x http://host-1/y"


@pytest.mark.parametrize("document", [documents.pair(), documents.hostile()])
def test_a_document_keeps_its_numbers(document: object) -> None:
    changed = anonymized(document)  # type: ignore[type-var]
    assert [gap.gap for gap in changed.gaps] == [gap.gap for gap in document.gaps]  # type: ignore[attr-defined]
    assert [gap.metric for gap in changed.gaps] == [gap.metric for gap in document.gaps]  # type: ignore[attr-defined]
    assert to_json(changed)
    assert anonymized(changed) == changed
