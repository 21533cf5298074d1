"""The terminal pages, as the literal text that a pipe of 100 columns gets."""

from __future__ import annotations

import re
from html import unescape
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from profiler import open_run
from profiler.analyzers.diagnosis import diagnose
from profiler.analyzers.inspection import inspect
from profiler.model.diagnosis import Diagnosis
from profiler.model.document import DocumentProblem
from profiler.model.inspection import Figure, Inspection
from profiler.reports.html import to_html
from profiler.reports.inspection_html import to_inspection_html
from profiler.reports.terminal import print_diagnosis, print_inspection
from profiler.reports.terminal_tables import figures
from tests.conftest import Lab
from tests.reports import documents
from tests.strategies import small_trace, written

PAIR = """\
run-B (SGLang 0.5.23) serves 3,778 tokens/s where run-A (vLLM 0.33.0) serves 5,919: 36.2% less (95%:
35.4 to 37.0; 3 repeats each).
70% of the gap is batching; 19% is scheduling; 11% is kernel.

Output throughput
run-A 5,919 tokens/s, run-B 3,778 tokens/s: -2,141 tokens/s (-36.2%; 95%: -2,190 to -2,095); run-A
is better
cause          gap, tokens/s    share       95% interval   µs/token
───────────────────────────────────────────────────────────────────
batching              -1,499    70.0%   -1,560 to -1,439     +67.04
scheduling              -407    19.0%       -470 to -350     +18.19
kernel                  -229    10.7%       -281 to -180     +10.23
CUDA Graph                 0     0.0%            -4 to 4       0.00
unexplained               -6     0.3%                  –      +0.29
───────────────────────────────────────────────────────────────────
measured gap          -2,141   100.0%   -2,190 to -2,095     +95.74

  batching     run-B's steps carried 38 sequences where run-A's carried 89; `--max-running-requests
               40` is the cap
  scheduling   the GPU waited 0.86 ms between steps (run-A: 0.09 ms) because the overlap scheduler
               is off
  kernel       decode attention takes 1.6x as long at an equal batch (outside what the runs have
               seen)
  CUDA Graph   none: both replay 100% of decode steps
  unexplained  1 part could not be told apart
  Looked for too, with no difference or no evidence of one: communication, memory, speculation,
  frontend, hardware, workload.

Other metrics
metric         run-A      run-B         gap   relative                better
────────────────────────────────────────────────────────────────────────────
mean TPOT   11.10 ms   10.80 ms   -300.0 µs      -2.7%   no difference shown
p99 TTFT     1.443 s    1.404 s   -39.00 ms      -2.7%   no difference shown

Fairness  3 rules: 1 failed, 1 not known, 1 passed
  fail warm_up (warn): run-B's log shows no warm-up of 8 requests before the measured window
    to fix: send 8 requests before measuring

Recommendations
  run-B: --max-running-requests 128 (now 40)
    output throughput +39.0% (95%: +36.0% to +41.0%)
    requests waited in 94% of the steps
    check: run the same load again and compare sequences per step

Problems in the files
  error run-B/metrics/7.txt: the file ends early (at byte 4096)
  warning run-B/trace/decode.pt.trace.json.gz: 3 launches without a kernel; they are left out (at
  event 18,221) [3 times]
  and 1 more

Missing evidence
  run-B: no GPU counters; they would have told whether the clocks were equal
"""

NULL_PAIR = """\
No difference shown.
Verdict: no difference shown.

Output throughput
run-A (A) 5,919 tokens/s, run-A (B) 5,919 tokens/s: 0 tokens/s (0.0%; 95%: -41 to 41); no difference
shown
cause          gap, tokens/s   share   95% interval
───────────────────────────────────────────────────
kernel             not known       –      not known
CUDA Graph         not known       –      not known
scheduling         not known       –      not known
batching           not known       –      not known
unexplained                0       –              –
───────────────────────────────────────────────────
measured gap               0       –      -41 to 41

  kernel      not told apart: these runs hold no evidence for it
  CUDA Graph  not told apart: these runs hold no evidence for it
  scheduling  not told apart: these runs hold no evidence for it
  batching    not told apart: these runs hold no evidence for it
  Looked for too, with no difference or no evidence of one: communication, memory, speculation,
  frontend, hardware, workload.
"""

