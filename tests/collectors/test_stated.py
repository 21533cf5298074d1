"""What was stated: run.json, commands, server answers, device counters."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from profiler.model.run import Reading

Read = Callable[[Path], tuple[str, Reading]]


def values(reading: Reading) -> dict[str, object]:
    return {key: fact.value for key, fact in reading.facts.items()}


def test_a_recorded_manifest(corpus: Path, read: Read) -> None:
    path = corpus / "own/vllm-vs-sglang/vllm-seqs4/c16/run.json"
    name, reading = read(path)
    stated = json.loads(path.read_text())
    assert name == "manifest"
    assert not any(fact.inferred for fact in reading.facts.values())
    facts = values(reading)
    assert facts["engine.name"] == "vllm" and facts["engine.command"] == stated["engine"]["command"]
    assert facts["setting.max_num_seqs"] == 4 and facts["setting.cuda_graph"] is False
    assert (facts["workload.seed"], facts["workload.requests"]) == (116, 112)
    assert facts["workload.measured_window"] == stated["times"]["measured_window_s"]
    assert facts["workload.log_window"] == [stated["log_window"][key] for key in ("offset_start", "offset_end")]
    assert facts["model.num_layers"] == 4


def test_a_manifest_of_our_own(samples: Path, read: Read) -> None:
    facts = values(read(samples / "manifest/run.json")[1])
    assert facts["engine.name"] == "vllm"
    assert facts["setting.max_num_seqs"] == 8 and facts["setting.tensor_parallel"] == 2
    assert facts["setting.prefix_cache"] is False
    assert facts["setting.cuda_graph_mode"] == "NONE" and facts["setting.cuda_graph"] is False
    assert facts["workload.measured_window_epoch"] == [1001.5, 1002.5]
    assert facts["workload.requests"] == 5
    name, cut = read(samples / "manifest/truncated/run.json")
    assert name == "manifest" and values(cut) == {"engine.name": "vllm"}
    assert cut.problems[0].severity == "error"


def test_commands(corpus: Path, samples: Path, read: Read) -> None:
    name, reading = read(corpus / "own/vllm-vs-sglang/sglang-1/c16/server-command.txt")
    facts = values(reading)
    assert name == "command_text" and facts["engine.name"] == "sglang"
    assert facts["setting.kv_tokens"] == 32768 and facts["setting.step_log_interval"] == 1
    facts = values(read(corpus / "own/vllm-vs-sglang/sglang-1/c16/bench-command.txt")[1])
    assert "engine.name" not in facts and facts["workload.max_concurrency"] == 16
    facts = values(read(samples / "command_text/server-command.txt")[1])
    assert facts["setting.max_num_seqs"] == 4
    assert '{"profiler":"torch","dir":"/a b"}' in facts["engine.command"]  # type: ignore[operator]
    facts = values(read(samples / "command_text/client.cmd")[1])
    assert "engine.name" not in facts and facts["workload.seed"] == 2


def test_server_answers(corpus: Path, samples: Path, read: Read) -> None:
    answers = [*(corpus / "own").rglob("server_info.json"), *(corpus / "own").rglob("ep_*server_info*")]
    assert len(answers) == 24
    for path in answers:
        name, reading = read(path)
        facts = values(reading)
        assert name == "server_info", path
        assert facts["engine.name"] in ("vllm", "sglang") and not reading.problems
        if path.name == "server_info.json":
            assert facts["setting.max_num_seqs"] and facts["setting.kv_tokens"]
    limits = [values(read(corpus / f"own/vllm-sequences/max-num-seqs-{n}/server_info.json")[1]) for n in (2, 16)]
    assert [facts["setting.max_num_seqs"] for facts in limits] == [2, 16]
    facts = values(read(samples / "server_info/blocks.json")[1])
    assert facts["setting.kv_tokens"] == 160
    name, cut = read(samples / "server_info/truncated.json")
    assert name == "server_info" and values(cut)["setting.tensor_parallel"] == 4
    assert cut.problems[0].severity == "error"


def test_device_counters(samples: Path, read: Read) -> None:
    name, reading = read(samples / "nvidia_smi/two.csv")
    (counters,) = reading.counters
    assert name == "nvidia_smi"
    assert counters.gpu.tolist() == [0, 1]
    np.testing.assert_array_equal(counters.sm_clock, [1.98e9, 3.45e8])
    np.testing.assert_array_equal(counters.power, [617.64, np.nan])
    np.testing.assert_array_equal(counters.utilisation, [0.93, np.nan])
    assert counters.throttled.tolist() == [1.0, 0.0]  # idling is no reason
    assert counters.clock[0] == 1793491200.5
    assert values(reading) == {"hardware.count": 2, "hardware.gpu": "GPU X"}
    assert reading.problems[0].place == "row 5"
    (plain,) = read(samples / "nvidia_smi/nounits.csv")[1].counters
    assert plain.gpu.tolist() == [0, 1] and plain.utilisation.tolist() == [0.5, 1.0]
    assert plain.sm_clock.tolist() == [1e9, 2e9] and plain.throttled.tolist() == [0.0, 1.0]


def test_a_kubernetes_manifest(samples: Path, read: Read) -> None:
    name, reading = read(samples / "kubernetes/manifests.yaml")
    facts = values(reading)
    assert name == "kubernetes" and not reading.problems
    assert {key: facts[key] for key in ("engine.name", "engine.version", "hardware.gpu", "hardware.count")} == {
        "engine.name": "vllm", "engine.version": "0.11.0", "hardware.gpu": "nvidia-h100-80gb", "hardware.count": 8,
    }  # fmt: skip
    assert (facts["setting.quantization"], facts["setting.max_num_seqs"]) == ("bitsandbytes", 128)
    assert facts["setting.prefix_cache"] is False and "--model=tiny" in facts["engine.command"]  # type: ignore[operator]


def test_a_manifest_of_nothing_that_serves_is_said(samples: Path, read: Read, tmp_path: Path) -> None:
    assert read(samples / "kubernetes/malformed.yaml")[1].problems
    assert values(read(samples / "kubernetes/truncated.yaml")[1])["engine.name"] == "vllm"
    (tmp_path / "service.yaml").write_text("apiVersion: v1\nkind: Service\nspec: {ports: []}\n")
    assert "no container in it starts a known engine" in read(tmp_path / "service.yaml")[1].problems[0].detail
