"""The miniature engine's model over several ranks, each a process with its share of every layer."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as collectives
from torch.profiler import profile, record_function

from profiler.examples.miniature_clock import Clock
from profiler.examples.miniature_engine import step_name
from profiler.examples.miniature_model import Decoder, Shape, Share, Tensor
from profiler.examples.miniature_settings import Settings

PATIENCE: Final = timedelta(seconds=60)
Annotate = Callable[[str], AbstractContextManager[object]]


class Ranks:
    """See ``profiler.examples.miniature_engine.Model``. A context, in which the other ranks' processes live; what rank
    0 is asked they are asked too. ``clock`` learns how long the slowest of them took for a step: rank 0's own time does
    not hold its waits. What moves between the ranks is moved by other threads and takes no time of such a clock."""

    def __init__(self, shape: Shape, settings: Settings, device: str, clock: Clock) -> None:
        self.shape, self.settings, self.device, self.clock = shape, settings, device, clock
        self.others: list[tuple[Any, Connection]] = []

    def __enter__(self) -> Ranks:
        # Forked from a process that has imported torch and has no threads yet.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._folder = tempfile.TemporaryDirectory(prefix="miniature-")
        place = str(Path(self._folder.name) / "store")
        for rank in range(1, self.settings.ranks):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_follow, args=(theirs, place, rank, self.shape, self.settings, self.device), daemon=True
            )
            process.start()
            self.others.append((process, ours))
        self.decoder = _joined(place, 0, self.shape, self.settings, self.device)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for _, other in self.others:
            other.close()
        for process, _ in self.others:
            process.join()
        dist.destroy_process_group()
        self._folder.cleanup()

    def run(
        self, decodes: Sequence[tuple[int, int, int]], chunks: Sequence[tuple[int, int, Sequence[int]]]
    ) -> list[int]:
        """See ``Model.run``."""
        began = self.clock.now()
        self._tell("run", decodes, chunks)
        answers = self.decoder.run(decodes, chunks)
        self.clock.waited(began + max(self._heard()))
        return answers

    def keep(self, group: int, slot: int, length: int) -> None:
        """See ``Model.keep``."""
        self._tell("keep", group, slot, length)
        self.decoder.keep(group, slot, length)
        self._heard()

    def restore(self, group: int, slot: int) -> None:
        """See ``Model.restore``."""
        self._tell("restore", group, slot)
        self.decoder.restore(group, slot)
        self._heard()

    def forget(self) -> None:
        """See ``Model.forget``."""
        self._tell("forget")
        self.decoder.forget()
        self._heard()

    def traced(self, *, on: bool, into: Path) -> None:
        """Start or stop the other ranks' profilers; each writes its trace into a folder."""
        self._tell("traced", on, str(into))
        self._heard()

    def _tell(self, *what: object) -> None:
        for _, other in self.others:
            other.send(what)

    def _heard(self) -> list[float]:
        """The seconds that each other rank took."""
        return [float(other.recv()) for _, other in self.others]


def _joined(place: str, rank: int, shape: Shape, settings: Settings, device: str) -> Decoder:
    """A rank's share of the model, once all ranks are there."""
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank)
    backend = "nccl" if device == "cuda" else "gloo"
    dist.init_process_group(
        backend, init_method=f"file://{place}", rank=rank, world_size=settings.ranks, timeout=PATIENCE
    )

    def total(part: Tensor) -> Tensor:
        # Its wait is an operator, which a trace of the CPU shows; that of dist.all_reduce is none.
        return collectives.wait_tensor(collectives.all_reduce(part, "sum", dist.group.WORLD))

    own = replace(settings, attention_copies=settings.last_rank_copies) if rank == settings.ranks - 1 else settings
    return Decoder(shape, own, device, share=Share(rank, settings.ranks, total))


def _follow(asked: Connection, place: str, rank: int, shape: Shape, settings: Settings, device: str) -> None:
    """Another rank's process: does what rank 0 does, until that hangs up. Answers with its thread's seconds."""
    decoder = _joined(place, rank, shape, settings, device)
    annotate: Annotate = lambda _: nullcontext()  # noqa: E731 (replaced while a trace is taken)
    profiler = None
    while True:
        try:
            what, *values = asked.recv()
        except EOFError:
            break
        began = time.thread_time()
        if what == "traced":
            on, into = values
            if on:
                profiler = profile()
                profiler.start()
                annotate = record_function
            elif profiler is not None:
                profiler.stop()
                profiler.export_chrome_trace(str(Path(into) / f"rank{rank}.pt.trace.json.gz"))
        elif what == "run":
            decodes, chunks = values
            tokens = sum(len(chunk) for _, _, chunk in chunks)
            with annotate(step_name(len(chunks), tokens, len(decodes))):
                decoder.run(decodes, chunks)
        elif what == "keep":
            decoder.keep(*values)
        elif what == "restore":
            decoder.restore(*values)
        else:
            decoder.forget()
        asked.send(time.thread_time() - began)
    dist.destroy_process_group()