INSPECTION = """\
run-B
  engine                      sglang 0.5.23 (from server.log:12)
  model                       Qwen3-32B
  gpu                         NVIDIA H200
  requests                    3,000
  steps                       812
  kernel time not classified  1.2%

Files
format        files        size   not read
──────────────────────────────────────────
prometheus        2   44.00 KiB          1
torch trace       1   17.38 MiB          0

Steps
source                                     steps   prefill   decode   mixed   sequences   mean time
───────────────────────────────────────────────────────────────────────────────────────────────────
trace/decode.pt.trace.json.gz (inferred)     812        40      700      72       38.40    10.80 ms

cuda:0 NVIDIA H200  412,000 kernels in trace/decode.pt.trace.json.gz
bucket                time, s   of the window     calls   of a call
───────────────────────────────────────────────────────────────────
busy: gemm              4.000           50.0%   180,000    22.22 µs
busy: attention         3.000           37.5%    29,232    102.6 µs
idle: between steps     0.900           11.2%
idle: launch            0.100            1.2%
───────────────────────────────────────────────────────────────────
busy                    7.000           87.5%
window                  8.000          100.0%
role        time, s   of the busy time     calls   of a call
────────────────────────────────────────────────────────────
attention     3.000              42.9%    29,232    102.6 µs
mlp           4.000              57.1%   118,000    33.90 µs
  36 layers found in the order of the kernels
launching operator                  time, s   of the busy time    calls   of a call       host
──────────────────────────────────────────────────────────────────────────────────────────────
aten::mm                              2.400              34.3%   36,000    66.67 µs   900.0 ms
sgl_kernel::silu_and_mul              0.800              11.4%   29,232    27.37 µs   200.0 ms
21 other operators                    0.300               4.3%   58,000    5.172 µs   400.0 ms
replayed graphs (cudaGraphLaunch)     3.200              45.7%      700    4.571 ms   100.0 ms
outside of any operator               0.200               2.9%    9,000    22.22 µs   100.0 ms
not known                             0.100               1.4%

Totals: kernels  412,000 calls of 214 names in kernels.csv (nsys stats cuda_gpu_kern_sum)
added up              time, s   of the total
────────────────────────────────────────────
category: gemm          4.100          57.7%
category: attention     3.000          42.3%
nvjet_tst_192x192       4.000          56.3%
────────────────────────────────────────────
total                   7.100         100.0%

Beside the engine  a model gateway (router) in router.prom
  running requests  12
  hit rate          25.0%
  ttft              500.0 ms

Metrics
  output throughput  3,778 tokens/s
  mean TTFT          1.921 s

Problems in the files
  error run-B/metrics/7.txt: the file ends early (at byte 4096)
"""


def printed(document: Diagnosis | Inspection, width: int = 100, verbose: bool = False, colour: bool = False) -> str:
    """What the console got, without trailing spaces."""
    heard = StringIO()
    console = Console(
        file=heard, width=width, no_color=not colour, force_terminal=colour, color_system="standard" if colour else None
    )
    if isinstance(document, Diagnosis):
        print_diagnosis(document, console, verbose)
    else:
        print_inspection(document, console, verbose)
    return "".join(f"{line.rstrip()}\n" for line in heard.getvalue().split("\n")[:-1])


def test_a_pair() -> None:
    assert printed(documents.pair()) == PAIR


def test_a_null_pair_names_no_winner() -> None:
    assert printed(documents.null_pair()) == NULL_PAIR


def test_figures_of_one_name_say_where_they_were_read() -> None:
    told = [("server.log", 0.013), ("metrics", 0.012)]
    found = [Figure(section="memory and cache", name="KV cache in use", value=x, unit="fraction", detail="", source=s)
             for s, x in told]  # fmt: skip
    console = Console(file=StringIO(), width=100)
    for rows in (found, found[:1] * 2):
        console.print(figures(rows, verbose=False))
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert [text.count(f"from {source}") for source, _ in told] == [1, 1]


def test_of_several_traces_the_pages_say_which_is_shown(tmp_path: Path) -> None:
    for rank in (2, 3):
        path = written(small_trace(), tmp_path / f"worker{rank}.pt.trace.json")
        path.write_text(path.read_text().replace('"rank": 3', f'"rank": {rank}'))
    run = open_run(tmp_path)
    assert [trace.rank for trace in run.traces] == [2, 3]
    both = diagnose(run, run)
    first, second = (f"worker{rank}.pt.trace.json (rank {rank})" for rank in (2, 3))
    assert [(one.run, one.of, one.rank) for one in both.shown] == [("a", 2, 2), ("b", 2, 2)]
    told = f"gpu 0 in {first}, one of 2 traced devices"
    page = unescape(to_html(both))
    assert page.count(told) == printed(both, 400, verbose=True).count(told) == 2
    assert re.search(rf"step [\d,]+ of {re.escape(first)}, ", page)
    found = inspect(run)
    assert [device.rank for device in found.devices] == [2, 3]
    for shown in (printed(found, 400), unescape(to_inspection_html(found))):
        assert first in shown and second in shown


