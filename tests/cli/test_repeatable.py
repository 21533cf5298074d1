"""The same files give the same document, digit by digit, in every process and on any number of cores."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import Lab
from tests.strategies import ROOT

# Made anew: the command would show the second process what the first one kept.
COMMAND = """import os, sys
from pathlib import Path
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
from profiler import registry
from profiler.analyzers.diagnosis import diagnose
from profiler.cli.main import State
from profiler.cli.reading import read_runs
from profiler.reports.json_document import to_json
print(to_json(diagnose(*read_runs([Path(word) for word in sys.argv[2:]], State(quiet=True)), engines=registry.engines())))"""


@pytest.mark.parametrize("case", ["tp-slow-comm", "three-at-once"])
def test_two_processes_make_the_same_document(case: str, lab: Lab) -> None:
    pair = lab(case)
    texts = []
    for seed, cores in (("1", "1"), ("2", "2")):
        # One thread, as the command has: only then are several cores used.
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
        words = [sys.executable, "-c", COMMAND, cores, str(pair.a.path), str(pair.b.path)]
        texts.append(subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout)
    assert len(texts[0]) > 10_000
    assert texts[0] == texts[1]
