"""Files that are known for what they are and not read by this version, so that nobody wonders what became of them.

One row a kind: its name, what in the first bytes tells it, how sure that is, what it is and what to do. The rows at the
end (any JSON, any text, any bytes) take what nothing else wants.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from profiler.model.extension import Engine, Format, Source
from profiler.model.problem import Problem
from profiler.model.run import Reading

NOTHING_TO_DO: Final = "nothing has to be done"


@dataclass(eq=False)
class Recognised:
    """A kind of file, told by ``content`` in its first bytes (or by ``suffix`` too, where ``suffix`` is given)."""

    name: str
    content: re.Pattern[bytes]
    sure: float
    title: str
    advice: str = NOTHING_TO_DO
    suffix: tuple[str, ...] = ()
    version: int = 1

    def sniff(self, head: bytes, name: str) -> float:
        """The row's certainty where its content, and its suffix if it asks for one, is there."""
        if self.suffix and not name.lower().removesuffix(".gz").removesuffix(".zst").endswith(self.suffix):
            return 0.0
        return self.sure if self.content.search(head) else 0.0

    def read(self, source: Source, engines: Sequence[Engine]) -> Reading:
        """Says what the file is; no number is taken from it."""
        with source.open() as stream:
            stream.read(1)
        if source.broken:
            return Reading(problems=(Problem(source.name, "error", f"{source.broken}; copy the file again"),))
        return Reading(
            problems=(Problem(source.name, "info", f"{self.title}; not read by this version: {self.advice}"),)
        )


def _row(name: str, sure: float, content: bytes, title: str, advice: str = NOTHING_TO_DO, *suffix: str) -> Recognised:
    return Recognised(name, re.compile(content), sure, title, advice, suffix)


_OBJECT: Final = rb"\A(?:\xef\xbb\xbf)?\s*\{"
_LIST: Final = rb"\A(?:\xef\xbb\xbf)?\s*\["


def _keys(*keys: bytes, start: bytes = _OBJECT) -> bytes:
    """An object (or list) whose first bytes name all of the keys, in any order."""
    return start + b"".join(rb'(?=[\s\S]*"' + key + rb'"\s*:)' for key in keys)