def test_of_one_trace_nothing_has_to_be_told_apart(lab: Lab) -> None:
    document = lab("null").forward
    assert [one.of for one in document.shown] == [1, 1]
    assert "traced devices" not in to_html(document) + printed(document, 400, verbose=True)


def test_an_inspection() -> None:
    assert printed(documents.inspection()) == INSPECTION


def test_operators_beyond_the_page_share_a_row_and_add_up() -> None:
    document = documents.inspection()
    every = tuple(documents.launched("operator", f"aten::op{i}", 0.01 * (99 - i), 10, 0.1) for i in range(20))
    every += document.devices[0].operators[2:]
    device = msgspec.structs.replace(document.devices[0], operators=every)
    folded = msgspec.structs.replace(document, devices=(device,))
    table = printed(folded).partition("launching operator")[2].partition("\n\n")[0].splitlines()[2:]
    assert [line.split("  ")[0] for line in table[11:]] == [
        "aten::op11", "29 other operators", "replayed graphs (cudaGraphLaunch)", "outside of any operator", "not known",
    ]  # fmt: skip
    assert "58,080" in table[12]
    times = [float(line.removeprefix(line.split("  ")[0]).split()[0]) for line in table]
    assert sum(times) == pytest.approx(sum(row.seconds for row in every), abs=0.001 * len(times))


@pytest.mark.parametrize("width", [40, 80, 100, 140])
def test_no_line_is_longer_than_the_page(width: int) -> None:
    for verbose in (False, True):
        for build in (documents.pair, documents.traces_only, documents.empty, documents.hostile):
            assert max(map(len, printed(build(), width, verbose).splitlines()), default=0) <= width
        assert max(map(len, printed(documents.inspection(), width, verbose).splitlines())) <= width


def test_the_rows_add_up() -> None:
    figures = re.findall(r"^(\S.*?)  +([+-]?[\d,]+)  +-?[\d.]+%", printed(documents.pair()), re.MULTILINE)
    rows = {name: int(figure.replace(",", "")) for name, figure in figures}

    total = rows.pop("measured gap")
    assert list(rows) == ["batching", "scheduling", "kernel", "CUDA Graph", "unexplained"]
    assert sum(rows.values()) == total


def test_verbose_shows_both_runs_side_by_side_with_the_source() -> None:
    text = printed(documents.pair(), width=140, verbose=True)

    assert re.search(r"sequences per step +89.20 sequences +38.40 sequences +trace/decode.pt.trace.json.gz", text)
    assert re.search(r"queue time +12.00 ms +not known +metrics", text)
    assert "request limit" in text
    assert "How it was measured" in text
    assert "P99 TTFT" in text


def test_the_four_causes_are_always_rows() -> None:
    text = printed(documents.null_pair())

    for label in ("kernel", "CUDA Graph", "scheduling", "batching"):
        assert re.search(rf"^{label} +not known", text, re.MULTILINE)


def test_many_problems_are_capped_with_errors_first() -> None:
    many = tuple(
        DocumentProblem(run="r", file=f"{i}.json", severity="warning" if i % 2 else "error", detail="x")
        for i in range(40)
    )
    text = printed(msgspec.structs.replace(documents.empty(), problems=many))

    assert text.count("error r/") == 5
    assert "warning r/" not in text
    assert "and 35 more" in text


def test_a_terminal_gets_colour_and_a_pipe_none() -> None:
    assert "\x1b[" in printed(documents.pair(), colour=True)
    assert "\x1b" not in printed(documents.pair())


def test_names_are_not_markup_and_steer_nothing() -> None:
    text = printed(documents.hostile("[red]x[/red]\x1b[2J\u202e:smile:"), verbose=True)

    assert "[red]x[/red]␛[2J⟨U+202E⟩:smile:" in text
    assert "\x1b" not in text


@settings(max_examples=40, deadline=None)
@given(st.text() | st.text(alphabet="[]/\\\\\x1b\x9b\r\n\u202e\ud800 a"))
def test_any_text_is_printed(text: str) -> None:
    for document in (documents.hostile(text), documents.inspection(text)):
        shown = printed(document, width=80, verbose=True)
        shown.encode()
        assert all(line.isprintable() for line in shown.split("\n"))
