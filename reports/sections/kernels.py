"""Kernels by category, each category with its kernels: seconds and calls per step of both runs."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from profiler.model.diagnosis import Diagnosis, KernelRow
from profiler.reports import figures, numbers
from profiler.reports.breakdown import names
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
    roles = numbers.scale_for("s", *(s for row in diagnosis.roles for s in (row.a_seconds, row.b_seconds)))
    side = names(diagnosis)
    groups = _groups(diagnosis.kernels)
    largest = [value for group in groups for value in (group.total.a_seconds, group.total.b_seconds)]
    return fragment(
        "kernels.html.j2",
        side=side,
        groups=groups,
        scale=numbers.scale_for("s", *largest),
        figure=embedded(figures.kernels(tuple(group.total for group in groups), side)),
        difference=_difference,
        roles=diagnosis.roles,
        role_scale=roles,
        layered=any(row.a_layer is not None or row.b_layer is not None for row in diagnosis.roles),
        layer_scale=numbers.scale_for("s", *(s for row in diagnosis.roles for s in (row.a_layer, row.b_layer))),
        roofed=any(row.a_roofline is not None or row.b_roofline is not None for row in diagnosis.roles),
    )


SECTION = Section("kernels", "Kernels", draw)


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


def _difference(row: KernelRow) -> float:
    return (row.b_seconds or 0.0) - (row.a_seconds or 0.0)


def _time(row: KernelRow) -> float:
    return -max(row.a_seconds or 0.0, row.b_seconds or 0.0)
