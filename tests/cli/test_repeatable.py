"""The same files give the same document, digit by digit, in every process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import Lab
from tests.strategies import ROOT

# Made anew: the command would show the second process what the first one kept.
COMMAND = """import sys
from profiler import open_run, registry
from profiler.analyzers.diagnosis import diagnose
from profiler.reports.json_document import to_json
print(to_json(diagnose(*map(open_run, sys.argv[1:]), engines=registry.engines())))"""


@pytest.mark.parametrize("case", ["tp-slow-comm", "three-at-once"])
def test_two_processes_make_the_same_document(case: str, lab: Lab) -> None:
    pair = lab(case)
    texts = []
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        words = [sys.executable, "-c", COMMAND, str(pair.a.path), str(pair.b.path)]
        texts.append(subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout)
    assert len(texts[0]) > 10_000
    assert texts[0] == texts[1]
