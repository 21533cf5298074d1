"""Generate the pair of runs ``runs/simulated-gpu``: one engine on one GPU, with CUDA Graphs (A) and without (B).

Nothing here was measured. A continuous-batching loop is played step by step: the host schedules, prepares the inputs
and launches kernels one by one or as one graph; the device works them off in order and waits wherever a launch has not
arrived. The runs are written in the formats of a vLLM recording, and ``run.json`` says ``"simulated": true``.

As in a real recording the measured load is played without a profiler; the trace comes from a second, shorter load in
which the profiler slows the host. Both stand in the server's log.

    python examples/generate_gpu_pair.py [FOLDER]
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SEED, REQUESTS, CONCURRENCY = 7, 320, 16
TRACED_REQUESTS, TRACED_FROM, TRACED_STEPS = 48, 60, 24
MAX_SEQS, TOKEN_BUDGET, KV_TOKENS, LAYERS = 64, 2048, 262_144, 16
CAPTURED = (1, 2, 4, 8, 16, 32, 64)  # batch sizes that have a graph; a batch is padded to the next one
EPOCH, NOON = 1_796_040_000_000_000_000, 12 * 3600  # 2026-11-30 12:00:00 UTC

# Host costs and delays in microseconds.
SCHEDULE, PREPARE, OUTPUT = 45.0, 75.0, 75.0
# Launching one kernel takes the framework's dispatch and then the runtime call; its kernel starts a moment after that.
DISPATCH, LAUNCH_CALL, GRAPH_CALL, LATENCY, BETWEEN_KERNELS = 8.0, 3.0, 14.0, 2.0, 0.6
NETWORK, THINK, TOLL = 180.0, 40.0, 1.35  # to the client and back; its pause; the host's slow-down under the profiler

# Kernel name, microseconds at no work, per token of the step, and per token of context that attention reads.
EMBED = [("void at::native::(anonymous namespace)::vectorized_gather_kernel<16, long>(char*, char*)", 2.1, 0.002, 0.0)]
NORM = ("void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, c10::BFloat16*)", 2.0, 0.004, 0.0)
LAYER = [
    NORM,
    ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", 4.9, 0.012, 0.0),
    ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*)", 1.8, 0.003, 0.0),
    ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>(long const*)", 1.7, 0.003, 0.0),
    ("void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4> >(Params)", 3.4, 0.014, 0.0006),
    ("nvjet_tst_64x8_64x16_2x1_v_bz_TNN", 4.1, 0.008, 0.0),
    NORM,
    ("nvjet_tst_128x8_64x12_2x1_v_bz_TNT", 7.4, 0.030, 0.0),
    ("void vllm::act_and_mul_kernel<c10::BFloat16, silu_kernel, true>(c10::BFloat16*)", 1.9, 0.006, 0.0),
    ("nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT", 5.8, 0.016, 0.0),
]
HEAD = [NORM, ("nvjet_tst_192x8_64x8_2x1_v_bz_TNT", 21.0, 0.020, 0.0)]
SAMPLE = [("void at::native::reduce_kernel<512, 1, at::native::ArgMaxOps<float> >(ArgMaxOps)", 6.5, 0.010, 0.0)]
BODY = EMBED + LAYER * LAYERS + HEAD
KERNELS = BODY + SAMPLE
COST = np.array([numbers for _, *numbers in KERNELS])


@dataclass
class Request:
    """One request; times in microseconds since the load began. ``tokens`` are the times its tokens left the engine."""

    prompt: int
    output: int
    sent: float = 0.0
    scheduled: float = 0.0
    tokens: list[float] = field(default_factory=list)


@dataclass
class Step:
    """One step: what it carried, the host's instants, and a row a kernel: launch call, its length, start, length."""

    prefills: int
    prefill_tokens: int
    decodes: int
    cached: int
    began: float
    scheduled: float
    prepared: float
    launched: float
    synced: float
    ended: float
    graph: bool
    kernels: Floats  # (kernels, 4)


def requests(seed: int, count: int) -> list[Request]:
    """The same requests for both runs."""
    rng = random.Random(seed)
    return [Request(rng.randint(64, 448), rng.randint(64, 192)) for _ in range(count)]


