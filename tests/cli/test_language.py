"""``--lang``: the commands that report on runs show themselves in Chinese, and are English without it."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.conftest import Invoke
from tests.conftest import Lab

HAN = re.compile("[\u4e00-\u9fff]")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("inspect", "A"), "文件"), (("check", "A", "B"), "条规则"), (("recommend", "A", "-v"), "预测"),
        (("whatif", "A", "--set", "max_num_seqs=4"), "实测"), (("goodput", "A", "B"), "相同负载下"),
        (("diagnose", "A", "B"), "输出吞吐"),
    ],
)  # fmt: skip
def test_commands_that_report_have_the_option(words: tuple[str, ...], text: str, invoke: Invoke, lab: Lab) -> None:
    pair = lab("few-sequences")
    places = {"A": str(pair.a.path), "B": str(pair.b.path)}
    spelled = [places.get(word, word) for word in words]
    status, chinese, _ = invoke(*spelled, "--lang", "zh")
    assert status == 0 and text in chinese
    _, english, _ = invoke(*spelled)
    assert text not in english and not HAN.search(english)


@pytest.mark.parametrize("words", [("inspect", "A"), ("recommend", "A"), ("check", "A", "B"), ("diagnose", "A", "B")])
def test_documents_stay_english(words: tuple[str, ...], invoke: Invoke, lab: Lab) -> None:
    pair = lab("few-sequences")
    places = {"A": str(pair.a.path), "B": str(pair.b.path)}
    json_option = ("--json",) if words[0] == "inspect" else ("--json", "-")
    _, out, _ = invoke(*(places.get(word, word) for word in words), "--lang", "zh", *json_option)
    assert not HAN.search(json.dumps(json.loads(out), ensure_ascii=False))
