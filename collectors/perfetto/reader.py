"""Perfetto traces (``.pftrace``) as rocprofv3 and rocpd2pftrace write them: kernels, copies, calls and markers.

The ``perfetto`` package (an extra) holds the classes that decode a packet; its trace processor, which is a program that
it downloads, is not used. What a slice is, its category says. Kernel times are those that rocprofv3 wrote: where two
kernels of a queue overlap it moves both to the middle of the overlap, which its CSV does not.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from profiler.collectors.perfetto.packets import BrokenPackets, framed, packets, unpacked
from profiler.collectors.perfetto.track_events import Slice, TrackEvents
from profiler.collectors.redaction import redact_text
from profiler.collectors.rocprof.names import copy_name, kernel_name
from profiler.collectors.trace_labels import label
from profiler.collectors.trace_rows import TraceRows
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading
from profiler.model.trace import NO_ID, Kind

_MESSAGES: Final = "perfetto.protos.perfetto.trace.perfetto_trace_pb2"
_ADVICE: Final = "rocprofv3 --output-format csv (or rocpd), or rocpd2csv of the run's database"
KINDS: Final = {
    "kernel_dispatch": Kind.KERNEL,
    "memory_copy": Kind.MEMCPY,
    "hip_api": Kind.LAUNCH,
    "hsa_api": Kind.LAUNCH,
    "rccl_api": Kind.LAUNCH,
    "marker_api": Kind.ANNOTATION,
}
_LAST_NUMBER: Final = re.compile(r"(\d{1,9})\D*\Z")


class Perfetto:
    """The format; see ``profiler.model.extension.Format``."""

    name = "perfetto"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """A file that begins with packets of protobuf fields."""
        if not framed(head):
            return 0.0
        return 0.95 if re.search(r"\.(?:pftrace|perfetto-trace)(?:\.gz|\.zst)?$", name.lower()) else 0.86

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One trace a process. Raises BadInput where the first packet is none."""
        packet_of = _decoder()
        if packet_of is None:
            detail = (
                "a Perfetto trace, which needs the package perfetto: pip install 'serving-profiler[perfetto]'; or "
                f"write the run with {_ADVICE}"
            )
            return Reading(problems=(Problem(source.name, "warning", detail),))
        problems: list[Problem] = []
        events = TrackEvents()
        whole = damaged = 0
        with source.open() as stream:
            try:
                for body in packets(stream):
                    try:
                        for packet in _inner(packet_of(body), packet_of):
                            events.add(packet)
                        whole += 1
                    except BrokenPackets:
                        damaged += 1
            except BrokenPackets as error:
                detail = "the trace breaks off or is damaged; what stands before was kept"
                problems.append(Problem(source.name, "error", detail, str(error)))
        if not whole:
            raise BadInput(source.name, "not a Perfetto trace", f"Write it with {_ADVICE}")
        if source.broken:
            problems.append(Problem(source.name, "error", f"{source.broken}; what came before was kept"))
        for count, detail in (
            (damaged, "a packet does not decode and was left out"),
            (events.unclocked, "an event's clock is not known, or its time can't be true; it was left out"),
            (events.unmatched, "an end without a begin was left out"),
            (events.left_open(), "a slice that never ends in the trace was left out"),
        ):
            if count:
                problems.append(Problem(source.name, "warning", detail, count=count))
        used = [one for one in events.slices if one.category in KINDS]
        if len(used) < len(events.slices):
            others = sorted({one.category for one in events.slices} - set(KINDS))[:3]
            detail = f"slices of other categories ({redact_text(', '.join(others))[:80]}) were left out"
            problems.append(Problem(source.name, "info", detail, count=len(events.slices) - len(used)))
        if not used:
            problems.append(Problem(source.name, "info", f"no GPU work or calls in it: write the run with {_ADVICE}"))
            return Reading(problems=tuple(problems))
        processes: dict[int | None, list[Slice]] = {}
        for one in used:
            processes.setdefault(events.process_of(one.track), []).append(one)
        traces = []
        for rank, (pid, slices) in enumerate(processes.items()):
            rows = TraceRows(source.name if len(processes) == 1 else f"{source.name} (pid {pid})")
            for kind in Kind:
                _add(rows, kind, [one for one in slices if KINDS[one.category] == kind], events)
            problems += rows.problems
            process = "" if pid is None else str(pid)
            traces.append(label(rows.trace(process, rank if len(processes) > 1 else None), engines))
        return Reading(traces=tuple(traces), problems=tuple(problems))


def _decoder() -> Callable[[bytes], Any] | None:
    """What makes a ``TracePacket`` of bytes, or None where the package is not installed."""
    try:
        messages = import_module(_MESSAGES)
        failure = import_module("google.protobuf.message").DecodeError
    except ImportError:
        return None

    def decode(body: bytes) -> Any:
        try:
            return messages.TracePacket.FromString(body)
        except failure as error:
            raise BrokenPackets("a packet that does not decode") from error

    return decode


def _inner(packet: Any, packet_of: Callable[[bytes], Any]) -> Iterator[Any]:
    """The packet, or those that it holds compressed (which are never compressed again)."""
    if packet.HasField("compressed_packets"):
        for body in packets(io.BytesIO(unpacked(packet.compressed_packets))):
            yield packet_of(body)
    else:
        yield packet


def _add(rows: TraceRows, kind: Kind, slices: Sequence[Slice], events: TrackEvents) -> None:
    if not slices:
        return
    spell = {Kind.KERNEL: kernel_name, Kind.MEMCPY: copy_name}.get(kind, redact_text)
    on_device = kind in (Kind.KERNEL, Kind.MEMCPY)
    threads = [_thread(one, events) for one in slices]
    tied = None if kind == Kind.ANNOTATION else _numbers([one.arguments.get("corr_id") for one in slices])
    rows.add(
        kind,
        [spell(one.name) for one in slices],
        np.array([one.start for one in slices], np.int64),
        np.array([one.end for one in slices], np.int64),
        tied,
        _devices(slices) if on_device else None,
        _numbers([_stream(one, events) for one in slices]) if on_device else None,
        threads,
        "slices",
        _numbers([one.arguments.get("copy_bytes") for one in slices]),
    )


def _devices(slices: Sequence[Slice]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Numbers of the agents (``Agent-4``); of a copy the larger of its two ends, as the host comes first."""
    found = []
    for one in slices:
        texts = (str(one.arguments.get(key, "")) for key in ("agent", "src_agent", "dst_agent"))
        found.append(max((int(m[1]) for text in texts if (m := _LAST_NUMBER.search(text))), default=NO_ID))
    return np.array(found, np.int64)


def _stream(one: Slice, events: TrackEvents) -> object:
    """The number in the track's name: ``STREAM [" 2 "]``, ``COMPUTE Agent [4] QUEUE [0] GPU``."""
    track = events.tracks.get(one.track)
    match = _LAST_NUMBER.search(track.name) if track is not None else None
    return int(match[1]) if match else one.arguments.get("queue")


def _thread(one: Slice, events: TrackEvents) -> str:
    track = events.tracks.get(one.track)
    known = one.arguments.get("tid", track.thread if track is not None else None)
    return "" if known is None else str(known)


def _numbers(values: Sequence[object]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([v if isinstance(v, int) and 0 <= v < 2**62 else NO_ID for v in values], np.int64)


FORMAT: Final = Perfetto()
