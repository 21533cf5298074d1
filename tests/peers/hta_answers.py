"""What HolisticTraceAnalysis says of traces, as JSON. Runs in HTA's own environment: python hta_answers.py TRACE..."""

import json
import logging
import math
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from profiler.collectors.torch_trace.hta import trace_analysis  # noqa: E402


def answers(path: str) -> dict[str, object]:
    """Each quantity that HTA computes of one rank, or the name of what it raised."""
    analysis = trace_analysis(path, include_last_profiler_step=True)
    (rank,) = analysis.t.traces
    frame, symbols = analysis.t.get_trace(rank), analysis.t.symbol_table.get_sym_table()
    on_device = frame[frame["stream"].ne(-1)]
    named = on_device.assign(title=[symbols[i] for i in on_device["name"]], kind=[symbols[i] for i in on_device["cat"]])
    totals = named.groupby(["kind", "title"])["dur"].agg(["sum", "size"]).reset_index()
    found: dict[str, object] = {
        "events by kind and name": [[k, n, float(s), int(c)] for k, n, s, c in totals.itertuples(index=False)]
    }
    asked = {
        "temporal": lambda: analysis.get_temporal_breakdown(visualize=False).to_dict("records")[0],
        "overlap": lambda: analysis.get_comm_comp_overlap(visualize=False).to_dict("records")[0],
        "kernels": lambda: analysis.get_gpu_kernel_breakdown(
            visualize=False, num_kernels=100_000, duration_ratio=1.0, include_memory_kernels=True
        )[1].to_dict("records"),
        "launches": lambda: analysis.get_cuda_kernel_launch_stats(ranks=[rank], visualize=False)[rank].to_dict(
            "records"
        ),
        "queues": lambda: analysis.get_queue_length_time_series(ranks=[rank])[rank][
            ["ts", "stream", "queue_length"]
        ].to_dict("records"),
    }
    for name, ask in asked.items():
        try:
            found[name] = ask()
        except Exception as error:  # noqa: BLE001
            found[name] = f"{type(error).__name__}: {error}"
    return found


def finite(value: object) -> object:
    """NaN, which JSON does not have, as null; numpy's numbers as Python's."""
    if isinstance(value, dict):
        return {str(key): finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [finite(one) for one in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    json.dump({path: finite(answers(path)) for path in sys.argv[1:]}, sys.stdout)
