"""Bounds in closed form, as the run stands: requests in flight, room in the KV cache, the weights' way from memory.

What is assumed stays as it is: a setting that changes it (a shorter latency, a larger batch, narrower weights) moves
the bound, so each says what moves it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from profiler.analyzers.gap.measured import Measured
from profiler.analyzers.gap.played import rules_of
from profiler.analyzers.metrics import metrics_of
from profiler.analyzers.roofline import Device, Shape, demands, device_of, shape_of
from profiler.model.recommendation import Limit
from profiler.model.steps import StepLabel

TPOT: Final = "time per output token"


def limits_of(measured: Measured) -> tuple[Limit, ...]:
    """The bounds that this run's files let us compute."""
    return (*_in_flight(measured), *_sequences(measured), *_decode_rate(measured))


def _in_flight(measured: Measured) -> tuple[Limit, ...]:
    """Little's law: requests in flight = rate * time in the system."""
    metrics, bench = metrics_of(measured.bench), measured.bench
    latency, concurrency = metrics.get("mean_e2e"), bench.max_concurrency
    if not latency or not concurrency or not bench.completed:
        return ()
    rate = bench.request_rate
    if rate is not None and rate < float("inf"):
        return ()
    found = metrics.get("request_throughput")
    moved = "more in flight, or less time each, moves it"
    text = f"{concurrency:,} in flight / {latency:.3g} s each (Little's law); {moved}"
    return (
        Limit(
            name="requests/s at this concurrency and latency",
            value=concurrency / latency,
            now=found,
            unit="requests/s",
            how=text,
        ),
    )


def _sequences(measured: Measured) -> tuple[Limit, ...]:
    """How many average sequences the KV cache holds: each its prompt and, on average, half of its output."""
    bench = measured.bench
    if measured.steps is None or not bench.completed:
        return ()
    pool = rules_of(measured).kv_tokens
    if not pool:
        return ()
    held = (bench.total_input_tokens + 0.5 * bench.total_output_tokens) / bench.completed
    running = measured.steps.load.decode + measured.steps.load.prefill_requests
    text = f"{pool:,} tokens of KV cache / {held:,.0f} tokens a sequence"
    return (
        Limit(
            name="sequences that the KV cache holds",
            value=pool / held,
            now=float(running.max(initial=0.0)),
            unit="sequences",
            how=text,
        ),
    )


def _decode_rate(measured: Measured) -> tuple[Limit, ...]:
    """Tokens/s of pure decode steps at the usual batch on this device: no step is shorter than its bytes take."""
    run, steps = measured.run, measured.steps
    stated = run.fact("hardware.gpu")
    named = next((a.name for a in measured.accounts if a.name), None) or (stated if isinstance(stated, str) else None)
    device, shape = device_of(named), shape_of(run.facts)
    if device is None or shape is None or steps is None or measured.device != "gpu":
        return ()
    decode = steps.load.decode[(steps.load.decode > 0) & (steps.load.prefill_tokens == 0)]
    if not len(decode):
        return ()
    batch = int(np.median(decode))
    ranks = int(measured.settings.get("tensor_parallel", 1.0))
    least = _shortest(shape, device, batch, ranks), _shortest(shape, device, 1, ranks)
    how = f"the least that the weights take from the memory of {ranks} x {device.name} ({device.source})"
    moved = "narrower weights, more ranks or several tokens a step move it"
    metrics = metrics_of(measured.bench)
    found = Limit(
        name="output tokens/s at the usual batch",
        value=batch / least[0],
        now=metrics.get("output_throughput"),
        unit="tokens/s",
        how=f"{batch:,} sequences / {least[0] * 1e3:.3g} ms, {how}; attention left out; a larger batch, {moved}",
    )
    if run.fact("setting.speculative") is not None:
        return (found,)  # several tokens a step
    alone = f"{how}, at one sequence a step; attention left out; {moved}"
    return (
        found,
        Limit(name=TPOT, value=least[1], now=metrics.get("mean_tpot"), unit="s", how=alone, floor=True),
    )


def _shortest(shape: Shape, device: Device, batch: int, ranks: int) -> float:
    """Seconds below which no pure decode step of so many sequences is done."""
    asked = demands(shape, StepLabel(phase="decode", decode_requests=batch, decode_tokens=batch), ranks).values()
    return sum(max(d.bytes / device.memory, d.operations / device.operations(shape.weight_bytes)) for d in asked)
