"""How values are written."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from profiler.reports import numbers
from tests.reports import documents


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        (0.00086, "s", "860.0 µs"),
        (0.0111, "seconds", "11.10 ms"),
        (1.921, "s", "1.921 s"),
        (3e-8, "s", "30.00 ns"),
        (0.0, "s", "0 s"),
        (0.8, "count", "0.8"),
        (331.4, "count", "331.4"),
        (10, "count", "10"),
        (1, "tokens", "1 token"),
        (1.5, "tokens", "1.500 tokens"),
        (1.98e9, "Hz", "1,980 MHz"),
        (0.0, "Hz", "0 Hz"),
        (5919.2, "tokens/s", "5,919 tokens/s"),
        (38.4, "sequences", "38.40 sequences"),
        (3000, "requests", "3,000 requests"),
        (0.943, "fraction", "94.3%"),
        (18_221_000, "bytes", "17.38 MiB"),
        (None, "s", "not known"),
        (math.nan, "s", "not known"),
        (math.inf, "tokens/s", "not known"),
        ("256", "", "256"),
        ("\x1b[31m", "", "␛[31m"),
        (1e300, "", "1e+300"),
    ],
)
def test_a_quantity_has_a_fitting_unit(value: float | str | None, unit: str, written: str) -> None:
    assert numbers.quantity(value, unit) == written


def test_a_column_has_one_unit_and_one_number_of_decimals() -> None:
    scale = numbers.scale_for("s", -0.0005, 0.0002, None)

    assert [scale.signed(value) for value in (-0.0005, 0.0002, 0.0, None)] == ["-500.0", "+200.0", "0.0", "not known"]
    assert scale.interval((-0.0008, 0.0001)) == "-800.0 to 100.0"
    assert scale.interval(None) == "not known"


def test_what_rounds_to_zero_has_no_sign() -> None:
    scale = numbers.Scale(1.0, "tokens/s", 0)

    assert scale.signed(-0.4) == "0"
    assert scale.signed(0.4) == "0"


def test_shares_and_levels() -> None:
    assert numbers.percent(0.7002) == "70.0%"
    assert numbers.signed_percent(-0.3617) == "-36.2%"
    assert numbers.signed_percent(0.39) == "+39.0%"
    assert [numbers.signed_percent(x) for x in (1.994, 2.0, 23.206, 1203.6)] == [
        "+199.4%",
        "3 times",
        "24.2 times",
        "1,205 times",
    ]
    assert [numbers.percent(x) for x in (9.994, 16.43, -16.43)] == ["999.4%", "16.4 times", "-16.4 times"]
    assert numbers.percent(None) == "–"
    assert numbers.level("35.4 to 37.0") == "95%: 35.4 to 37.0"
    assert numbers.level("not known") == "not known"


def test_the_smaller_of_two_values_keeps_three_digits() -> None:
    (gap, *_) = documents.pair().gaps
    scale = numbers.level_scale(replace(gap, unit="s", a=0.05257, b=1.642))
    assert (scale.full(0.05257), scale.full(1.642)) == ("0.0526 s", "1.6420 s")


@given(
    st.one_of(st.none(), st.floats(), st.integers(), st.text()), st.sampled_from(["s", "bytes", "fraction", "", "x"])
)
def test_any_value_is_written_in_one_line(value: float | str | None, unit: str) -> None:
    written = numbers.quantity(value, unit)

    assert written.isprintable()
    assert "nan" not in written or isinstance(value, str)


@given(st.floats(min_value=1e-9, max_value=1e12))
def test_four_digits_are_kept(value: float) -> None:
    scale = numbers.scale_for("tokens/s", value)

    assert math.isclose(float(scale.plain(value).replace(",", "")), value, rel_tol=6e-4, abs_tol=1e-9)
