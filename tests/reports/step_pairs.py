"""What stands beside the gaps of a document: typical steps, where causes are to be seen, the engineer's summary."""

from __future__ import annotations

from profiler.model.diagnosis import SummaryLine
from profiler.model.timeline import Lane, LaneKind, Moment, Side, StepPair, TypicalStep


def _lane(
    kind: LaneKind, title: str, groups: tuple[str, ...], bars: tuple[tuple[int, int, int, int, int], ...]
) -> Lane:
    """Bars are (start and length in µs, group, name, events)."""
    start, length, group, name, count = zip(*bars, strict=True)
    return Lane(
        kind=kind, title=title, groups=groups,
        seconds=tuple(sum(s for s, g in zip(length, group, strict=True) if g == i) / 1e6 for i in range(len(groups))),
        events=tuple(sum(n for n, g in zip(count, group, strict=True) if g == i) for i in range(len(groups))),
        start=tuple(s / 1e6 for s in start),
        length=tuple(s / 1e6 for s in length), group=group, name=name, count=count,
        busy=tuple(s / 1e6 / (2 if n > 1 else 1) for s, n in zip(length, count, strict=True)),
    )  # fmt: skip


def step(run: Side, slower: int = 1, text: str | None = None) -> TypicalStep:
    """A decode step whose attention takes ``slower`` times as long; ``text`` in every field that takes any string."""
    gemm, attention, idle = text or "gemm", text or "attention", text or "in step: launch"
    wide = 900 * slower
    return TypicalStep(
        run=run,
        trace=text or f"trace/{run}.pt.trace.json.gz",
        device=text or "gpu 0",
        step=12,
        at=0.25,
        seconds=(4100 + wide) / 1e6,
        composition=text or "48 decoding",
        alike=39,
        names=(text or "nvjet_tst", text or "flash_fwd", text or "schedule", idle, text or "cudaGraphLaunch"),
        lanes=(
            _lane("host", text or "host phases", (text or "schedule",), ((-400, 300, 0, 2, 1),)),
            _lane("launch", text or "launches", (text or "cudaGraphLaunch",), ((-100, 40, 0, 4, 1),)),
            _lane("device", text or "gpu 0, stream 7", (gemm, attention),
                  ((0, 2000, 0, 0, 1), (2100, wide, 1, 1, 1), (2100 + wide, 2000, 0, -1, 40))),
            _lane("idle", text or "why the device waited", (idle,), ((2000, 100, 0, 3, 1),)),
        ),
    )  # fmt: skip


def pairs(text: str | None = None) -> tuple[StepPair, ...]:
    """Equal decode steps, and a prefill that one run has no trace of."""
    return (
        StepPair(kind="decode", equal=True, steps=(step("a", 1, text), step("b", 2, text))),
        StepPair(kind="prefill", equal=None, steps=(step("a", 1, text),), absent={"b": text or "no trace recorded"}),
    )


def moments(text: str | None = None) -> tuple[Moment, ...]:
    """Attention in both steps."""
    both: tuple[Side, Side] = ("a", "b")
    return tuple(
        Moment(
            cause="kernel", run=run, pair=0, bucket=text or "attention", name=text or "flash_fwd", offset=0.0021,
            seconds=0.0009, trace=text or f"trace/{run}.pt.trace.json.gz", at=0.2521,
        )
        for run in both
    )  # fmt: skip


def summary(text: str | None = None) -> tuple[SummaryLine, ...]:
    """A line of each kind."""
    both = text or "bench.json"
    return (
        SummaryLine(topic="model and hardware", name=text or "model", unit="", a=text or "Qwen3-32B", b=text or "Qwen3-32B",
                    a_source=text or "run.json", b_source=text or "server.log: line 3"),
        SummaryLine(topic="features", name="prefix cache", unit="", a="on", b=None, a_source=both, b_source=""),
        SummaryLine(topic="service at this load", name="mean_ttft", unit="s", a=0.412, b=1.921, a_source=both, b_source=both),
        SummaryLine(topic="operability", name="traces", unit="files", a=1.0, b=0.0, a_source=both, b_source=""),
        SummaryLine(topic="not measured", name="not measured", unit="", a="other loads", b="traces", a_source="",
                    b_source=""),
    )  # fmt: skip
