"""kernel: the device needs longer for the same work, by slower or by more kernels at an equal batch."""

from __future__ import annotations

from typing import Final

from profiler.analyzers.causes.kind import CauseKind
from profiler.analyzers.gap.model import GAPS
from profiler.analyzers.gap.view import Pair, View, both, evidence
from profiler.analyzers.metrics import MANY, times
from profiler.model.diagnosis import Evidence

_ROUNDING: Final = 5e-4
_NEARLY_ALL: Final = 0.8


def _evidence(view: View) -> tuple[Evidence, ...]:
    source, fitted = view.source("trace"), view.source("fitted")
    return (
        *evidence("kernel time of a step, pauses between kernels included", view.per_step("kernel"), "s", fitted),
        *evidence("the same at equal batches, as fitted", view.at_equal_steps("kernel"), "s", fitted),
        *evidence("pauses between kernels of a step", view.per_step("kernel", GAPS), "s", fitted),
        *evidence("kernels (operators) a step", view.traced("kernels"), "count", source),
    )


def _summary(view: View, amount: float) -> str:
    a, b = view.names()
    if not both(view.per_step("kernel")):
        if view.a.device == "cpu" and view.b.device == "cpu":
            text = "equal steps differ inside the executor; without traces of both that compare, kernels and dispatch"
            return f"{text} stay together"
        missing = [m.name for m in (view.a, view.b) if m.traced is None]
        return f"not known: kernel times need a trace with steps of {' and '.join(missing) or 'both runs'}"
    kernels = view.traced("kernels")
    more = ""
    if kernels[0] and kernels[1] and abs(kernels[1] / kernels[0] - 1) > 0.05:
        more = f"; {b} runs {kernels[1]:,.0f} a step where {a} runs {kernels[0]:,.0f}"
    busy = view.per_step("kernel")
    if not amount or (view.by_chance("kernel") and _alike(busy)):
        return f"equal steps take equal kernel time{more}"
    if view.by_chance("kernel"):
        return f"at an equal batch, no difference in kernel time is shown{more}"
    slower, faster = (b, a) if amount > 0 else (a, b)
    gaps = view.per_step("kernel", GAPS)
    if both(gaps) and both(busy) and abs(_difference(gaps)) > 0.8 * abs(_difference(busy)):
        return f"the device pauses longer between {slower}'s kernels than between {faster}'s{more}"
    return f"at an equal batch, {slower}'s kernels take {_longer(view, amount)} {faster}'s{_where(view)}{more}"


def _where(view: View) -> str:
    """The category that nearly all of the amount is of."""
    parts = {part: amount for (cause, part), amount in view.parts.items() if cause == "kernel"}
    size = sum(abs(amount) for amount in parts.values())
    largest = max(parts, key=lambda part: abs(parts[part]), default="")
    return f", nearly all of it in {largest}" if size and abs(parts[largest]) >= _NEARLY_ALL * size else ""


def _longer(view: View, amount: float) -> str:
    """How much longer, where the fit says that the same run's do."""
    one, two = view.at_equal_steps("kernel")
    if not one or not two or (two - one) * amount <= 0.0:
        return "longer than"
    factor = max(one, two) / min(one, two)
    return f"{times(factor)} times as long as" if factor - 1.0 >= MANY else f"{factor - 1.0:.1%} longer than"


def _alike(pair: Pair) -> bool:
    """Whether both are the same to the three digits that a sentence has."""
    return abs(_difference(pair)) < _ROUNDING * max(pair[0] or 0.0, pair[1] or 0.0)


def _difference(pair: Pair) -> float:
    return (pair[1] or 0.0) - (pair[0] or 0.0)


CAUSE = CauseKind(
    "kernel", "Kernel", "a trace with steps of both runs", _evidence, _summary, ("attention_backend", "compile")
)
