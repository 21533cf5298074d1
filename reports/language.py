"""The language of a report: English, or what a table in ``lang/`` has for the English text.

The English text is the key, so nothing is written twice. A table's line is the key, a tab, and its translation; both
may hold places (``{a}``), which take whatever stands there: ``{a} holds no benchmark result`` translates that sentence
of every run. What a place takes is translated itself where the table has it, and stays as it is where not: numbers,
files and names are never changed. Documents stay English; only what is shown is translated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

LANGUAGES: Final = ("en", "zh")
_TABLES: Final = Path(__file__).parent / "lang"
_TAGS: Final = {"en": "en", "zh": "zh-CN"}
_PLACE: Final = re.compile(r"\{(\w+)\}")
_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+(?=\S)")
# Places that take clauses; every other takes what stands within one.
_SPANNING: Final = frozenset({"summary", "list", "detail", "text"})
# Places that take nothing but a number.
_NUMBERS: Final = frozenset({"count", "total"})
# The table of what reports say themselves: they fill its places, so none of it is a pattern.
_OWN: Final = "page.tsv"
_ASIDE: Final = re.compile(r"(.+) \((.+)\)")
_HAN: Final = re.compile("[\u4e00-\u9fff]")
# A pattern with fewer letters of its own would take sentences that it does not mean.
_LETTERS: Final = 4
_PROSE: Final = re.compile(r"[a-z]{3,} [a-z]{2,}|^[a-z]{4,}$")
_chosen: ContextVar[str] = ContextVar("language", default="en")


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Everything that is shown in this context is in that language."""
    before = _chosen.set(language)
    try:
        yield
    finally:
        _chosen.reset(before)


def tag() -> str:
    """The language in force, as HTML's ``lang`` spells it."""
    return _TAGS[_chosen.get()]


def said(text: str, **values: str) -> str:
    """``text`` in the language in force. With ``values`` it is a template, and they fill its places; without them it
    may be a finished sentence."""
    language = _chosen.get()
    if language == "en":
        return text.format(**values) if values else text
    table = catalogue(language)
    return table.template(text).format(**values) if values else table.sentence(text)


def named(text: str) -> str:
    """The same for what may be a name or a value of a file, which has no translation: then it stays as it is."""
    language = _chosen.get()
    return text if language == "en" else catalogue(language).name(text)


@dataclass(frozen=True)
class _Pattern:
    found: re.Pattern[str]
    anchor: str
    target: str
    letters: int


@dataclass
class Catalogue:
    """The tables of one language; ``sentences`` are the keys that whole sentences are matched with. ``missed`` collects
    English prose that was shown for want of a translation."""

    entries: dict[str, str]
    sentences: frozenset[str]
    missed: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        """Order the patterns: the one that says most itself goes first."""
        keyed = [key for key in self.sentences if _PLACE.search(key)]
        patterns = [_pattern(key, self.entries[key]) for key in keyed]
        self._patterns = sorted((p for p in patterns if p.letters >= _LETTERS), key=lambda p: -p.letters)
        self._known: dict[str, str | None] = {}

    def template(self, key: str) -> str:
        """The translation of a template."""
        if key not in self.entries:
            self.missed.add(key)
        return self.entries.get(key, key)

    def sentence(self, text: str) -> str:
        """The translation of a finished text; the text itself, noted in ``missed``, where there is none."""
        found = self.find(text)
        if found is None and _PROSE.search(text):
            self.missed.add(text)
        return text if found is None else found

    def name(self, text: str) -> str:
        """The translation of what may be data: nothing of it is noted as missing."""
        before = set(self.missed)
        found = self.find(text)
        self.missed &= before
        return text if found is None else found

    def find(self, text: str) -> str | None:
        """The translation of a text, None where the table has none."""
        if text not in self._known:
            self._known[text] = self._search(text)
        return self._known[text]

    def _search(self, text: str) -> str | None:
        bare = text.strip()
        if bare in self.entries:
            return self.entries[bare]
        pieces = _SENTENCES.split(bare)
        if len(pieces) > 1:
            return self._joined(pieces, "")
        if bare.endswith(".") and (found := self.find(bare[:-1])) is not None:
            return found + "。"
        for pattern in self._patterns:
            if pattern.anchor in bare and (match := pattern.found.fullmatch(bare)) is not None:
                target, values = pattern.target, match.groupdict()
                for name, value in values.items():
                    if (said := self.find(value)) is not None:
                        target, values[name] = _seamless(target, name, said), said
                return target.format(**values)
        for mark, joint in (("; ", "；"), (": ", "：")):
            if mark in bare and (joined := self._joined(bare.split(mark), joint)) is not None:
                return joined
        if (aside := _ASIDE.fullmatch(bare)) is not None:
            head, inner = self.find(aside[1]), self.find(aside[2])
            # What stands before it may be a file.
            if head is not None or (inner is not None and not _PROSE.search(aside[1])):
                return f"{head or aside[1]}（{inner or aside[2]}）"
        return self._joined(bare.split(", "), "，") if ", " in bare else None

    def _joined(self, pieces: list[str], joint: str) -> str | None:
        """The pieces translated one by one, None where none is; prose among them that is not is noted."""
        found = [self.find(piece) for piece in pieces]
        if all(piece is None for piece in found):
            return None
        self.missed.update(p for p, f in zip(pieces, found, strict=True) if f is None and _PROSE.search(p))
        return joint.join(piece if new is None else new for piece, new in zip(pieces, found, strict=True))


def _seamless(target: str, name: str, text: str) -> str:
    """The target without the spaces around a place that Latin text needs and Chinese text does not."""
    place = re.escape(f"{{{name}}}")
    if _HAN.match(text):
        target = re.sub(rf"({_HAN.pattern}) ({place})", r"\1\2", target)
    return re.sub(rf"({place}) (?={_HAN.pattern})", r"\1", target) if _HAN.match(text[-1:]) else target


def _pattern(key: str, target: str) -> _Pattern:
    parts = _PLACE.split(key.removesuffix("."))
    literals = parts[::2]
    names: set[str] = set()
    text = re.escape(literals[0])
    for name, literal in zip(parts[1::2], literals[1:], strict=True):
        inside = r"[\d.,]+" if name in _NUMBERS else ".+?" if name in _SPANNING else "(?:(?!; ).)+?"
        text += (f"(?P={name})" if name in names else f"(?P<{name}>{inside})") + re.escape(literal)
        names.add(name)
    letters = sum(character.isalpha() for literal in literals for character in literal)
    if names and names <= _NUMBERS:
        letters += _LETTERS  # no sentence can be taken for it
    return _Pattern(re.compile(text), max(literals, key=len), target.removesuffix("。"), letters)


@cache
def catalogue(language: str) -> Catalogue:
    """The table of a language, read once."""
    entries: dict[str, str] = {}
    sentences: set[str] = set()
    for path in sorted((_TABLES / language).glob("*.tsv")):
        for line in path.read_text("utf-8").splitlines():
            key, tab, target = line.partition("\t")
            if tab:
                entries[key] = target
                sentences |= set() if path.name == _OWN else {key}
    return Catalogue(entries, frozenset(sentences))
