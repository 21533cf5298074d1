"""Perfetto traces, written here through the package's own messages in the ways that its C++ writer abbreviates them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.analyzers.device import accounts_of
from profiler.analyzers.trace_steps import launched, spans_of
from profiler.collectors.engines import ENGINES
from profiler.collectors.perfetto import reader
from profiler.collectors.perfetto.packets import framed
from profiler.collectors.perfetto.reader import FORMAT
from profiler.errors import BadInput
from profiler.model.run import Reading
from profiler.model.trace import Kind, Trace
from profiler.store.source import FileSource

pb: Any = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")

PAGED = "void vllm::paged_attention_v1_kernel<int, 8>(int*, float)"
# (category, name, start, end, track, arguments) of one process: two launches, their kernels, a copy and a step's marker.
EVENTS = (
    ("hip_api", "hipLaunchKernel", 1000, 1500, 11, {"corr_id": 5, "tid": 79}),
    ("hip_api", "hipLaunchKernel", 5500, 5600, 11, {"corr_id": 6, "tid": 79}),
    ("marker_api", "execute_context_0(0)_generation_3(3)", 900, 5900, 12, {"corr_id": 1, "tid": 79}),
    ("memory_copy", "MEMORY_COPY_DEVICE_TO_HOST", 7000, 7500, 22, {"corr_id": 8, "src_agent": "Agent-4", "dst_agent": "Agent-0", "copy_bytes": 4096}),
    ("kernel_dispatch", "Cijk_Ailk_Bljk_HHS_BH", 2000, 5000, 22, {"corr_id": 5, "agent": "Agent-4", "queue": 1}),
    ("kernel_dispatch", PAGED, 6000, 7000, 22, {"corr_id": 6, "agent": "Agent-4", "queue": 1}),
)  # fmt: skip
BASE = 10**15


def annotate(event: Any, name: str, value: object) -> None:
    one = event.debug_annotations.add(name=name)
    if isinstance(value, str):
        one.string_value = value
    else:
        one.uint_value = value


def tracks(pid: int = 77) -> list[Any]:
    found = []
    for uuid, name, tid in ((1, "", None), (11, "", 79), (12, "", 79), (22, 'STREAM [" 3 "] ', None)):
        packet = pb.TracePacket()
        packet.track_descriptor.uuid = uuid + pid * 100
        packet.track_descriptor.name = name
        if uuid == 1:
            packet.track_descriptor.process.pid = pid
        else:
            packet.track_descriptor.parent_uuid = 1 + pid * 100
        if tid:
            packet.track_descriptor.thread.pid, packet.track_descriptor.thread.tid = pid, tid
        found.append(packet)
    return found


def plain(pid: int = 77) -> list[Any]:
    """Every event written out, with the machine's clock."""
    found = tracks(pid)
    for category, name, start, end, track, arguments in EVENTS:
        begin, finish = pb.TracePacket(timestamp=BASE + start), pb.TracePacket(timestamp=BASE + end)
        for packet, kind in ((begin, 1), (finish, 2)):
            packet.trusted_packet_sequence_id = pid
            packet.track_event.type, packet.track_event.track_uuid = kind, track + pid * 100
        begin.track_event.categories.append(category)
        begin.track_event.name = name
        for key, value in arguments.items():
            annotate(begin.track_event, key, value)
        found += [begin, finish]
    return found


def interned() -> list[Any]:
    """The same as the C++ writer abbreviates it: interned names, an incremental clock in microseconds or ns, defaults."""
    found = tracks()
    first = pb.TracePacket(trusted_packet_sequence_id=7, sequence_flags=1)
    first.trace_packet_defaults.timestamp_clock_id = 64
    first.trace_packet_defaults.track_event_defaults.track_uuid = 7711
    first.clock_snapshot.clocks.add(clock_id=6, timestamp=BASE)
    first.clock_snapshot.clocks.add(clock_id=64, timestamp=BASE, is_incremental=True, unit_multiplier_ns=1)
    found.append(first)
    last, ids = BASE, dict[str, int]()
    for category, name, start, end, track, arguments in EVENTS:
        begin, finish = (pb.TracePacket(trusted_packet_sequence_id=7, sequence_flags=2) for _ in range(2))
        for packet, kind, at in ((begin, 1, BASE + start), (finish, 2, BASE + end)):
            if at < last:  # the writer falls back to the machine's clock where time goes back
                packet.timestamp_clock_id, packet.timestamp = 6, at
            else:
                packet.timestamp, last = at - last, at
            packet.track_event.type = kind
            if track != 11:
                packet.track_event.track_uuid = 7700 + track
        for text, entries in (
            (category, begin.interned_data.event_categories),
            (name, begin.interned_data.event_names),
        ):
            if text not in ids:
                ids[text] = len(ids) + 1
                entries.add(iid=ids[text], name=text)
        begin.track_event.category_iids.append(ids[category])
        begin.track_event.name_iid = ids[name]
        for key, value in arguments.items():
            annotate(begin.track_event, key, value)
        found += [begin, finish]
    return found


