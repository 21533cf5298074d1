"""Requests from a file: a user's own JSON lines, ShareGPT, and the public traces of Mooncake, BurstGPT and Azure.

Rows are taken in the file's order. A trace holds lengths and no text: prompts of the length are drawn. Mooncake's
blocks of 512 tokens are kept, so that prompts share what they shared. Rows that can't be used are counted.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Final, TextIO

from profiler.collectors.json_text import count, mapping, number, parse, string
from profiler.errors import BadInput

MOONCAKE_BLOCK: Final = 512
# ShareGPT holds the answer's text and no tokens; English text has about four characters a token.
CHARACTERS_PER_TOKEN: Final = 4
LARGEST_LIST: Final = 1 << 30
ADVICE: Final = (
    "Give JSON lines with prompt or messages, ShareGPT's JSON, or a trace of Mooncake (JSON lines), BurstGPT or Azure "
    "(CSV)"
)


@dataclass(frozen=True)
class Row:
    """What a row asks for. ``at`` is seconds on the file's clock, ``out`` tokens; None where the file does not say.

    ``parts`` are named by content: equal names are equal tokens. ``fresh`` is a prompt of that many drawn tokens.
    """

    at: float | None = None
    out: int | None = None
    fresh: int | None = None
    parts: tuple[tuple[str, int], ...] = ()
    text: str | None = None
    ids: tuple[int, ...] | None = None
    messages: tuple[dict[str, object], ...] | None = None


@contextmanager
def open_rows(path: Path) -> Iterator[tuple[str, Iterator[Row | None]]]:
    """(kind of file, its rows in order, None for each that can't be used). Raises BadInput, OSError."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        try:
            yield _rows(stream, path)
        except csv.Error as error:
            raise BadInput(str(path), f"a table that can't be read ({error})", ADVICE) from error


def _rows(stream: TextIO, path: Path) -> tuple[str, Iterator[Row | None]]:
    first = stream.readline(1 << 24)
    while first.isspace():
        first = stream.readline(1 << 24)
    start = first.lstrip()[:1]
    if start == "[":
        return "ShareGPT", _conversations(first + stream.read(LARGEST_LIST), path)
    if start == "{":
        head = mapping(parse(first))
        if "input_length" in head:
            return "Mooncake trace", map(_mooncake, _lines(first, stream))
        return "JSON lines", map(_own, _lines(first, stream))
    heading = [name.strip().lower() for name in first.strip().split(",")]
    for kind, names, read in (("BurstGPT trace", BURSTGPT, _burstgpt), ("Azure trace", AZURE, _azure)):
        if set(names) <= set(heading):
            return kind, map(read, csv.DictReader(stream, fieldnames=heading))
    raise BadInput(str(path), "no data set that is known", ADVICE, "line 1")


BURSTGPT: Final = ("timestamp", "request tokens", "response tokens")
AZURE: Final = ("timestamp", "contexttokens", "generatedtokens")


def _lines(first: str, stream: TextIO) -> Iterator[Mapping[str, object]]:
    return (mapping(parse(line)) for line in chain((first,), stream) if not line.isspace())


def _own(record: Mapping[str, object]) -> Row | None:
    out = next((found for key in ("output_tokens", "max_tokens") if (found := count(record.get(key)))), None)
    if out is not None and out < 1:
        return None
    at, prompt, messages = number(record.get("timestamp")), record.get("prompt"), record.get("messages")
    if isinstance(prompt, str) and prompt:
        return Row(at, out, text=prompt)
    if isinstance(prompt, list) and prompt and all(isinstance(one, int) and one >= 0 for one in prompt):
        return Row(at, out, ids=tuple(prompt))
    if isinstance(messages, list) and messages and all(isinstance(one, dict) for one in messages):
        return Row(at, out, messages=tuple(messages))
    return None


def _mooncake(record: Mapping[str, object]) -> Row | None:
    """``timestamp`` in ms; every id of ``hash_ids`` names a block of 512 tokens, the last one cut to the length."""
    length, out = count(record.get("input_length")), count(record.get("output_length"))
    at = number(record.get("timestamp"))
    if not length or not out or length < 1 or out < 1:
        return None
    blocks = record.get("hash_ids")
    seconds = None if at is None else at / 1e3
    if not isinstance(blocks, list) or len(blocks) * MOONCAKE_BLOCK < length:
        return Row(seconds, out, fresh=length)
    left = length
    parts: list[tuple[str, int]] = []
    for block in blocks:
        if left > 0:
            parts.append((f"block-{str(block)[:40]}", min(left, MOONCAKE_BLOCK)))
            left -= MOONCAKE_BLOCK
    return Row(seconds, out, parts=tuple(parts))


def _burstgpt(record: Mapping[str, object]) -> Row | None:
    """Seconds since the trace began. Rows without response tokens are requests that failed there."""
    return _lengths(number(record.get("timestamp")), record.get("request tokens"), record.get("response tokens"))


def _azure(record: Mapping[str, object]) -> Row | None:
    """A date and time, to 100 ns; Python takes six digits of a second."""
    stamp = str(record.get("timestamp")).strip()
    whole, _, fraction = stamp.partition(".")
    try:
        at = datetime.fromisoformat(whole + "+00:00").timestamp() + float(f"0.{fraction[:7] or 0}")
    except ValueError:
        return None
    return _lengths(at, record.get("contexttokens"), record.get("generatedtokens"))


def _lengths(at: float | None, prompt: object, answer: object) -> Row | None:
    length, out = count(prompt), count(answer)
    return Row(at, out, fresh=length) if length and out and length > 0 and out > 0 else None


def _conversations(text: str, path: Path) -> Iterator[Row | None]:
    """The first question of each conversation; its answer's length is estimated from the characters."""
    document = parse(text)
    if not isinstance(document, list):
        raise BadInput(str(path), "a JSON list that breaks off", ADVICE)
    return map(_conversation, document)


def _conversation(item: object) -> Row | None:
    turns = mapping(item).get("conversations", mapping(item).get("conversation"))
    if not isinstance(turns, list) or len(turns) < 2:
        return None
    question, answer = (string(mapping(turn).get("value", mapping(turn).get("content"))) for turn in turns[:2])
    if question is None or answer is None:
        return None
    return Row(None, max(round(len(answer) / CHARACTERS_PER_TOKEN), 1), text=question)
