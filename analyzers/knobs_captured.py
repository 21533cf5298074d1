"""Which decode steps replay a graph, and at which size: the largest captured size, the list of sizes, and padding.

A run whose steps are on both sides of its largest size shows what a step takes when it is replayed and when it is
launched eagerly. Under another size, steps that move take the time of the kind that they move to. Where no decode step
ran eagerly, one takes at least its launches' time: bounds. A step of n sequences runs the kernels of the next captured
size; attention reads no more for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from profiler.analyzers.device_view import CPU
from profiler.analyzers.gap.measured import trace_load
from profiler.analyzers.gap.played import Apart, linear
from profiler.analyzers.gap.replay import StepCost, summed
from profiler.analyzers.gap.shape import fit
from profiler.analyzers.knobs import (
    ATTENTION,
    Effect,
    NotPredictable,
    Situation,
    Turned,
    Value,
    launched,
    launching,
    replaying,
    switch,
    whole,
)
from profiler.model.requests import Floats

# Replays of one decode step in at most so many graphs are not pieces around each layer's attention.
_WHOLE: Final = 3
# A smaller share of the steps hardly changes a run.
_FEW: Final = 0.02
# Fewer steps of a kind don't say what one takes.
_ENOUGH: Final = 8
# Steps of more sequences than this times the most that were seen of their kind are extrapolated.
_BEYOND: Final = 1.25
# A step that takes this much longer than those that are replayed was launched eagerly, and this share of steps may seem
# to be of the other kind.
_CLEAR: Final = 1.5
_MIXED: Final = 0.1
_SIZES: Final = re.compile(r"\d{1,6}(?:\s*,\s*\d{1,6})*")


@dataclass(frozen=True)
class Captures:
    """What graphs were captured for. ``sizes`` are empty where they are not known; then every size up to the
    ``largest`` is taken to be one. ``padded``: a step is brought to the next size, else only those of a size are
    replayed."""

    largest: float
    sizes: tuple[int, ...] = ()
    padded: bool = True

    def replays(self, decode: int) -> bool:
        """Whether a step of so many sequences is replayed."""
        return decode <= self.largest and (self.padded or decode in self.sizes)

    def size(self, decode: int) -> int:
        """The size at which it is."""
        return next((size for size in self.sizes if size >= decode), decode) if self.padded else decode


@dataclass(frozen=True)
class Line:
    """Seconds of a step by its sequences, and the most sequences it was seen with."""

    step: float
    sequence: float
    most: float = float("inf")

    def at(self, decode: float) -> float:
        """Of a step with so many."""
        return self.step + self.sequence * decode


@dataclass(frozen=True)
class Lanes:
    """What a step that only decodes takes when it is ``replayed`` and when it runs ``eager``ly, and one that
    ``prefills``. ``padding`` are seconds of one more row that only pads."""

    replayed: Line
    eager: Callable[[int], float]
    padding: float
    prefills: StepCost

    def apart(self, captures: Captures, now: Captures, known: StepCost) -> Apart:
        """Steps under ``captures``, where the lines were read under ``now``."""

        def seconds(decode: int) -> float:
            if not captures.replays(decode):
                return self.eager(decode)
            extra = captures.size(decode) - now.size(decode) if now.replays(decode) else 0
            return self.replayed.at(decode) + self.padding * extra

        return Apart(seconds, self.prefills, known)


def _stated(situation: Situation, name: str) -> object:
    run = situation.measured.run
    found = run.fact(f"setting.{name}")
    return run.fact(f"default.{name}") if found is None else found


def sizes_of(value: object) -> tuple[int, ...]:
    """Captured sizes as a setting or ``1,2,4`` states them, smallest first; empty where they are not."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return (value,)
    if isinstance(value, str) and _SIZES.fullmatch(value.strip("[] ")):
        value = [int(part) for part in value.strip("[] ").split(",")]
    if isinstance(value, list | tuple) and value and all(isinstance(v, int) and v > 0 for v in value):
        return tuple(sorted(value))
    return ()


def _now(situation: Situation) -> Captures:
    """What was captured in this run: as the trace shows it, else as the settings say, else as step times jump."""
    sizes = sizes_of(_stated(situation, "cuda_graph_batches"))
    stated = _stated(situation, "cuda_graph_max_batch")
    largest = float(situation.player.model.captured[0])
    if not np.isfinite(largest) and isinstance(stated, int) and stated > 0:
        largest = float(stated)
    elif not np.isfinite(largest):
        largest = float(max(sizes)) if sizes else _jump(situation)
    padded = _stated(situation, "cuda_graph_padding") is not False
    if not padded and not sizes:
        raise NotPredictable("steps are not padded, and no file says which sizes were captured")
    return Captures(largest, sizes, padded)


