"""A setting of an engine in words that engines share: how it is spelled, what it is by default, what it takes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

_LIST: Final = re.compile(r"\d+(?:,\d+)+")
_NUMBERS: Final = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){0,2})")


@dataclass(frozen=True)
class Dated:
    """What holds for some versions of an engine: from ``since`` to ``until``, both included, None where it is open. A
    bound of two numbers holds for all versions that begin so."""

    text: str
    since: str | None = None
    until: str | None = None

    def holds(self, version: str | None) -> bool:
        """Whether it does for this version; what is not dated holds for all, the rest for none that is not known."""
        if self.since is None and self.until is None:
            return True
        found = _numbers(version)
        if not found:
            return False
        low, high = _numbers(self.since), _numbers(self.until)
        return (not low or found >= low) and (not high or found[: len(high)] <= high)


def _numbers(version: str | None) -> tuple[int, ...]:
    """The first numbers of a version (``0.5.10.post2``); empty where it has none."""
    match = None if version is None else _NUMBERS.match(version)
    return () if match is None else tuple(map(int, match[1].split(".")))


@dataclass(frozen=True)
class Allowed:
    """The values that a setting takes, as they are shown: ``1..`` whole numbers, ``>0.0..1.0`` numbers (``>``: without
    the lower bound itself; ``0.0..<1.0``: without the upper), else words between bars (``on|off`` for a switch)."""

    text: str

    @property
    def words(self) -> str:
        """The same to be read."""
        low, dots, high = self.text.removeprefix(">").partition("..")
        if not dots:
            return "one of " + ", ".join(self.text.split("|"))
        kind = "numbers" if "." in low + high else "whole numbers"
        below = f"below {high[1:]}" if high.startswith("<") else f"to {high}"
        return f"{kind} {'above' if self.text.startswith('>') else 'from'} {low} {below if high else 'on'}"

    def takes(self, value: object) -> bool:
        """Whether a value is among them."""
        if ".." not in self.text:
            word = ("on" if value else "off") if isinstance(value, bool) else str(value)
            return word in self.text.split("|")
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        low, _, high = self.text.removeprefix(">").partition("..")
        whole = "." not in low + high
        above = float(low) < value if self.text.startswith(">") else float(low) <= value
        below = not high or (value < float(high[1:]) if high.startswith("<") else value <= float(high))
        return above and below and (not whole or value == int(value))


@dataclass(frozen=True)
class Knob:
    """A setting by its shared name (``max_num_seqs``, ``token_budget``, …) and the flags that set it, the newest first.

    A field among ``settings`` that is written as ``-name`` holds the opposite. ``fixed`` are values whose spelling no
    rule gives: (value, what to type). ``dated`` are the flags that not every version takes. ``defaults`` are what holds
    where nothing is set; ``allowed``, ``needs`` and ``trades`` are empty where they are not known. ``trades`` of one
    side of a switch begin with it (``off: …``).
    """

    name: str
    flags: tuple[str, ...]
    settings: tuple[str, ...] = ()
    fixed: tuple[tuple[object, str], ...] = ()
    dated: tuple[Dated, ...] = ()
    defaults: tuple[Dated, ...] = ()
    allowed: Allowed | None = None
    needs: str = ""
    trades: str = ""

    def at(self, version: str | None) -> Knob:
        """The knob as this version spells it: its own flags first."""
        if version is None:
            return self
        dated = {one.text: one.holds(version) for one in self.dated}
        own = [flag for flag in self.flags if dated.get(flag) is True]
        every = [flag for flag in self.flags if flag not in dated]
        return replace(self, flags=(*own, *every, *(flag for flag in self.flags if dated.get(flag) is False)))

    def default(self, version: str | None) -> str | None:
        """What holds in this version where nothing is set; None where it is not known."""
        return next((one.text for one in self.defaults if one.holds(version)), None)

    def price(self, value: object) -> str:
        """What is given for this value; empty where nothing is known."""
        side, _, text = self.trades.partition(": ")
        if side not in ("on", "off"):
            return self.trades
        return text if value is (side == "on") else ""

    def spelled(self, value: object) -> str:
        """What an operator types to set the value, or what to do where no flag does it."""
        for known, text in self.fixed:
            if known == value and type(known) is type(value):
                return text
        if isinstance(value, str) and _LIST.fullmatch(value):
            value = value.replace(",", " ") if self.flags else f"[{value}]"
        if not self.flags:
            field = self.settings[0].removeprefix("-") if self.settings else self.name
            opposite = bool(self.settings) and self.settings[0].startswith("-")
            shown = (not value if opposite else value) if isinstance(value, bool) else value
            return f"{field}: {str(shown).lower() if isinstance(shown, bool) else shown} (in the configuration file)"
        if not isinstance(value, bool):
            return f"{self.flags[0]} {value}"
        turning_on = value != (bool(self.settings) and self.settings[0].startswith("-"))
        if turning_on:
            return self.flags[0]
        negative = next((flag for flag in self.flags if flag.startswith("--no-")), None)
        return negative or f"without {self.flags[0]}"