def play(load: list[Request], graphs: bool, toll: float, seed: int, began: float = 0.0) -> list[Step]:
    """The engine under a closed loop of CONCURRENCY requests. Fills in the requests' times; returns the steps."""
    rng = np.random.default_rng(seed)
    now, steps, running = began, list[Step](), list[Request]()
    waiting, unsent = load[:CONCURRENCY], load[CONCURRENCY:]
    for position, request in enumerate(waiting):
        request.sent = began + 20.0 * position
    while waiting or running:
        if not running:
            now = max(now, waiting[0].sent + NETWORK)
        admitted: list[Request] = []
        while waiting and waiting[0].sent + NETWORK <= now and len(running) + len(admitted) < MAX_SEQS:
            if sum(r.prompt for r in admitted) + waiting[0].prompt + len(running) > TOKEN_BUDGET:
                break
            admitted.append(waiting.pop(0))
        step = _step(running, admitted, now, graphs, toll, rng)
        steps.append(step)
        now = step.ended
        for request in admitted:
            request.scheduled = step.scheduled
        running += admitted
        for request in running:
            request.tokens.append(now)
        for request in [r for r in running if len(r.tokens) == r.output]:
            running.remove(request)
            if unsent:
                unsent[0].sent = now + NETWORK + THINK
                waiting.append(unsent.pop(0))
    return steps


def _step(
    running: list[Request], admitted: list[Request], began: float, graphs: bool, toll: float, rng: np.random.Generator
) -> Step:
    decodes, fresh = len(running), sum(r.prompt for r in admitted)
    graph = graphs and not admitted
    tokens = next(size for size in CAPTURED if size >= decodes) if graph else decodes + fresh
    context = sum(r.prompt + len(r.tokens) for r in running) + fresh
    lengths = COST @ np.array([1.0, tokens, context]) * _jitter(rng, len(KERNELS), 0.03)
    host = toll * _jitter(rng, 3, 0.08)
    scheduled = began + SCHEDULE * host[0]
    prepared = scheduled + (PREPARE + 2.0 * len(admitted)) * host[1]
    dispatch = DISPATCH * toll * _jitter(rng, len(KERNELS), 0.1)
    calls = LAUNCH_CALL * toll * _jitter(rng, len(KERNELS), 0.1)
    if graph:
        # All kernels of the body arrive with one call; sampling is launched by itself.
        calls[0], calls[1 : len(BODY)], dispatch[1 : len(BODY)] = GRAPH_CALL * toll, 0.0, 0.0
    returns = prepared + np.cumsum(dispatch + calls)
    # A kernel starts when its launch has arrived and the kernel before it has ended.
    work = np.cumsum(lengths + BETWEEN_KERNELS)
    earlier = work - (lengths + BETWEEN_KERNELS)
    starts = np.maximum.accumulate(returns + LATENCY - earlier) + earlier
    launched = float(returns[-1])
    synced = max(launched + 6.0 * toll, float(starts[-1] + lengths[-1]) + 5.0)
    ended = synced + OUTPUT * host[2]
    kernels = np.stack([returns - calls, calls, starts, lengths], axis=1)
    instants = began, scheduled, prepared, launched, synced, ended
    return Step(len(admitted), fresh, decodes, context, *instants, graph, kernels)


def _jitter(rng: np.random.Generator, count: int, width: float) -> Floats:
    """Factors around one, triangular on both sides of it: no function whose last digit differs between machines."""
    drawn: Floats = 1.0 + width * (rng.random(count) + rng.random(count) - 1.0)
    return drawn