def _jump(situation: Situation) -> float:
    """The size beyond which the run's decode steps take much longer than those that the trace shows replayed; infinite
    where none does. Raises NotPredictable where the two kinds are mixed, or the trace shows no replay."""
    account = situation.measured.traced
    decode, seconds, weight = _pure(situation)
    if account is None or account.steps is None:
        raise NotPredictable("no trace with steps shows which of them replay a graph")
    load, known = trace_load(account.steps)
    alone = (load.prefill_tokens == 0) & (load.decode > 0)
    replayed = account.steps.graph_launches[known] > 0
    if not (alone & replayed).any():
        raise NotPredictable("no traced step replays a graph, and no file says which sizes were captured")
    if (alone & ~replayed).any():
        raise NotPredictable("traced decode steps of equal size replay a graph and run eagerly")
    most = float(load.decode[alone & replayed].max())
    within = decode <= most
    if within.all() or not within.any():
        return float("inf")
    line = _line(decode[within], seconds[within], weight[within])
    far = seconds > _CLEAR * (line.step + line.sequence * decode)
    if float(weight[far & ~within].sum()) <= _FEW * float(weight.sum()):
        return float("inf")  # too few to be more than what any step may be late by
    cuts = [most, *np.unique(decode[~within]).tolist()]
    wrong = [float(weight[(decode > cut) != far].sum()) for cut in cuts]
    best = int(np.argmin(wrong))
    if wrong[best] > _MIXED * float(weight[~within].sum()):
        raise NotPredictable("step times don't tell up to which size graphs were captured")
    return float("inf") if best == len(cuts) - 1 else float(cuts[best])


def _pure(situation: Situation) -> tuple[Floats, Floats, Floats]:
    """(sequences, seconds, weight) of the run's own steps that only decode. Raises NotPredictable."""
    steps = situation.measured.steps
    if situation.measured.device == CPU:
        raise NotPredictable("the model runs on the CPU itself: there are no graphs")
    if steps is None or steps.own is None:
        raise NotPredictable("no log times single steps, so those that graphs replay can't be told from the others")
    rows = (steps.load.prefill_tokens == 0) & (steps.load.decode > 0)
    return steps.load.decode[rows], steps.own[rows], steps.load.weight[rows]


def _lanes(situation: Situation, now: Captures) -> tuple[Lanes, Lanes, Lanes]:
    """(the likeliest, and bounds of what the run leaves open). Raises NotPredictable."""
    decode, seconds, weight = _pure(situation)
    steps, device = situation.measured.steps, situation.player.model.device
    assert steps is not None and steps.own is not None
    replayed = np.array([now.replays(int(n)) for n in decode], bool)
    if replayed.sum() < _ENOUGH:
        raise NotPredictable("too few decode steps replay a graph to say what one takes")
    rest = steps.load.prefill_tokens > 0
    prefills = linear(situation.player.model.step)
    if rest.sum() >= _ENOUGH:
        prefills = linear(fit(steps.load.rows(rest), steps.own[rest]))
    if not device:
        raise NotPredictable("no trace tells a step's kernels from what they wait for")
    working = summed(map(linear, device.values()))
    padding = max(_slope(summed(linear(shape) for key, shape in device.items() if key != ATTENTION), decode), 0.0)
    line = _line(decode[replayed], seconds[replayed], weight[replayed])
    if (~replayed).sum() < _ENOUGH:
        least = launching(situation)

        def held(share: float) -> Lanes:
            return Lanes(line, lambda decode: max(least * share, line.at(decode)), padding, prefills)

        return held(0.75), held(0.5), held(1.0)
    eager = _line(decode[~replayed], seconds[~replayed], weight[~replayed])

    def lanes(replays: Line) -> Lanes:
        return Lanes(replays, eager.at, padding, prefills)

    # Beyond what was seen of them, replayed steps may grow as the kernels of the others do.
    slope = max(_slope(working, decode), 0.0)
    likely, other = lanes(line), lanes(Line(line.at(line.most) - slope * line.most, slope, line.most))
    return likely, likely, other


def _slope(cost: StepCost, decode: Floats) -> float:
    """Seconds of one more sequence in a step that only decodes, over the sizes that were seen."""
    low, high = int(decode.min()), int(decode.max())
    return 0.0 if high <= low else (cost.signed(high, 0) - cost.signed(low, 0)) / (high - low)


def _line(decode: Floats, seconds: Floats, weight: Floats) -> Line:
    """Least squares; level where all have one size."""
    mean, size = float(np.average(seconds, weights=weight)), float(np.average(decode, weights=weight))
    spread = float(weight @ (decode - size) ** 2)
    slope = 0.0 if spread <= 0.0 else max(float(weight @ ((decode - size) * (seconds - mean))) / spread, 0.0)
    return Line(mean - slope * size, slope, float(decode.max()))


def _told(situation: Situation, now: Captures, captures: Captures) -> Turned:
    player = situation.player
    if player.apart is not None:
        raise NotPredictable(f"of {', '.join(CAPTURED)} only one can be changed at a time")
    known = linear(player.model.step)
    likely, low, high = _lanes(situation, now)
    _spared(situation, now.largest, captures.largest)

    def under(lanes: Lanes, which: Captures) -> Apart:
        return lanes.apart(which, now, known)

    asked = min(player.demand.concurrency or len(player.demand), player.rules.max_seqs or len(player.demand))
    moved = min(captures.largest, asked)
    return Turned(
        replace(player, apart=under(likely, captures)),
        low=replace(player, apart=under(low, captures)),
        high=replace(player, apart=under(high, captures)),
        extrapolated=captures.largest > now.largest and moved > _BEYOND * max(now.largest, likely.replayed.most),
        reads=under(likely, now),
    )


