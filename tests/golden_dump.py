"""One canonical dump a file: what was read, in numbers and in our own words, without a line of the file itself.

``python -m tests.golden_dump`` (or ``make golden``) writes tests/golden/*.json anew; look at the difference before you
commit it. Times are summed as integer nanoseconds, other columns to 12 digits; NaN counts as not there.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np

from profiler import open_run
from profiler.analyzers.metrics import metrics_of
from profiler.model.requests import BenchResult, RequestTable
from profiler.model.run import Run
from profiler.model.steps import EngineLog, StepTable
from profiler.model.trace import Kind, Trace
from tests.strategies import CORPUS, ROOT

GOLDEN = ROOT / "tests" / "golden"
SAMPLES = ROOT / "tests" / "samples"
# Small files are read in milliseconds each; the large ones have tests of their own.
LARGEST = 1 << 20

Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]


def sources() -> dict[str, Path]:
    """Name of the golden file -> the folder it is about."""
    found = {"samples": SAMPLES}
    if CORPUS.is_dir():
        found |= {f"corpus-{folder.name}": folder for folder in sorted(CORPUS.iterdir()) if folder.is_dir()}
    return found


def files_of(folder: Path) -> Iterator[Path]:
    """Small files in order, each content once."""
    seen: set[bytes] = set()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and ".profiler" not in path.parts and path.stat().st_size <= LARGEST:
            digest = hashlib.sha256(path.read_bytes()).digest()
            if digest not in seen:
                seen.add(digest)
                yield path


def dumps_of(folder: Path) -> dict[str, Value]:
    """Path in the folder -> dump, of every file that something was read from."""
    found: dict[str, Value] = {}
    for path in files_of(folder):
        run = open_run(path)
        if run.files[0].read:
            found[str(path.relative_to(folder))] = dump(run)
    return found


def dump(run: Run) -> dict[str, Value]:
    """Kind, engine, counts, time ranges, metrics, settings and problems of a run of one file."""
    facts = {key: run.facts[key].value for key in sorted(run.facts)}
    whole: dict[str, Value] = {
        "format": run.files[0].format,
        "engine": str(facts.get("engine.name")) if "engine.name" in facts else None,
        "facts": {k: _plain(v) if isinstance(v, bool | int | float) else type(v).__name__ for k, v in facts.items()},
        "traces": [_trace(trace) for trace in run.traces],
        "benches": [_bench(bench) for bench in run.benches],
        "snapshots": [{"engine": s.engine} | {k: _plain(s.values[k]) for k in sorted(s.values)} for s in run.snapshots],
        "logs": [_log(log) for log in run.logs],
        "counters": [_columns(c, ("path",)) for c in run.counters],
        "stacks": [
            {"unit": s.unit, "rows": len(s), "frames": len(s.frames), "weight": _plain(float(s.weight.sum())),
             "depth": sum(len(stack) for stack in s.stacks)}
            for s in run.stacks
        ],
        "problems": [f"{severity} x{count}" for severity, count in _problems(run)],
    }  # fmt: skip
    return {key: value for key, value in whole.items() if value not in ([], {}, None)}


def _problems(run: Run) -> list[tuple[str, int]]:
    totals: Counter[str] = Counter()
    for problem in run.problems:
        totals[problem.severity] += problem.count
    return sorted(totals.items())


def _trace(trace: Trace) -> dict[str, Value]:
    events = trace.events
    kinds: dict[str, Value] = {}
    for kind in Kind:
        mine = events.of(kind)
        if len(mine):
            kinds[kind.name.lower()] = [
                len(mine),
                int(mine.duration.sum()),
                int((mine.start - events.start.min()).sum()),
            ]
    moved: dict[str, Value] = {}
    for operation in sorted({message.operation for message in trace.messages.values()}):
        mine_of = [m for m in trace.messages.values() if m.operation == operation]
        moved[operation] = [len(mine_of), sum(m.sent for m in mine_of)]
    return ({"messages": moved} if moved else {}) | {
        "base": trace.base,
        "rank": trace.rank,
        "range": [int(events.start.min()), int(events.end.max())] if len(events) else None,
        "kinds: count, ns, ns since the start": kinds,
        "names": len(trace.names),
        "threads": len(trace.threads),
        "devices": len(trace.devices),
        "streams": len(np.unique(events.stream[events.stream >= 0])),
        "bytes": int(events.size[events.size > 0].sum()),
        "correlated": int((events.correlation >= 0).sum()),
        "nodes": int((events.graph_node > 0).sum()),
        "labelled": int(np.isin(events.name, np.array(sorted(trace.labels), np.int32)).sum()),
        "phases": len(set(trace.phases.values())),
    }


def _bench(bench: BenchResult) -> dict[str, Value]:
    table = bench.requests
    return {
        "tool": bench.tool,
        "duration": _plain(bench.duration),
        "requests": [bench.completed, bench.failed],
        "tokens": [bench.total_input_tokens, bench.total_output_tokens],
        "rate": _plain(bench.request_rate),
        "concurrency": bench.max_concurrency,
        "summary": {key: _plain(bench.summary[key]) for key in sorted(bench.summary)},
        "metrics": {k: _plain(v) for k, v in sorted(metrics_of(bench).items()) if k not in bench.summary},
        "columns": None if table is None else _requests(table),
    }


def _requests(table: RequestTable) -> dict[str, Value]:
    times: dict[str, Value] = {
        name: int(np.rint(np.nan_to_num(getattr(table, name)) * 1e9).sum()) for name in ("ttft", "e2e", "itl")
    }
    return times | {
        "rows": len(table),
        "ok": int(table.ok.sum()),
        "gaps": len(table.itl),
        "input": int(table.input_tokens.sum()),
        "output": int(table.output_tokens.sum()),
        "spread of starts": _plain(float(np.ptp(table.start))) if len(table) else None,
    }


def _log(log: EngineLog) -> dict[str, Value]:
    events: dict[str, Value] = {key: log.events[key] for key in sorted(log.events)}
    found: dict[str, Value] = {"engine": log.engine, "every step": log.every_step, "events": events}
    if log.readings:
        found["readings"] = {
            concept: [len(told.value), _plain(float(told.value.sum())), _plain(float(told.value.max()))]
            for concept, told in sorted(log.readings.items())
        }
    return found | {"steps": _columns(log.steps)}


def _columns(table: object, without: tuple[str, ...] = ()) -> dict[str, Value]:
    """Rows, and of each column how many values are known and their sum."""
    held = {f.name: getattr(table, f.name) for f in fields(table) if f.name not in without}  # type: ignore[arg-type]
    links = held.pop("links", {})
    found: dict[str, Value] = {}
    for name, values in (held | links).items():
        column = np.asarray(values, np.float64)
        known = column[np.isfinite(column) & ((column != -1) | (not isinstance(table, StepTable)))]
        if len(known):
            found[name] = [len(known), _plain(float(known.sum()))]
    return found


def _plain(value: float | None) -> Value:
    """A number as JSON holds it: 12 digits, infinity and NaN as words."""
    if value is None or isinstance(value, bool | int):
        return value
    return float(f"{value:.12g}") if math.isfinite(value) else str(value)


def main() -> None:
    """Write all golden files anew."""
    GOLDEN.mkdir(exist_ok=True)
    for name, folder in sources().items():
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in dumps_of(folder).items()]
        (GOLDEN / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        sys.stdout.write(f"{name}: {len(lines)} files\n")


if __name__ == "__main__":
    main()
