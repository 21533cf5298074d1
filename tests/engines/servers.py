"""Servers of real engines on this machine's CPU, waited for and ended."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.strategies import ROOT

READY_SECONDS = 300.0
PROGRAM = [sys.executable, "-c", "from profiler.cli.main import main; main()"]
_GIVEN: set[int] = set()


@dataclass(frozen=True)
class Running:
    """A server that answers. ``python`` is its interpreter, ``traces`` where it writes them."""

    url: str
    process: subprocess.Popen[bytes]
    python: Path
    model: Path
    traces: Path
    steps: Path


def profiler(*words: object) -> subprocess.CompletedProcess[str]:
    """Our command line, as a process of its own."""
    return subprocess.run(
        [*PROGRAM, *map(str, words)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


def load(url: str, requests: int = 150, concurrency: int = 8, model: str = "tiny") -> list[str]:
    """A command that is a load."""
    program = str(Path(__file__).with_name("load.py"))
    return [sys.executable, program, url, model, str(concurrency), str(requests), "32"]


def free_port(low: bool = False) -> int:
    """A port that nobody listens on; ``low``: below 32768, for programs that read it as a signed number."""
    for wanted in range(24000, 32768) if low else (0,):
        with socket.socket() as listening:
            try:
                listening.bind(("127.0.0.1", wanted))
            except OSError:
                continue
            port: int = listening.getsockname()[1]
            if port not in _GIVEN:
                _GIVEN.add(port)
                return port
    return free_port(low)


@contextmanager
def serving(
    command: Sequence[str],
    url: str,
    ready: str,
    log: Path,
    environment: Mapping[str, str],
    seconds: float = READY_SECONDS,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server, wait at most ``seconds`` until ``ready`` answers, and end it with all its processes."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **environment}, cwd=log.parent,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + seconds
        while not _answers(url + ready):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the server did not start:\n{log.read_text('utf-8', 'replace')[-3000:]}")
            time.sleep(0.2)
        yield process
    finally:
        for number in (15, 9):
            try:
                os.killpg(process.pid, number)
                process.wait(timeout=20)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
