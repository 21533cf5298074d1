"""YAML as benchmark tools write it, as the values that JSON would have held; the library is loaded only when needed.

Only plain values are made (no tags, no objects). An anchor may be used again, as writers do for equal parts, but what
that expands to is bounded, and a part that holds itself is refused.
"""

from __future__ import annotations

from datetime import date
from typing import Final

MOST_VALUES: Final = 1 << 20


def parse_yaml(text: str) -> tuple[object | None, int | None]:
    """The value, and the line from 1 at which the text stops being YAML (what stands before it is the value then);
    None where nothing can be read."""
    import yaml  # no other file pays for loading it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    broken: int | None = None
    for _ in range(3):
        try:
            return _plain(yaml.load(text, loader), [MOST_VALUES]), broken
        except yaml.MarkedYAMLError as error:
            mark = error.context_mark if isinstance(error, yaml.parser.ParserError) else error.problem_mark
            mark = mark or error.problem_mark
            if mark is None or not mark.line:
                return None, 1
            broken = mark.line + 1 if broken is None else broken
            text = "\n".join(text.split("\n")[: mark.line])
        except (yaml.YAMLError, ValueError, RecursionError, OverflowError):
            return None, broken or 1
    return None, broken


def _plain(value: object, budget: list[int]) -> object:
    budget[0] -= 1
    if budget[0] < 0:
        raise ValueError("expands beyond what a report holds")
    if isinstance(value, dict):
        return {str(key): _plain(item, budget) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item, budget) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool) else None
