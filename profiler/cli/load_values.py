"""What is typed for a load: lists of rates, lengths, shared prefixes, durations, a body's extra fields."""

from __future__ import annotations

import json
import re
from typing import Final

import click

from profiler.cli.quantities import duration
from profiler.collectors.client.lengths import Lengths, parse_lengths
from profiler.errors import UsageError

_PREFIX: Final = re.compile(r"(\d{1,6})x(\d{1,7})")
_NUMBER: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})?")
MOST_IN_FLIGHT: Final = 100_000


class Rates(click.ParamType[tuple[float, ...]]):
    """``4`` or ``1,2,4.5``: requests/s, one a point."""

    name = "rates"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Parse a list of positive numbers."""
        parts = str(value).split(",")
        if not all(_NUMBER.fullmatch(part.strip()) and float(part) > 0 for part in parts):
            self.fail(f"{value!r}: write requests per second, such as 4 or 1,2,4.5", param, ctx)
        return tuple(float(part) for part in parts)


class Concurrencies(click.ParamType[tuple[int, ...]]):
    """``8`` or ``1,8,64``: requests in flight, one a point."""

    name = "concurrencies"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Parse a list of positive whole numbers."""
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isdecimal() and 1 <= int(part) <= MOST_IN_FLIGHT for part in parts):
            self.fail(f"{value!r}: write requests in flight, such as 8 or 1,8,64", param, ctx)
        return tuple(map(int, parts))


class LengthsType(click.ParamType[Lengths]):
    """Lengths in tokens."""

    name = "lengths"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Lengths:
        """Parse; a value that is parsed already passes."""
        try:
            return parse_lengths(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


class Prefix(click.ParamType[tuple[int, int]]):
    """``4x256``: four groups of prompts, each beginning with the same 256 tokens."""

    name = "prefix"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Parse (groups, tokens)."""
        match = _PREFIX.fullmatch(str(value))
        if match is None or not int(match[1]) or not int(match[2]):
            self.fail(f"{value!r}: write GROUPSxTOKENS, such as 4x256", param, ctx)
        return int(match[1]), int(match[2])


class Duration(click.ParamType[float]):
    """``60s``, ``500ms``, ``5min`` in seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse; zero is no duration."""
        seconds = duration(str(value))
        if seconds <= 0:
            self.fail(f"{value!r}: has to be longer", param, ctx)
        return seconds


class JsonObject(click.ParamType[dict[str, object]]):
    """Fields as one JSON object."""

    name = "json"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, object]:
        """Parse an object."""
        try:
            found = json.loads(str(value))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            self.fail("no JSON object: write fields such as '{\"top_k\": 1}'", param, ctx)
        return found
