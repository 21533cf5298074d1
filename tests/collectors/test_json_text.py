"""JSON of tools is read quickly where it is plain, and as Python's own ``json`` reads it everywhere."""

from __future__ import annotations

import json
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.collectors.json_text import parse
from profiler.collectors.load import request_columns

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.text(st.characters(codec=None))),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=12,
)


def same(one: object, two: object) -> bool:
    return repr(one) == repr(two)


@given(value=values, ascii_only=st.booleans(), data=st.data())
def test_a_text_is_read_as_json_reads_it(value: object, ascii_only: bool, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert same(parse(text), json.loads(text))
    at = data.draw(st.integers(0, len(text)))
    cut = text[:at] + data.draw(st.sampled_from(["", "0", "-", ",", "NaN", "\x00", '"'])) + text[at + 1 :]
    try:
        expected = json.loads(cut)
    except ValueError:
        expected = None
    assert same(parse(cut), expected)


@pytest.mark.parametrize("text", ["-0", "-0.0", "1e999", "1E400", "[1e5]", '{"a":1,"a":2}', '"\\ud800"', "01", "9" * 400,
                                  "0." + "1" * 400, "1e-400", "\ufeff1", " 1\n", "[" * 100_000, "1.", "4.9406564584124654e-324"])  # fmt: skip
def test_what_is_odd_is_read_as_json_reads_it(text: str) -> None:
    try:
        expected = json.loads(text)
    except (ValueError, RecursionError):
        expected = None
    assert same(parse(text), expected)


gaps = st.one_of(st.floats(), st.integers(), st.none(), st.booleans(), st.text(max_size=3), st.just("0.5"))


@given(
    itls=st.one_of(
        st.lists(st.lists(st.floats(allow_nan=False), max_size=4), max_size=4),
        st.lists(st.one_of(st.lists(gaps, max_size=4), gaps), max_size=4),
    )
)
def test_plain_gaps_are_read_as_odd_ones_are(itls: list[object]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(request_columns, "_plain_gaps", lambda _: None)
        flat, ends = request_columns._gaps(itls, len(itls))
    quick, quick_ends = cast("tuple[np.ndarray, np.ndarray]", request_columns._gaps(itls, len(itls)))
    assert np.array_equal(flat, quick, equal_nan=True) and np.array_equal(ends, quick_ends)
    assert quick.dtype == np.float64 and quick_ends.dtype == np.int64
