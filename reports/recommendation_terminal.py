"""Recommendations and predictions on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from profiler.model.diagnosis import Recommendation
from profiler.model.recommendation import Advice, Limit, RecommendationDocument, WhatIfDocument
from profiler.reports import numbers, terminal_tables, wording
from profiler.reports.language import said
from profiler.reports.safe_text import plain
from profiler.reports.translated import translated_recommendations, translated_whatif


def print_recommendations(
    document: RecommendationDocument, console: Console, verbose: bool, plan: bool = False
) -> None:
    """The knobs, best first, with what they are predicted to do; advice without prediction; limits; what is left."""
    document = translated_recommendations(document)
    console.print(Text(plain(wording.with_names(document.verdict, document.metrics)), "bold"))
    for number, knob in enumerate(document.recommendations, 1):
        _knob(number, knob, document.metrics, console, verbose)
    if plan and document.recommendations:
        _heading(console, "To check them")
        for knob in document.recommendations:
            console.print(Padding(Text(plain(knob.check)), (0, 0, 0, 2)))
        text = said("diagnose compares what comes out with what was predicted, which is kept with this run.")
        console.print(Padding(Text(text, "dim"), (0, 0, 0, 2)))
    if document.advice:
        _heading(console, "Symptoms, without a prediction")
        _advice(document.advice, console)
    if document.limits:
        _heading(console, "Limits as the run stands")
        _limits(document.limits, console)
    if document.without_effect and (verbose or not document.recommendations):
        _heading(console, "Without effect here")
        console.print(terminal_tables.facts(document.without_effect))
    if document.not_predicted and (verbose or not document.recommendations):
        _heading(console, "Not predicted")
        console.print(terminal_tables.facts(document.not_predicted))
    _error(document.error, console)


def print_whatif(document: WhatIfDocument, console: Console, verbose: bool) -> None:
    """Every metric as it is, as predicted, and the change with its interval."""
    document = translated_whatif(document)
    settings = ", ".join(document.typed.get(name, f"{name}={value}") for name, value in document.settings.items())
    console.print(Text(plain(said("{run} with {settings}", run=document.run, settings=settings)), "bold"))
    if document.extrapolated:
        console.print(Text(said("Extrapolated: steps would carry what this run has not seen."), "yellow"))
    for note in document.notes:
        console.print(Text(plain(f"{note[0].upper()}{note[1:]}{said('.')}"), "yellow"))
    console.print(terminal_tables.predictions(document.metrics, document.predicted, verbose))
    shown = [name for name in document.predicted if verbose or not name.startswith("p")]
    for line in wording.founded(document.confidence, shown):
        console.print(Text(plain(line)))
    _error(document.error, console)


def _knob(number: int, knob: Recommendation, metrics: Mapping[str, float], console: Console, verbose: bool) -> None:
    change = f"{knob.flag} {knob.to or ''}".strip()
    console.print(Text.assemble(f"\n{number}. ", (plain(change), "bold"), plain(wording.now(knob))))
    console.print(Padding(terminal_tables.predictions(metrics, knob.predicted, True), (0, 0, 0, 2)))
    for line in (
        wording.why(knob),
        wording.price(knob),
        wording.confidence(knob),
        wording.catalogued(knob) if verbose else "",
    ):
        if line:
            console.print(Padding(Text(plain(line)), (0, 0, 0, 2)))


def _advice(every: Iterable[Advice], console: Console) -> None:
    for advice in every:
        flag = f" ({advice.flag})" if advice.flag else ""
        console.print(
            Padding(Text.assemble((plain(advice.symptom), "bold"), plain(f": {advice.evidence}")), (0, 0, 0, 2))
        )
        console.print(Padding(Text(plain(f"{advice.text}{flag}")), (0, 0, 0, 4)))


def _limits(every: Iterable[Limit], console: Console) -> None:
    for limit in every:
        now = "" if limit.now is None else said(", now {value}", value=numbers.quantity(limit.now, limit.unit))
        console.print(
            Padding(Text(plain(f"{limit.name}: {numbers.quantity(limit.value, limit.unit)}{now}")), (0, 0, 0, 2))
        )
        console.print(Padding(Text(plain(limit.how), "dim"), (0, 0, 0, 4)))


def _error(error: Mapping[str, float], console: Console) -> None:
    shown = [f"{wording.metric(name)} {numbers.signed_percent(value)}" for name, value in error.items() if name in _OWN]
    if shown:
        text = said("The replay of the run as it was is off by: {errors}.", errors=", ".join(shown))
        console.print(Text(f"\n{text}", "dim"))


_OWN = ("output_throughput", "mean_ttft", "mean_tpot")


def _heading(console: Console, text: str) -> None:
    console.print(Text(f"\n{said(text)}", "bold"))
