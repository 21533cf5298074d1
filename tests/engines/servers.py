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

READY_SECONDS = 300.0


@dataclass(frozen=True)
class Running:
    """A server that answers. ``python`` is its interpreter, ``traces`` where it writes them."""

    url: str
    process: subprocess.Popen[bytes]
    python: Path
    model: Path
    traces: Path
    steps: Path


def load(url: str, requests: int = 150, concurrency: int = 8, model: str = "tiny") -> list[str]:
    """A command that is a load."""
    program = str(Path(__file__).with_name("load.py"))
    return [sys.executable, program, url, model, str(concurrency), str(requests), "32"]


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
    return port


@contextmanager
def serving(
    command: Sequence[str], url: str, ready: str, log: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server, wait until ``ready`` answers, and end it with all its processes."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **environment}, cwd=log.parent,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + READY_SECONDS
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
