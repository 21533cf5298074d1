"""The same files give the same document, digit by digit, in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Lab
from tests.strategies import ROOT

COMMAND = "from profiler.cli.main import main; main()"


@pytest.mark.parametrize("case", ["tp-slow-comm", "three-at-once"])
def test_two_processes_write_the_same_document(case: str, lab: Lab, tmp_path: Path) -> None:
    pair = lab(case)
    texts = []
    for seed in ("1", "2"):
        target = tmp_path / f"{seed}.json"
        words = ["-q", "diagnose", str(pair.a.path), str(pair.b.path), "--json", str(target)]
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-c", COMMAND, *words], check=False, capture_output=True, env=environment)
        texts.append(target.read_text("utf-8"))
    assert texts[0] == texts[1]
