"""Work on several cores: the results of one after the other, whatever becomes of a process.

A process that forks has a single thread, which one that runs tests need not be: each case is a program of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from profiler.store.side_by_side import side_by_side

ROOT = Path(__file__).parents[2]
SEVERAL = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
HEAD = """
import os, signal, time
from profiler.store.side_by_side import is_child, side_by_side

def left():
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None

"""


def told(program: str) -> str:
    """What a program prints that uses ``side_by_side``."""
    command = [sys.executable, "-c", HEAD + program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout


@SEVERAL
def test_results_come_in_order_from_several_processes() -> None:
    program = """
found = side_by_side(lambda item: (item * item, os.getpid()), range(7))
print([square for square, _ in found], len({pid for _, pid in found}) > 1, found[0][1] == os.getpid(), left())
"""
    assert told(program) == "[0, 1, 4, 9, 16, 25, 36] True True None\n"


@pytest.mark.parametrize("item", [0, 1, 4])
def test_an_error_is_raised_as_if_there_were_one_process(item: int) -> None:
    program = f"""
def work(item):
    if item == {item}:
        raise ValueError(f"no {{item}}")
    return item

try:
    side_by_side(work, range(5))
except ValueError as error:
    print(error, is_child(), left())
"""
    assert told(program) == f"no {item} False None\n"


@SEVERAL
@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)", "return lambda: item"])
def test_what_a_child_does_not_deliver_is_done_all_the_same(end: str) -> None:
    program = f"""
def work(item):
    if is_child():
        {end}
    return item

print(side_by_side(work, range(5)), left())
"""
    assert told(program) == "[0, 1, 2, 3, 4] None\n"


@SEVERAL
def test_a_large_answer_arrives() -> None:
    program = """
found = side_by_side(lambda item: bytes([item]) * (3 << 20), range(4))
print([(part[0], len(part)) for part in found] == [(item, 3 << 20) for item in range(4)])
"""
    assert told(program) == "True\n"


@SEVERAL
def test_an_interrupt_ends_the_children_too() -> None:
    program = """
def work(item):
    if is_child():
        time.sleep(600)
    # As a terminal does: to every process of the group.
    os.killpg(0, signal.SIGINT)

os.setpgrp()
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    side_by_side(work, range(4))
except KeyboardInterrupt:
    print("interrupted", left())
"""
    assert told(program) == "interrupted None\n"


@SEVERAL
def test_a_child_does_not_fork_again() -> None:
    program = """
def pids(_):
    return {os.getpid(), *side_by_side(lambda _: os.getpid(), range(4))}

print([len(found) for found in side_by_side(pids, range(2))][1])
"""
    assert told(program) == "1\n"


def test_a_program_with_threads_works_one_item_after_the_other() -> None:
    done = threading.Event()
    beside = threading.Thread(target=done.wait)
    beside.start()
    try:
        assert side_by_side(lambda item: (item, os.getpid()), range(3)) == [(i, os.getpid()) for i in range(3)]
    finally:
        done.set()
        beside.join()
