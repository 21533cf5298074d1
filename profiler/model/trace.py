"""A profiler trace as columns: what ran on the devices, what launched it, what the host was doing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from profiler.model.requests import Ints
from profiler.model.steps import StepLabel

NO_ID: Final = -1
GARBAGE: Final = "garbage collection"  # the host phase


class Kind(IntEnum):
    """What an event is; the value is what the table stores."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    LAUNCH = 3  # a CUDA/HIP runtime or driver call
    OPERATOR = 4  # a framework operator on the host (cpu_op)
    ANNOTATION = 5  # record_function or NVTX range on the host
    DEVICE_ANNOTATION = 6  # the same range as seen on the device
    PYTHON = 7
    OVERHEAD = 8
    OTHER = 9


DEVICE_KINDS: Final = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)


@dataclass(frozen=True)
class EventTable:
    """Events as columns of one length. Times are integer nanoseconds; ids are NO_ID where the trace has none.

    ``name``, ``process`` and ``thread`` index the trace's ``names``, ``processes`` and ``threads``. ``correlation``
    ties a device event to its launch and is unique only within one trace file; all kernels of a replayed graph
    carry the correlation of the one graph launch.
    """

    kind: NDArray[np.uint8]
    name: NDArray[np.int32]
    start: Ints
    duration: Ints
    process: NDArray[np.int32]
    thread: NDArray[np.int32]
    correlation: Ints
    device: NDArray[np.int32]
    stream: NDArray[np.int32]
    size: Ints  # bytes of a copy
    graph_node: Ints

    def __len__(self) -> int:
        return len(self.start)

    @property
    def end(self) -> Ints:
        """Start plus duration, nanoseconds."""
        return self.start + self.duration

    def select(self, rows: slice | NDArray[np.bool_] | NDArray[np.int64]) -> EventTable:
        """The same columns for the chosen rows."""
        return EventTable(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def names_used(self) -> Ints:
        """The indices of the names that occur, in order."""
        return np.flatnonzero(np.bincount(self.name)) if len(self) else np.zeros(0, np.int64)

    def of(self, *kinds: Kind) -> EventTable:
        """The events of these kinds, in the table's order."""
        return self.select(np.isin(self.kind, np.array(kinds, np.uint8)))


@dataclass(frozen=True)
class DeviceInfo:
    """A device that the trace describes; ``name`` is None where the trace leaves it empty (vLLM on MI300X does)."""

    index: int
    name: str | None
    memory: int | None
    vendor: str | None


# The collectives that are told apart, the longer names before those that they hold.
COLLECTIVES: Final = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "gather",
    "scatter",
    "reduce",
)


class Message(msgspec.Struct, frozen=True, gc=False):
    """What one call of a collective moves: bytes that this rank puts in and gets out, and the ranks of its group;
    NO_ID where the trace does not say. ``operation`` is one of COLLECTIVES or "send_receive". ``shapes``: read off the
    shapes of the call's tensors, not off what the communication library was told. ``call`` numbers the calls."""

    operation: str
    sent: int
    received: int
    ranks: int
    shapes: bool
    call: int = NO_ID


@dataclass(frozen=True)
class Trace:
    """One trace file: one process's view, usually one rank.

    Times in ``events`` are nanoseconds relative to ``base`` (nanoseconds since the epoch; 0 where the trace has no
    absolute time). ``labels`` maps an index into ``names`` to the batch that an engine's step annotation states, and
    ``phases`` to the host phase (receive, schedule, prepare_inputs, …) that an annotation marks, ``micro_batches`` to
    that of a step's micro-batches which a range is of ("": its thread tells). ``handovers`` maps the name of a range
    to the link over which its process waits for another's message (False) or sends one (True). ``messages`` maps the
    correlation of a collective's kernels to what the call moves.
    """

    path: str
    events: EventTable
    names: tuple[str, ...]
    processes: tuple[str, ...]
    threads: tuple[str, ...]
    base: int = 0
    rank: int | None = None
    world_size: int | None = None
    devices: tuple[DeviceInfo, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: Mapping[int, StepLabel] = field(default_factory=dict[int, StepLabel])
    phases: Mapping[int, str] = field(default_factory=dict[int, str])
    micro_batches: Mapping[int, str] = field(default_factory=dict[int, str])
    handovers: Mapping[int, tuple[str, bool]] = field(default_factory=dict[int, tuple[str, bool]])
    messages: Mapping[int, Message] = field(default_factory=dict[int, Message])
