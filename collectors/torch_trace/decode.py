"""Bytes of events -> typed events, repairing only what is broken and counting what that cost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from profiler.collectors.torch_trace.chunks import array_ends, split_events

Number = int | float | str | None


class Args(msgspec.Struct, gc=False):
    """The arguments that are kept; everything else is skipped by the decoder."""

    correlation: Number = None
    stream: Number = None
    device: Number = None
    bytes: Number = None
    graph_node: Number = msgspec.field(name="graph node id", default=None)
    name: Number = None
    labels: Number = None
    # A collective's message, decoded only where an event is one.
    sent: msgspec.Raw = msgspec.field(name="In msg nelems", default=msgspec.Raw(b""))
    received: msgspec.Raw = msgspec.field(name="Out msg nelems", default=msgspec.Raw(b""))
    collective: msgspec.Raw = msgspec.field(name="Collective name", default=msgspec.Raw(b""))
    dtype: msgspec.Raw = msgspec.Raw(b"")
    ranks: msgspec.Raw = msgspec.field(name="Group size", default=msgspec.Raw(b""))
    shapes: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw(b""))
    types: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw(b""))


class Event(msgspec.Struct, gc=False):
    """One trace event. ``ts`` and ``dur`` are microseconds."""

    ph: str = ""
    name: str = ""
    cat: str = ""
    ts: float = 0.0
    dur: float | None = None
    pid: Number = None
    tid: Number = None
    args: Args | None = None


class Times(msgspec.Struct, gc=False):
    """The same event's times as they are written, for clocks that a double can't hold to the nanosecond."""

    ph: str = ""
    ts: msgspec.Raw = msgspec.Raw(b"0")
    dur: msgspec.Raw = msgspec.Raw(b"0")


class _LooseEvent(msgspec.Struct, gc=False):
    """An event whose arguments are not an object (some exporters write a string there)."""

    ph: str = ""
    name: str | int | float | None = ""
    cat: str | None = ""
    ts: float | None = None
    dur: float | None = None
    pid: Number = None
    tid: Number = None


_EVENTS: Final = msgspec.json.Decoder(list[Event], strict=False)
_EVENT: Final = msgspec.json.Decoder(Event, strict=False)
_LOOSE: Final = msgspec.json.Decoder(_LooseEvent, strict=False)
_TIME: Final = msgspec.json.Decoder(Times, strict=False)
_TIMES: Final = msgspec.json.Decoder(list[Times], strict=False)
_OBJECT: Final = msgspec.json.Decoder(dict[str, object])

# Text that is broken or nested too deeply.
_UNDECODABLE: Final = (msgspec.MsgspecError, RecursionError)
# Control characters that JSON forbids inside strings; between tokens a space is as good as any.
_CONTROLS: Final = bytes.maketrans(bytes(range(32)), b" " * 32)
_BLANKS: Final = b"\t\n\r"
_FORBIDDEN: Final = bytes(c for c in range(32) if c not in _BLANKS)
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
# Strings are matched too, so that a name which says NaN is passed over.
_NOT_A_NUMBER: Final = re.compile(_STRING.pattern + rb"|([:\[,]\s*)-?(?:NaN|nan|Infinity|inf)\b", re.DOTALL)
# From here on a double is too coarse: its step times 1,000 and the rounding of that product reach half a nanosecond.
EXACT_MICROSECONDS: Final = float(2**42)


@dataclass
class Damage:
    """What the decoder had to repair or give up, by kind, and where it first happened (decompressed byte offset)."""

    counts: Counter[str] = field(default_factory=Counter[str])
    first: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, kind: str, offset: int, count: int = 1) -> None:
        """Count ``kind``; the first offset is kept."""
        if count:
            self.counts[kind] += count
            self.first.setdefault(kind, offset)

    def include(self, other: Damage) -> None:
        """Add what another attempt had to repair."""
        for kind, count in other.counts.items():
            self.add(kind, other.first[kind], count)


def decode(data: bytes, offset: int, damage: Damage) -> tuple[list[Event], list[Times] | None]:
    """Events of a text of comma-separated events, and their exact times where a double is too coarse.

    Broken text is repaired in rising order of harm: bytes that JSON forbids are replaced, then events are decoded one
    by one, and those that still don't decode are counted in ``damage`` as lost.
    """
    text = b"[" + data.strip().strip(b",") + b"]"
    try:
        return _with_times(_EVENTS.decode(text), text)
    except _UNDECODABLE:
        pass
    repairs = Damage()
    clean = sanitised(text, offset, repairs)
    try:
        found = _with_times(_EVENTS.decode(clean), clean)
    except _UNDECODABLE:
        return _one_by_one(data, offset, damage)
    damage.include(repairs)
    return found


def decode_tail(data: bytes, offset: int, damage: Damage) -> tuple[list[Event], list[Times] | None, bytes]:
    """Like ``decode`` for the last piece: (events, times, what follows the array's closing bracket)."""
    repairs = Damage()
    for attempt, made in ((data, Damage()), (sanitised(data, offset, repairs), repairs)):
        for end, after in array_ends(attempt):
            text = b"[" + attempt[:end] + b"]"
            try:
                events, times = _with_times(_EVENTS.decode(text), text)
            except _UNDECODABLE:
                continue
            damage.include(made)
            return events, times, attempt[after:]
    last = _LAST_END.search(data)
    if last is not None:
        events, times = decode(data[: last.start() + 1], offset, damage)
        return events, times, data[last.end() :]
    damage.add("cut", offset + len(data))
    events, times = decode(data, offset, damage)
    return events, times, b""


# The closing bracket of a file whose events don't decode as a whole: the last one that a footer or the end follows.
_LAST_END: Final = re.compile(rb'\}\s*\](?=\s*(?:,\s*"[^"]*"\s*:[^\]]*)?\}?\s*$)')


def sanitised(data: bytes, offset: int, damage: Damage) -> bytes:
    """The text without what JSON forbids: bad UTF-8, control characters in strings, NaN and Infinity."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        replaced = data.decode("utf-8", errors="replace").encode("utf-8")
        damage.add("bad UTF-8", offset, replaced.count(_REPLACEMENT) - data.count(_REPLACEMENT))
        data = replaced
    replaced = data.translate(_CONTROLS)
    if replaced != data:
        controls = len(data) - len(data.translate(None, _FORBIDDEN))
        strings = b"".join(match[0] for match in _STRING.finditer(data))
        controls += len(strings) - len(strings.translate(None, _BLANKS))
        damage.add("control characters", offset, controls)
    if any(word in replaced for word in (b"NaN", b"nan", b"inf", b"Infinity")):
        found = 0

        def null(match: re.Match[bytes]) -> bytes:
            nonlocal found
            if match[1] is None:
                return match[0]
            found += 1
            return match[1] + b"null"

        replaced = _NOT_A_NUMBER.sub(null, replaced)
        damage.add("NaN or Infinity", offset, found)
    return replaced


_REPLACEMENT: Final = "\ufffd".encode()


def frame(before: bytes, after: bytes, damage: Damage) -> dict[str, object]:
    """The top-level keys beside ``traceEvents``; those that don't decode are counted and left out."""
    found: dict[str, object] = {}
    head = before.strip().lstrip(b"\xef\xbb\xbf").rstrip(b", \t\r\n")
    tail = after.strip().lstrip(b", \t\r\n")
    for text in (head + b"}", b"{" + tail):
        if text in (b"{}", b"}", b"{", b"{}}"):
            continue
        try:
            found |= _OBJECT.decode(sanitised(text, 0, Damage()))
        except _UNDECODABLE:
            damage.add("top-level keys", 0)
    return found


def _with_times(events: list[Event], text: bytes) -> tuple[list[Event], list[Times] | None]:
    if any(abs(event.ts) >= EXACT_MICROSECONDS for event in events):
        return events, _TIMES.decode(text)
    return events, None


def _one_by_one(data: bytes, offset: int, damage: Damage) -> tuple[list[Event], list[Times] | None]:
    events: list[Event] = []
    texts: list[bytes] = []
    for start, piece in split_events(data):
        if not piece.strip(b", \t\r\n"):
            continue
        repairs = Damage()
        for candidate in _candidates(sanitised(piece, offset + start, repairs)):
            event = _event(candidate)
            if event is not None:
                events.append(event)
                texts.append(candidate)
                damage.include(repairs)
                break
        else:
            damage.add("lost", offset + start)
    if any(abs(event.ts) >= EXACT_MICROSECONDS for event in events):
        return events, [_TIME.decode(text) for text in texts]
    return events, None


def _candidates(piece: bytes) -> Iterator[bytes]:
    """The text of one event as it stands, then without closing brackets that are not its own.

    Nothing is ever added: an event that breaks off is lost, for the number before the break may have lost digits.
    """
    text = piece.strip(b", \t\r\n")
    yield text
    for _ in range(_FOREIGN_BRACKETS):
        if not text.endswith((b"}", b"]")):
            return
        text = text[:-1].rstrip(b", \t\r\n")
        yield text


# Closing brackets that can follow the last event of a file whose lists are nested.
_FOREIGN_BRACKETS: Final = 6


def _event(text: bytes) -> Event | None:
    try:
        return _EVENT.decode(text)
    except _UNDECODABLE:
        pass
    try:
        loose = _LOOSE.decode(text)
    except _UNDECODABLE:
        return None
    if loose.ts is None and loose.ph != "M":
        return None
    name = "" if loose.name is None else str(loose.name)
    return Event(loose.ph, name, loose.cat or "", loose.ts or 0.0, loose.dur, loose.pid, loose.tid)