def _spared(situation: Situation, old: float, new: float) -> None:
    """Raises NotPredictable where steps that prefill would move too: what these take then is not told apart."""
    account, steps = situation.measured.traced, situation.measured.steps
    if account is None or account.steps is None or steps is None:
        return
    load, known = trace_load(account.steps)
    if not (account.steps.replayed[known][load.prefill_tokens > 0] > 0).any():
        return
    ours = np.isfinite(situation.player.model.captured[1])
    limits = sorted((float(situation.player.model.captured[1]) if ours else old, new))
    tokens = steps.load.decode + steps.load.prefill_tokens
    moved = (steps.load.prefill_tokens > 0) & (tokens > limits[0]) & (tokens <= limits[1])
    if float(steps.load.weight[moved].sum()) > _FEW * float(steps.load.weight.sum()):
        raise NotPredictable("steps that prefill would replay graphs too, or no longer, and these are not told apart")


def _largest(situation: Situation, value: Value) -> Turned:
    largest = whole(value, "cuda_graph_max_batch")
    now = _now(situation)
    sizes = tuple(size for size in now.sizes if size <= largest)
    return _told(situation, now, replace(now, largest=float(largest), sizes=sizes))


def _listed(situation: Situation, value: Value) -> Turned:
    sizes = sizes_of(value)
    if not sizes:
        raise NotPredictable(f"cuda_graph_batches are sizes between commas (1,2,4,8), not {value!r}")
    now = _now(situation)
    return _told(situation, now, replace(now, largest=float(max(sizes)), sizes=sizes))


def _padded(situation: Situation, value: Value) -> Turned:
    padded, now = switch(value, "cuda_graph_padding"), _now(situation)
    if not now.sizes:
        raise NotPredictable("no file says which sizes were captured")
    return _told(situation, now, replace(now, padded=padded))


def _mode(situation: Situation, value: Value) -> Turned:
    """How decode steps run: eagerly, in pieces with attention between them, or as one graph."""
    now, then = _running(situation), _decodes_as(value)
    if then is None:
        raise NotPredictable(f"nothing is known of decode steps in a mode {value}")
    if now == then:
        raise NotPredictable("decode steps run so already; what other steps would gain is not told apart")
    if "piecewise" in (now, then):
        # A step in pieces is far from the middle of both others, and steps that prefill change with it.
        raise NotPredictable("how long a step in pieces waits between them is in no trace of a run in another mode")
    return launched(situation) if then == "none" else replaying(situation)


def _decodes_as(mode: object) -> str | None:
    """What a mode of any engine means for steps that only decode."""
    words = str(mode).lower().split("_") if mode is not None else []
    if "full" in words:
        return "full"
    if {"piecewise", "breakable"} & set(words):
        return "piecewise"
    return "none" if {"none", "disabled"} & set(words) else None


def _running(situation: Situation) -> str:
    """How the traced decode steps run. Raises NotPredictable."""
    account = situation.measured.traced
    if situation.measured.device == CPU:
        raise NotPredictable("the model runs on the CPU itself: there are no graphs")
    if account is None or account.steps is None:
        raise NotPredictable("no trace with steps shows which of them replay a graph")
    load, known = trace_load(account.steps)
    launches = account.steps.graph_launches[known][(load.prefill_tokens == 0) & (load.decode > 0)]
    if not len(launches):
        raise NotPredictable("no traced step decodes alone")
    usual = float(np.median(launches))
    return "none" if usual == 0.0 else "full" if usual <= _WHOLE else "piecewise"


def _unpadded(situation: Situation) -> tuple[Value, ...]:
    return (True,) if _stated(situation, "cuda_graph_padding") is False else ()


def _larger(situation: Situation) -> tuple[Value, ...]:
    """Sizes that cover the steps of this run, where larger steps than the largest were seen."""
    steps = situation.measured.steps
    largest = float(situation.player.model.captured[0])
    most = 0.0 if steps is None else float(steps.load.decode.max(initial=0.0))
    return (1 << (int(most) - 1).bit_length(),) if np.isfinite(largest) and most > largest else ()


_TRADE: Final = "memory and start-up time for the captures"
CAPTURED: Final[Mapping[str, Effect]] = {
    effect.knob: effect
    for effect in (
        Effect("cuda_graph_max_batch", "largest captured size", _largest, _larger, _TRADE),
        Effect("cuda_graph_batches", "captured sizes", _listed, lambda _: (), _TRADE),
        Effect("cuda_graph_mode", "kind of CUDA Graph", _mode, lambda _: (), _TRADE),
        Effect("cuda_graph_padding", "padding to a captured size", _padded, _unpadded, "rows that only pad"),
    )
}
