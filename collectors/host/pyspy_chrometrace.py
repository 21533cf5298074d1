"""``py-spy record --format chrometrace``: a list of begin and end events of every thread, times in µs.

Read off a file of py-spy 0.4.3. The outermost call of a thread is ``thread (id): name`` and says whose stack it is.
A list that breaks off gives the events before that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.host.open_calls import OpenCalls, said
from profiler.collectors.host.stack_rows import StackRows, frame_text
from profiler.collectors.json_text import count, mapping, number, string
from profiler.collectors.load.document import list_of
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading

_SURE: Final = re.compile(rb'\A\s*\[(?=[\s\S]{0,400}"cat"\s*:\s*"py-spy")')
_THREAD: Final = re.compile(r"thread \(([^()]*)\)(?:: (.*))?")
_PROCESS: Final = re.compile(r'process (\d{1,12}):?"?(.*?)"?')


class PyspyChrometrace:
    """See ``profiler.model.extension.Format``."""

    name = "pyspy_chrometrace"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the category that py-spy gives its events."""
        return 0.85 if _SURE.search(head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One table in seconds."""
        events, problems = list_of(source)
        rows = StackRows(source.name, "py-spy", "seconds")
        threads: dict[tuple[int | None, int | None], OpenCalls] = {}
        strange = 0
        for event in events:
            at, name, kind = number(event.get("ts")), string(event.get("name")), event.get("ph")
            if at is None or name is None or not abs(at) < float("inf") or kind not in ("B", "E"):
                strange += kind != "M"
                continue
            pid, tid = count(event.get("pid")), count(event.get("tid"))
            calls = threads.get((pid, tid))
            if calls is None:
                process = "" if pid is None else str(pid)
                calls = threads[pid, tid] = OpenCalls(rows, 1e-6, process, "" if tid is None else str(tid))
            if kind == "E":
                calls.close(at, name)
            else:
                calls.open(at, name, _frame(calls, name, mapping(event.get("args"))))
        odd: Counter[str] = Counter()
        for calls in threads.values():
            calls.finish(calls.now)
            odd.update(calls.odd)
        if strange:
            detail = "an event is neither the begin nor the end of a call and was left out"
            problems.append(Problem(source.name, "warning", detail, count=strange))
        problems += said(source.name, odd)
        if not len(rows):
            raise BadInput(source.name, "no call found", "Record again with py-spy record --format chrometrace")
        return Reading(stacks=(rows.table(),), problems=tuple(problems))


def _frame(calls: OpenCalls, name: str, args: Mapping[str, object]) -> str:
    """The call's frame; empty for the outermost ones that only say whose stack it is."""
    file = string(args.get("filename"))
    if file is None:
        thread, process = _THREAD.fullmatch(name), _PROCESS.fullmatch(name)
        if thread is not None:
            calls.thread = f"{thread[1]}: {thread[2]}" if thread[2] else thread[1]
            return ""
        if process is not None:
            calls.process = f"{process[1]}: {process[2]}" if process[2] else process[1]
            return ""
    return frame_text(name, file, count(args.get("line")))


FORMAT: Final = PyspyChrometrace()
