"""Equal pieces of work on the cores of this machine, with the results of one after the other.

The process forks: a child shares all that its parent holds (runs, columns of a trace) without a copy, works on every
n-th item while the parent works on its own, and sends what it found through a pipe. Nothing is shared back, no order
matters, and each item is worked on by the same code from the same state, so results do not depend on the cores. What a
child could not deliver (an error, no memory left for it) the parent does itself: an error is raised where it would
have been raised. Children end with the call, whatever ends it.

Only a process of a single thread forks: another thread may hold a lock that a child would wait for. The commands are
one; a notebook, or a program with threads of its own, works one item after the other, as platforms without fork do.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from pickle import PickleError
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

T = TypeVar("T")
R = TypeVar("R")

# Each child may come to hold as much as its parent does.
MOST_PROCESSES: Final = 4
_THREADS: Final = Path("/proc/self/task")


def side_by_side(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``[work(item) for item in items]``. ``work`` changes nothing that is used later, and its results can be pickled.
    Raises what ``work`` raises."""
    shares = min(_processes(), len(items))
    if shares < 2:
        return [work(item) for item in items]
    found: dict[int, R] = {}
    children: list[tuple[ForkProcess, Connection]] = []
    # An interrupt is the parent's, who ends its children: it waits until all of them are known, and never reaches them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        try:
            for share in range(1, shares):
                children.append(_begun(work, items[share::shares]))
        except OSError:
            # No room for another process: what it would have worked on is left to this one.
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        found.update((i, work(items[i])) for i in range(0, len(items), shares))
        for share, (_, answers) in enumerate(children, 1):
            found.update(zip(range(share, len(items), shares), _received(answers), strict=False))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for child, answers in children:
            answers.close()
            child.kill()
            child.join()
            child.close()
    return [found[i] if i in found else work(item) for i, item in enumerate(items)]


def _processes() -> int:
    """How many may work at once, this one counted."""
    try:
        if len(list(_THREADS.iterdir())) > 1:
            return 1
    except OSError:
        return 1
    # One of several processes leaves the other cores to them.
    return 1 if is_child() else min(len(os.sched_getaffinity(0)), MOST_PROCESSES)


def is_child() -> bool:
    """Whether this process works beside the one that it was forked from: only that one shows progress."""
    from multiprocessing import parent_process

    return parent_process() is not None


def _begun(work: Callable[[T], R], items: Sequence[T]) -> tuple[ForkProcess, Connection]:
    from multiprocessing import get_context

    context = get_context("fork")
    answers, out = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(work, items, out), daemon=True)
    try:
        child.start()
    except OSError:
        answers.close()
        raise
    finally:
        out.close()
    return child, answers


def _work(work: Callable[[T], R], items: Sequence[T], out: Connection) -> None:
    # The parent's objects stay where they are: a collection that visits them would copy their pages.
    gc.freeze()
    try:
        out.send([work(item) for item in items])
    finally:
        # Without a word of what went wrong, if it did: the parent meets it too.
        os._exit(0)


def _received(answers: Connection) -> list[R]:
    try:
        found: list[R] = answers.recv()
    except (EOFError, OSError, PickleError):
        return []
    return found
