"""Formats and engines that other packages register are found, and only then is the search for them paid for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.strategies import ROOT

SHOW = """
import sys
from profiler import registry
print([format.name for format in registry.formats()][-1], "importlib.metadata" in sys.modules)
"""


def _shown(folder: Path) -> list[str]:
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {[str(ROOT), *sys.path]!r}\n{SHOW}"]
    command[3] = command[3].replace("sys.path[:0] =", f"sys.path[:0] = [{str(folder)!r}] +")
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder).stdout.split()


def test_a_package_that_registers_a_format_is_found(tmp_path: Path) -> None:
    own = _shown(tmp_path)
    assert own[1] == "False"
    (tmp_path / "theirs.py").write_text("class Theirs:\n    name = 'theirs'\nFORMAT = Theirs()\n")
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[profiler.formats]\ntheirs = theirs:FORMAT\n")
    assert _shown(tmp_path) == ["theirs", "True"] != own


def test_opening_a_run_leaves_the_environment_as_it_was(tmp_path: Path) -> None:
    """Programs that are started afterwards must not inherit how numpy was imported."""
    (tmp_path / "notes.txt").write_text("nothing")
    show = (
        "import os, sys, profiler\nbefore = dict(os.environ)\n"
        f"profiler.open_run({str(tmp_path)!r})\nprint(os.environ == before, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", show], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == ["True", "True"]
