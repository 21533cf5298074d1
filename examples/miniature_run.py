"""Recording a run of the miniature engine: the load without a profiler, then a few steps of it with one."""

from __future__ import annotations

import json
import os
import platform
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from profiler.examples.miniature_clock import Clock, OwnClock
from profiler.examples.miniature_engine import Engine, Model, Running
from profiler.examples.miniature_model import Decoder, Shape
from profiler.examples.miniature_ranks import Ranks
from profiler.examples.miniature_settings import Request, Settings

ENGINE: Final = "miniature"
MODEL: Final = f"{ENGINE}-decoder"
NOTE: Final = (
    "the miniature engine that ships with the profiler; its log and metrics are in vLLM's grammar. Without a GPU its "
    "seconds are its thread's processor time and sleeps, in which other programs have no part"
)
SHAPES: Final = {
    "cpu": Shape(layers=4, hidden=128, vocabulary=1024, longest=256),
    "cuda": Shape(layers=16, hidden=1024, vocabulary=8192, longest=256),
}
# The traced passes: how many, the steps before the profiler starts, and the steps that it sees.
PASSES: Final = 2
AHEAD: Final = 10
TRACED: Final = 20
WARM_UP: Final = 4
ALONE: Final = nullcontext()


@dataclass(frozen=True)
class Load:
    """``concurrency`` requests in flight, ``requests`` in all; ``groups`` of them share ``prefix`` tokens."""

    requests: int
    concurrency: int
    groups: int = 2
    prefix: int = 200
    own: int = 16
    output: int = 20

    @property
    def outputs(self) -> tuple[int, int]:
        """The shortest and longest answer: unequal, so that sequences don't end all at once."""
        return self.output - 4, self.output + 4

    def drawn(self, vocabulary: int) -> list[Request]:
        """The same requests every time."""
        draw = random.Random(1)
        shared = [tuple(draw.randrange(vocabulary) for _ in range(self.prefix)) for _ in range(self.groups)]
        return [
            Request(
                (*shared[at % self.groups], *(draw.randrange(vocabulary) for _ in range(self.own))),
                self.prefix,
                at % self.groups,
                draw.randint(*self.outputs),
            )
            for at in range(self.requests)
        ]


def record(
    folder: Path, settings: Settings, load: Load, device: str, beside: AbstractContextManager[object] = ALONE
) -> None:
    """One start of the engine under ``load``, as a run in ``folder``; ``beside`` is held open while it serves."""
    folder.mkdir(parents=True, exist_ok=True)
    clock = clock_of(device)
    with started(settings, load, device, clock) as (model, requests):
        log: list[str] = []
        engine = Engine(settings, model, clock=clock, logged=log.append)
        (folder / "metrics").mkdir()
        (folder / "metrics" / "before.prom").write_text(engine.metrics(), "utf-8")
        with beside:
            began = clock.now()
            done = engine.serve(requests, load.concurrency)
            duration = clock.now() - began
    (folder / "metrics" / "after.prom").write_text(engine.metrics(), "utf-8")
    (folder / "bench.json").write_text(json.dumps(_result(requests, done, duration, load)), "utf-8")
    word = "GPU" if device == "cuda" else "CPU"
    lines = [settings_line(settings, device), *(line.replace("{device}", word) for line in log)]
    (folder / "server.log").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "run.json").write_text(json.dumps(_manifest(settings, SHAPES[device], device), indent=1), "utf-8")


def record_trace(folder: Path, settings: Settings, load: Load, device: str) -> None:
    """Add a trace of every rank to a run: of two further passes of its load, each ended behind the steps that the
    profiler saw, the one that other work on the machine slowed less."""
    (folder / "trace").mkdir()
    # The scheduler works as long as in the measured start, by the same clock: it is slowed by others as the model is.
    clock = clock_of(device)
    with started(settings, load, device, clock) as (model, requests):
        passes: list[tuple[float, Path]] = []
        for at in range(PASSES):
            into = folder / f"pass-{at}"
            engine = Engine(settings, model, annotation(device), clock)
            passes.append((_traced(into, engine, requests, load, device), into))
            model.forget()
    least = min(passes)[1]
    for path in least.iterdir():
        path.rename(folder / "trace" / path.name)
    for _, path in passes:
        shutil.rmtree(path)


