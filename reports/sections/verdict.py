"""What may be claimed, in one sentence, above everything else."""

from __future__ import annotations

from markupsafe import Markup

from profiler.model.diagnosis import Diagnosis
from profiler.reports import wording
from profiler.reports.breakdown import parted
from profiler.reports.page import fragment


def draw(diagnosis: Diagnosis) -> Markup:
    """The verdict, its reasons, both runs' engines and the banner of a simulated run."""
    headline, rest = parted(diagnosis.verdict)
    return fragment(
        "verdict.html.j2",
        verdict=diagnosis.verdict,
        headline=headline,
        rest=rest,
        status=wording.STATUS[diagnosis.verdict.status],
        sides=list(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", diagnosis.runs, strict=False)),
        simulated=[run.name for run in diagnosis.runs if run.simulated],
    )
