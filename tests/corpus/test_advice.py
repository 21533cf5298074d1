"""Advice on every real run: what each engine's own tuning guide says of a knob is not contradicted.

``guides.tsv`` holds what the guides say: an engine, a knob, the way it is turned, the evidence (``throughput`` for what a
prediction ranks, else the symptom), and where a row holds. Advice that no row knows fails, so that it is looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from profiler import open_run
from profiler.analyzers.gap.measured import Measured
from profiler.analyzers.knobs import NotPredictable
from profiler.analyzers.predict import situation_of
from profiler.analyzers.recommend import WORTH, recommend
from profiler.cli.settings import engine_in
from profiler.collectors.engines import ENGINES
from profiler.errors import ProfilerError
from profiler.model.diagnosis import Recommendation
from profiler.model.recommendation import RecommendationDocument
from profiler.model.run import Run
from tests.strategies import CORPUS, OWN


class Row(NamedTuple):
    """A line of the table; ``guide`` is says, forbids or silent."""

    engine: str
    knob: str
    way: str
    evidence: str
    where: str
    guide: str
    source: str


TABLE: Final = tuple(
    Row(*line.split("\t")) for line in (Path(__file__).parent / "guides.tsv").read_text("utf-8").splitlines()[1:]
)
# Which way a symptom's text has its knob turned.
WAYS: Final = {
    "requests wait while steps are at the sequence limit": "raise",
    "sequences are preempted": "raise",
    "prefills hold up decodes": "lower",
    "TTFT passes outside the engine": "raise",
    "the prefix cache is off": "on",
    "steps run eagerly and wait for launches": "on",
    "the device waits for the host between steps": "on",
}
HELD_BACK: Final = "requests wait although neither the sequence limit nor the KV cache is reached"


def _frequent(measured: Measured) -> bool:
    return measured.counters.get("preemptions", 0.0) * 60.0 > max(measured.duration, 60.0)


WHERE: Final[dict[str, Callable[[Measured], bool]]] = {
    "any": lambda measured: True,
    "preemptions": lambda measured: measured.counters.get("preemptions", 0.0) > 0,
    "no preemptions": lambda measured: not measured.counters.get("preemptions", 0.0) > 0,
    "frequent preemptions": _frequent,
    "rare preemptions": lambda measured: not _frequent(measured),
    # A model that runs on the CPU leaves none.
    "cores to spare": lambda measured: measured.device != "cpu",
    "no cores to spare": lambda measured: measured.device == "cpu",
    "no queue": lambda measured: measured.gauges.get("waiting_requests_max") == 0,
    "KV cache below 0.9": lambda measured: measured.gauges.get("kv_usage_max", 0.0) < 0.9,
}


def _folders() -> list[str]:
    """Every folder of the corpus's loads and own recordings that holds files; parts of a run are left out."""
    found = [p for base in (OWN, CORPUS / "bench") if base.is_dir() for p in sorted(base.rglob("*")) if p.is_dir()]
    return [
        str(p.relative_to(CORPUS))
        for p in found
        if p.name not in ("trace", "metrics") and any(one.is_file() for one in p.iterdir())
    ]


FOLDERS: Final = _folders()
# Neighbours among the runs of one recording: what one has not measured may be taken from the other.
PAIRS: Final = [
    (one, two)
    for one, two in pairwise(name for name in FOLDERS if name.startswith("own/"))
    if one.split("/")[1] == two.split("/")[1]
]
# Those that hold all that a prediction needs.
WITH_ADVICE: Final = (
    "own/vllm-sequences/max-num-seqs-2", "own/vllm-sequences/max-num-seqs-16", "own/vllm-budget/max-num-batched-tokens-64",
    "own/vllm-budget/max-num-batched-tokens-2048", "own/vllm-prefix-cache-70m/off", "own/vllm-prefix-cache-70m/on",
    "own/vllm-prefix-cache-tiny/off", "own/vllm-prefix-cache-tiny/on", "own/vllm-compile/eager",
    "own/vllm-compile/compiled", "own/vllm-everything-on", "own/vllm-vs-sglang/vllm-1/c1", "own/vllm-vs-sglang/vllm-1/c16",
    "own/vllm-vs-sglang/vllm-2/c16", "own/vllm-vs-sglang/vllm-seqs4/c16", "own/vllm-vs-sglang/sglang-1/c1",
    "own/vllm-vs-sglang/sglang-1/c16", "own/vllm-vs-sglang/sglang-2/c16",
)  # fmt: skip


