"""The tokens or words that a part of a prompt stands for: they follow from the plan's seed and the part's name alone.

As token ids a part is as long as the plan says, whatever the tokenizer. As text it is that many common short words,
which most tokenizers keep whole: about as many tokens, and the server's own count is what is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

# Below lie control tokens and single bytes in the common vocabularies.
FIRST_ID: Final = 256
_WORDS: Final = """
the of and to in is that for it as was with be by on not he his but at are this have from or had an they which
one you were her all she there would their we him been has when who will more no if out so said what up its
about into than them can only other new some could time these two may then do first any my now such like our
over man me even most made after also did many before must through back years where much your way well down
should because each just those people how too little state good very make world still own see men work long get
here between both life being under never day same another know while last might us great old year off come since
against go came right used take three
"""
WORDS: Final = tuple(_WORDS.split())


def token_ids(parts: Sequence[tuple[str, int]], seed: int, vocabulary: int) -> list[int]:
    """The ids of all parts, one after the other, each below ``vocabulary`` and not below FIRST_ID (of a small
    vocabulary its upper half)."""
    low = min(FIRST_ID, vocabulary // 2)
    return [low + int(value * (vocabulary - low)) for value in _draws(parts, seed)]


def words(parts: Sequence[tuple[str, int]], seed: int) -> str:
    """The words of all parts, separated by spaces."""
    return " ".join(WORDS[int(value * len(WORDS))] for value in _draws(parts, seed))


def _draws(parts: Sequence[tuple[str, int]], seed: int) -> list[float]:
    found: list[float] = []
    for name, length in parts:
        # A string as a seed is hashed by Random itself, the same in every process and version.
        random = Random(f"{seed}/{name}")
        found += [random.random() for _ in range(length)]
    return found
