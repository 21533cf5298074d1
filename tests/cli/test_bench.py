"""Options of ``profiler bench`` that can't be, told in one line before anything is sent or written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from profiler.cli.main import main


def test_options_of_the_command_that_contradict_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan").write_text("x")
    cases: Sequence[tuple[list[str], str]] = (
        ([], "how much load?"),
        (["--rate", "0"], "requests per second"),
        (["--concurrency", "2.5"], "requests in flight"),
        (["--concurrency", "1", "--input-tokens", "many"], "no length"),
        (["--plan", str(tmp_path / "plan"), "--rate", "2"], "--rate shapes a new plan"),
        (["--plan", str(tmp_path / "plan")], "no plan of a load"),
        (["--concurrency", "1", "--duration", "5"], "no duration"),
        (["--concurrency", "1", "--extra-body", "[]"], "no JSON object"),
        (["--concurrency", "1", "--shared-prefix", "4"], "GROUPSxTOKENS"),
    )
    for words, says in cases:
        monkeypatch.setattr(
            sys, "argv", ["profiler", "bench", "--url", "127.0.0.1:9", "--out", str(tmp_path / "o"), *words]
        )
        with pytest.raises(SystemExit) as left:
            main()
        err = capfd.readouterr().err
        assert left.value.code == 2 and says in " ".join(err.split()) and "Traceback" not in err, (words, err)
    assert not (tmp_path / "o").exists()
