"""``KNOB=VALUE`` on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from profiler.model.extension import Engine
    from profiler.model.run import Run

_ON, _OFF = ("on", "true", "yes"), ("off", "false", "no")


class Setting(click.ParamType[tuple[str, "int | float | bool | str"]]):
    """A knob by its shared name or the engine's flag, and a value: ``max_num_seqs=64``, ``cuda_graph=off``."""

    name = "setting"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int | float | bool | str]:
        """(knob, value) with numbers and switches told apart."""
        knob, equals, text = str(value).partition("=")
        if not equals or not knob.strip() or not text.strip():
            self.fail(f"{value!r}: expected KNOB=VALUE, such as max_num_seqs=64 or cuda_graph=off", param, ctx)
        text = text.strip()
        if text.lower() in (*_ON, *_OFF):
            return knob.strip(), text.lower() in _ON
        for kind in (int, float):
            try:
                return knob.strip(), kind(text)
            except ValueError:
                continue
        return knob.strip(), text


def engine_in(run: Run) -> Engine | None:
    """What is known of the engine that a run is of; None where the run does not say, or it is not known here."""
    from profiler import registry

    name = run.fact("engine.name")
    return next((engine for engine in registry.engines() if engine.name == name), None)


def shared_name(knob: str, engine: Engine | None) -> str:
    """The shared name of a knob that was given as one of the engine's flags, or the name as it is."""
    for known in () if engine is None else engine.knobs:
        if knob in known.flags or knob in known.settings or knob.replace("-", "_") == known.name:
            return known.name
    return knob