def _traced(into: Path, engine: Engine, requests: Sequence[Request], load: Load, device: str) -> float:
    """Write the traces of one pass; the seconds of the traced steps."""
    into.mkdir()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    profiler = profile(activities=activities)
    marks: list[float] = []

    def before_step(steps: int) -> bool:
        if steps == AHEAD and not marks:
            if isinstance(engine.model, Ranks):
                engine.model.traced(on=True, into=into)
            profiler.start()
            marks.append(time.perf_counter())
        return steps < AHEAD + TRACED

    engine.serve(requests, load.concurrency, before_step)
    seconds = time.perf_counter() - marks[0]
    profiler.stop()
    if isinstance(engine.model, Ranks):
        engine.model.traced(on=False, into=into)
    profiler.export_chrome_trace(str(into / "rank0.pt.trace.json.gz"))
    return seconds


def clock_of(device: str) -> Clock:
    """Wall time on a GPU, which works beside the thread; else the thread's own."""
    return Clock() if device == "cuda" else OwnClock()


def annotation(device: str) -> Callable[[str], AbstractContextManager[object]]:
    """Ranges for the torch profiler, and on a GPU for Nsight Systems and rocprofv3 too."""

    @contextmanager
    def both(name: str) -> Iterator[None]:
        with record_function(name), torch.cuda.nvtx.range(name):
            yield

    return both if device == "cuda" else record_function


@contextmanager
def started(settings: Settings, load: Load, device: str, clock: Clock) -> Iterator[tuple[Model, list[Request]]]:
    """A model that is warm and whose prefix cache is empty, and the requests."""
    torch.set_num_threads(1)
    requests = load.drawn(SHAPES[device].vocabulary)
    with ExitStack() as stack:
        model: Model = (
            Decoder(SHAPES[device], settings, device)
            if settings.ranks == 1
            else stack.enter_context(Ranks(SHAPES[device], settings, device, clock))
        )
        Engine(settings, model).serve(requests[:WARM_UP], WARM_UP)
        model.forget()
        yield model, requests


def settings_line(settings: Settings, device: str) -> str:
    """The line of the log that states the settings, in vLLM's grammar."""
    stated = {
        "model": MODEL,
        "max_num_seqs": settings.max_num_seqs,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "enable_prefix_caching": settings.prefix_cache,
        "async_scheduling": settings.overlap,
        "tensor_parallel_size": settings.ranks,
        "enforce_eager": not (device == "cuda" and settings.graphs),
        "kv_cache_size_tokens": settings.kv_cache_tokens,
    }
    if not stated["enforce_eager"]:
        stated["cudagraph_capture_sizes"] = list(settings.graph_sizes)
    stamp = time.strftime("%m-%d %H:%M:%S", time.gmtime())
    return f"INFO {stamp} [miniature_run.py:1] non-default args: {stated}"


def _result(requests: list[Request], done: list[Running], duration: float, load: Load) -> dict[str, object]:
    """The result as ``vllm bench serve`` writes it: arrays in seconds, in the order of sending."""
    done = sorted(done, key=lambda one: one.sent)
    prompts, outputs = sum(len(one.request.prompt) for one in done), sum(len(one.tokens) for one in done)
    return {
        "date": time.strftime("%Y%m%d-%H%M%S", time.gmtime()),
        "backend": ENGINE,
        "model_id": MODEL,
        "tokenizer_id": "none",
        "num_prompts": len(requests),
        "request_rate": "inf",
        "max_concurrency": load.concurrency,
        "duration": duration,
        "completed": len(done),
        "failed": len(requests) - len(done),
        "total_input_tokens": prompts,
        "total_output_tokens": outputs,
        "request_throughput": len(done) / duration,
        "output_throughput": outputs / duration,
        "input_lens": [len(one.request.prompt) for one in done],
        "output_lens": [len(one.tokens) for one in done],
        "start_times": [one.sent for one in done],
        "ttfts": [one.times[0] - one.sent for one in done],
        "itls": [[b - a for a, b in zip(one.times, one.times[1:], strict=False)] for one in done],
        "errors": ["" for _ in done],
    }


def _manifest(settings: Settings, shape: Shape, device: str) -> dict[str, object]:
    gpu = torch.cuda.get_device_name() if device == "cuda" else None
    return {
        "engine": {"name": ENGINE, "version": str(torch.__version__), "note": NOTE, "switches": asdict(settings)},
        "model": {"name": MODEL, "num_layers": shape.layers, "hidden_size": shape.hidden},
        "hardware": {"gpu": gpu, "cpu": f"{platform.machine()}, {os.cpu_count()} cores"},
        "workload": {"dataset": "drawn", "ignore_eos": True},
        "simulated": False,
    }
