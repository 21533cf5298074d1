"""The pull-request comment, by value."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.model.document import DocumentProblem
from profiler.reports.markdown import escape, to_markdown
from tests.reports import documents

PAIR = """\
**run-B (SGLang 0.5.23) serves 3,778 tokens/s where run-A (vLLM 0.33.0) serves 5,919: 36.2% less (95%: 35.4 to 37.0; 3 repeats each).**

70% of the gap is batching; 19% is scheduling; 11% is kernel.

#### Output throughput

run-A 5,919 tokens/s, run-B 3,778 tokens/s: -2,141 tokens/s (-36.2%; 95%: -2,190 to -2,095); run-A is better

| cause | gap, tokens/s | share | 95% interval | µs/token | why |
| --- | ---: | ---: | ---: | ---: | --- |
| batching | -1,499 | 70.0% | -1,560 to -1,439 | +67.04 | run-B's steps carried 38 sequences where run-A's carried 89; \\`--max-running-requests 40\\` is the cap |
| scheduling | -407 | 19.0% | -470 to -350 | +18.19 | the GPU waited 0.86 ms between steps (run-A: 0.09 ms) because the overlap scheduler is off |
| kernel | -229 | 10.7% | -281 to -180 | +10.23 | decode attention takes 1.6x as long at an equal batch (outside what the runs have seen) |
| CUDA Graph | 0 | 0.0% | -4 to 4 | 0.00 | none: both replay 100% of decode steps |
| unexplained | -6 | 0.3% | – | +0.29 | 1 part could not be told apart |
| **measured gap** | **-2,141** | **100.0%** | **-2,190 to -2,095** | **+95.74** |  |

Looked for too, with no difference or no evidence of one: communication, memory, speculation, frontend, hardware, workload.

#### Other metrics

| metric | run-A | run-B | gap | relative | 95% interval |  |
| --- | ---: | ---: | ---: | ---: | ---: | --- |
| mean TPOT | 11.10 ms | 10.80 ms | -300.0 µs | -2.7% | -900.0 to 400.0 | no difference shown |
| p99 TTFT | 1.443 s | 1.404 s | -39.00 ms | -2.7% | -117.00 to 52.00 | no difference shown |

#### Fairness

- **fail** warm\\_up (warn): run-B's log shows no warm-up of 8 requests before the measured window; to fix: send 8 requests before measuring
- **unknown** same\\_clocks (warn): no GPU counters in run-B; to fix: record

#### Recommendations

- run-B: **\\--max-running-requests 128** output throughput +39.0% (95%: +36.0% to +41.0%). requests waited in 94% of the steps

#### Problems in the files

- **error** run-B/metrics/7.txt: the file ends early (at byte 4096)
- **warning** run-B/trace/decode.pt.trace.json.gz: 3 launches without a kernel; they are left out (at event 18,221)

#### Missing evidence

- run-B: no GPU counters; they would have told whether the clocks were equal

#### How it was measured

- Gaps are B - A. Throughput is explained in seconds per output token.
- profiler diagnose runs/run-A runs/run-B
"""


def test_a_pair() -> None:
    assert to_markdown(documents.pair()) == PAIR


def test_other_documents_are_written() -> None:
    assert "run-A (A) 5,919 tokens/s, run-A (B) 5,919 tokens/s" in to_markdown(documents.null_pair())
    assert "a.json: no benchmark result" in to_markdown(documents.traces_only())
    assert to_markdown(documents.empty()).startswith("**insufficient evidence**")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a|b", "a\\|b"),
        ("`code`", "\\`code\\`"),
        ("<b>", "&lt;b&gt;"),
        ("@team", "@\u2060team"),
        ("fixes #12", "fixes #\u206012"),
        ("https://x.example", "https://\u2060x.example"),
        ("[a](b)", "\\[a\\](b)"),
        ("# title", "\\# title"),
        ("1. item", "1\\. item"),
        ("1.5 ms", "1.5 ms"),
        ("a\nb", "a b"),
        ("cuda_graph *x*", "cuda\\_graph \\*x\\*"),
    ],
)
def test_what_files_hold_is_escaped(text: str, written: str) -> None:
    assert escape(text) == written


def test_it_fits_a_comment() -> None:
    many = tuple(DocumentProblem(run="r", file="f" * 900, severity="error", detail="<" * 900) for _ in range(900))
    text = to_markdown(msgspec.structs.replace(documents.pair(), problems=many, missing=("|" * 9000,) * 900))

    assert len(text) < 60_000
    assert "880 more" in text or "left out" in text


@settings(max_examples=60, deadline=None)
@given(st.text() | st.text(alphabet="<>|`@#[]()!\\\\\n\r a1_*~&;"))
def test_any_text_stays_text(text: str) -> None:
    written = to_markdown(documents.hostile(text))
    written.encode()

    assert "<" not in written
    assert len(written) < 60_000
    assert not re.search(r"(?<![\\])(?:\\\\\\\\)*`", written)
    assert not re.search(r"[@#]\w", written)
    # every table keeps its columns
    for table in re.findall(r"(?:^\|.*\n)+", written, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in table.splitlines()}) == 1
