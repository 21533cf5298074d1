"""Figures of one section from one source, collected in order."""

from __future__ import annotations

from profiler.model.inspection import Figure, Section


class FigureRows:
    """``add`` appends one figure; ``rows`` are all of them."""

    def __init__(self, section: Section, source: str) -> None:
        self.rows: list[Figure] = []
        self._section: Section = section
        self._source = source

    def add(self, name: str, value: float | None, unit: str, detail: str = "") -> None:
        """``value`` None: not known, and ``detail`` says what it would need."""
        row = Figure(section=self._section, name=name, value=value, unit=unit, detail=detail, source=self._source)
        self.rows.append(row)
