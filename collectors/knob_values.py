"""Settings in shared words, from an engine's own fields or from its command line.

An engine's ``Knob`` lists the flags that set it and the fields that hold it. A field written as ``-name`` holds the
opposite (``disable_x``); flags follow the field of the same name, and ``--no-x`` is the opposite of ``--x``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.redaction import redact
from profiler.model.extension import Engine
from profiler.model.knob import Knob

SWITCHES: Final = frozenset(
    {
        "chunked_prefill",
        "prefix_cache",
        "cuda_graph",
        "overlap",
        "mixed_prefill",
        "compile",
        "step_log",
        "cuda_graph_padding",
        "custom_all_reduce",
        "prefill_graph",
    }
)
_OFF: Final = frozenset({"", "0", "false", "no", "off", "none", "disabled", "null"})
_NUMBER: Final = re.compile(r"[+-]?(?:\d+|\d*\.\d+(?:[eE][+-]?\d+)?|\d+\.?(?:[eE][+-]?\d+)?)")
_FIRST_FIELD: Final = re.compile(r"^-+(?:no-)?")


def from_fields(knobs: Sequence[Knob], fields: Mapping[str, object]) -> dict[str, object]:
    """``setting.<knob>`` of every field that is set. A field of None means "chosen by the engine" and is left out."""
    found: dict[str, object] = {}
    for knob in knobs:
        for field in knob.settings:
            value = fields.get(field.removeprefix("-"))
            known = None if value is None else setting(knob.name, value, opposite=field.startswith("-"))
            if known is not None:
                found[f"setting.{knob.name}"] = known
                break
    return found


def from_command(engine: Engine, words: Sequence[str]) -> dict[str, object]:
    """``setting.<knob>`` of every flag of a command line that the engine's knobs know, the last one winning;
    ``default.<knob>`` where the engine's default of a knob without a flag decides how the run is read."""
    fields: dict[str, object] = {}
    for flag, value in flags(words):
        name, opposite, alone = _field(flag, engine.knobs)
        if value is not None and value.startswith("{"):
            fields.update(_leaves(value))
            if not alone:
                continue
        if name is None:
            continue
        stated: object = True if value is None else value
        fields[name] = not switch(stated) if opposite else stated
    found = from_fields(engine.knobs, fields)
    return found | {f"default.{k}": v for k, v in engine.defaults.items() if f"setting.{k}" not in found}


def flags(words: Sequence[str]) -> list[tuple[str, str | None]]:
    """The flags of a command line with their value: ``--x 1``, ``--x=1`` and ``--x`` (None)."""
    out: list[tuple[str, str | None]] = []
    for word in words:
        if word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word):
            flag, equals, value = word.partition("=")
            out.append((flag, value if equals else None))
        elif out and out[-1][1] is None:
            out[-1] = (out[-1][0], word)
    return out


def setting(name: str, value: object, *, opposite: bool = False) -> object | None:
    """A field's value as the value of a knob: switches become booleans, sizes numbers; None where it says nothing."""
    if name in SWITCHES:
        return switch(value) != opposite
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text):
            value = int(text) if text.lstrip("+-").isdigit() and len(text) < 19 else float(text)
        elif text in ("None", "null", ""):
            return None  # unset; an upper-case NONE is a mode
        else:
            value = text
    if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
        return None  # -1 stands for "no limit" or "automatic"
    return redact(value)


def switch(value: object) -> bool:
    """Whether a value says "on": words such as none, disabled and false say off, and so do sizes below one."""
    if isinstance(value, str):
        text = value.strip().lower()
        return float(text) > 0 if _NUMBER.fullmatch(text) else text not in _OFF
    if isinstance(value, int | float):
        return value > 0
    return bool(value)


def _field(flag: str, knobs: Sequence[Knob]) -> tuple[str | None, bool, bool]:
    """The engine's field that a flag sets, whether it sets the opposite, and whether it is its knob's only field."""
    spelled = flag.replace("_", "-") if flag.startswith("--") else flag
    for knob in knobs:
        if spelled in knob.flags:
            named = _FIRST_FIELD.sub("", spelled).replace("-", "_")
            known = {field.removeprefix("-") for field in knob.settings}
            if named not in known and knob.settings:
                named = knob.settings[0].removeprefix("-")
            return named, spelled.startswith("--no-"), len(knob.settings) == 1
    # --compilation-config.cudagraph_mode=X sets a field of a JSON-valued flag.
    leaf = flag.rpartition(".")[2] if "." in flag else None
    if leaf and any(leaf in knob.settings for knob in knobs):
        return leaf, False, False
    return None, False, False


def _leaves(text: str) -> dict[str, object]:
    """Fields of a JSON-valued flag, by their own name and by their dotted path."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return dict(leaves(value)) if isinstance(value, dict) else {}


def leaves(value: Mapping[str, object], prefix: str = "", depth: int = 0) -> list[tuple[str, object]]:
    """Every (name, value) of nested objects: by the leaf's own name, and by its dotted path where it is nested."""
    out: list[tuple[str, object]] = []
    for key, item in value.items():
        if isinstance(item, dict) and depth < 4:
            out += leaves(item, f"{prefix}{key}.", depth + 1)
        else:
            out.append((str(key), item))
            if prefix:
                out.append((f"{prefix}{key}", item))
    return out
