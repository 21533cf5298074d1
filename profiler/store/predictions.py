"""Predictions kept with the run that they start from, so that what comes of them can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from profiler.model.diagnosis import Prediction, Recommendation
from profiler.store.cache import Cache
from profiler.store.folder import run_root

_NAME: Final = "predictions.json"
_SCORES: Final = "scores.txt"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One prediction: the setting by its shared name and value, and the relative changes that it should bring."""

    knob: str
    value: str
    predicted: dict[str, Prediction]


def keep(run: Path, recommendations: Sequence[Recommendation]) -> Path:
    """Write the predictions beside the run's derived data; returns the file. Raises OSError where nothing can be
    written."""
    folder = Cache(run_root(run)).folder
    # A switch has no value of its own: it is turned to what it is not.
    rows = [
        Kept(knob=r.knob, value=r.to or ("off" if r.current == "on" else "on"), predicted=r.predicted)
        for r in recommendations
    ]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _NAME
    path.write_bytes(msgspec.json.encode(rows))
    return path


def kept_of(run: Path) -> tuple[Kept, ...]:
    """The predictions that were kept with a run; none where there are none, or the file can't be read."""
    folder = Cache(run_root(run)).folder
    try:
        return tuple(msgspec.json.decode((folder / _NAME).read_bytes(), type=list[Kept]))
    except (OSError, msgspec.MsgspecError):
        return ()


def keep_scores(run: Path, lines: Sequence[str]) -> None:
    """Add lines to the scores that are kept with a run; lines that stand there already are not written again."""
    path = Cache(run_root(run)).folder / _SCORES
    try:
        known = path.read_text("utf-8").splitlines() if path.is_file() else []
        new = [line for line in lines if line not in known]
        if new:
            with path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in new))
    except OSError:
        # A run that can't be written to keeps no score; the document has it all the same.
        return
