"""What collectives move and how fast: message sizes, algorithm and bus bandwidth as nccl-tests define them.

With S bytes in t seconds among n ranks the algorithm bandwidth is S / t, the bus bandwidth that times a factor which
makes it comparable to a link's speed whatever the collective and n (nccl-tests, doc/PERFORMANCE.md). S is what all
ranks hold together where a collective gathers or scatters, else what one rank puts in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profiler.analyzers.communication import Collectives
from profiler.analyzers.kernels import family_of
from profiler.model.fact import Fact
from profiler.model.requests import Floats
from profiler.model.trace import NO_ID, Message

# Bus over algorithm bandwidth, in numbers of ranks; what is not here has the factor 1.
_FACTORS: Final = {
    "all_reduce": "2(n-1)/n",
    "all_gather": "(n-1)/n",
    "reduce_scatter": "(n-1)/n",
    "all_to_all": "(n-1)/n",
    "gather": "(n-1)/n",
    "scatter": "(n-1)/n",
}
# Bytes of an activation by the model's data type; narrower types are those of its weights.
_ACTIVATION: Final = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2}
STATED: Final = "what the communication library was told"
SHAPES: Final = "shapes of the calls' tensors"
COMPUTED: Final = "computed: hidden size x the step's tokens x bytes of an activation, without padding"
# Where a group's size comes from if the call does not state it.
TENSOR_PARALLEL: Final = "computed: the tensor-parallel size"
WHOLE_JOB: Final = "computed: every rank of the job, the most that the group can have"


@dataclass(frozen=True)
class Moved:
    """The calls of one collective by one kernel: ``calls`` of which the size is known, all ``of`` them. Sizes are
    bytes as nccl-tests count them (columns of one length), ``seconds`` what each took: its transfer where ranks are
    aligned (``transfer``), else with its waiting. ``ranks`` None: the group's size is not known; ``group`` says how it
    was computed, None where the call states it."""

    kernel: str
    operation: str
    ranks: int | None
    source: str
    of: int
    sizes: Floats
    seconds: Floats
    transfer: bool
    group: str | None = None

    @property
    def calls(self) -> int:
        """How many calls have a size."""
        return len(self.sizes)

    @property
    def algorithm(self) -> float | None:
        """Algorithm bandwidth of all calls together, bytes/s."""
        took = float(self.seconds.sum())
        return float(self.sizes.sum()) / took if took > 0 else None

    @property
    def factor(self) -> float | None:
        """Bus over algorithm bandwidth; None where it depends on a group size that is not known."""
        text = self.formula
        if text is None:
            return 1.0
        if self.ranks is None:
            return None
        once = (self.ranks - 1) / self.ranks
        return 2 * once if text.startswith("2") else once

    @property
    def formula(self) -> str | None:
        """The factor in numbers of ranks; None: 1, whatever their number."""
        return _FACTORS.get(self.operation)

    @property
    def bus(self) -> float | None:
        """Bus bandwidth of all calls together, bytes/s."""
        algorithm, factor = self.algorithm, self.factor
        return None if algorithm is None or factor is None else algorithm * factor


def size_of(message: Message) -> int | None:
    """Bytes as nccl-tests count them; None where the message does not tell."""
    sent, received, ranks = message.sent, message.received, message.ranks
    if message.operation in ("all_gather", "gather"):
        return received if received > sent else sent * ranks if ranks != NO_ID else None
    if message.operation in ("broadcast", "scatter", "send_receive"):
        return max(sent, received)
    return sent


def moved(
    collectives: Collectives,
    facts: Mapping[str, Fact[object]],
    transfer: Floats | None = None,
    world_size: int | None = None,
) -> list[Moved]:
    """By kernel and collective, the longest first. ``transfer``: seconds of each collective's transfer, NaN where it is
    not known apart from the waiting; ``world_size``: the ranks of the job."""
    spent = (collectives.end - collectives.start) / 1e9
    alone = np.zeros(len(spent), bool) if transfer is None else np.isfinite(transfer)
    whole = Counter(collectives.kernel)
    calls = Counter(m.call for m in collectives.messages if m is not None)
    activation = _activation(facts)
    rows: dict[tuple[str, str, int | None, str | None, str], list[tuple[int, float]]] = {}
    for i, (kernel, message) in enumerate(zip(collectives.kernel, collectives.messages, strict=True)):
        # A call of several kernels moves its message with all of them: none has a size of its own.
        if message is not None and calls[message.call] == 1:
            stated = size_of(message)
            computed = _group(message.operation, facts, world_size)
            ranks, group = computed if message.ranks == NO_ID else (message.ranks, None)
            source = SHAPES if message.shapes else STATED
            if stated:
                rows.setdefault((kernel, message.operation, ranks, group, source), []).append((i, float(stated)))
        elif message is None and activation is not None and collectives.tokens[i] > 0 and is_all_reduce(kernel):
            size = activation * float(collectives.tokens[i])
            ranks, group = _group("all_reduce", facts, world_size)
            rows.setdefault((kernel, "all_reduce", ranks, group, COMPUTED), []).append((i, size))
    found = []
    for (kernel, operation, ranks, group, source), calls_of in rows.items():
        at = np.array([row for row, _ in calls_of], np.int64)
        sizes = np.array([size for _, size in calls_of])
        one = Moved(kernel, operation, ranks, source, whole[kernel], sizes, spent[at], transfer=False, group=group)
        apart = alone[at]
        # Bandwidth is that of the transfer alone, where it is known for all but a few.
        if transfer is not None and apart.mean() > _MOST:
            one = replace(one, sizes=sizes[apart], seconds=transfer[at][apart], transfer=True)
        found.append(one)
    return sorted(found, key=lambda m: (-float(m.seconds.sum()), m.kernel, m.operation))


_MOST: Final = 0.9


def is_all_reduce(kernel: str) -> bool:
    """Whether a kernel's family is one of all-reduces."""
    family = family_of(kernel)
    return family is not None and family.role.startswith("allreduce")


