"""Every small file reads as it did when its dump was written; ``make golden`` writes the dumps anew."""

from __future__ import annotations

import json

import pytest

from tests.golden_dump import GOLDEN, Value, dumps_of, sources


def differences(one: Value, two: Value, where: str = "") -> list[str]:
    """Where two dumps differ, by value; sums of floats may differ in the last digits."""
    if isinstance(one, dict) and isinstance(two, dict):
        keys = [*one, *(key for key in two if key not in one)]
        return [d for key in keys for d in differences(one.get(key), two.get(key), f"{where}/{key}")]
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        return [d for i, (a, b) in enumerate(zip(one, two, strict=True)) for d in differences(a, b, f"{where}[{i}]")]
    if isinstance(one, float) or isinstance(two, float):
        same = type(one) in (int, float) and type(two) in (int, float) and one == pytest.approx(two, rel=1e-9)
    else:
        same = one == two
    return [] if same else [f"{where}: {one!r}, and now {two!r}"]


@pytest.mark.parametrize("name", sorted(p.stem for p in GOLDEN.glob("*.json")))
def test_every_small_file_reads_as_its_dump_says(name: str) -> None:
    folder = sources().get(name)
    if folder is None:
        pytest.skip("the corpus of real files is not on this machine")
    kept = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    found = json.loads(json.dumps(dumps_of(folder)))
    assert differences(kept, found) == [], "if this is right, write the dumps anew: make golden"


def test_a_difference_is_found_wherever_it_is() -> None:
    kept: Value = {"a": [1, {"b": 2.0}], "c": True}
    assert differences(kept, {"a": [1, {"b": 2.0 + 1e-12}], "c": True}) == []
    assert differences(kept, {"a": [1, {"b": 2.1}], "c": True}) == ["/a[1]/b: 2.0, and now 2.1"]
    assert differences(kept, {"a": [1], "c": True, "d": 1})[1:] == ["/d: None, and now 1"]
    assert differences(kept, {"a": [1, {"b": 2.0}], "c": False}) == ["/c: True, and now False"]
