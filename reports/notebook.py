"""A diagnosis that a notebook shows as its report."""

from __future__ import annotations

from html import escape

from profiler.model.diagnosis import Diagnosis
from profiler.reports.html import to_html


class ShownDiagnosis(Diagnosis, frozen=True, kw_only=True):
    """The document itself, with the method that notebooks ask for."""

    def _repr_html_(self) -> str:
        # A frame of its own: the page's styles and scripts stay out of the notebook's, and its policy applies.
        return (
            f'<iframe title="Report" sandbox="allow-scripts" style="width: 100%; height: 48rem; border: 0" '
            f'srcdoc="{escape(to_html(self))}"></iframe>'
        )


def shown(diagnosis: Diagnosis) -> ShownDiagnosis:
    """The same document, to be shown by a notebook."""
    return ShownDiagnosis(**{name: getattr(diagnosis, name) for name in diagnosis.__struct_fields__})
