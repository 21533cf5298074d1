"""Kernels by category, each category with its kernels, and by role: seconds and calls of both runs."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from profiler.model.diagnosis import Diagnosis, KernelRow, RoleRow, TracedSteps
from profiler.reports import figures, numbers, wording
from profiler.reports.breakdown import names
from profiler.reports.kernel_basis import basis_of
from profiler.reports.language import said
from profiler.reports.page import Section, embedded, fragment


@dataclass(frozen=True, slots=True)
class _Group:
    category: str
    total: KernelRow
    kernels: tuple[KernelRow, ...]


def draw(diagnosis: Diagnosis) -> Markup:
    """A figure of the categories and the sortable table; empty without a trace."""
    if not diagnosis.kernels:
        return Markup("")
    basis, side = basis_of(diagnosis), names(diagnosis)
    groups = _groups(tuple(map(basis.of, diagnosis.kernels)))
    roles = tuple(map(basis.of, diagnosis.roles))
    largest = [value for group in groups for value in (group.total.a_seconds, group.total.b_seconds)]
    return fragment(
        "kernels.html.j2",
        side=side,
        basis=basis,
        mixes=[_mix(one, side["ab".index(one.run)]) for one in diagnosis.traced],
        devices=[wording.shown(one, side["ab".index(one.run)]) for one in diagnosis.shown if one.of > 1],
        groups=groups,
        scale=numbers.scale_for("s", *largest),
        figure=embedded(figures.kernels(tuple(group.total for group in groups), side, basis.per)),
        difference=_difference,
        of_a_call=_of_a_call,
        roles=roles,
        role_scale=numbers.scale_for("s", *(s for row in roles for s in (row.a_seconds, row.b_seconds))),
        layered=any(row.a_layer is not None or row.b_layer is not None for row in roles),
        layer_scale=numbers.scale_for("s", *(s for row in roles for s in (row.a_layer, row.b_layer))),
        roofed=any(row.a_roofline is not None or row.b_roofline is not None for row in roles),
    )


SECTION = Section("kernels", "Kernels", draw)


def _mix(traced: TracedSteps, run: str) -> str:
    """How many steps a run's figures are averages of, and what these carried."""
    if traced.prefills is None:
        return said(
            "{run}: {count} steps, whose trace does not say what they carried", run=run, count=f"{traced.steps:,}"
        )
    decoding = numbers.quantity(traced.sequences or 0.0, "")
    prompts = numbers.quantity(traced.prompt_tokens, "tokens") if traced.prompt_tokens is not None else ""
    told = "{run}: {count} steps, {total} with a prefill of {tokens} on average; {sequences} sequences decode in a step"
    if not prompts:
        told = "{run}: {count} steps, none with a prefill; {sequences} sequences decode in a step"
    return said(
        told, run=run, count=f"{traced.steps:,}", total=f"{traced.prefills:,}", tokens=prompts, sequences=decoding
    )


def _groups(every: tuple[KernelRow, ...]) -> list[_Group]:
    """Categories by time. A category that has kernels but no row of its own gets their sum."""
    categories = dict.fromkeys(row.category for row in every)
    groups = []
    for category in categories:
        kernels = tuple(row for row in every if row.category == category and row.name is not None)
        stated = next((row for row in every if row.category == category and row.name is None), None)
        groups.append(_Group(category, stated or _total(category, kernels), tuple(sorted(kernels, key=_time))))
    return sorted(groups, key=lambda group: _time(group.total))


def _total(category: str, kernels: tuple[KernelRow, ...]) -> KernelRow:
    return KernelRow(
        category=category,
        name=None,
        a_seconds=sum(row.a_seconds or 0.0 for row in kernels),
        b_seconds=sum(row.b_seconds or 0.0 for row in kernels),
        a_calls=sum(row.a_calls or 0.0 for row in kernels),
        b_calls=sum(row.b_calls or 0.0 for row in kernels),
    )


def _difference(row: KernelRow | RoleRow) -> float:
    return (row.b_seconds or 0.0) - (row.a_seconds or 0.0)


def _of_a_call(row: KernelRow | RoleRow) -> tuple[float | None, float | None]:
    """Seconds of one call in both runs."""
    a, b = (row.a_seconds, row.a_calls), (row.b_seconds, row.b_calls)
    one, two = (s / n if s is not None and n else None for s, n in (a, b))
    return one, two


def _time(row: KernelRow) -> float:
    return -max(row.a_seconds or 0.0, row.b_seconds or 0.0)
