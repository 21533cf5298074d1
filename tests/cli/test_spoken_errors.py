"""Errors of the commands that meet runs and servers, in Chinese: every template of these modules, whatever fills it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from profiler.reports.language import catalogue, said, speaking
from tests.cli.conftest import Invoke
from tests.strategies import ROOT

MODULES = (
    *(f"profiler/cli/{name}.py" for name in ("diagnose", "record", "bench", "flamegraph", "timeline", "server")),
    "profiler/store/folder.py", "collectors/discovery.py", "collectors/run_folder.py", "collectors/load_command.py",
)  # fmt: skip


def templates(path: Path) -> list[str]:
    """What the usage errors of a module say, a name in each place."""
    made = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "UsageError":
            parts = node.args[0].values if isinstance(node.args[0], ast.JoinedStr) else [node.args[0]]
            texts = [str(one.value) if isinstance(one, ast.Constant) else "X1" for one in parts]
            made += ["".join(texts)] if any(isinstance(one, ast.Constant) for one in parts) else []
    return made


@pytest.mark.parametrize("module", MODULES)
def test_every_usage_error_has_a_translation(module: str) -> None:
    found = templates(ROOT / module)
    assert found
    catalogue("zh").missed.clear()
    with speaking("zh"):
        assert [text for text in found if said(text) == text] == []
    assert catalogue("zh").missed == set()


def test_an_error_is_told_in_the_language_and_keeps_its_path(invoke: Invoke, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere here"
    status, _, err = invoke("diagnose", nowhere, nowhere, "--lang", "zh")
    assert (status, err) == (2, f"profiler: {nowhere}：没有这个文件或文件夹。请指定运行文件夹或其中的某个文件\n")
    _, _, err = invoke("diagnose", nowhere, nowhere)
    assert "there is no such file or folder" in err