PROFILES: Final = (
    _row(
        "sqlite",
        0.6,
        rb"\ASQLite format 3\0",
        "an SQLite database, of which profiler its first page does not say",
        "if it is a profile, export it again: `nsys export --type sqlite` or `rocprofv3 --output-format rocpd`",
    ),
    _row(
        "nsys_stats_text",
        0.9,
        rb"(?m)^[ \t]*\*\* [^\n]*\(\w+\):[ \t\r]*$",
        "tables of nsys, drawn as text, none of which adds up or lists calls",
        "write them as a table: `nsys stats --format csv --report cuda_gpu_trace,cuda_gpu_kern_sum report.nsys-rep`",
    ),
    _row(
        "rocprofv3_table",
        0.9,
        rb'\A"?(?:Guid"?,"?)?(?:Kind|Domain|Correlation_Id|Sample_Timestamp)"?,"?(?:Agent_Id|Function'
        rb'|Direction|Operation|Dispatch_Id|Exec_Mask|Queue_Id|Stream_Id)"?,',
        "a rocprofv3 table (CSV)",
        "record a torch-profiler trace of the same load to compare kernels",
    ),
    _row("rocprofv3_summary", 0.9, rb"(?m)^ROCPROFV3 .*SUMMARY:", "a rocprofv3 summary (text)"),
    _row(
        "rocprofv3_counters",
        0.9,
        rb"\AGPU\s+:\t|(?m:^[ \t]*(?:pmc|att): *[A-Z_])",
        "a rocprof counter list or its input",
    ),
    _row(
        "rocprof_compute",
        0.9,
        rb"\ADispatch_ID,(?:Kernel_Name,)?GPU_ID,|\Aworkload_name,command,ip_blocks",
        "a rocprofiler-compute table (CSV)",
    ),
    _row("rocm_smi", 0.9, rb"\A=+ ROCm System Management Interface =+", "a console table of rocm-smi"),
    _row(
        "nvidia_smi_table",
        0.9,
        rb"\|\s*NVIDIA-SMI \d",
        "the console table of nvidia-smi",
        "sample with `nvidia-smi --query-gpu=timestamp,index,clocks.sm,power.draw --format=csv -l 1` instead",
    ),
    _row(
        "pyspy_dump",
        0.9,
        rb"\AProcess \d+: .*\r?\nPython v",
        "a py-spy dump (text)",
        "use `py-spy record` for a profile",
    ),
    _row("pyspy_dump_json", 0.9, _keys(rb"pid", rb"thread_id", rb"frames", start=_LIST), "a py-spy dump (JSON)"),
    _row(
        "flamegraph_svg",
        0.9,
        rb"\A\s*(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE svg[^>]*>\s*)?<svg(?=[\s\S]*(?:py-spy|flame|frames))",
        "a drawn flamegraph (SVG)",
        "open it in a browser",
    ),
    _row("etdump", 0.9, rb"\A....[\s\S]{0,12}ED00", "an ExecuTorch dump", "its inspector turns it into a table"),
    _row("executorch_inspector", 0.9, rb"\Aevent_block_name,event_name,", "a table of ExecuTorch's inspector (CSV)"),
    # Kineto traces also hold "ph" and belong to another reader, which is surer of them.
    _row(
        "chrome_trace",
        0.5,
        rb'\A\s*(?:\{\s*(?="traceEvents")|\[\s*\{)(?=[\s\S]{0,2000}"ph"\s*:)',
        "a Chrome trace that is none of the torch profiler",
        "open it at ui.perfetto.dev",
    ),
    _row("pickle", 0.6, rb"\A\x80[\x02-\x05][\s\S]", "a Python pickle", "pickles can run code and are never opened"),
)

BENCHMARKS: Final = (
    _row(
        "inference_perf_config",
        0.86,
        rb"(?m)^api:\n  type: (?:completion|chat)",
        "inference-perf's configuration",
        "put its reports beside it",
    ),
    _row("llmd_schema", 0.85, _keys(rb"\$defs", rb"description"), "a JSON schema"),
    _row(
        "simulator_series",
        0.8,
        rb"\At,prompt_throughput,gen_throughput,",
        "a simulator's series of throughput and cache (CSV)",
    ),
    _row(
        "request_log",
        0.8,
        _keys(rb"start", rb"chunks", rb"ttft", rb"ts"),
        "a load client's own request log (JSON lines)",
        "put the benchmark tool's result file beside it",
    ),
    _row(
        "bench_console",
        0.8,
        rb"Serving Benchmark Result|\bNamespace\((?=[^\n]{0,4000}(?:num_prompts|request_rate))",
        "console output of a load generator",
        "its result file holds the same numbers: save that",
    ),
    _row("load_summary", 0.6, rb'\A\s*\{"n": \d+, "secs": ', "the totals of a load client's log"),
)

