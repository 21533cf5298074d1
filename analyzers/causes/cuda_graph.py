"""cuda_graph: steps that ran eagerly where a graph could have run, or replays launched too late."""

from __future__ import annotations

from profiler.analyzers.causes.kind import CauseKind
from profiler.analyzers.gap.ledger import COVERED, DEVICE, LATER
from profiler.analyzers.gap.view import View, both, evidence, waited
from profiler.model.diagnosis import Evidence


def _evidence(view: View) -> tuple[Evidence, ...]:
    if view.a.device == "cpu" and view.b.device == "cpu":
        return ()
    source = view.source("trace")
    return (
        *evidence("traced kernels launched by a graph replay", view.traced("replayed"), "fraction", source),
        *evidence("traced steps with a graph replay", view.traced("replayed_steps"), "fraction", source),
        *evidence("graph launches a step", view.traced("graph_launches"), "count", source),
        *waited("device idle until a launch, in a step", view.per_step("cuda_graph"), view.source("fitted")),
    )


def _summary(view: View, amount: float) -> str:
    if view.a.device == "cpu" and view.b.device == "cpu":
        return "none: both engines run on the CPU, where there are no CUDA graphs"
    replayed = view.traced("replayed")
    if not both(replayed):
        return "not known without a trace of both runs"
    a, b = view.names()
    text = f"graphs replay {replayed[0]:.0%} of {a}'s traced kernels and {replayed[1]:.0%} of {b}'s"
    if abs(view.parts.get(("scheduling", LATER), 0.0)) > abs(amount):
        return f"{text}; launches come later and take no longer: counted as scheduling"
    if abs(sum(view.parts.get((cause, COVERED), 0.0) for cause in DEVICE)) > abs(amount):
        return f"{text}; how long launches are waited for follows from how long kernels take: counted as theirs"
    if amount and not view.by_chance("cuda_graph"):
        return f"{text}; the rest waits for launches one by one"
    late = view.per_step("cuda_graph")
    if not both(late):
        return text
    return f"{text}, and no launch is late" if not any(late) else f"{text}; late launches make no difference"


CAUSE = CauseKind(
    "cuda_graph",
    "CUDA Graph",
    "a trace with launches of both runs",
    _evidence,
    _summary,
    ("cuda_graph", "cuda_graph_max_batch", "cuda_graph_batches", "cuda_graph_mode", "cuda_graph_padding"),
)
