"""An engine's settings, from the table beside its file: ``engines/<engine>.tsv``, a line for each knob.

Columns: the shared name; flags; the engine's fields that hold it (``-field``: the opposite); spellings that no rule
gives (``on=…; off=…``); the default; the range; what the setting needs; what it trades. Flags and defaults may be those
of some versions: ``--old<=0.5.12``, ``0.92>=0.20.2 | 0.9<=0.19``. What is not known is empty.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

from profiler.model.knob import Allowed, Dated, Knob

_DATED: Final = re.compile(r"(?P<text>.*?)(?:>=(?P<since>[\d.]+))?(?:<=(?P<until>[\d.]+))?")
_SWITCHED: Final = {"on": True, "off": False}


def knobs(engine: str) -> tuple[Knob, ...]:
    """The table of an engine that is shipped with this package."""
    lines = (files("profiler.collectors.engines") / f"{engine}.tsv").read_text("utf-8").splitlines()[1:]
    return tuple(_knob(*line.split("\t")) for line in lines)


def _knob(
    name: str, flags: str, fields: str, fixed: str, default: str, allowed: str, needs: str, trades: str
) -> Knob:  # fmt: skip
    spelled = tuple(map(_dated, flags.split()))
    return Knob(
        name,
        tuple(flag.text for flag in spelled),
        tuple(fields.split()),
        tuple((_SWITCHED[value], text) for value, _, text in (one.partition("=") for one in fixed.split("; ") if one)),
        tuple(flag for flag in spelled if flag.since or flag.until),
        tuple(map(_dated, default.split(" | "))) if default else (),
        Allowed(allowed) if allowed else None,
        needs,
        trades,
    )


def _dated(text: str) -> Dated:
    match = _DATED.fullmatch(text)
    assert match is not None
    return Dated(match["text"], match["since"], match["until"])
