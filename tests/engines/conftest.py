"""Servers of real engines on this machine's CPU, started once for a session."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engines import installed
from tests.engines.servers import Running, free_port, serving
from tests.strategies import ROOT


@pytest.fixture(scope="session")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """vLLM with its profiler set up and our stat logger installed as the wheel would install it."""
    python = installed.vllm()
    model = installed.tiny_model(python)
    folder = tmp_path_factory.mktemp("vllm")
    with vllm_server(python, model, folder, "server.log", stat_logger(folder)) as running:
        yield running


@pytest.fixture(scope="session")
def second_vllm(vllm: Running) -> Iterator[Running]:
    """Another vLLM of the same settings, which writes its traces into the same folder."""
    with vllm_server(vllm.python, vllm.model, vllm.traces.parent, "second.log", {}) as running:
        yield running


def stat_logger(folder: Path) -> dict[str, str]:
    """The environment in which a server has our stat logger as the wheel would install it, and is asked for it."""
    plugin = folder / "plugin" / "serving_profiler-0.dist-info"
    plugin.mkdir(parents=True)
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: serving-profiler\nVersion: 0\n")
    (plugin / "entry_points.txt").write_text(
        "[vllm.stat_logger_plugins]\nserving_profiler = profiler.collectors.engines.vllm_step_log:StepLog\n"
    )
    return {"PYTHONPATH": f"{folder / 'plugin'}:{ROOT}", "PROFILER_STEP_LOG": str(folder / "steps.jsonl")}


@contextmanager
def vllm_server(
    python: Path,
    model: Path,
    folder: Path,
    log: str,
    variables: Mapping[str, str],
    *flags: str,
    steps_logged: bool = True,
) -> Iterator[Running]:
    """vLLM with its profiler set up, its files in ``folder``; of equal ``flags`` the last one counts."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    config = {
        "profiler": "torch", "torch_profiler_dir": str(folder / "traces"), "torch_profiler_with_stack": False,
        "ignore_frontend": True,
    }  # fmt: skip
    command = [
        str(python.with_name("vllm")), "serve", str(model), "--served-model-name", "tiny", "--host", "127.0.0.1",
        "--port", str(port), "--max-model-len", "2048", "--max-num-seqs", "16", "--enforce-eager",
        "--profiler-config", json.dumps(config), *(["--enable-logging-iteration-details"] if steps_logged else []), *flags,
    ]  # fmt: skip
    environment = {
        "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_SERVER_DEV_MODE": "1",
        **variables,
    }  # fmt: skip
    with serving(command, url, "/health", folder / log, environment) as process:
        yield Running(url, process, python, model, folder / "traces", folder / "steps.jsonl")
