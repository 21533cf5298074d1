"""The one step annotation that several engines write, and how a step's counts become a label.

``execute_{tokens}_context_{R}(sq..sk..sqsq..sqsk..)_generation_{R}(sq..sk..sqsq..sqsk..)``: sq sums the new tokens, sk
the KV lengths. It says what a step held and nothing about which engine ran it.
"""

from __future__ import annotations

import re
from typing import Final

from profiler.model.steps import Phase, StepLabel

_SIDE: Final = r"\(sq(\d{1,18})sk(\d{1,18})(?:sqsq\d+)?(?:sqsk\d+)?\)"
_DETAILED: Final = re.compile(rf"execute_\d+_context_(\d{{1,18}}){_SIDE}_generation_(\d{{1,18}}){_SIDE}")


def detailed(name: str) -> StepLabel | None:
    """The label of a detailed ``execute_…`` annotation, or None where the name is another."""
    match = _DETAILED.fullmatch(name)
    if match is None:
        return None
    prefill, prefill_tokens, prefill_context, decode, decode_tokens, decode_context = map(int, match.groups())
    return StepLabel(
        phase=phase(prefill, decode),
        prefill_requests=prefill,
        prefill_tokens=prefill_tokens,
        decode_requests=decode,
        decode_tokens=decode_tokens,
        prefill_context=prefill_context,
        decode_context=decode_context,
    )


def phase(prefill_requests: int, decode_requests: int) -> Phase:
    """What a step was, from the requests of each kind that it carried."""
    if prefill_requests:
        return "mixed" if decode_requests else "prefill"
    return "decode" if decode_requests else "idle"
