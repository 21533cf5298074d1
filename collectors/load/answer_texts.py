"""The answers' texts, reduced to what a comparison of their quality needs: no text is kept."""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np

from profiler.model.requests import Outputs

# A piece of at most this many characters, at least four times in a row, is one token or a few.
LONGEST_PIECE: Final = 16
FEWEST_TURNS: Final = 4


def outputs_of(texts: object, n: int) -> Outputs | None:
    """The reduction of ``n`` texts, or None where the file holds no such list."""
    if not isinstance(texts, list) or len(texts) != n or not all(isinstance(text, str) for text in texts):
        return None
    return Outputs(
        digest=np.array([_digest(text) for text in texts], np.int64),
        characters=np.array([len(text) for text in texts], np.int64),
        looping=np.array([loops(text) for text in texts], np.bool_),
    )


def _digest(text: str) -> int:
    hashed = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(hashed, "little", signed=True)


def loops(text: str) -> bool:
    """Whether all of a text is one piece repeated; the last turn may be cut."""
    most = min(LONGEST_PIECE, len(text) // FEWEST_TURNS)
    return any(text[size:] == text[:-size] for size in range(1, most + 1))
