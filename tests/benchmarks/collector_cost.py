"""What each collector costs a real vLLM on this machine's CPU: the same load without it and with it, in turns.

    PYTHONPATH=. .venv/bin/python tests/benchmarks/collector_cost.py --kept FILE [--rounds 8] [--only NAME …]

Installs vLLM for CPUs where ``make engines`` has not (3.5 GB), and starts its own servers. What is begun from outside
(``record`` around the load, py-spy, a session of the torch profiler) is measured on one server, without, with, with,
without (ABBA): a drift that is even over a round falls out. What a server has to be started with (a log line for every
step, our stat logger) is measured between servers that were started for the round and stand beside each other, the
others idle, each loaded in a palindrome; equal starts differ by several percent, so there every round has starts of its
own, in an order that changes, and the interval is one over starts.

FILE keeps each round as a line of JSON; what it holds is not measured again, so a long measurement may be made in pieces
(``--minutes`` begins no round after that time). Printed for each collector: the change of requests a second, the mean of
the rounds' logarithms with Student's t at 95%; the CPU seconds that the server's processes used for the load without and
with it; and those of the collector itself. Worth nothing where other work shares the cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from profiler import registry
from profiler.analyzers.gap.spread import student
from profiler.collectors.discovery import Discovery, discover
from profiler.collectors.host.pyspy import HostStacks, program
from profiler.collectors.http_client import Client
from profiler.collectors.process_tree import tree
from profiler.collectors.run_folder import RunFolder
from profiler.collectors.sampling import sampled
from profiler.collectors.trace_pass import TracePass
from profiler.collectors.workers import Worker
from tests.engines import installed
from tests.engines.conftest import stat_logger, vllm_server
from tests.engines.servers import PROGRAM, Running, load
from tests.strategies import ROOT

# Seconds of the load before the profiler's session begins.
SETTLE: Final = 1.0
TICKS: Final = os.sysconf("SC_CLK_TCK")
Beside = Callable[[Running, Path, list[str]], tuple[float, float]]


# ------------------------------------------------------------------------------------- what is begun beside the load
def recorded(every: str) -> Beside:
    """``profiler record`` around it: metrics, the log, the steps where there are any."""

    def run(server: Running, folder: Path, command: list[str]) -> tuple[float, float]:
        words = ["-q", "record", "--url", server.url, "--every", every, "--out", str(folder / "run"), "--", *command]
        rate = rate_of([*PROGRAM, *words])
        costs = json.loads((folder / "run" / "run.json").read_text())["recording"]["costs"]
        return rate, sum(cost["cpu_seconds"] for cost in costs)

    return run


def spied(rate: int, native: bool = False) -> Beside:
    """py-spy on the processes that ``--stacks`` takes."""

    def run(server: Running, folder: Path, command: list[str]) -> tuple[float, float]:
        spy = program()
        assert spy is not None, "py-spy is not installed"
        processes = found_at(server.url).host_processes
        stacks = HostStacks(
            spy, [("stacks", one) for one in processes], RunFolder(folder / "run", 1 << 30), native, rate
        )
        with sampled(stacks):
            reached = rate_of(command)
        assert not stacks.cost.problems, stacks.cost.problems
        return reached, stacks.cost.cpu_seconds

    return run


def traced(steps: int) -> Beside:
    """One session of the torch profiler, as ``--profile`` has it, writing included."""

    def run(server: Running, folder: Path, command: list[str]) -> tuple[float, float]:
        worker, over, said = Worker(server.url, "", found_at(server.url)), threading.Event(), list[str]()
        session = TracePass(
            Client(server.url), worker, registry.engines(), RunFolder(folder / "run", 4 << 30), over.is_set
        )

        def take() -> None:
            time.sleep(SETTLE)
            said.extend(session.take(steps, 60.0).problems)

        thread = threading.Thread(target=take)
        thread.start()
        try:
            rate = rate_of(command)
        finally:
            over.set()
            thread.join()
            session.close()
        assert not said, said
        return rate, session.cost.cpu_seconds

    return run


# Steps of the load are some two thousand: the second session covers a tenth of them.
BESIDE: Final[Mapping[str, Beside]] = {
    "record-1hz": recorded("1s"),
    "record-5hz": recorded("200ms"),
    "stacks-20hz": spied(20),
    "stacks-100hz": spied(100),
    "stacks-200hz": spied(200),
    "stacks-native-10hz": spied(10, native=True),
    "trace-20-steps": traced(20),
    "trace-200-steps": traced(200),
}
# (every step in the log, our stat logger): what the server is started with.
STARTED: Final[Mapping[str, tuple[bool, bool]]] = {
    "iteration-log": (True, False),
    "stat-logger": (False, True),
    "iteration-log+stat-logger": (True, True),
}


# ----------------------------------------------------------------------------------------------------- the measurement
def rate_of(command: Sequence[str]) -> float:
    """Requests a second of a load."""
    # Sessions share the cores by turns on Linux, and ``record`` gives the load one of its own: so does this.
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, start_new_session=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return float(done.stdout.strip().splitlines()[-1])


def found_at(url: str) -> Discovery:
    """What ``record`` finds there."""
    with Client(url) as client:
        return discover(client, registry.engines(), dict)


def cpu_of(pid: int) -> float:
    """CPU seconds that a server's processes have used."""
    used = 0
    for one in tree(pid, (), {}):
        fields = Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()
        used += int(fields[11]) + int(fields[12])
    return used / TICKS


