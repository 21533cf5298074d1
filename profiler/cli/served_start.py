"""One start of the miniature engine behind an address, recorded as any engine is: ``record`` around ``bench``."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.text import Text

from profiler import __version__, registry
from profiler.cli.main import State
from profiler.cli.server import gpu_processes
from profiler.collectors.availability import devices, pieces
from profiler.collectors.discovery import discover
from profiler.collectors.gpu.counter_csv import GpuCountersWriter
from profiler.collectors.http_client import Client
from profiler.collectors.record import Recording
from profiler.collectors.recording_plan import Plan
from profiler.collectors.run_folder import RunFolder
from profiler.collectors.sampling import sampled
from profiler.errors import UsageError
from profiler.examples.miniature_settings import Settings

if TYPE_CHECKING:
    from profiler.examples.miniature_run import Load

# Its table is not ours to print.
_QUIET: Final = "import os; os.dup2(os.open(os.devnull, os.O_WRONLY), 1); from profiler.cli.main import main; main()"
PROFILER: Final = (sys.executable, "-c", _QUIET)
START_SECONDS: Final = 120.0
PERIOD: Final = 0.5
MOST_BYTES: Final = 1 << 28
LISTENING: Final = "listening on "


def counters(run: Path, device: str) -> AbstractContextManager[None]:
    """Samples the GPU into a new run as long as it is held open; nothing where there is none to ask."""
    opened = devices()[0] if device == "cuda" else None
    if opened is None:
        return nullcontext()
    return sampled(GpuCountersWriter(opened, RunFolder(run, MOST_BYTES), PERIOD))


def record_served(run: Path, settings: Settings, load: Load, vocabulary: int, state: State) -> None:
    """Start the engine, record it under ``load`` into ``run``, with a trace and, where py-spy is there, host stacks,
    and end it. Raises UsageError where it
    doesn't start, and KeyboardInterrupt."""
    with tempfile.TemporaryDirectory(prefix="miniature-") as place, serving(settings, Path(place)) as url:
        client = Client(url)
        found = discover(client, registry.engines(), gpu_processes)
        stacks = any(piece.name == "host stacks" and piece.ready for piece in pieces(found, client))
        plan = Plan(run, _bench(url, load, vocabulary), period=PERIOD, profile=True, stacks=stacks, version=__version__)
        outcome = Recording(plan, client, found, registry.engines(), lambda _: None).run()
    if outcome.interrupted:
        raise KeyboardInterrupt
    for problem in outcome.problems:
        state.err.print(Text(f"problem: {run.name}: {problem}", style="yellow"), soft_wrap=True)


def _bench(url: str, load: Load, vocabulary: int) -> tuple[str, ...]:
    """The load as ``profiler bench`` is told it; its result goes into the run."""
    shortest, longest = load.outputs
    return (
        *PROFILER, "--quiet", "bench", "--url", url, "--out", "{run}", "--concurrency", str(load.concurrency),
        "--requests", str(load.requests), "--warmup", str(load.concurrency), "--input-tokens", str(load.own),
        "--shared-prefix", f"{load.groups}x{load.prefix}", "--output-tokens", f"{shortest}-{longest}",
        "--vocabulary", str(vocabulary),
    )  # fmt: skip


@contextmanager
def serving(settings: Settings, place: Path) -> Iterator[str]:
    """The engine's process, whose log and traces lie in a folder; its address."""
    words = [sys.executable, "-m", "profiler.examples.miniature_server", "--switches", json.dumps(asdict(settings))]
    with (place / "server.log").open("w") as log:
        server = subprocess.Popen([*words, "--traces", str(place)], stdout=log, stderr=log)
    try:
        yield _address(server, place / "server.log")
    finally:
        server.terminate()
        server.wait()


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        for line in log.read_text("utf-8", "replace").splitlines():
            if line.startswith(LISTENING):
                return line.removeprefix(LISTENING)
        time.sleep(0.1)
    said = log.read_text("utf-8", "replace").strip().splitlines()
    raise UsageError(
        f"the miniature engine did not start within {START_SECONDS:.0f} s: {said[-1] if said else 'no word'}"
    )
