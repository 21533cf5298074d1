"""The documents as JSON against their published schema."""

from __future__ import annotations

import json
import math
from typing import Any

import jsonschema
import msgspec
import pytest

from profiler.errors import UsageError
from profiler.model.diagnosis import Diagnosis
from profiler.reports.json_document import schema, to_json
from tests.reports import documents

EVERY = [documents.pair, documents.null_pair, documents.traces_only, documents.empty, documents.hostile]


@pytest.mark.parametrize("build", EVERY)
def test_a_diagnosis_is_valid(build: Any) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(schema("diagnosis")))
    validator.check_schema(validator.schema)

    validator.validate(json.loads(to_json(build())))


def test_an_inspection_is_valid() -> None:
    jsonschema.validate(json.loads(to_json(documents.inspection())), json.loads(schema("inspection")))


def test_the_schema_refuses_another_document() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema": "profiler.diagnosis/1"}, json.loads(schema("diagnosis")))


def test_keys_are_those_of_the_contract() -> None:
    document = json.loads(to_json(documents.pair()))

    assert list(document)[:7] == [
        "schema",
        "runs",
        "verdict",
        "gaps",
        "fairness",
        "recommendations",
        "problems",
    ]
    assert document["recommendations"][0]["from"] == "40"
    assert document["runs"][1]["engine"]["name"] == "sglang"


def test_what_was_written_is_read_again() -> None:
    assert msgspec.json.decode(to_json(documents.pair()), type=Diagnosis) == documents.pair()


def test_numbers_that_are_not_finite_are_null() -> None:
    gap = msgspec.structs.replace(documents.throughput_gap(), relative=math.nan, interval=(-math.inf, math.inf))
    text = to_json(msgspec.structs.replace(documents.pair(), gaps=(gap,)))

    written = json.loads(text, parse_constant=pytest.fail)
    assert written["gaps"][0]["relative"] is None
    assert written["gaps"][0]["interval"] == [None, None]
    jsonschema.validate(written, json.loads(schema("diagnosis")))


def test_a_lone_surrogate_does_not_stop_it() -> None:
    assert "�" in to_json(documents.hostile("\ud800"))


def test_it_is_indented_and_titled() -> None:
    assert to_json(documents.empty()).startswith('{\n  "schema": "profiler.diagnosis/1",')
    described = json.loads(schema("diagnosis"))
    assert described["title"] == "profiler.diagnosis/1"
    assert described["$id"] == "urn:serving-profiler:diagnosis:1"
    assert described["$schema"].startswith("https://json-schema.org/")


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="diagnosis, inspection"):
        schema("verdict")
