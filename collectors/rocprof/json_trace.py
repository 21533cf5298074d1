"""rocprofv3's JSON output: one object a process, names in tables, kernels by id.

The file is decoded into typed records that keep only what is used; everything else is skipped by the decoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from profiler.collectors.bounded_text import whole_bytes
from profiler.collectors.rocprof.names import copy_name
from profiler.collectors.trace_labels import label
from profiler.collectors.trace_rows import TraceRows
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading
from profiler.model.trace import DeviceInfo, Kind

LARGEST: Final = 2 << 30


class _Handle(msgspec.Struct):
    handle: int = -1


class _Correlation(msgspec.Struct):
    internal: int = -1


class _Dispatch(msgspec.Struct):
    agent_id: _Handle = msgspec.field(default_factory=_Handle)
    queue_id: _Handle = msgspec.field(default_factory=_Handle)
    kernel_id: int = -1


class _Record(msgspec.Struct):
    start_timestamp: int = -1
    end_timestamp: int = -1
    thread_id: int = -1
    operation: int = -1
    kind: int = -1
    correlation_id: _Correlation = msgspec.field(default_factory=_Correlation)
    dispatch_info: _Dispatch = msgspec.field(default_factory=_Dispatch)
    stream_id: _Handle = msgspec.field(default_factory=_Handle)
    src_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    dst_agent_id: _Handle = msgspec.field(default_factory=_Handle)


class _Records(msgspec.Struct):
    kernel_dispatch: list[_Record] = []
    memory_copy: list[_Record] = []
    hip_api: list[_Record] = []
    rccl_api: list[_Record] = []
    marker_api: list[_Record] = []


class _Symbol(msgspec.Struct):
    kernel_id: int = -1
    formatted_kernel_name: str = ""
    kernel_name: str = ""


class _Agent(msgspec.Struct):
    id: _Handle = msgspec.field(default_factory=_Handle)
    logical_node_id: int = -1
    name: str = ""
    product_name: str = ""
    type: int = -1


class _Names(msgspec.Struct):
    kind: str = ""
    operations: list[str] = []


class _Strings(msgspec.Struct):
    buffer_records: list[_Names] = []


class _Metadata(msgspec.Struct):
    pid: int = -1


class _Process(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    agents: list[_Agent] = []
    strings: _Strings = msgspec.field(default_factory=_Strings)
    kernel_symbols: list[_Symbol] = []
    buffer_records: _Records = msgspec.field(default_factory=_Records)


class _Output(msgspec.Struct):
    tool: list[_Process] = msgspec.field(name="rocprofiler-sdk-tool", default_factory=list)


_DECODER: Final = msgspec.json.Decoder(_Output, strict=False)


class RocprofJson:
    """The format; see ``profiler.model.extension.Format``."""

    name = "rocprofv3_json"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """Certain by the tool's own top-level key."""
        return 0.99 if b'"rocprofiler-sdk-tool"' in head[:4096] else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One trace a process. Raises BadInput where the JSON does not decode."""
        text = whole_bytes(source, LARGEST)
        problems: list[Problem] = []
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            text = text.decode("utf-8", "replace").encode()
            problems.append(Problem(source.name, "info", "bytes in names are not UTF-8 and were replaced"))
        try:
            output = _DECODER.decode(text)
        except msgspec.MsgspecError as error:
            advice = "Write it again with rocprofv3 -f json, or use -f csv, whose lines can be salvaged"
            raise BadInput(source.name, f"the JSON does not decode: {source.broken or error}", advice) from error
        traces = []
        for rank, process in enumerate(output.tool):
            assembly = _assembled(process, source.name)
            problems += assembly.problems
            devices = [DeviceInfo(a.logical_node_id, a.product_name or a.name or None, None, "amd")
                       for a in process.agents if a.type == 2]  # fmt: skip
            rank_or_none = rank if len(output.tool) > 1 else None
            traces.append(label(assembly.trace(str(process.metadata.pid), rank_or_none, devices), engines))
        return Reading(traces=tuple(traces), problems=tuple(problems))


def _assembled(process: _Process, path: str) -> TraceRows:
    assembly = TraceRows(path)
    symbols = {
        s.kernel_id: s.formatted_kernel_name or s.kernel_name.removesuffix(".kd") for s in process.kernel_symbols
    }
    nodes = {agent.id.handle: agent.logical_node_id for agent in process.agents}
    operations = process.strings.buffer_records

    def title(record: _Record) -> str:
        known = operations[record.kind].operations if 0 <= record.kind < len(operations) else []
        return known[record.operation] if 0 <= record.operation < len(known) else "unknown"

    def times(records: Sequence[_Record]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = [(r.start_timestamp, r.end_timestamp, r.correlation_id.internal) for r in records]
        table = np.array(rows, np.int64).reshape(-1, 3)
        return table[:, 0], table[:, 1], table[:, 2]

    records = process.buffer_records
    kernels = records.kernel_dispatch
    device = np.array([nodes.get(r.dispatch_info.agent_id.handle, -1) for r in kernels], np.int64)
    stream = np.array([r.stream_id.handle if r.stream_id.handle >= 0 else r.dispatch_info.queue_id.handle
                       for r in kernels], np.int64)  # fmt: skip
    names = [symbols.get(r.dispatch_info.kernel_id, f"kernel {r.dispatch_info.kernel_id}") for r in kernels]
    assembly.add(Kind.KERNEL, names, *times(kernels), device, stream % 2**31, None, "kernels")
    copies = records.memory_copy
    target = np.array([max(nodes.get(r.dst_agent_id.handle, -1), nodes.get(r.src_agent_id.handle, -1)) for r in copies],
                      np.int64)  # fmt: skip
    assembly.add(Kind.MEMCPY, [copy_name(title(r)) for r in copies], *times(copies), target, None, None, "copies")
    calls = [*records.hip_api, *records.rccl_api]
    threads = [str(r.thread_id) for r in calls]
    assembly.add(Kind.LAUNCH, [title(r) for r in calls], *times(calls), None, None, threads, "calls")
    markers = records.marker_api
    start, end, _ = times(markers)
    threads = [str(r.thread_id) for r in markers]
    assembly.add(Kind.ANNOTATION, [title(r) for r in markers], start, end, None, None, None, threads, "markers")
    return assembly


FORMAT: Final = RocprofJson()
