"""What a report draws as lines: the scheduler over time, device clocks, and how latencies are distributed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import numpy as np

from profiler.analyzers.device import DeviceAccount
from profiler.analyzers.device_figures import roofs_of
from profiler.analyzers.gap.measured import Measured
from profiler.analyzers.metrics import samples
from profiler.model.diagnosis import Curve, RoleRow
from profiler.model.requests import Floats

# Points a line: more can't be seen.
POINTS: Final = 120
_QUANTILES: Final = tuple(range(1, 100))
_IN_LAYERS: Final = frozenset(
    {"norm", "qkv", "qk_norm", "rope", "kv_write", "attention", "out", "router", "experts", "mlp"}
)
_LATENCIES: Final = (("ttft", "TTFT"), ("tpot", "TPOT"), ("e2e", "end-to-end latency"))


def curves_of(measured: Measured, side: Literal["a", "b"]) -> tuple[Curve, ...]:
    """Every line that one run's files carry."""
    return (*_over_time(measured, side), *_clocks(measured, side), *_latencies(measured, side))


def _over_time(measured: Measured, side: Literal["a", "b"]) -> list[Curve]:
    """Batch, queue and cache step by step, averaged over equal spans of the load."""
    steps = measured.steps
    if steps is None or steps.table is None or len(steps.table) < 2:
        return []
    table, known = steps.table, steps.seconds is not None
    at = np.cumsum(steps.seconds) if steps.seconds is not None else np.cumsum(steps.load.weight)
    unit: Literal["s", "steps"] = "s" if known else "steps"
    running = np.maximum(table.decode_requests, 0) + np.maximum(table.prefill_requests, 0)
    columns: tuple[tuple[str, str, str, Floats], ...] = (
        ("sequences", "sequences a step", "sequences", running.astype(np.float64)),
        ("queue", "requests waiting", "requests", np.where(table.waiting >= 0, table.waiting, np.nan)),
        ("cache", "KV cache in use", "fraction", table.kv_usage),
    )
    found = []
    for topic, title, y_unit, values in columns:
        if np.isfinite(values).any():
            x, y = _binned(at, values)
            found.append(Curve(topic=topic, title=title, run=side, x=x, y=y, x_unit=unit, y_unit=y_unit,
                               source=steps.source))  # fmt: skip
    return found


def _clocks(measured: Measured, side: Literal["a", "b"]) -> list[Curve]:
    found = []
    for table in measured.run.counters:
        known = np.isfinite(table.sm_clock) & np.isfinite(table.clock)
        if known.sum() >= 2:
            x, y = _binned(table.clock[known] - table.clock[known].min(), table.sm_clock[known])
            found.append(Curve(topic="clock", title="SM clock", run=side, x=x, y=y, x_unit="s", y_unit="Hz",
                               source=table.path))  # fmt: skip
    return found[:1]


def _latencies(measured: Measured, side: Literal["a", "b"]) -> list[Curve]:
    """The value that each share of the requests stays below."""
    table = measured.bench.requests
    if table is None:
        return []
    found = []
    for name, title in _LATENCIES:
        values = samples(table, name)
        if len(values) > 1:
            y = tuple(float(np.percentile(values, q)) for q in _QUANTILES)
            x = tuple(q / 100 for q in _QUANTILES)
            found.append(Curve(topic=name, title=title, run=side, x=x, y=y, x_unit="fraction", y_unit="s",
                               source=measured.bench.path))  # fmt: skip
    return found


def _binned(at: Floats, values: Floats) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Every moment with the mean of its values; of more than POINTS moments, means over as many equal spans, each at
    the mean of its moments. Spans without a value are left out."""
    known = np.isfinite(values)
    at, values = at[known], values[known]
    moments, place = np.unique(at, return_inverse=True)
    if len(moments) > POINTS:
        edges = np.linspace(float(moments[0]), float(moments[-1]), POINTS + 1)
        place = np.clip(np.searchsorted(edges, at, side="right") - 1, 0, POINTS - 1)
    count = np.bincount(place)
    rows = count > 0
    x, y = (np.bincount(place, column)[rows] / count[rows] for column in (at, values))
    return tuple(x.tolist()), tuple(y.tolist())


def role_rows(a: Measured | None, b: Measured | None) -> tuple[RoleRow, ...]:
    """Device seconds and calls a step by role in the model, the longest first; none where neither trace shows roles."""
    accounts = [None if run is None else run.traced for run in (a, b)]
    sides = [_roles(account) for account in accounts]
    calls = [_calls(account) for account in accounts]
    layers = [_by_layer(account, side) for account, side in zip(accounts, sides, strict=True)]
    shares = [
        {} if run is None or run.traced is None else {roof.role: roof.share for roof in roofs_of(run.run, run.traced)}
        for run in (a, b)
    ]
    rows = [
        RoleRow(
            role=name,
            a_seconds=sides[0].get(name),
            b_seconds=sides[1].get(name),
            a_calls=calls[0].get(name),
            b_calls=calls[1].get(name),
            a_layer=layers[0].get(name),
            b_layer=layers[1].get(name),
            a_roofline=shares[0].get(name),
            b_roofline=shares[1].get(name),
        )
        for name in dict.fromkeys(name for side in sides for name in side)
    ]
    return tuple(sorted(rows, key=lambda row: -max(row.a_seconds or 0.0, row.b_seconds or 0.0)))


def _by_layer(account: DeviceAccount | None, seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds of one layer, of the roles that each has; the norm behind the last layer counts with them."""
    layers = None if account is None else account.layers
    return {role: value / layers for role, value in seconds.items() if role in _IN_LAYERS} if layers else {}


def _calls(account: DeviceAccount | None) -> dict[str, float]:
    if account is None or account.steps is None:
        return {}
    count = len(account.steps.first)
    return {role: calls / count for role, calls in account.steps.role_calls.items()}


def _roles(account: DeviceAccount | None) -> dict[str, float]:
    if account is None or account.steps is None:
        return {}
    count = len(account.steps.first)
    return {role: float(seconds.sum()) / count for role, seconds in account.steps.roles.items()}
