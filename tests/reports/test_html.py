"""The HTML report as text: what it holds, what it escapes, what it weighs. How it behaves is tests/browser."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiler.model.diagnosis import Diagnosis, KernelRow, TracedSteps
from profiler.model.document import DocumentProblem
from profiler.reports.html import to_html
from tests.reports import documents


class Outline(HTMLParser):
    """Tags, and the text outside scripts and styles."""

    def __init__(self, page: str) -> None:
        """Read the page."""
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self._silent = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the tag and the names of its attributes."""
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self._silent = tag in {"script", "style"}
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"} and self.rows:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        """Text is shown again after a script."""
        self._silent = False

    def handle_data(self, data: str) -> None:
        """Keep the text, and the cell it is in."""
        if self._silent:
            return
        self.words.append(data)
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip()

    @property
    def text(self) -> str:
        """All text, with single spaces."""
        return " ".join(" ".join(self.words).split())


@pytest.mark.parametrize(
    "diagnosis",
    [documents.pair(), documents.null_pair(), documents.traces_only(), documents.empty(), documents.hostile()],
)
def test_every_document_becomes_a_page_of_at_most_three_megabytes(diagnosis: Diagnosis) -> None:
    page = to_html(diagnosis)

    assert page.startswith("<!doctype html>")
    assert len(page.encode()) < 3_000_000


def test_the_page_is_read_top_down() -> None:
    text = Outline(to_html(documents.pair())).text
    places = [
        text.rindex(heading)
        for heading in (
            "What differs in configuration",
            "A bar leads to its evidence",
            "To check",
            "the GPU needs longer for the same work",
            "Both carried the same",
            "GPU time per step",
            "Metrics of the runs",
            "3 rules: ",
            "event 18,221",
            "no GPU counters; they",
            "To repeat it",
        )
    ]

    assert places == sorted(places)
    assert "profiler diagnose runs/run-A runs/run-B" in text


def test_the_rows_of_the_table_add_up() -> None:
    rows = Outline(to_html(documents.pair())).rows
    start = next(index for index, row in enumerate(rows) if row[0] == "Cause") + 1
    table = {row[0]: float(row[1].replace(",", "")) for row in rows[start : start + 6]}

    total = table.pop("measured gap")
    assert list(table) == ["batching", "scheduling", "kernel", "CUDA Graph", "unexplained"]
    assert sum(table.values()) == total == -2141


def test_the_policy_names_exactly_the_scripts_of_the_page() -> None:
    page = to_html(documents.pair())
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]

    assert len(scripts) == 4
    assert policy[1].startswith("default-src 'none'; script-src " + " ".join(f"'sha256-{value}'" for value in hashes))
    assert "unsafe" not in policy[1]


def test_it_refers_to_nothing_outside() -> None:
    page = to_html(documents.pair())
    without_scripts = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)

    assert not re.findall(r'(?:src|href)="(?!#|data:,")', without_scripts)
    assert "url(" not in page.split("</style>")[0]
    assert "style=" not in without_scripts


def test_an_axis_that_does_not_start_at_zero_is_said() -> None:
    assert "does not start at zero" not in Outline(to_html(documents.traces_only())).text
    assert "does not start at zero" in Outline(to_html(documents.null_pair())).text
    only = msgspec.structs.replace(documents.pair(), gaps=(documents.throughput_gap(),))
    assert "does not start at zero" not in Outline(to_html(only)).text


def test_typical_steps_are_a_drawing_a_table_and_words() -> None:
    page = to_html(documents.pair())
    outline = Outline(page)

    assert "Both carried the same: 48 decoding." in outline.text
    assert "run-B: no trace recorded." in outline.text
    assert ["gpu 0, stream 7", "attention", "900.0 µs", "1", "1.800 ms", "1"] in outline.rows
    assert ["gpu 0, stream 7", "gemm", "4.000 ms", "41", "4.000 ms", "41"] in outline.rows
    assert 'aria-label="run-A, 48 decoding, 5.000 ms. host phases: schedule 300.0 µs;' in page


def test_a_cause_leads_to_its_moment_and_names_the_file_and_the_command() -> None:
    page = to_html(documents.pair())

    assert page.count('<a class="moment" href="#timeline-0"') == len(documents.pair().moments)
    assert "trace/b.pt.trace.json.gz at 0.252100 s" in Outline(page).text
    assert "profiler timeline runs/run-B --at 0.252100s" in Outline(page).text


def test_the_engineers_summary_has_both_runs_and_their_files() -> None:
    rows = Outline(to_html(documents.pair())).rows

    assert ["model", "Qwen3-32Brun.json", "Qwen3-32Bserver.log: line 3"] in rows
    assert ["prefix cache", "onbench.json", "not known"] in rows
    assert ["mean TTFT", "412.0 msbench.json", "1.921 sbench.json"] in rows
    assert ["traces", "1bench.json", "0"] in rows


def test_steps_that_carry_something_else_are_not_called_equal() -> None:
    for equal, said in (
        (False, "No composition occurs in both traces"),
        (None, "Whether the work is equal is not known"),
    ):
        steps = msgspec.structs.replace(documents.pair().timelines[0], equal=equal)
        assert said in Outline(to_html(msgspec.structs.replace(documents.pair(), timelines=(steps,)))).text


def test_a_simulated_run_has_a_banner() -> None:
    assert "Simulated." not in Outline(to_html(documents.pair())).text
    assert "Simulated." in Outline(to_html(documents.hostile())).text


def test_a_huge_document_is_cut_and_says_so() -> None:
    name = "void cutlass::Kernel2<" + "x" * 1500 + ">"
    kernels = tuple(
        KernelRow(category="gemm", name=f"{name}{index}", a_seconds=1e-6, b_seconds=2e-6, a_calls=1.0, b_calls=1.0)
        for index in range(20_000)
    )
    problems = tuple(
        DocumentProblem(run="run-A", file="t.json", severity="warning", detail="x" * 3000) for _ in range(3000)
    )
    page = to_html(msgspec.structs.replace(documents.pair(), kernels=kernels, problems=problems))

    assert len(page.encode()) < 3_000_000
    text = Outline(page).text
    assert "2,900 of 3,000 problems" in text
    assert "(and 19,400 more)" in text
    assert "20.00 40.00 +20.00" in text


TAGS = {tag for build in (documents.pair, documents.hostile) for tag, _ in Outline(to_html(build())).tags}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.text()
    | st.text(alphabet="<>/&\"'`{}%!-=scriptonerror \x00\u202e\ud800")
    | st.sampled_from(["</script>", "<!--<script>", "]]>", "{{ 7*7 }}", "&lt;", "javascript:alert(1)", "\ud800"])
)
def test_any_text_in_every_field_stays_text(text: str) -> None:
    page = to_html(documents.hostile(text))
    page.encode()
    outline = Outline(page)

    assert {tag for tag, _ in outline.tags} <= TAGS
    assert not [name for _, names in outline.tags for name in names if name.startswith("on")]
    assert len(re.findall(r"<script", page)) == len(re.findall(r"</script", page)) == 8


def test_facts_that_differ_stand_under_the_verdict() -> None:
    whole = documents.pair()
    a, b = whole.runs
    other = msgspec.structs.replace(b, facts={**b.facts, "setting.token_budget": "512", "gpu": "H100"})
    text = Outline(to_html(msgspec.structs.replace(whole, runs=(a, other)))).text
    table = text[text.rindex("What differs in configuration") : text.rindex("The gap")]
    assert "gpu NVIDIA H200 H100 setting.token_budget not known 512" in " ".join(table.split())
    assert "Qwen3-32B" not in table
    alike = msgspec.structs.replace(b, facts=a.facts)
    same = Outline(to_html(msgspec.structs.replace(whole, runs=(a, alike)))).text
    assert "Nothing that the runs state of engine, model, hardware and workload differs." in same


def test_of_two_command_lines_the_words_that_differ_are_shown() -> None:
    whole = documents.pair()
    lines = (
        "['serve', '--port', '1', \"it's\"]",
        "['serve', '--port', '2', \"it's\", '--quick']",
        "['2', '--port', 'serve']",
    )

    def table(*told: str) -> str:
        runs = [
            msgspec.structs.replace(run, facts={**run.facts, "engine.command": text})
            for run, text in zip(whole.runs, told, strict=True)
        ]
        text = Outline(to_html(msgspec.structs.replace(whole, runs=(runs[0], runs[1])))).text
        return " ".join(text[text.rindex("What differs in configuration") : text.rindex("The gap")].split())

    assert "engine.command … 1 … 2 --quick" in table(*lines[:2])
    assert "engine.command … 1 it's … 2" in table(lines[0], lines[2])
    assert f"engine.command not a list {lines[0]}" in table("not a list", lines[0])


def test_kernels_have_counts_and_the_time_of_a_call_by_category_and_role() -> None:
    rows = Outline(to_html(documents.pair())).rows
    category = ["1.880", "3.010", "+1.130", "64", "64", "29.38 µs", "47.03 µs"]
    assert ["attention", *category] in rows
    assert ["attention", *category, "52.20", "83.60", "61.0%", "38.0%"] in rows
    (sampling,) = (row for row in rows if row[0] == "sampling")
    assert sampling[:11] == ["sampling", "0.100", "–", "-0.100", "2", "–", "50.00 µs", "–", "–", "–", "–"]


def test_steps_of_other_mixes_are_compared_by_what_they_decoded() -> None:
    a = TracedSteps(run="a", steps=60, prefills=12, prompt_tokens=414.0, sequences=70.0, decoded=4200.0)
    b = TracedSteps(run="b", steps=60, prefills=12, prompt_tokens=414.0, sequences=10.0, decoded=600.0)
    rows = Outline(to_html(msgspec.structs.replace(documents.pair(), traced=(a, b)))).rows
    # 60 steps decoded 4,200 tokens in A and 600 in B: 1,000 of them take 14.3 and 100 steps.
    figures = ["26.9", "301.0", "+274.1", "914.3", "6,400", "29.38 µs", "47.03 µs"]
    assert ["attention", *figures] in rows
    assert ["attention", *figures, "0.746", "8.360", "61.0%", "38.0%"] in rows


def test_kernels_say_what_the_traced_steps_carried() -> None:
    a = TracedSteps(run="a", steps=60, prefills=12, prompt_tokens=414.0, sequences=70.5)
    b = TracedSteps(run="b", steps=60, prefills=29, prompt_tokens=414.0, sequences=70.5)
    unequal = "compare unequal work"

    def text(*traced: TracedSteps) -> str:
        return Outline(to_html(msgspec.structs.replace(documents.pair(), traced=traced))).text

    told = text(a, b)
    assert "run-A: 60 steps, 12 with a prefill of 414 tokens on average; 70.50 sequences decode in a step." in told
    assert "run-B: 60 steps, 29 with" in told and unequal in told
    assert unequal not in text(a, msgspec.structs.replace(b, prefills=13))
    assert unequal in text(a, msgspec.structs.replace(b, prefills=13, sequences=60.0))
    decoded = [msgspec.structs.replace(one, decoded=n) for one, n in ((a, 4000.0), (b, 1000.0))]
    assert unequal not in text(*decoded) and "is not the work of a step of the other" in text(*decoded)
    bare = msgspec.structs.replace(b, prefills=None, prompt_tokens=None, sequences=None)
    assert "run-B: 60 steps, whose trace does not say what they carried." in text(bare) and unequal not in text(a, bare)