def write_bench(path: Path, load: list[Request], name: str) -> None:
    """The client's view, in the form of ``vllm bench serve --save-detailed``; times in seconds."""
    ttfts = [round((r.tokens[0] + NETWORK - r.sent) / 1e6, 6) for r in load]
    itls = [np.round(np.diff(r.tokens) / 1e6, 6).tolist() for r in load]
    duration = round(max(r.tokens[-1] + NETWORK for r in load) / 1e6, 6)
    asked, made = sum(r.prompt for r in load), sum(r.output for r in load)
    result: dict[str, object] = {
        "date": f"20261130-{_clock(duration * 1e6).replace(':', '')}", "endpoint_type": "openai", "backend": "openai",
        "label": name, "model_id": "simulated-small", "tokenizer_id": "simulated-small", "num_prompts": len(load),
        "request_rate": "inf", "burstiness": 1.0, "max_concurrency": CONCURRENCY, "duration": duration,
        "completed": len(load), "failed": 0, "total_input_tokens": asked, "total_output_tokens": made,
        "request_throughput": len(load) / duration, "output_throughput": made / duration,
        "total_token_throughput": (asked + made) / duration, "input_lens": [r.prompt for r in load],
        "output_lens": [r.output for r in load], "ttfts": ttfts, "itls": itls,
        "start_times": [round(r.sent / 1e6, 6) for r in load], "errors": [""] * len(load),
    }  # fmt: skip
    tpots = [sum(itl) / len(itl) for itl in itls]
    e2es = [first + sum(itl) for first, itl in zip(ttfts, itls, strict=True)]
    for metric, values in (("ttft", ttfts), ("tpot", tpots), ("itl", [t for itl in itls for t in itl]), ("e2el", e2es)):
        milliseconds = 1e3 * np.array(values)
        result[f"mean_{metric}_ms"] = float(milliseconds.mean())
        result |= {f"p{p}_{metric}_ms": float(np.percentile(milliseconds, p)) for p in (50, 90, 99)}
    _write(path, json.dumps(result))


def write_log(path: Path, steps: list[Step], eager: bool) -> None:
    """The start-up lines that state settings, then one line a step."""
    stated = {"model": "simulated-small", "max_num_seqs": MAX_SEQS, "max_num_batched_tokens": TOKEN_BUDGET,
              "enable_logging_iteration_details": True, "enforce_eager": eager}  # fmt: skip
    head = f"(APIServer pid=100) INFO 11-30 {_clock(-60e6)} [simulated]"
    lines = [f"{head} non-default args: {stated}", f"{head} GPU KV cache size: {KV_TOKENS:,} tokens"]
    for index, s in enumerate(steps):
        lines.append(
            f"(APIServer pid=100) INFO 11-30 {_clock(s.ended)} [loggers.py:199] Engine 000: Iteration({index}): "
            f"{s.prefills} context requests, {s.prefill_tokens} context tokens, {s.decodes} generation requests, "
            f"{s.decodes} generation tokens, iteration elapsed time: {(s.synced - s.scheduled) / 1e3:.2f} ms, "
            f"GPU KV cache usage: {s.cached / KV_TOKENS:.1%}"
        )
    _write(path, "\n".join(lines) + "\n")


def write_metrics(folder: Path, load: list[Request], steps: list[Step]) -> None:
    """Prometheus text before, during and after the measured load; a file's name is its time in milliseconds."""
    ends = np.array([s.ended for s in steps])
    for share in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        until, busy = share * ends[-1], 0.0 < share < 1.0
        done = steps[: int(np.searchsorted(ends, until, side="right"))]
        finished = [r for r in load if r.tokens[-1] <= until]
        rows = [
            ("num_requests_running", "gauge", float(done[-1].decodes + done[-1].prefills) if busy else 0.0),
            ("num_requests_waiting", "gauge", 0.0),
            ("kv_cache_usage_perc", "gauge", done[-1].cached / KV_TOKENS if busy else 0.0),
            ("prompt_tokens_total", "counter", float(sum(s.prefill_tokens for s in done))),
            ("generation_tokens_total", "counter", float(sum(s.prefills + s.decodes for s in done))),
            ("num_preemptions_total", "counter", 0.0),
        ]
        text = "".join(f'# TYPE vllm:{n} {kind}\nvllm:{n}{{engine="0"}} {value}\n' for n, kind, value in rows)
        spans = {
            "request_queue_time_seconds": [r.scheduled - r.sent - NETWORK for r in finished],
            "request_prefill_time_seconds": [r.tokens[0] - r.scheduled for r in finished],
            "request_decode_time_seconds": [r.tokens[-1] - r.tokens[0] for r in finished],
            "iteration_tokens_total": [1e6 * (s.prefill_tokens + s.decodes) for s in done],
        }
        for n, values in spans.items():
            text += f'# TYPE vllm:{n} histogram\nvllm:{n}_bucket{{engine="0",le="+Inf"}} {len(values)}\n'
            text += f'vllm:{n}_count{{engine="0"}} {len(values)}\nvllm:{n}_sum{{engine="0"}} {sum(values) / 1e6:.6f}\n'
        _write(folder / f"{int(until / 1e3):07d}.prom", text)


