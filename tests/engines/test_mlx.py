"""``record`` on an engine that has no metrics and that nothing here knows: mlx-lm's server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from profiler import open_run
from profiler.collectors.host.pyspy import program
from tests.engines import installed
from tests.engines.servers import free_port, load, serving
from tests.strategies import ROOT

pytestmark = pytest.mark.engines


def test_what_there_is_of_it_is_recorded(tmp_path: Path) -> None:
    model = installed.tiny_model(installed.vllm())
    python = installed.mlx()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(python), "-m", "mlx_lm.server", "--model", str(model), "--host", "127.0.0.1", "--port", str(port)]
    with serving(command, url, "/health", tmp_path / "server.txt", {"HF_HUB_OFFLINE": "1"}):
        words = [
            "record",
            "--url",
            url,
            "--out",
            str(tmp_path / "run"),
            "--stacks",
            "--",
            *load(url, 60, 2, str(model)),
        ]
        done = subprocess.run(
            [sys.executable, "-c", "from profiler.cli.main import main; main()", *words],
            cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert "a server that no engine here knows" in done.stderr
    assert "not collected: metrics: /metrics: status 404" in done.stderr
    run = open_run(tmp_path / "run")
    assert run.fact("engine.command") is not None and not run.snapshots
    if program() is not None:
        assert done.returncode == 0, done.stderr
        assert [len(table) > 0 for table in run.stacks] == [True]