def _activation(facts: Mapping[str, Fact[object]]) -> int | None:
    """Bytes of one token's activation; None where the model's hidden size or type is not stated."""
    hidden = facts.get("model.hidden_size")
    dtype = facts.get("model.dtype") or facts.get("setting.dtype")
    width = None if dtype is None else _ACTIVATION.get(str(dtype.value).removeprefix("torch."))
    if hidden is None or not isinstance(hidden.value, int) or isinstance(hidden.value, bool) or width is None:
        return None
    return hidden.value * width


def _group(operation: str, facts: Mapping[str, Fact[object]], world_size: int | None) -> tuple[int | None, str | None]:
    """The ranks of a call that does not state them, and how they were computed."""
    parallel = _tensor_parallel(facts)
    # Experts are exchanged and data-parallel ranks are gathered among others than those that share a layer.
    if parallel is not None and (operation == "all_reduce" or world_size == parallel):
        return parallel, TENSOR_PARALLEL
    if operation in _FACTORS and world_size is not None and world_size > 1:
        return world_size, WHOLE_JOB
    return None, None


def _tensor_parallel(facts: Mapping[str, Fact[object]]) -> int | None:
    fact = facts.get("setting.tensor_parallel")
    value = None if fact is None else fact.value
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 1 else None


def spread_of(sizes: Floats) -> tuple[float, float, float]:
    """The least, the median and the largest."""
    low, middle, high = np.percentile(sizes, [0, 50, 100])
    return float(low), float(middle), float(high)


def transfers(collectives: Collectives, rows: NDArray[np.int64], transfer: NDArray[np.int64]) -> Floats:
    """Seconds of transfer of each collective of a rank; NaN for those that the ranks have not matched."""
    found = np.full(len(collectives), np.nan)
    found[rows] = transfer / 1e9
    return found