def written(path: Path, packets: list[Any]) -> Path:
    trace = pb.Trace()
    trace.packet.extend(packets)
    path.write_bytes(trace.SerializeToString())
    return path


def compressed(packets: list[Any]) -> list[Any]:
    inner = pb.Trace()
    inner.packet.extend(packets)
    return [pb.TracePacket(compressed_packets=zlib.compress(inner.SerializeToString()))]


def read(path: Path) -> Reading:
    return FORMAT.read(FileSource(path), ENGINES)


def assert_is_the_process(trace: Trace) -> None:
    kernels = trace.events.of(Kind.KERNEL)
    assert sorted((trace.names[n], s - BASE, d) for n, s, d in zip(kernels.name, kernels.start.tolist(), kernels.duration.tolist(), strict=True)) == [
        ("Cijk_Ailk_Bljk_HHS_BH", 2000, 3000), (PAGED, 6000, 1000)]  # fmt: skip
    links = launched(trace, kernels, spans_of(trace))
    assert [trace.names[links.calls.name[i]] for i in links.call] == ["hipLaunchKernel"] * 2
    assert links.step.tolist() == [0, 0]
    (account,) = accounts_of(trace)
    assert account.busy == {"gemm": 3000, "attention": 1000, "memcpy": 500}
    assert set(kernels.device.tolist()) == {4} and set(kernels.stream.tolist()) == {3}
    assert trace.events.of(Kind.MEMCPY).size.tolist() == [4096] and trace.processes == ("77",)


@pytest.mark.parametrize(
    "made", [plain, interned, lambda: compressed(plain())], ids=["plain", "interned", "compressed"]
)
def test_kernels_launches_copies_and_markers(tmp_path: Path, made: Callable[[], list[Any]]) -> None:
    path = written(tmp_path / "77_results.pftrace", made())
    assert FORMAT.sniff(path.read_bytes()[:65536], path.name) > 0.9
    reading = read(path)
    assert not reading.problems
    (trace,) = reading.traces
    assert_is_the_process(trace)


def test_processes_are_traces(tmp_path: Path) -> None:
    first, second = read(written(tmp_path / "r.pftrace", plain() + plain(78))).traces
    assert_is_the_process(first)
    assert second.processes == ("78",) and (first.rank, second.rank) == (0, 1)


def test_a_trace_that_breaks_off_keeps_what_is_whole(tmp_path: Path) -> None:
    path = written(tmp_path / "r.pftrace", plain())
    path.write_bytes(path.read_bytes()[:-5])
    reading = read(path)
    assert len(reading.traces[0].events.of(Kind.KERNEL)) == 1
    assert [(p.severity, p.place is not None) for p in reading.problems] == [("error", True), ("warning", False)]
    assert "breaks off" in reading.problems[0].detail and "never ends" in reading.problems[1].detail


def test_events_of_a_clock_that_is_not_known_are_left_out(tmp_path: Path) -> None:
    packets = interned()
    packets = [packet for packet in packets if not packet.HasField("clock_snapshot")]
    for packet in packets:
        if packet.HasField("track_event") and not packet.timestamp_clock_id:
            packet.timestamp_clock_id = 64
    reading = read(written(tmp_path / "r.pftrace", packets))
    assert any("clock is not known" in problem.detail for problem in reading.problems)


def test_another_trace_gives_nothing_and_says_so(tmp_path: Path) -> None:
    packets = plain()
    for packet in packets:
        if packet.track_event.categories:
            packet.track_event.categories[0] = "toplevel"
    reading = read(written(tmp_path / "r.pftrace", packets))
    assert not reading.traces
    assert "other categories (toplevel)" in reading.problems[0].detail and "no GPU work" in reading.problems[1].detail
    path = tmp_path / "text"
    path.write_text("no trace")
    with pytest.raises(BadInput, match="not a Perfetto trace"):
        read(path)


def test_without_the_package_the_way_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MESSAGES", "no_such_package.messages")
    (problem,) = read(written(tmp_path / "r.pftrace", plain())).problems
    assert problem.severity == "warning" and "rocpd2csv" in problem.detail and "perfetto]" in problem.detail


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_flipped_bytes_raise_nothing_but_our_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = written(tmp_path_factory.mktemp("perfetto") / "r.pftrace", interned())
    body = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 12))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(body)
    assert framed(bytes(body)) >= 0
    try:
        read(path)
    except BadInput:
        return
