"""A CSV table that a tool wrote, as text cells: what breaks off is kept up to the break."""

from __future__ import annotations

import csv
import io

import numpy as np
import polars as pl

from profiler.errors import BadInput
from profiler.model.extension import Source
from profiler.model.requests import Ints
from profiler.model.trace import NO_ID


def read_table(text: bytes, source: Source, advice: str) -> pl.DataFrame:
    """All cells as text. A line that breaks off inside quotes makes the quick reader give up; the slow one goes on.

    Raises BadInput with ``advice`` where there is no table.
    """
    text = text.replace(b"\r\n", b"\n")
    try:
        return pl.read_csv(
            io.BytesIO(text), infer_schema=False, truncate_ragged_lines=True, encoding="utf8-lossy", quote_char='"'
        )
    except pl.exceptions.PolarsError:
        pass
    try:
        rows = list(csv.reader(io.StringIO(text.decode("utf-8", "replace"))))
    except csv.Error as error:
        raise BadInput(source.name, f"no readable table ({error})", advice) from error
    header = list(dict.fromkeys(rows[0])) if rows else []
    if not header or len(header) != len(rows[0]):
        raise BadInput(source.name, "a header without columns, or with one twice", advice)
    cells = [(row + [""] * len(header))[: len(header)] for row in rows[1:]]
    return pl.DataFrame(cells, schema=dict.fromkeys(header, pl.String), orient="row")


def integers(frame: pl.DataFrame, column: str) -> Ints:
    """A column as whole numbers, NO_ID where a cell or the column is none."""
    if column not in frame.columns:
        return np.full(len(frame), NO_ID, np.int64)
    found: Ints = frame[column].str.strip_chars().cast(pl.Int64, strict=False).fill_null(NO_ID).to_numpy()
    return found


def texts(frame: pl.DataFrame, column: str) -> list[str]:
    """A column's cells, empty where a cell or the column is none."""
    if column not in frame.columns:
        return [""] * len(frame)
    return frame[column].fill_null("").to_list()
