"""``--help`` under ``--lang``: every paragraph and option of every command that has the option, and nothing else."""

from __future__ import annotations

import re

import click
import pytest

from profiler.cli.main import COMMANDS, cli
from profiler.reports.language import catalogue
from tests.cli.conftest import Invoke

HAN = re.compile("[\u4e00-\u9fff]")
SPOKEN = sorted(set(COMMANDS) - {"demo", "schema", "selftest"})
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


@pytest.mark.parametrize("name", SPOKEN)
@pytest.mark.parametrize("words", [("--lang", "zh", "--help"), ("--help", "--lang=zh")])
def test_every_text_of_a_command_s_help_has_a_translation(name: str, words: tuple[str, ...], invoke: Invoke) -> None:
    catalogue("zh").missed.clear()
    status, chinese, _ = invoke(name, *words)
    assert status == 0 and catalogue("zh").missed == set()
    _, english, _ = invoke(name, "--help")
    assert not HAN.search(english)
    assert ("-h, --help" in chinese) == ("-h, --help" in english)
    assert set(FLAG.findall(chinese)) == set(FLAG.findall(english))
    command = cli.get_command(click.Context(cli), name)
    assert command is not None and command.help is not None
    texts = [one.help for one in command.params if isinstance(one, click.Option) and one.help]
    first = " ".join(command.help.split("\n\n")[0].split())
    whole = " ".join(chinese.split())
    assert [text for text in (*texts, first) if text in whole] == []


def test_a_load_s_own_words_choose_no_language(invoke: Invoke) -> None:
    _, out, _ = invoke("record", "--help", "--", "load", "--lang", "zh")
    assert not HAN.search(out)
