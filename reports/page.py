"""How the HTML report is put together: templates that escape everything, assets, hashes for the policy."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from profiler.model.diagnosis import Diagnosis
from profiler.reports import language, numbers, wording
from profiler.reports.safe_text import plain

_ROOM: Final = Path(__file__).parent
_IN_SCRIPT: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the page. ``draw`` returns an empty fragment where the document has nothing to show in it."""

    anchor: str
    title: str
    draw: Callable[[Diagnosis], Markup]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A section with its content."""

    anchor: str
    title: str
    content: Markup


def whole(
    *, kind: str, title: str, head: Markup, sections: Sequence[Drawn], scripts: list[Markup], left_out: Sequence[str]
) -> str:
    """The page: ``head`` stands above the sections, ``left_out`` names what was cut for its size."""
    # plotly looks for the second, empty style element and then adds no rules of its own
    styles = [asset("report.css"), Markup("")]
    return str(
        fragment(
            "page.html.j2",
            kind=kind,
            title=title,
            policy=_policy(styles, scripts),
            style=styles[0],
            scripts=scripts,
            head=head,
            sections=sections,
            left_out=left_out,
        )
    )


def _policy(styles: Sequence[Markup], scripts: Sequence[Markup]) -> Markup:
    style, script = (" ".join(hash_source(str(text)) for text in texts) for texts in (styles, scripts))
    rules = (
        "default-src 'none'",
        f"script-src {script}",
        f"style-src {style}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return Markup("; ".join(rules))


def fragment(template: str, **context: Any) -> Markup:
    """A template filled in. Strings are made visible (``plain``) and escaped; ``Markup`` is what we drew ourselves."""
    return Markup(_environment().get_template(template).render(context))


def embedded(value: Mapping[str, Any]) -> Markup:
    """JSON for a ``<script type="application/json">``: no character in it can end the element."""
    return Markup(json.dumps(value, allow_nan=False).translate(_IN_SCRIPT))


@cache
def asset(name: str) -> Markup:
    """A file of ``assets/``, as it goes into the page."""
    return Markup((_ROOM / "assets" / name).read_text(encoding="utf-8"))


def hash_source(text: str) -> str:
    """The Content-Security-Policy source that allows exactly this inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_ROOM / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _prose
    environment.globals.update(wording=wording, numbers=numbers, _=language.said, lang=language.tag)
    return environment


def _shown(value: Any) -> Any:
    if value is None:
        return ""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _prose(text: str) -> Markup:
    """A sentence in which `backticks` mark what is to be typed."""
    pieces = plain(text).split("`")
    if len(pieces) % 2 == 0:
        return escape("`".join(pieces))
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if index % 2 else escape(piece) for index, piece in enumerate(pieces)
    )