SERVERS: Final = (
    _row(
        "dcgm_fields",
        0.9,
        rb"# DCGM FIELD, Prometheus|(?m:^DCGM_FI_\w+,\s*(?:gauge|counter|label))",
        "the DCGM exporter's list of fields",
    ),
    _row(
        "otlp_spans",
        0.85,
        _OBJECT + rb'(?=[\s\S]*"(?:resourceSpans|resource_spans|startTimeUnixNano|start_time_unix_nano'
        rb'|start_ns)"\s*:)(?=[\s\S]*"(?:spanId|span_id|spans|name)"\s*:)(?![\s\S]*"traceEvents")',
        "OpenTelemetry spans",
    ),
    _row("kv_events", 0.8, rb"BlockStored|AllBlocksCleared|BlockRemoved", "a record of KV-cache events"),
    _row("dynamo_trace", 0.9, rb'"schema"\s*:\s*"dynamo\.[\w.]+"', "a Dynamo trace of another kind (JSON lines)"),
    _row(
        "cpu_samples", 0.8, rb'\A\{"t": [\d.]+, (?:"epoch"|"[a-z]+:\d+:)', "samples of processes' CPU time (JSON lines)"
    ),
    _row(
        "process_list", 0.8, _keys(rb"pid", rb"affinity", rb"rss_mb", start=_LIST), "a list of the server's processes"
    ),
    _row("time_windows", 0.7, rb'\A\s*\{"[\w-]+": (?:\[?\d{10}\.\d+)', "the start and end of a profiling pass"),
    _row(
        "sse_stream",
        0.85,
        rb"(?m)\A(?:: [^\n]*\n\s*)*(?:data|event): ?\S",
        "a recorded token stream (server-sent events)",
    ),
    _row("openapi", 0.85, _keys(rb"openapi", rb"info", rb"paths"), "a server's list of addresses (OpenAPI)"),
    _row("model_list", 0.7, _keys(rb"object", rb"data"), "a server's list of models"),
    _row("model_list_native", 0.71, _keys(rb"models", rb"data"), "a server's list of models"),
    _row("model_answer", 0.72, _keys(rb"model_path", rb"is_generation"), "a server's account of its model"),
    _row("load_answer", 0.79, _keys(rb"loads", rb"timestamp"), "a server's account of its load"),
    _row("slots", 0.8, _keys(rb"n_ctx", rb"is_processing", start=_LIST), "a server's list of its slots"),
    _row("properties", 0.7, _keys(rb"default_generation_settings"), "a server's own properties"),
    _row(
        "other_server_log",
        0.6,
        rb"(?m)\A(?:\d\.\d\d\.\d\d\d\.\d\d\d [IWED] |\[transformers\]|[^\n]*: UserWarning: mlx_lm)",
        "the log of a server whose lines are not known",
    ),
)

PAPERS: Final = (
    _row("model_config", 0.7, _keys(rb"architectures", rb"model_type"), "a model's configuration"),
    _row("generation_config", 0.5, rb'\A\s*\{\s*"bos_token_id"', "a model's generation defaults"),
    _row("tokenizer", 0.7, _keys(rb"version", rb"added_tokens"), "a tokenizer"),
    _row("tokenizer_config", 0.69, _keys(rb"tokenizer_class"), "a tokenizer's configuration"),
    _row("catalogue", 0.9, rb"\Afile\trepository\tpath\tcommit\t", "a catalogue of sample files"),
    _row("help_text", 0.8, rb"\Ausage: ", "a command's help text"),
    _row("shell_script", 0.7, rb"\A(?:#!.*sh\b|cd |export |set -)", "a shell script", NOTHING_TO_DO, ".sh", ".bash"),
    _row("python_source", 0.7, rb"(?m)^(?:import|from) \w", "Python source", NOTHING_TO_DO, ".py"),
    _row("derived", 0.9, rb"\APAR1", "a Parquet table, which is how derived data is kept"),
)

REST: Final = (
    _row("empty", 1.0, rb"\A\s*\Z", "an empty file", "if it should hold something, check the command that wrote it"),
    _row("truncated_gzip", 0.3, rb"\A\x1f\x8b", "compressed data that can't be opened", "copy it again, it may be cut"),
    _row("json", 0.1, rb"\A(?:\xef\xbb\xbf)?\s*[\{\[\"]", "JSON of no known form"),
    _row("text", 0.08, rb"\A(?:[^\x00]|\xff\xfe|\xfe\xff)", "text of no known form"),
    _row("binary", 0.09, rb"\A[\s\S]{0,4096}\x00", "binary data of no known form"),
)

FORMATS: Final[tuple[Format, ...]] = (*PROFILES, *BENCHMARKS, *SERVERS, *PAPERS, *REST)
