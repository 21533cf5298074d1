"""Traces that tests build themselves, what must be read from them, and where the real files lie.

A trace is a list of ``Built`` events in integer nanoseconds; ``event_texts`` writes each as the profiler or
``json.dump`` would, so a test can damage one event and still know exactly what the others say.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import strategies as st

from profiler.collectors.engines import ENGINES
from profiler.collectors.torch_trace.reader import FORMAT
from profiler.model.run import Reading
from profiler.model.trace import Kind, Trace
from profiler.store.source import FileSource

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
CORPUS = SHARED / "corpus"
KINETO = CORPUS / "kineto"
OWN = CORPUS / "own"
LAB = SHARED / "lab" / "enginesim.py"

# (kind, name, start ns, duration ns, correlation): what no damage elsewhere may change.
Row = tuple[int, str, int, int, int]

KINDS = {
    "kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "cuda_runtime": Kind.LAUNCH,
    "cuda_driver": Kind.LAUNCH,
    "hip_runtime": Kind.LAUNCH,
    "cpu_op": Kind.OPERATOR,
    "user_annotation": Kind.ANNOTATION,
    "gpu_user_annotation": Kind.DEVICE_ANNOTATION,
    "python_function": Kind.PYTHON,
    "overhead": Kind.OVERHEAD,
    # spellings of older versions
    "Kernel": Kind.KERNEL,
    "Memcpy": Kind.MEMCPY,
    "Memset": Kind.MEMSET,
    "Runtime": Kind.LAUNCH,
    "Operator": Kind.OPERATOR,
}


@dataclass(frozen=True)
class Built:
    """One complete event."""

    cat: str
    name: str
    start: int
    duration: int
    pid: int | str = 4242
    tid: int | str = 4242
    args: dict[str, object] = field(default_factory=dict)

    @property
    def row(self) -> Row:
        """What a reader has to say of it."""
        correlation = self.args.get("correlation", -1)
        assert isinstance(correlation, int)
        return int(KINDS.get(self.cat, Kind.OTHER)), self.name, self.start, self.duration, correlation

    @property
    def on_device(self) -> bool:
        """Whether a GPU did it."""
        return self.cat in ("kernel", "gpu_memcpy", "gpu_memset")


GEMM = "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT"
ATTENTION = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>, false>(Flash_fwd_params)"
NORM = "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*, c10::BFloat16 const*, float, int, int)"
STEP = "execute_context_0(0)_generation_32(32)"


def small_trace(steps: int = 3, layers: int = 2, start: int = 1_000_000) -> tuple[Built, ...]:
    """Eager decode steps of one rank: an annotation, operators, launches, kernels, a copy; one stream, no overlap."""
    events: list[Built] = []
    host, device, correlation = start, start + 10_000, 1
    for step in range(steps):
        begin = host
        body: list[Built] = []
        for _ in range(layers):
            for name, length in ((NORM, 3_017), (GEMM, 21_503), (ATTENTION, 15_251)):
                body.append(Built("cpu_op", "aten::work", host, 9_001, args={"External id": correlation}))
                body.append(
                    Built("cuda_runtime", "cudaLaunchKernel", host + 1_003, 4_007,
                          args={"External id": correlation, "correlation": correlation})
                )  # fmt: skip
                device = max(device + 1_001, host + 6_000)
                body.append(
                    Built("kernel", name, device, length + step, 0, 7,
                          {"device": 0, "stream": 7, "correlation": correlation, "grid": [1, 2, 3]})
                )  # fmt: skip
                device += length + step
                host += 11_113
                correlation += 1
        body.append(Built("cuda_runtime", "cudaMemcpyAsync", host, 2_501, args={"correlation": correlation}))
        device = max(device + 1_001, host + 3_000)
        copy = {"device": 0, "stream": 7, "correlation": correlation, "bytes": 512}
        body.append(Built("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", device, 1_499, 0, 7, copy))
        device += 1_499
        correlation += 1
        host = device + 5_003
        events.append(Built("user_annotation", STEP, begin, host - begin - 1_000))
        events.append(Built("python_function", f"vllm/worker.py({step}): execute_model", begin + 1, 90_001))
        events += body
    return tuple(events)


def stamp(nanoseconds: int) -> str:
    """Microseconds with three decimals, as libkineto writes them."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    return f"{sign}{rest // 1000}.{rest % 1000:03d}"


def event_text(event: Built, one_line: bool = False) -> str:
    """An event as libkineto prints it, or as ``json.dump`` does (``one_line``)."""
    name, pid, tid = json.dumps(event.name), json.dumps(event.pid), json.dumps(event.tid)
    args = "{" + ", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in event.args.items()) + "}"
    ts, dur = stamp(event.start), stamp(event.duration)
    if one_line:
        text = (
            f'{{"ph": "X", "cat": "{event.cat}", "name": {name}, "pid": {pid}, "tid": {tid}, "ts": {ts}, "dur": {dur}'
        )
        return f'{text}, "args": {args}}}' if event.args else text + "}"
    text = f'  {{\n    "ph": "X", "cat": "{event.cat}", "name": {name}, "pid": {pid}, "tid": {tid},\n'
    text += f'    "ts": {ts}, "dur": {dur}'
    return text + (f',\n    "args": {args}\n  }}' if event.args else "\n  }")


