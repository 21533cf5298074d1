"""``profiler diagnose``: the gap between two runs, broken down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from profiler.cli.main import EXIT_INCOMPLETE, State, common_options, pass_state
from profiler.cli.output import OUTPUT, in_language, write_output
from profiler.cli.quantities import Gate, GateType, Slo
from profiler.errors import UsageError

if TYPE_CHECKING:
    from profiler.model.diagnosis import Diagnosis
    from profiler.model.run import Run


@click.command("diagnose")
@click.argument("runs", nargs=-1, required=True, metavar="RUN_A RUN_B...", type=click.Path(path_type=Path))
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Explain this metric (repeatable): output_throughput, request_throughput, mean_ttft, p99_tpot, …",
)
@click.option("--slo", type=Slo(), metavar="BOUNDS", help="Add goodput: ttft=500ms,tpot=50ms (also e2e).")
@click.option("--html", "html", type=OUTPUT, metavar="FILE", help="Write the report as one HTML page.")
@click.option("--json", "json", type=OUTPUT, metavar="FILE", help="Write the result document (- for standard output).")
@click.option("--markdown", "markdown", type=OUTPUT, metavar="FILE", help="Write it for a pull-request comment.")
@click.option(
    "--fail-if",
    "gates",
    type=GateType(),
    multiple=True,
    metavar="CONDITION",
    help="Exit with 1 where it holds for B against A: 'output_throughput < -3%', 'mean_ttft > 50ms'.",
)
@click.option("--anonymize", is_flag=True, help="Leave out paths, hosts, addresses and user names.")
@in_language
@common_options
@pass_state
def command(
    state: State,
    runs: tuple[Path, ...],
    metrics: tuple[str, ...],
    slo: dict[str, float] | None,
    html: Path | None,
    json: Path | None,
    markdown: Path | None,
    gates: tuple[Gate, ...],
    anonymize: bool,
) -> int:
    """Explain why RUN_B differs from RUN_A, in rows that add up to the measured gap.

    A run is a folder of whatever there is (benchmark results, traces, metrics, logs, counters), or a single file.
    More than two runs are each compared to the first, which may be a stored baseline: what `profiler inspect RUN
    --json` or `profiler diagnose --json` wrote.

    \b
    Example:
      profiler diagnose run-A run-B --html report.html --fail-if 'output_throughput < -3%'
    """  # fmt: skip
    if len(runs) < 2:
        raise UsageError(f"diagnose needs two runs, and got {runs[0]} alone. Name the run to compare it with")
    from profiler.analyzers.gap.ledgers import DEFAULT_METRICS

    wanted = tuple(dict.fromkeys((*(metrics or DEFAULT_METRICS), *(gate.metric for gate in gates))))
    documents = _compared(runs, wanted, slo, state)
    if anonymize:
        from msgspec.structs import replace

        from profiler.analyzers.anonymous import anonymized

        # Facts that were changed would differ from those of a later run.
        documents = [anonymized(replace(document, baseline=None)) for document in documents]
    _check_metrics(documents, (*metrics, *(gate.metric for gate in gates)))
    # Files first: a reader of the terminal page may leave early (head, less).
    for target, render in ((html, _html), (json, _json), (markdown, _markdown)):
        if target is not None:
            _write(target, [render(document) for document in documents], state)
    if not any(str(target) == "-" for target in (html, json, markdown)):
        from profiler.reports.terminal import print_diagnosis

        for document in documents:
            print_diagnosis(document, state.out, state.verbose)
    failed = [gate for gate in gates for d in documents for gap in d.gaps if gap.metric == gate.metric
              and gate.fails(gap)]  # fmt: skip
    for gate in failed:
        state.err.print(f"gate failed: {gate.text}", markup=False, style="red")
    return 1 if failed else EXIT_INCOMPLETE if state.incomplete else 0


def _compared(
    runs: tuple[Path, ...], wanted: tuple[str, ...], slo: dict[str, float] | None, state: State
) -> list[Diagnosis]:
    """Every run but the first against the first, which may be a document that this tool wrote."""
    from profiler import registry
    from profiler.analyzers.kept_diagnosis import kept_diagnosis
    from profiler.analyzers.run_names import told_apart
    from profiler.analyzers.stored_pair import against
    from profiler.cli.reading import read_run, read_runs
    from profiler.store.documents import NO_OBJECTIVE, stored_baseline

    for path in runs[1:]:
        if stored_baseline(path) is not None:
            raise UsageError(f"{path}: a stored document can only be named first, as the baseline. Name a run here")
    stored = stored_baseline(runs[0])
    if stored is not None:
        if slo:
            raise UsageError(NO_OBJECTIVE)
        return [against(stored, run, wanted) for run in told_apart([read_run(path, state) for path in runs[1:]])]
    # Of several pairs each must say which run it is of.
    first, *others = told_apart(read_runs(runs, state))
    engines = registry.engines()
    return [_scored(kept_diagnosis(first, other, wanted, slo, engines), (runs[0], first), other) for other in others]


# A renderer is loaded when its document is asked for: the page's charts alone take a quarter of a second.
def _html(document: Diagnosis) -> str:
    from profiler.reports.html import to_html

    return to_html(document)


def _json(document: Diagnosis) -> str:
    from profiler.reports.json_document import to_json

    return to_json(document)


def _markdown(document: Diagnosis) -> str:
    from profiler.reports.markdown import to_markdown

    return to_markdown(document)


def _scored(document: Diagnosis, before: tuple[Path, Run], after: Run) -> Diagnosis:
    """The document with what became of the predictions that were kept with the first run; the scores are kept too."""
    from msgspec.structs import replace

    from profiler.analyzers.recommend import scores
    from profiler.store.predictions import keep_scores, kept_of

    path, run = before
    lines = tuple(line for kept in kept_of(path) for line in scores(run, after, kept.knob, kept.value, kept.predicted))
    if not lines:
        return document
    keep_scores(path, lines)
    return replace(document, method=(*document.method, *lines))


def _check_metrics(documents: list[Diagnosis], wanted: tuple[str, ...]) -> None:
    for document in documents:
        known = set(document.runs[0].metrics) & set(document.runs[1].metrics)
        if not known:
            continue
        for name in wanted:
            if name not in known:
                raise UsageError(f"--metric {name}: not a metric of both runs. They have {', '.join(sorted(known))}")


def _write(target: Path, texts: list[str], state: State) -> None:
    """One document a file; further ones get a number before the suffix, or follow each other on standard output."""
    for index, text in enumerate(texts):
        write_output(target if index == 0 or str(target) == "-" else _numbered(target, index + 1), text, state)


def _numbered(target: Path, number: int) -> Path:
    """``report.html`` as ``report-2.html``."""
    return target.with_stem(f"{target.stem}-{number}")
