"""Track events of a Perfetto trace -> slices with name, category, times and arguments.

A writer abbreviates: names are interned, clocks count up from a snapshot, defaults stand in an earlier packet; all this
belongs to the packet's sequence and is forgotten when the sequence says so. An end closes the last open begin of its
track, in the order of the file: rocprofv3 writes each slice's two events next to each other, also where slices of one
track overlap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_CLEARED: Final = 1  # TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
_BEGIN, _END, _COUNTER = 1, 2, 4  # TrackEvent.Type
_BOOT: Final = 6
_LATEST: Final = 2**62  # ns; times are kept in 64 bits with a sign
_FIRST_OWN_CLOCK: Final = 64
_INTERNED: Final = ("event_names", "event_categories", "debug_annotation_names", "debug_annotation_string_values")
_VALUES: Final = ("uint_value", "int_value", "string_value", "double_value", "bool_value", "pointer_value")


@dataclass(frozen=True, slots=True)
class Slice:
    """What ran on a track; times in ns of the trace's clock. ``arguments`` are the debug annotations of the begin."""

    category: str
    name: str
    start: int
    end: int
    track: int
    arguments: Mapping[str, object]


@dataclass(slots=True)
class Track:
    """A track as its descriptor names it; ``thread`` and ``process`` are None where it does not say."""

    name: str = ""
    parent: int = 0
    process: int | None = None
    thread: int | None = None


@dataclass(slots=True)
class _Clock:
    """A clock of one sequence: ``unit`` ns a tick; where it is incremental, a stamp counts from the one before."""

    offset: int
    unit: int
    incremental: bool
    last: int


@dataclass
class _Sequence:
    interned: dict[str, dict[int, str]] = field(default_factory=lambda: {kind: {} for kind in _INTERNED})
    clocks: dict[int, _Clock] = field(default_factory=dict[int, _Clock])
    clock: int = 0
    track: int = 0


@dataclass
class TrackEvents:
    """Collects the slices of a trace, packet by packet. ``Any`` is the package's generated message."""

    slices: list[Slice] = field(default_factory=list[Slice])
    tracks: dict[int, Track] = field(default_factory=dict[int, Track])
    unmatched: int = 0
    unclocked: int = 0
    _sequences: dict[int, _Sequence] = field(default_factory=dict[int, _Sequence])
    _open: dict[tuple[int, int], list[tuple[str, str, int, dict[str, object]]]] = field(
        default_factory=dict[tuple[int, int], list[tuple[str, str, int, dict[str, object]]]]
    )

    def add(self, packet: Any) -> None:
        """Take one ``TracePacket``."""
        number = int(packet.trusted_packet_sequence_id)
        if packet.sequence_flags & _CLEARED:
            self._sequences[number] = _Sequence()
        sequence = self._sequences.setdefault(number, _Sequence())
        if packet.HasField("trace_packet_defaults"):
            sequence.clock = int(packet.trace_packet_defaults.timestamp_clock_id) or sequence.clock
            sequence.track = int(packet.trace_packet_defaults.track_event_defaults.track_uuid) or sequence.track
        if packet.HasField("interned_data"):
            for kind in _INTERNED:
                for entry in getattr(packet.interned_data, kind):
                    text = (
                        entry.str.decode("utf-8", "replace") if isinstance(getattr(entry, "str", None), bytes) else ""
                    )
                    sequence.interned[kind][int(entry.iid)] = text or str(getattr(entry, "name", ""))
        if packet.HasField("clock_snapshot"):
            _set_clocks(sequence, packet.clock_snapshot.clocks)
        if packet.HasField("track_descriptor"):
            self._describe(packet.track_descriptor)
        elif packet.HasField("track_event"):
            self._event(packet, sequence, number)

    def left_open(self) -> int:
        """How many begins no end followed."""
        return sum(map(len, self._open.values()))

    def process_of(self, track: int) -> int | None:
        """The process that a track or one of those above it belongs to."""
        for _ in range(16):
            found = self.tracks.get(track)
            if found is None or found.process is not None:
                return None if found is None else found.process
            track = found.parent
        return None

    def _describe(self, descriptor: Any) -> None:
        track = Track(str(descriptor.name or descriptor.static_name), int(descriptor.parent_uuid))
        if descriptor.HasField("process"):
            track.process = int(descriptor.process.pid)
        if descriptor.HasField("thread"):
            track.process, track.thread = int(descriptor.thread.pid), int(descriptor.thread.tid)
        self.tracks[int(descriptor.uuid)] = track

    def _event(self, packet: Any, sequence: _Sequence, number: int) -> None:
        event = packet.track_event
        # Also of an event that is not used: the stamps of the next ones count from this one.
        instant = _instant(packet, sequence)
        if event.type not in (_BEGIN, _END):
            return
        if instant is None:
            self.unclocked += 1
            return
        track = int(event.track_uuid) if event.HasField("track_uuid") else sequence.track
        waiting = self._open.setdefault((number, track), [])
        if event.type == _BEGIN:
            names = sequence.interned
            category = next((str(c) for c in event.categories), "") or next(
                (names["event_categories"].get(int(i), "") for i in event.category_iids), ""
            )
            name = str(event.name) or names["event_names"].get(int(event.name_iid), "")
            waiting.append((category, name, instant, _arguments(event.debug_annotations, names)))
        elif waiting:
            category, name, start, arguments = waiting.pop()
            self.slices.append(Slice(category, name, start, instant, track, arguments))
        else:
            self.unmatched += 1


def _text(entry: Any) -> str:
    """What is interned: names are text, values of arguments bytes."""
    return str(entry.name) if hasattr(entry, "name") else entry.str.decode("utf-8", "replace")


def _set_clocks(sequence: _Sequence, clocks: Any) -> None:
    """Tie the sequence's own clocks to the machine's at the moment of the snapshot."""
    builtin = {int(c.clock_id): int(c.timestamp) for c in clocks if c.clock_id < _FIRST_OWN_CLOCK}
    now = builtin.get(_BOOT, next(iter(builtin.values()), None))
    for clock in clocks:
        if clock.clock_id >= _FIRST_OWN_CLOCK and now is not None:
            unit, stamp = int(clock.unit_multiplier_ns) or 1, int(clock.timestamp)
            sequence.clocks[int(clock.clock_id)] = _Clock(now - stamp * unit, unit, bool(clock.is_incremental), stamp)


def _instant(packet: Any, sequence: _Sequence) -> int | None:
    """The packet's time in ns, None where its clock is not known or it can't be true."""
    which = int(packet.timestamp_clock_id) or sequence.clock
    stamp = int(packet.timestamp)
    if which < _FIRST_OWN_CLOCK:
        return _sound(stamp)
    clock = sequence.clocks.get(which)
    if clock is None:
        return None
    if clock.incremental:
        clock.last += stamp
        stamp = clock.last
    return _sound(clock.offset + stamp * clock.unit)


def _sound(instant: int) -> int | None:
    return instant if 0 <= instant < _LATEST else None


def _arguments(annotations: Any, names: Mapping[str, Mapping[int, str]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for one in annotations:
        name = str(one.name) or names["debug_annotation_names"].get(int(one.name_iid), "")
        kind = one.WhichOneof("value")
        if kind in _VALUES:
            found[name] = getattr(one, kind)
        elif kind == "string_value_iid":
            found[name] = names["debug_annotation_string_values"].get(int(one.string_value_iid), "")
    return found
