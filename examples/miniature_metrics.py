"""What the miniature engine counts, as Prometheus text under vLLM's names."""

from __future__ import annotations

from typing import Final

HISTOGRAMS: Final = (
    "request_queue_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "time_to_first_token_seconds",
    "e2e_request_latency_seconds",
    "iteration_tokens_total",
)
COUNTERS: Final = (
    "prompt_tokens_total",
    "generation_tokens_total",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "request_success_total",
    *(f"{name}_{part}" for name in HISTOGRAMS for part in ("sum", "count")),
)


class Counts:
    """Counters, and the sums and counts of histograms."""

    def __init__(self) -> None:
        self.of = dict.fromkeys(COUNTERS, 0.0)

    def add(self, name: str, amount: float) -> None:
        """Count."""
        self.of[name] += amount

    def observe(self, name: str, value: float) -> None:
        """One more value of a histogram."""
        self.of[f"{name}_sum"] += value
        self.of[f"{name}_count"] += 1

    def text(self, running: int, waiting: int, usage: float) -> str:
        """A snapshot in Prometheus' text format; ``usage`` is a fraction."""
        gauges = {"num_requests_running": running, "num_requests_waiting": waiting, "kv_cache_usage_perc": usage}
        lines = [f"# TYPE vllm:{name} gauge\nvllm:{name} {value}" for name, value in gauges.items()]
        for name in HISTOGRAMS:
            lines.append(f"# TYPE vllm:{name} histogram")
            lines.append(f'vllm:{name}_bucket{{le="+Inf"}} {self.of[f"{name}_count"]}')
            lines += [f"vllm:{name}_{part} {self.of[f'{name}_{part}']}" for part in ("sum", "count")]
        totals = [name for name in COUNTERS if name.endswith("_total")]
        lines += [f"# TYPE vllm:{name} counter\nvllm:{name} {self.of[name]}" for name in totals]
        return "\n".join(lines) + "\n"
