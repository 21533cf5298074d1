"""LMDeploy's profile_restful_api: a CSV of one row a run, appended, also where its name ends in .jsonl.

Until 0.5 the columns are ``batch, num_prompts, RPS, …, FTL(ave)(s)`` in seconds and without token counts; later they
are the names of the serving benchmark that the script descends from, in milliseconds, and mean the same.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from typing import Final

from profiler.collectors.bounded_text import whole_text
from profiler.collectors.json_text import count, number
from profiler.collectors.load.summary_keys import metadata, summary
from profiler.errors import BadInput
from profiler.model.extension import Engine, Source
from profiler.model.problem import Problem
from profiler.model.requests import BenchResult
from profiler.model.run import Reading

TOOL: Final = "lmdeploy profile_restful_api"
_OLD: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?batch,num_prompts,RPS,")
_NEW: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?(?=[^\n{]*\bcompleted\b)(?=[^\n]*,mean_ttft_ms)[\w, ]+\r?\n")
_READ: Final = frozenset(
    {"backend", "duration", "completed", "total_input_tokens", "total_output_tokens", "request_rate", "max_concurrency"}
)
_OLD_TIMES: Final = (("FTL(ave)(s)", "mean_ttft"), ("FTL(min)(s)", "min_ttft"), ("FTL(max)(s)", "max_ttft"))


class LmdeployBench:
    """See ``profiler.model.extension.Format``."""

    name = "lmdeploy_bench"
    version = 1

    def sniff(self, head: bytes, name: str) -> float:
        """By the header."""
        return 0.92 if _OLD.search(head) or _NEW.search(head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """One result for each row."""
        text = whole_text(source).replace("\0", "")
        problems: list[Problem] = []
        if source.broken:
            problems.append(Problem(source.name, "error", source.broken))
        try:
            rows = [row for row in csv.reader(text.splitlines()) if row]
        except csv.Error:  # a field of more than 128 KiB
            rows = []
        header = [cell.strip() for cell in rows[0]] if rows else []
        benches: list[BenchResult] = []
        bad: list[int] = []
        for line, row in enumerate(rows[1:], 2):
            cells = [cell.strip() for cell in row]
            if cells == header:
                continue  # a later run wrote its header again
            result = None if len(cells) != len(header) else _result(dict(zip(header, cells, strict=True)), source.name)
            if result is None:
                bad.append(line)
            else:
                benches.append(result)
        if bad:
            detail = "a row has not the fields of its header and was left out"
            problems.append(Problem(source.name, "error", detail, f"row {bad[0]}", len(bad)))
        if not benches:
            raise BadInput(source.name, "no result below a header", "Take the script's own CSV as it is", "line 1")
        return Reading(benches=tuple(benches), problems=tuple(problems))


def _result(row: Mapping[str, str], path: str) -> BenchResult | None:
    if "num_prompts" in row and "RPS" in row:
        return _old(row, path)
    duration, completed = number(row.get("duration")), count(row.get("completed"))
    if duration is None or completed is None:
        return None
    asked = count(row.get("num_prompts"))
    return BenchResult(
        path=path,
        tool=TOOL,
        duration=duration,
        completed=completed,
        failed=0 if asked is None else max(asked - completed, 0),
        total_input_tokens=count(row.get("total_input_tokens", row.get("total_input"))) or 0,
        total_output_tokens=count(row.get("total_output_tokens", row.get("total_output"))) or 0,
        request_rate=number(row.get("request_rate")),
        max_concurrency=count(row.get("max_concurrency")),
        client_protocol=row.get("backend") or None,
        summary=summary(row),
        metadata=metadata(row, _READ),
    )


def _old(row: Mapping[str, str], path: str) -> BenchResult | None:
    requests, rate = count(row.get("num_prompts")), number(row.get("RPS"))
    if requests is None or not rate:
        return None
    duration = requests / rate
    output, total = number(row.get("throughput(out tok/s)")), number(row.get("throughput(total tok/s)"))
    found = {name: value for key, name in _OLD_TIMES if (value := number(row.get(key))) is not None}
    found["request_throughput"] = rate
    if output is not None:
        found["output_throughput"] = output
    if total is not None:
        found["total_token_throughput"] = total
    made, both = _tokens(output, duration), _tokens(total, duration)
    return BenchResult(
        path=path,
        tool=TOOL,
        duration=duration,
        completed=requests,
        failed=0,
        total_input_tokens=max(both - made, 0),
        total_output_tokens=made,
        max_concurrency=count(row.get("batch")),
        summary=found,
        metadata={"token counts": "rates times the duration, both as printed"},
    )


def _tokens(rate: float | None, duration: float) -> int:
    product = 0.0 if rate is None else rate * duration
    return round(product) if abs(product) < 2**62 else 0


FORMAT: Final = LmdeployBench()
