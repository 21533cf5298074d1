"""Knobs that are something else where the model runs on the CPU itself: without effect, or the compiler's switch alone.

Which knob is what there, its engine's own file says (``Engine.on_cpu``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from profiler.analyzers.device_view import CPU
from profiler.analyzers.gap.model import UNSPLIT_CPU, Component
from profiler.analyzers.knobs import (
    ALIKE,
    EFFECTS,
    LAYOUT,
    Effect,
    NotPredictable,
    Situation,
    Turned,
    Value,
    beyond,
    other_with,
)
from profiler.analyzers.knobs_captured import CAPTURED

# What a compiler leaves as it is: matrix products and attention are calls of a library before and after.
_KEPT: Final = ("gemm", "attention", "linear_attn")


def effect_of(situation: Situation, knob: str) -> Effect | None:
    """The effect of a knob on this run's device; None where none is known."""
    effect = EFFECTS.get(knob, CAPTURED.get(knob))
    if effect is None or knob not in situation.elsewhere:
        return COMPILER if knob == COMPILER.knob else effect
    other = situation.elsewhere[knob]
    if other == COMPILER.knob:
        return COMPILER
    return replace(effect, turn=_ignored, candidates=lambda _: ()) if other is None else EFFECTS.get(other)


def ineffective(situation: Situation) -> dict[str, str]:
    """Knobs that this run's engine sets by itself on this device, and why they change nothing."""
    return {knob: _IGNORED for knob, other in situation.elsewhere.items() if other is None}


_IGNORED: Final = (
    "no effect: the engine sets it by itself where the model runs on the CPU; the interval is what two starts differ by"
)


def _ignored(situation: Situation, value: Value) -> Turned:
    if not isinstance(value, bool):
        raise NotPredictable(f"on or off was expected, not {value!r}")
    return Turned(situation.player, notes=(_IGNORED,))


def _compiled(situation: Situation, value: Value) -> Turned:
    """On: nothing is gained, or at most what operators but matrix products and attention, and the pauses between
    operators, take in an eager step. Off: what another run without it shows; a compiled run does not say it."""
    if not isinstance(value, bool):
        raise NotPredictable(f"compilation is on or off, not {value!r}")
    if situation.measured.device != CPU:
        raise NotPredictable("what compiled kernels save on a GPU is in no trace of a run without them")
    compiled = situation.measured.run.fact("setting.compile")
    if compiled is None:
        raise NotPredictable("no file says whether the model was compiled (the server's log or /server_info would)")
    if value is compiled:
        return Turned(situation.player)
    if not value:
        return _eager(situation)
    player = situation.player
    most = {key: cost for key, cost in player.costs.items() if not _saved(key)}
    if len(most) == len(player.costs):
        raise NotPredictable("no trace with steps says what operators and the pauses between them take in a step")
    fastest = replace(player, costs=most)
    return Turned(fastest, low=player, high=fastest, midway=True, notes=(_BOUNDS,))


def _eager(situation: Situation) -> Turned:
    """The other run's operators and pauses at this run's compositions: alone, and with all else of its steps, which
    two starts on a busy machine may differ by."""
    if situation.shown is None:
        raise NotPredictable("what the compiler saved is in no trace of a compiled run; one of an eager run bounds it")
    other = other_with(situation, "compile", False, (*ALIKE, *LAYOUT, "setting.attention_backend"))
    player = situation.player
    if not any(map(_saved, player.costs)) or not any(map(_saved, other.costs)):
        raise NotPredictable("no trace of both runs says what operators and the pauses between them take in a step")
    kept = {key: cost for key, cost in player.costs.items() if not _saved(key)}
    alone = replace(player, costs=kept | {key: cost for key, cost in other.costs.items() if _saved(key)})
    return Turned(alone, low=alone, high=replace(player, costs=other.costs), extrapolated=beyond(situation))


def _saved(key: Component) -> bool:
    return key[0] == "kernel" and key[1] not in _KEPT and key[1] != UNSPLIT_CPU[1]


_BOUNDS: Final = (
    "bounds and no estimate: compiling saves nothing, or up to all that the trace shows of operators other than matrix "
    "products and attention and of the pauses between operators; the change given is midway between both"
)

COMPILER: Final = Effect(
    "compile", "compilation", _compiled, lambda situation: (True,), "start-up time, for the compiler"
)
