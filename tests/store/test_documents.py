"""Documents of our own as input: told from runs, and refused in one line where they can't be read."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler import open_run
from profiler.analyzers.inspection import inspect
from profiler.errors import BadInput
from profiler.reports.json_document import to_json
from profiler.store.documents import stored_baseline
from tests.strategies import ROOT

RUN = ROOT / "examples/runs/recorded-vllm-cpu/run-A"
TEXT = to_json(inspect(open_run(RUN)))


def changed(**fields: Any) -> str:
    return json.dumps(json.loads(TEXT) | fields)


def broken(key: str, value: Any) -> str:
    document = json.loads(TEXT)
    document["baseline"]["loads"][0][key] = value
    return json.dumps(document)


def without_baseline() -> str:
    return json.dumps({key: value for key, value in json.loads(TEXT).items() if key != "baseline"})


def test_a_document_is_read_whatever_the_order_of_its_keys_and_compressed(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(TEXT)
    stored = stored_baseline(path)
    assert stored is not None and not stored.diagnosed and stored.baseline.run == "run-A"
    path.write_text(json.dumps(json.loads(TEXT), sort_keys=True))
    again = stored_baseline(path)
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert again == stored == stored_baseline(path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": 3}', '{"a": {"schema": "profiler.diagnosis/1"}}', "text"])
def test_what_is_no_document_of_ours_is_left_to_the_readers_of_runs(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    assert stored_baseline(path) is None


def test_folders_results_and_what_is_not_there_are_no_documents(tmp_path: Path) -> None:
    assert [stored_baseline(path) for path in (RUN, RUN / "bench.json", tmp_path / "absent")] == [None, None, None]


@pytest.mark.parametrize(
    ("text", "said", "place"),
    [
        (TEXT[:-100], "cut off or damaged", "byte"),
        (TEXT + "{}", "cut off or damaged", "byte "),
        (without_baseline(), "before documents held a baseline", "baseline"),
        (changed(baseline=None), "has no benchmark result", "baseline"),
        (changed(schema="profiler.inspection/0"), "profiler.inspection/0 holds no baseline", "schema"),
        (changed(schema="profiler.goodput/1"), "profiler.goodput/1 holds no baseline", "schema"),
        (broken("duration", "long"), "Expected `float`, got `str`", "$.baseline.loads[0].duration"),
    ],
)
def test_a_document_that_holds_no_baseline_says_where_and_what_to_do(
    text: str, said: str, place: str, tmp_path: Path
) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(BadInput) as refused:
        stored_baseline(path)
    line = str(refused.value)
    assert line.startswith(f"{path}: ") and said in line and place in line and "profiler inspect RUN --json" in line
    assert "\n" not in line


@given(st.integers(0, len(TEXT) - 1), st.binary(min_size=1, max_size=3))
def test_damage_raises_nothing_but_our_error(tmp_path_factory: pytest.TempPathFactory, at: int, damage: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_bytes(TEXT.encode()[:at] + damage + TEXT.encode()[at + len(damage) :])
    with suppress(BadInput):
        stored_baseline(path)