@cache
def opened(name: str) -> Run:
    if not OWN.is_dir():
        pytest.skip("the corpus of real files is not on this machine")
    try:
        run = open_run(CORPUS / name)
    except ProfilerError as reason:
        pytest.skip(f"{name} is no run: {reason}")
    if engine_in(run) is None or not any(key.startswith("setting.") for key in run.facts):
        pytest.skip(f"{name} states no engine, or none of its settings")
    return run


@cache
def advice(name: str, other: str | None = None) -> RecommendationDocument:
    run = opened(name)
    try:
        return recommend(run, engine_in(run), None if other is None else opened(other))
    except NotPredictable as reason:
        pytest.skip(f"{name}: {reason}")


def way(row: Recommendation) -> str:
    """Which way a recommendation turns its knob."""
    if row.to is None:
        return (
            "off" if row.flag in ("--enforce-eager", *(f for f in (row.flag,) if f.startswith("--no-enable"))) else "on"
        )
    return "raise" if row.current is None or float(row.to) > float(row.current) else "lower"


def turned(document: RecommendationDocument) -> list[tuple[str, str, str]]:
    """(knob, way, evidence) of all that a document advises."""
    found = [(row.knob, way(row), "throughput") for row in document.recommendations]
    for one in document.advice:
        ways = {"admission_caution": "lower"}.get(one.knob or "", "raise") if one.symptom == HELD_BACK else None
        found.append((one.knob or "-", "-" if one.knob is None else ways or WAYS[one.symptom], one.symptom))
    return found


def contradicted(run: Run, document: RecommendationDocument) -> list[str]:
    """What a guide forbids, or what no row of the table knows."""
    engine = engine_in(run)
    assert engine is not None
    measured, wrong = situation_of(run, engine=engine).measured, []
    for one in turned(document):
        rows = [row for row in TABLE if (row.engine, row.knob, row.way, row.evidence) == (engine.name, *one)]
        held = [row for row in rows if WHERE[row.where](measured)]
        if not held:
            wrong.append(f"{engine.name} {one}: no guide was looked up")
        wrong += [f"{engine.name} {one}: {row.source}" for row in held if row.guide == "forbids"]
    return wrong


@pytest.mark.parametrize("name", FOLDERS)
def test_no_guide_contradicts_what_is_advised(name: str) -> None:
    document = advice(name)
    assert contradicted(opened(name), document) == []
    assert all(row.predicted["output_throughput"].change >= WORTH for row in document.recommendations)


@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_no_guide_contradicts_what_is_advised_beside_another_run(one: str, two: str) -> None:
    for name, other in ((one, two), (two, one)):
        assert contradicted(opened(name), advice(name, other)) == []


@pytest.mark.parametrize("name", WITH_ADVICE)
def test_a_run_with_all_that_is_needed_is_among_those_looked_at(name: str) -> None:
    assert advice(name).engine.name in ("vllm", "sglang") and name in FOLDERS


def test_the_table_speaks_of_knobs_that_the_engines_have() -> None:
    known = {(engine.name, knob.name) for engine in ENGINES for knob in engine.knobs}
    for row in TABLE:
        assert row.knob == "-" or (row.engine, row.knob) in known, row
        assert row.where in WHERE and row.guide in ("says", "forbids", "silent") and row.source, row
    keys = [row[:5] for row in TABLE]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("name", "knob"),
    [
        ("vllm-sequences/max-num-seqs-2", "max_num_seqs"), ("vllm-vs-sglang/vllm-seqs4/c16", "max_num_seqs"),
        ("vllm-budget/max-num-batched-tokens-64", "token_budget"), ("vllm-compile/eager", "compile"),
    ],
)  # fmt: skip
def test_the_knob_that_held_a_run_back_comes_first(name: str, knob: str) -> None:
    assert advice(f"own/{name}").recommendations[0].knob == knob


def test_a_cache_that_is_off_is_named_where_nothing_can_be_predicted() -> None:
    document = advice("own/vllm-prefix-cache-70m/off")
    assert "--enable-prefix-caching" in {one.flag for one in document.advice}
