"""Laws of every format: one winner a file, no exception but ours, the same result twice, no secret kept."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiler.collectors import redaction
from profiler.collectors.engines import ENGINES
from profiler.errors import BadInput
from profiler.model.extension import Format
from profiler.model.run import Reading
from profiler.store.source import FileSource

Read = Callable[[Path], tuple[str, Reading]]
KINETO = (".trace.json", ".trace.json.gz")
# Known to be nothing: a 404 page saved under a metrics name, and the like.
UNKNOWN = {"ep_info.txt", "ep_metrics.txt", "ep_props.txt", "ep_slots.txt", "ep_v1_models"}


def test_every_file_of_the_corpus_has_one_winner_and_a_reason(corpus: Path, formats: tuple[Format, ...]) -> None:
    files = [path for path in sorted(corpus.rglob("*")) if path.is_file() and ".profiler" not in path.parts]
    assert len(files) == 624
    unknown = set()
    for path in files:
        if path.name.endswith(KINETO) and "trace-event" not in path.name:
            continue  # the torch-trace reader's
        source = FileSource(path, str(path.relative_to(corpus)))
        head = source.head()
        scores = sorted(((one.sniff(head, source.name), one.name) for one in formats), reverse=True)
        assert scores[0][0] > scores[1][0], (path, scores[:3])
        if scores[0][1] in ("text", "json", "binary"):
            unknown.add(path.name)
        reading = next(one for one in formats if one.name == scores[0][1]).read(source, ENGINES)
        found = (
            reading.traces,
            reading.totals,
            reading.components,
            reading.benches,
            reading.snapshots,
            reading.logs,
            reading.counters,
            reading.stacks,
            reading.facts,
        )
        assert any(found) or reading.problems, path
        assert not any(problem.severity == "error" for problem in reading.problems), path
    small = {"ep_health", "ep_health.txt", "ep_get_world_size", "ep_is_paused", "ep_is_sleeping", "ep_kv_event_sources",
             "ep_load", "ep_get_load", "ep_version", "ep_weight_info", "ep_metrics"}  # fmt: skip
    assert unknown <= UNKNOWN | small, unknown - UNKNOWN - small


def pieces() -> st.SearchStrategy[bytes]:
    """Arbitrary bytes, beginnings that formats look for, and samples with bytes changed or cut."""
    root = Path(__file__).resolve().parents[1] / "samples"
    folders = [folder for folder in sorted(root.iterdir()) if folder.is_dir() and folder.name != "torch_trace"]
    samples = [path.read_bytes() for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    assert samples
    cut = st.builds(lambda data, at: data[: at % (len(data) + 1)], st.sampled_from(samples), st.integers(0, 5000))
    spoiled = st.builds(
        lambda data, at, noise: data[: at % len(data)] + noise + data[at % len(data) + len(noise) :],
        st.sampled_from(samples),
        st.integers(0, 5000),
        st.binary(min_size=1, max_size=12),
    )
    words = st.lists(
        st.sampled_from(
            [b"{", b"}", b"[", b'"', b":", b",", b"\n", b"1e999", b"null", b"-", b"9" * 30, b"\0", b"[" * 300]
        )
        | st.binary(max_size=6)
    ).map(b"".join)
    return st.binary(max_size=400) | cut | spoiled | words


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=pieces())
def test_nothing_but_our_error_and_the_same_twice(
    data: bytes, formats: tuple[Format, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "input"
    path.write_bytes(data)
    for one in formats:
        source = FileSource(path, "run.json" if one.name == "manifest" else "input.log")
        head = source.head()
        score = one.sniff(head, source.name)
        assert 0.0 <= score <= 1.0 and one.sniff(head, source.name) == score
        results = []
        for _ in range(2):
            try:
                results.append(repr(one.read(source, ENGINES)))
            except BadInput as error:
                results.append(str(error))
        assert results[0] == results[1]


def test_someone_wins_whatever_the_bytes(formats: tuple[Format, ...]) -> None:
    for head in (b"", b"\0\1\2", b"\xff\xfe", b"word", b"{", b"\x1f\x8b\x08", "ü".encode("latin-1")):
        assert max(one.sniff(head, "x") for one in formats) > 0


def test_a_cut_gzip_file_says_so(tmp_path: Path, samples: Path, read: Read) -> None:
    whole = gzip.compress((samples / "server_log/iterations.log").read_bytes() * 2500, 1)
    path = tmp_path / "server.log.gz"
    path.write_bytes(whole[: len(whole) * 2 // 3])
    name, reading = read(path)
    assert name == "server_log" and len(reading.logs[0].steps) > 10
    assert any(problem.severity == "error" and "breaks off" in problem.detail for problem in reading.problems)


def test_no_planted_secret_is_kept(samples: Path, read: Read, formats: tuple[Format, ...]) -> None:
    """Every sample that holds the secret, through every format that can make anything of it."""
    planted = [path for path in samples.rglob("*") if path.is_file() and b"PLANTED-SECRET" in path.read_bytes()]
    assert {path.parent.name for path in planted} >= {
        "server_log", "server_info", "vllm_bench", "sglang_bench", "manifest", "command_text",
        "aiperf", "both", "guidellm", "inference_perf_requests", "llmd_report", "inferencex", "detail", "step_records",
        "dynamo_fpm", "prometheus_query", "dcgm_exporter", "aiperf_telemetry", "collapsed_stacks", "speedscope",
    }  # fmt: skip
    for path in planted:
        for one in formats:
            try:
                kept = repr(one.read(FileSource(path), ENGINES))
            except BadInput as error:
                kept = str(error)
            assert "PLANTED-SECRET" not in kept.replace("PLANTED-SECRET-NOT", ""), (path, one.name)


def test_secrets_in_metric_labels(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "x.prom"
    path.write_text(
        '# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{api_key="PLANTED",block_size="16"} 1\n'
    )
    _, reading = read(path)
    assert "PLANTED" not in repr(reading) and reading.facts["setting.kv_block_size"].value == 16


@pytest.mark.parametrize(
    "name",
    ["api_key", "apiKey", "HF_TOKEN", "watermark_key_b", "--admin-api-key", "db_password", "X-Secret", "Authorization"],
)
def test_secret_names(name: str) -> None:
    assert redaction.is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "max_total_tokens",
        "token_usage",
        "tokenizer",
        "num_key_value_heads",
        "--max-num-batched-tokens",
        "monkey",
        "kv_tokens",
    ],
)
def test_names_of_measures(name: str) -> None:
    assert not redaction.is_secret_name(name)


def test_redacted_commands() -> None:
    words = [
        "serve",
        "--api-key",
        "S1",
        "S2",
        "--port",
        "80",
        "--hf-token=S3",
        "HF_TOKEN=S4",
        "-H",
        "Authorization: Bearer S5",
    ]
    assert redaction.redact_command(words) == [
        "serve", "--api-key", "[redacted]", "[redacted]", "--port", "80", "--hf-token=[redacted]",
        "HF_TOKEN=[redacted]", "-H", "Authorization: [redacted]",
    ]  # fmt: skip
    assert redaction.redact({"env": {"OPENAI_API_KEY": "x", "N": 1}, "url": "https://u:p@h/"}) == {
        "env": {"OPENAI_API_KEY": "[redacted]", "N": 1},
        "url": "https://[redacted]@h/",
    }


def test_no_engine_is_named_outside_its_own_file() -> None:
    root = Path(__file__).resolve().parents[2] / "collectors"
    for path in root.rglob("*.py"):
        for engine in ENGINES:
            allowed = path.stem == engine.name or path.stem == f"{engine.name}_bench" or path.name == "__init__.py"
            # What runs inside the engine is a file of its own.
            allowed |= path.parent.name == "engines" and path.stem.startswith(f"{engine.name}_")
            if not allowed and "torch_trace" not in path.parts:
                assert engine.name not in path.read_text(encoding="utf-8").lower(), path
