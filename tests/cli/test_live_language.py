"""Commands that meet a running server, in Chinese: nothing that they say of themselves is left English."""

from __future__ import annotations

import click
import pytest

from profiler import registry
from profiler.analyzers.live import live_state
from profiler.cli.doctor import all_checks
from profiler.cli.main import cli
from profiler.model.extension import Engine
from profiler.model.metrics import MetricsSnapshot
from profiler.reports.language import catalogue, said, speaking
from tests.cli.conftest import Invoke
from tests.live_servers import llamacpp, served, sglang, trtllm, vllm

SERVERS = {"vllm": vllm, "sglang": sglang, "llamacpp": llamacpp, "trtllm": trtllm}


@pytest.fixture(autouse=True)
def nothing_missed() -> None:
    catalogue("zh").missed.clear()


def test_every_check_of_this_machine_has_a_translation(invoke: Invoke) -> None:
    _, out, _ = invoke("doctor", "--lang", "zh")
    assert "收集器" in out and "否" in out
    with speaking("zh"):
        for check in all_checks():
            said(check.gives)
            said(check.advice)
    assert catalogue("zh").missed == set()


@pytest.mark.usefixtures("corpus")
@pytest.mark.parametrize("name", SERVERS)
def test_what_a_server_can_give_has_a_translation(name: str, invoke: Invoke) -> None:
    with served(SERVERS[name]()) as server:
        status, out, _ = invoke("doctor", "--url", server.url, "--lang", "zh")
    assert status == 0 and "证据" in out
    assert catalogue("zh").missed == set()


@pytest.mark.usefixtures("corpus")
@pytest.mark.parametrize("name", SERVERS)
def test_a_recording_has_a_translation(name: str, invoke: Invoke, tmp_path: object) -> None:
    with served(SERVERS[name]()) as server:
        words = "--url", server.url, "--out", f"{tmp_path}/run", "--duration", "400ms", "--every", "100ms"
        # The recorded answers of both others write no trace, which takes long to be sure of.
        profile = ("--profile",) if name in ("llamacpp", "trtllm") else ()
        status, _, err = invoke("record", *words, *profile, "--lang", "zh")
    assert status in (0, 3) and "已写入" in err
    assert catalogue("zh").missed == set()


@pytest.mark.usefixtures("corpus")
def test_a_look_at_a_server_has_a_translation(invoke: Invoke) -> None:
    with served(llamacpp()) as server:
        status, out, _ = invoke("watch", "--url", server.url, "--every", "50ms", "--duration", "400ms", "--lang", "zh")
    assert status == 0 and "瓶颈" in out
    assert catalogue("zh").missed == set()


def snapshot(**values: float) -> MetricsSnapshot:
    return MetricsSnapshot("now", "vllm", 0.0, None, {"running_requests": 8.0, "waiting_requests": 5.0} | values)


HOLDING = {
    "memory": snapshot(preemptions=3.0), "batching": snapshot(kv_usage=0.5), "scheduling": snapshot(running_requests=4.0, scheduler_seconds=0.9),
    "cuda_graph": snapshot(running_requests=4.0, eager_steps=90.0, graph_steps=10.0),
    "idle": snapshot(running_requests=0.0, waiting_requests=0.0), "load": snapshot(running_requests=1.0, waiting_requests=0.0),
}  # fmt: skip


@pytest.mark.parametrize("held_by", HOLDING)
def test_what_holds_up_a_server_has_a_translation(held_by: str) -> None:
    later = HOLDING[held_by]
    first = snapshot(waiting_requests=later.values["waiting_requests"], preemptions=0.0, scheduler_seconds=0.0,
                     eager_steps=0.0, graph_steps=0.0)  # fmt: skip
    state = live_state(first, later, 1.0, {"setting.max_num_seqs": 8})
    assert state.bottleneck == held_by
    with speaking("zh"):
        assert said(state.why) != state.why and said(held_by)
    assert catalogue("zh").missed == set()


@pytest.mark.parametrize("engine", registry.engines(), ids=lambda one: one.name)
def test_what_an_engine_needs_has_a_translation(engine: Engine) -> None:
    live = engine.live
    if live is None:
        pytest.skip("it has no server that is met")
    texts = [live.metrics_needs, live.settings_need, live.records_need, live.steps_need, live.trace_needs, *live.notes]
    if live.trace is not None:
        texts.append(live.trace.needs)
    with speaking("zh"):
        for text in filter(None, texts):
            said(text)
    assert catalogue("zh").missed == set()


def test_all_commands_that_show_something_of_runs_have_the_option() -> None:
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    without = {
        name
        for name, command in commands.items()
        if command is not None and not any("--lang" in param.opts for param in command.params)
    }
    assert without == {"demo", "schema", "selftest"}
