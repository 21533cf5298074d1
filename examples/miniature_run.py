"""Recording a run of the miniature engine: the load without a profiler, then a few steps of it with one."""

from __future__ import annotations

import json
import os
import platform
import random
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from profiler.examples.miniature_engine import Clock, Engine, OwnClock, Request, Running, Settings
from profiler.examples.miniature_model import Decoder, Shape

ENGINE: Final = "miniature"
NOTE: Final = (
    "the miniature engine that ships with the profiler; its log and metrics are in vLLM's grammar. Without a GPU its "
    "seconds are its thread's processor time and sleeps, in which other programs have no part"
)
CPU_SHAPE: Final = Shape(layers=4, hidden=128, vocabulary=1024, longest=256)
CUDA_SHAPE: Final = Shape(layers=16, hidden=1024, vocabulary=8192, longest=256)
# The traced pass: steps before the profiler starts, and steps that it sees.
AHEAD: Final = 10
TRACED: Final = 20
WARM_UP: Final = 4


@dataclass(frozen=True)
class Load:
    """``concurrency`` requests in flight, ``requests`` in all; ``groups`` of them share ``prefix`` tokens."""

    requests: int
    concurrency: int
    groups: int = 2
    prefix: int = 200
    own: int = 16
    output: int = 20

    def drawn(self, vocabulary: int) -> list[Request]:
        """The same requests every time."""
        draw = random.Random(1)
        shared = [tuple(draw.randrange(vocabulary) for _ in range(self.prefix)) for _ in range(self.groups)]
        return [
            Request(
                (*shared[at % self.groups], *(draw.randrange(vocabulary) for _ in range(self.own))),
                self.prefix,
                at % self.groups,
                # Unequal lengths, so that sequences don't end all at once.
                draw.randrange(self.output - 4, self.output + 5),
            )
            for at in range(self.requests)
        ]


def record(folder: Path, settings: Settings, load: Load, device: str) -> None:
    """One start of the engine under ``load``, as a run in ``folder``. Raises FileExistsError where there is one."""
    folder.mkdir(parents=True)
    model, requests = _started(settings, load, device)
    clock = Clock() if device == "cuda" else OwnClock()
    engine = Engine(settings, model, clock=clock)
    (folder / "metrics").mkdir()
    (folder / "metrics" / "before.prom").write_text(engine.metrics(), "utf-8")
    began = clock.now()
    done = engine.serve(requests, load.concurrency)
    duration = clock.now() - began
    (folder / "metrics" / "after.prom").write_text(engine.metrics(), "utf-8")
    (folder / "bench.json").write_text(json.dumps(_result(requests, done, duration, load)), "utf-8")
    word = "GPU" if device == "cuda" else "CPU"
    lines = [_settings_line(settings, device), *(line.replace("{device}", word) for line in engine.log)]
    (folder / "server.log").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "run.json").write_text(json.dumps(_manifest(settings, model.shape, device), indent=1), "utf-8")


def record_trace(folder: Path, settings: Settings, load: Load, device: str) -> None:
    """Add a trace to a run: a second pass of its load, ended behind the steps that the profiler saw."""
    model, requests = _started(settings, load, device)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    profiler = profile(activities=activities)

    def before_step(steps: int) -> bool:
        if steps == AHEAD:
            profiler.start()
        return steps < AHEAD + TRACED

    Engine(settings, model, record_function).serve(requests, load.concurrency, before_step)
    profiler.stop()
    (folder / "trace").mkdir()
    profiler.export_chrome_trace(str(folder / "trace" / "worker.pt.trace.json.gz"))


def _started(settings: Settings, load: Load, device: str) -> tuple[Decoder, list[Request]]:
    """A model that is warm and whose prefix cache is empty, and the requests."""
    torch.set_num_threads(1)
    shape = CUDA_SHAPE if device == "cuda" else CPU_SHAPE
    requests = load.drawn(shape.vocabulary)
    model = Decoder(shape, settings, device)
    Engine(settings, model).serve(requests[:WARM_UP], WARM_UP)
    model.prefixes.clear()
    return model, requests


def _settings_line(settings: Settings, device: str) -> str:
    stated = {
        "model": f"{ENGINE}-decoder",
        "max_num_seqs": settings.max_num_seqs,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "enable_prefix_caching": settings.prefix_cache,
        "enforce_eager": not (device == "cuda" and settings.graphs),
        "kv_cache_size_tokens": settings.kv_cache_tokens,
    }
    stamp = time.strftime("%m-%d %H:%M:%S", time.gmtime())
    return f"INFO {stamp} [miniature_run.py:1] non-default args: {stated}"


def _result(requests: list[Request], done: list[Running], duration: float, load: Load) -> dict[str, object]:
    """The result as ``vllm bench serve`` writes it: arrays in seconds, in the order of sending."""
    done = sorted(done, key=lambda one: one.sent)
    prompts, outputs = sum(len(one.request.prompt) for one in done), sum(len(one.tokens) for one in done)
    return {
        "date": time.strftime("%Y%m%d-%H%M%S", time.gmtime()),
        "backend": ENGINE,
        "model_id": f"{ENGINE}-decoder",
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
        "model": {"name": f"{ENGINE}-decoder", "num_layers": shape.layers, "hidden_size": shape.hidden},
        "hardware": {"gpu": gpu, "cpu": f"{platform.machine()}, {os.cpu_count()} cores"},
        "workload": {"dataset": "drawn", "ignore_eos": True},
        "simulated": False,
    }