def event_texts(events: Sequence[Built], one_line: bool = False) -> list[str]:
    """Every event's own text."""
    return [event_text(event, one_line) for event in events]


METADATA = (
    '  {\n    "name": "process_name", "ph": "M", "ts": 0.000, "pid": 4242, "tid": 0,\n'
    '    "args": {\n      "name": "python3"\n    }\n  }',
    '  {\n    "name": "thread_name", "ph": "M", "ts": 0.000, "pid": 4242, "tid": 4242,\n'
    '    "args": {\n      "name": "thread 4242 (python3)"\n    }\n  }',
)
FLOW = '  {"ph": "s", "id": 1, "pid": 4242, "tid": 4242, "ts": 5.000, "cat": "ac2g", "name": "ac2g"}'
KEYS: dict[str, object] = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85028372480}],
    "cuda_runtime_version": 12080,
    "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
    "displayTimeUnit": "ms",
}


def document(
    texts: Sequence[str], base: int | None = None, one_line: bool = False, bare: bool = False, ending: bool = True
) -> bytes:
    """The whole file around the events' texts."""
    if bare:
        return ("[" + ",\n".join(texts) + ("]\n" if ending else "")).encode()
    keys = KEYS if base is None else KEYS | {"baseTimeNanoseconds": base}
    if one_line:
        head = json.dumps(keys)[:-1] + ', "traceEvents": ['
        return (head + ", ".join(texts) + ('], "traceName": "/home/someone/x.json"}' if ending else "")).encode()
    head = (
        "{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in keys.items()) + ',\n  "traceEvents": [\n'
    )
    tail = '\n  ],\n  "traceName": "/home/someone/x.json"\n}\n' if ending else ""
    return (head + ",\n".join((*METADATA, FLOW, *texts)) + tail).encode()


def written(events: Sequence[Built], path: Path, base: int | None = None) -> Path:
    """The trace as a file, gzip where the name says so."""
    data = document(event_texts(events), base)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
    return path


def expected(events: Sequence[Built]) -> list[Row]:
    """What a reader has to return for undamaged events, in their order."""
    return [event.row for event in events]


def rows_of(trace: Trace) -> list[Row]:
    """What the reader did return."""
    e = trace.events
    names = [trace.names[i] for i in e.name.tolist()]
    return list(zip(e.kind.tolist(), names, e.start.tolist(), e.duration.tolist(), e.correlation.tolist(), strict=True))


def read_bytes(data: bytes, folder: Path, name: str = "run.pt.trace.json") -> Reading:
    """Read bytes as a trace file of this name."""
    path = folder / name
    path.write_bytes(data)
    return FORMAT.read(FileSource(path), ENGINES)


