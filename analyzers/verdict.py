"""What may be claimed of a pair, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from profiler.analyzers.causes import CAUSES
from profiler.analyzers.metrics import MANY, MANY_TIMES, changed, spoken, times
from profiler.model.diagnosis import Cause, FairnessRule, Gap, RunSummary, Verdict, Winner

# In a sentence a cause's title is a common noun, but for a name.
TITLES = {kind.name: kind.title if "CUDA" in kind.title else kind.title.lower() for kind in CAUSES}
_MOST: Final = 0.5
Status = Literal["winner", "no difference", "not comparable", "insufficient evidence"]


def winner_of(gap: float, interval: tuple[float, float] | None, higher_is_better: bool) -> Winner | None:
    """Who leads on a metric: None where the interval holds zero, or where there is none."""
    if interval is None or interval[0] <= 0.0 <= interval[1]:
        return None
    return "b" if (gap > 0) == higher_is_better else "a"


def verdict_of(
    gaps: Sequence[Gap],
    rules: Sequence[FairnessRule],
    runs: tuple[RunSummary, RunSummary],
    missing: Sequence[str],
    differences: Sequence[str],
) -> Verdict:
    """The verdict on the first gap that is a throughput; without one there is no evidence for a winner.

    ``differences`` are what the counters show whether or not the seconds do; they are named where no winner is.
    """
    primary = next((g for g in gaps if g.metric == "output_throughput"), None)
    a, b = runs[0].name, runs[1].name
    if primary is None:
        asked = all("output_throughput" in run.metrics for run in runs)
        why = "was not asked for" if asked else "was not measured in both runs"
        headline = f"No winner is named between {a} and {b}: output throughput {why}."
        rest = ""
        if gaps and gaps[0].metric == "device_seconds_per_step":
            rest = (
                f"Their traces are compared: a step takes {gaps[0].a * 1e3:.4g} ms of device time in {a} and "
                f"{gaps[0].b * 1e3:.4g} ms in {b}."
            )
        elif gaps:
            rest = f"Compared on {', '.join(gap.metric for gap in gaps)}."
        return _verdict("insufficient evidence", None, headline, rest, missing)
    described = _described(primary, runs)
    blocking = [r for r in rules if r.severity == "block" and r.status == "fail"]
    if [r.rule for r in blocking] == ["no_crossing"]:
        headline = f"No winner is named between {a} and {b}: {blocking[0].detail}."
        return _verdict("insufficient evidence", None, headline, described, [f"no_crossing: {blocking[0].detail}"])
    if blocking:
        reasons = [f"{r.rule}: {r.detail}" for r in blocking]
        return _verdict("not comparable", None, f"Not comparable: {blocking[0].detail}.", described, reasons)
    if primary.winner is None:
        headline = f"No difference shown in output throughput: {described}"
        reasons = []
        if primary.interval is not None:
            low, high = primary.interval
            reasons.append(f"the 95% interval of the gap, {low:+.4g} to {high:+.4g} tokens/s, holds zero")
        rest = f"What differs all the same: {'; '.join(differences)}." if differences else ""
        return _verdict("no difference", None, headline, rest, reasons)
    rest = " ".join(filter(None, (_why(primary, missing), _the_other_way(gaps, primary, (a, b)))))
    return _verdict("winner", primary.winner, described, rest, _unchecked(rules))


def _the_other_way(gaps: Sequence[Gap], primary: Gap, names: tuple[str, str]) -> str:
    """The metrics in which the run that loses the first one leads."""
    led = [gap for gap in gaps if gap.winner not in (None, primary.winner)]
    if not led:
        return ""
    leader = names[0] if primary.winner == "b" else names[1]
    told = [spoken(gap.metric) + ("" if gap.relative is None else f" ({changed(gap.relative, 1)})") for gap in led]
    return f"{leader} is better in {', '.join(told)}."


def _unchecked(rules: Sequence[FairnessRule]) -> tuple[str, ...]:
    """A line that names the blocking rules that no file could answer."""
    names = [rule.rule for rule in rules if rule.severity == "block" and rule.status == "unknown"]
    if not names:
        return ()
    return (f"Not checked for want of data, of the rules that would forbid a verdict: {', '.join(names)}.",)


def _verdict(status: Status, winner: Winner | None, headline: str, rest: str, reasons: Sequence[str]) -> Verdict:
    text = f"{headline} {rest}" if rest else headline
    return Verdict(status=status, winner=winner, text=text, headline=headline, reasons=tuple(reasons))


def _described(gap: Gap, runs: tuple[RunSummary, RunSummary]) -> str:
    names = [_title(run) for run in runs]
    text = f"{names[1]} serves {gap.b:,.1f} output tokens/s where {names[0]} serves {gap.a:,.1f}"
    if gap.relative is None:
        return text + "."
    bounds = [] if gap.interval is None or gap.winner is None else [bound / gap.a for bound in gap.interval]
    if gap.relative >= MANY:
        text += f": {times(1.0 + gap.relative)} times as many"
        told = [times(1.0 + bound) for bound in bounds]
    else:
        text += f": {abs(gap.relative):.1%} {'less' if gap.gap < 0 else 'more'}"
        told = [f"{bound:.1%}" for bound in sorted(map(abs, bounds))]
    return text + (f" (95%: {told[0]} to {told[1]}{_repeated(runs)})." if told else ".")


def _repeated(runs: tuple[RunSummary, RunSummary]) -> str:
    counts = [run.repeats for run in runs]
    if max(counts) < 2:
        return ""
    return f"; {counts[0]} repeats each" if counts[0] == counts[1] else f"; repeats: {counts[0]} and {counts[1]}"


def _title(run: RunSummary) -> str:
    engine = run.engine.name
    if engine is None:
        return run.name
    version = f" {run.engine.version}" if run.engine.version else ""
    return f"{run.name} ({engine}{version})"


def _why(gap: Gap, missing: Sequence[str]) -> str:
    """The rows that carry at least a tenth of the gap, largest first, each with its own sentence; where most of it is
    unexplained, the last thing that is missing says why."""
    rows = [row for row in gap.causes if row.share is not None and row.share >= 0.1]
    parts = []
    for row in rows[:3]:
        hedge = "" if _certain(row) else " (its interval holds zero)"
        parts.append(f"{_of_the_gap(row.share or 0.0)} is {TITLES[row.cause]}{hedge}: {row.summary}.")
    against = [(row, -row.share) for row in gap.causes if row.share is not None and row.share <= -0.1 and _certain(row)]
    for row, share in against[:2]:
        parts.append(f"Against it, {TITLES[row.cause]} takes back {_of_the_gap(share)}: {row.summary}.")
    if gap.unexplained.share is not None and abs(gap.unexplained.share) >= 0.1:
        why = f": {missing[-1]}" if missing and abs(gap.unexplained.share) >= _MOST else ""
        parts.append(f"{gap.unexplained.share:.0%} is unexplained{why}.")
    return " ".join(parts)


def _of_the_gap(share: float) -> str:
    """A share in a sentence; of a small gap whose causes cancel each other a factor."""
    return f"{share:.0%} of the gap" if abs(share) < MANY_TIMES else f"{times(share)} times the gap"


def _certain(row: Cause) -> bool:
    """Whether its interval leaves zero out."""
    return row.interval is not None and not row.interval[0] <= 0.0 <= row.interval[1]