def measured(server: Running, command: list[str], beside: Beside | None) -> dict[str, float]:
    """One load: requests a second, CPU seconds of the server, and of the collector."""
    folder, before = Path(tempfile.mkdtemp(prefix="collector-cost-")), cpu_of(server.process.pid)
    try:
        rate, own = (rate_of(command), 0.0) if beside is None else beside(server, folder, command)
    finally:
        shutil.rmtree(folder)
    return {"rate": rate, "engine_cpu": cpu_of(server.process.pid) - before, "own_cpu": own}


@contextmanager
def started(name: str, logged: bool, plugin: bool) -> Iterator[Running]:
    """A server that is warm."""
    python = installed.vllm()
    with tempfile.TemporaryDirectory(prefix="collector-cost-") as place:
        folder = Path(place)
        variables = stat_logger(folder) if plugin else {}
        with vllm_server(
            python, installed.tiny_model(python), folder, "server.log", variables, steps_logged=logged
        ) as running:
            rate_of(load(running.url, 40))
            yield running


def in_turns(names: Sequence[str], kept: Kept, given: argparse.Namespace) -> None:
    """What is begun beside the load, on one server: a round each, and the next round."""
    if not any(kept.wants(name) for name in names):
        return
    with started("plain", logged=False, plugin=False) as server:
        command = load(server.url, given.requests)
        while any(wanted := [name for name in names if kept.wants(name)]):
            for name in wanted:
                if kept.over():
                    return
                without, used = list[dict[str, float]](), list[dict[str, float]]()
                for beside in (None, BESIDE[name], BESIDE[name], None):
                    (used if beside else without).append(measured(server, command, beside))
                kept.add(name, without, used)


def between_starts(names: Sequence[str], kept: Kept, given: argparse.Namespace) -> None:
    """What a server is started with: each round has its own starts, one of them plain."""
    at = 0
    while any(wanted := [name for name in names if kept.wants(name)]) and not kept.over():
        order = ["plain", *wanted]
        order = order[at % len(order) :] + order[: at % len(order)]
        at += 1
        with ExitStack() as servers:
            running = {name: servers.enter_context(started(name, *STARTED.get(name, (False, False)))) for name in order}
            found: dict[str, list[dict[str, float]]] = {name: [] for name in order}
            for name in (*order, *reversed(order)):
                server = running[name]
                found[name].append(measured(server, load(server.url, given.requests), None))
        for name in wanted:
            kept.add(name, found["plain"], found[name])


class Kept:
    """The rounds so far, kept in a file of JSON lines; those of another load are not taken for these."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._path, self._rounds, self._requests = given.kept, given.rounds, given.requests
        self._deadline = None if given.minutes is None else time.monotonic() + 60.0 * given.minutes
        lines = self._path.read_text().splitlines() if self._path is not None and self._path.exists() else []
        self.lines = [one for one in map(json.loads, lines) if one["requests"] == self._requests]

    def wants(self, name: str) -> bool:
        """Whether rounds of it are still to be measured."""
        return sum(one["collector"] == name for one in self.lines) < self._rounds

    def over(self) -> bool:
        """Whether the time is up."""
        return self._deadline is not None and time.monotonic() > self._deadline

    def add(self, name: str, without: list[dict[str, float]], used: list[dict[str, float]]) -> None:
        """Keep a round and say it."""
        one = {"collector": name, "requests": self._requests, "without": without, "with": used}
        self.lines.append(one)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(one) + "\n")
        rates = [", ".join(f"{load['rate']:.2f}" for load in loads) for loads in (without, used)]
        print(f"{name}: {rates[0]} without, {rates[1]} with it, requests a second", flush=True)


def told(name: str, lines: Sequence[Mapping[str, object]], requests: int) -> str:
    """The line of one collector."""

    def each(side: str, key: str) -> np.ndarray:
        return np.array([[load[key] for load in one[side]] for one in lines])  # type: ignore[attr-defined]

    change = (np.log(each("with", "rate")) - np.log(each("without", "rate"))).mean(axis=1)
    mean, count = float(change.mean()), len(change)
    interval = "no interval of one round"
    if count > 1:
        half = student(count - 1) * float(change.std(ddof=1)) / count**0.5
        interval = f"95% {np.expm1(mean - half):+.2%} to {np.expm1(mean + half):+.2%}"
    engine = [float(each(side, "engine_cpu").mean()) for side in ("without", "with")]
    own, seconds = float(each("with", "own_cpu").mean()), requests / float(each("with", "rate").mean())
    return (
        f"{name}: rate {np.expm1(mean):+.2%}, {interval}, {count} rounds; the engine's CPU {engine[0]:.2f} s without, "
        f"{engine[1]:.2f} s with it; the collector's own {own:.2f} s in {seconds:.1f} s"
    )


def main() -> None:
    names = (*BESIDE, *STARTED)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, epilog=f"names: {', '.join(names)}"
    )
    parser.add_argument("--kept", type=Path, help="a file of JSON lines; its rounds are not measured again")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", action="append", choices=names, metavar="NAME")
    parser.add_argument("--minutes", type=float, help="begin no round after that")
    parser.add_argument("--requests", type=int, default=400, help="of each load")
    given = parser.parse_args()
    wanted = given.only or names
    kept = Kept(given)
    in_turns([name for name in BESIDE if name in wanted], kept, given)
    between_starts([name for name in STARTED if name in wanted], kept, given)
    for name in names:
        lines = [one for one in kept.lines if one["collector"] == name]
        if lines:
            print(told(name, lines, given.requests))


if __name__ == "__main__":
    main()
