"""The console script as a function."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from profiler.cli.main import main

Invoke = Callable[..., tuple[int, str, str]]


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Invoke:
    """Run the console script's function in this process: (exit status, standard output, standard error)."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["profiler", *map(str, words)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capfd.readouterr()
        assert isinstance(left.value.code, int)
        return left.value.code, out, err

    return run