def stretched(events: Sequence[Built], names: Sequence[str], factor: int) -> tuple[Built, ...]:
    """The trace as it would be had every kernel of these names taken ``factor`` times as long: all else moves along."""
    spans = sorted((e.start, e.start + e.duration) for e in events if e.on_device and e.name in names)

    def moved(instant: int) -> int:
        return instant + (factor - 1) * sum(min(end, instant) - start for start, end in spans if start < instant)

    return tuple(
        replace(e, start=moved(e.start), duration=moved(e.start + e.duration) - moved(e.start)) for e in events
    )


# ------------------------------------------------------------------------------------------------- the real files
def corpus_traces() -> list[Path]:
    """Every different trace of the corpus (pairs share some files)."""
    own = [p for pattern in ("*/trace/*.json.gz", "*.trace.json.gz") for p in sorted(OWN.rglob(pattern))]
    found = {(path.name, path.stat().st_size): path for path in (*sorted(KINETO.glob("*.gz")), *own)}
    return list(found.values())


def each_trace() -> list[object]:
    """The corpus traces as parameters; one that is skipped where there is no corpus."""
    absent = pytest.mark.skip(reason="the corpus of real files is not on this machine")
    found = corpus_traces()
    return [pytest.param(p, id=p.name.split(".")[0] + f"-{p.stat().st_size}") for p in found] or [
        pytest.param(KINETO, marks=absent, id="no corpus")
    ]


@lru_cache(maxsize=64)
def reading_of(path: Path) -> Reading:
    """A corpus trace as the product reads it, once a session."""
    return FORMAT.read(FileSource(path), ENGINES)


def reference(path: Path) -> Iterator[Row]:
    """The same trace by json and Decimal alone."""
    with gzip.open(path, "rb") as stream:
        loaded = json.load(stream, parse_float=str)
    for event in loaded["traceEvents"] if isinstance(loaded, dict) else loaded:
        if event.get("ph") != "X":
            continue
        args = event.get("args") or {}
        yield (
            int(KINDS.get(event.get("cat", ""), Kind.OTHER)),
            event["name"],
            in_nanoseconds(event["ts"]),
            in_nanoseconds(event["dur"]),
            int(args.get("correlation", -1)),
        )


def in_nanoseconds(microseconds: int | str) -> int:
    """Exactly."""
    return int((Decimal(microseconds) * 1000).to_integral_value(ROUND_HALF_EVEN))


# -------------------------------------------------------------------------------------------------------- hypothesis
def intervals(most: int = 9, latest: int = 30) -> st.SearchStrategy[list[tuple[int, int, int]]]:
    """(start, end, tier) of a handful of events on a small integer clock, zero-length ones included."""
    one = st.tuples(st.integers(0, latest), st.integers(0, 8), st.integers(0, 2))
    return st.lists(one.map(lambda e: (e[0], e[0] + e[1], e[2])), min_size=1, max_size=most)


def mutated(data: bytes) -> st.SearchStrategy[bytes]:
    """A file with bytes cut off, replaced, removed, repeated or put in."""
    at = st.integers(0, len(data))
    noise = st.binary(max_size=8) | st.sampled_from(
        [b'"', b"}", b"]", b"{", b"[" * 40, b"\xf0\x9f", b"NaN", b",,", b"\\"]
    )
    one = st.one_of(
        at.map(lambda i: lambda d: d[:i]),
        st.tuples(at, noise).map(lambda x: lambda d: d[: x[0]] + x[1] + d[x[0] :]),
        st.tuples(at, noise).map(lambda x: lambda d: d[: x[0]] + x[1] + d[x[0] + len(x[1]) :]),
        st.tuples(at, st.integers(1, 400)).map(lambda x: lambda d: d[: x[0]] + d[x[0] + x[1] :]),
        st.tuples(at, st.integers(1, 400)).map(lambda x: lambda d: d[: x[0] + x[1]] + d[x[0] :]),
    )

    def applied(changes: list[object]) -> bytes:
        result = data
        for change in changes:
            result = change(result)  # type: ignore[operator]
        return result

    return st.lists(one, min_size=1, max_size=4).map(applied)