def write_trace(path: Path, steps: list[Step]) -> None:
    """The steps as libkineto writes them: microseconds; all kernels of a graph carry their one launch's correlation."""
    events: list[dict[str, object]] = []

    def add(category: str, name: str, span: tuple[float, float], where: tuple[int, int], **args: int) -> None:
        event = {"ph": "X", "cat": category, "name": name, "pid": where[0], "tid": where[1], "args": args}
        events.append({**event, "ts": round(span[0], 3), "dur": round(span[1], 3)})

    host, device, correlation = (100, 100), (0, 7), 0
    for s in steps:
        label = f"execute_context_{s.prefills}({s.prefill_tokens})_generation_{s.decodes}({s.decodes})"
        add("user_annotation", "schedule", (s.began, s.scheduled - s.began), host)
        add("user_annotation", label, (s.scheduled, s.synced - s.scheduled), host)
        add("user_annotation", "gpu_model_runner: preprocess", (s.scheduled, s.prepared - s.scheduled), host)
        add("user_annotation", "gpu_model_runner: forward", (s.prepared, s.launched - s.prepared), host)
        for index, (called, took, start, length) in enumerate(s.kernels.tolist()):
            if not (s.graph and 0 < index < len(BODY)):
                correlation += 1
                call = "cudaGraphLaunch" if s.graph and index == 0 else "cudaLaunchKernel"
                add("cuda_runtime", call, (called, took), host, correlation=correlation)
            add("kernel", KERNELS[index][0], (start, length), device, device=0, stream=7, correlation=correlation)
        add("cuda_runtime", "cudaStreamSynchronize", (s.launched, s.synced - s.launched), host)
        add("user_annotation", "llm_engine step: process_outputs", (s.synced, s.ended - s.synced), host)
    document = {
        "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "simulated GPU", "totalGlobalMem": 1 << 36}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1}, "cuda_runtime_version": 13000,
        "with_stack": 0, "baseTimeNanoseconds": EPOCH, "traceEvents": events,
    }  # fmt: skip
    _write(path, json.dumps(document))


def write_run(folder: Path, graphs: bool) -> None:
    """One run: the measured load, then the traced one half a minute later."""
    load = requests(SEED, REQUESTS)
    measured = play(load, graphs, 1.0, SEED)
    traced = play(requests(SEED + 1, TRACED_REQUESTS), graphs, TOLL, SEED + 1, began=30e6)
    command = ["vllm", "serve", "simulated-small", "--max-num-seqs", str(MAX_SEQS), "--max-num-batched-tokens",
               str(TOKEN_BUDGET), *([] if graphs else ["--enforce-eager"])]  # fmt: skip
    write_bench(folder / "bench.json.gz", load, folder.name)
    write_log(folder / "server.log.gz", measured + traced, not graphs)
    write_metrics(folder / "metrics", load, measured)
    write_trace(folder / "trace/rank0.pt.trace.json.gz", traced[TRACED_FROM : TRACED_FROM + TRACED_STEPS])
    manifest = {
        "simulated": True,
        "engine": {"name": "vllm", "version": "simulated", "command": command},
        "model": {"name": "simulated-small", "num_hidden_layers": LAYERS, "dtype": "bfloat16"},
        "hardware": {"gpu": "simulated GPU", "count": 1},
        "workload": {"max_concurrency": CONCURRENCY, "requests": REQUESTS, "seed": SEED},
    }
    _write(folder / "run.json", json.dumps(manifest, indent=1) + "\n")


def _clock(microseconds: float) -> str:
    seconds = NOON + int(microseconds // 1e6)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0) if path.suffix == ".gz" else text.encode())


def main(folder: Path) -> None:
    """Write both runs under ``folder``."""
    write_run(folder / "run-A", graphs=True)
    write_run(folder / "run-B", graphs=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "runs" / "simulated-gpu")
