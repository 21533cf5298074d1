"""TensorRT-LLM's YAML in its three ages, and files that only look like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler import open_run

NEW = """
enable_chunked_prefill: true
print_iter_log: true
max_batch_size: 256
stream_interval: 4
attn_backend: FLASHINFER
disable_overlap_scheduler: true
cuda_graph_config: {max_batch_size: 64, enable_padding: true, batch_sizes: [1, 8]}
kv_cache_config: {dtype: fp8, enable_block_reuse: false, max_tokens: 9000, tokens_per_block: 32}
moe_config: {backend: CUTLASS}
speculative_config: {decoding_type: MTP, num_nextn_predict_layers: 3}
"""
WANTED = {
    "chunked_prefill": True, "step_log": True, "max_num_seqs": 256, "stream_interval": 4, "overlap": False,
    "attention_backend": "FLASHINFER", "cuda_graph": True, "cuda_graph_max_batch": 64, "cuda_graph_padding": True,
    "kv_dtype": "fp8", "prefix_cache": False, "kv_tokens": 9000, "kv_block_size": 32, "moe_backend": "CUTLASS",
    "speculative": "MTP", "draft_tokens": 3,
}  # fmt: skip
FLAT = "use_cuda_graph: false\ncuda_graph_padding_enabled: false\nkv_cache_config:\n  dtype: auto\n"
OLD = "pytorch_backend_config:\n  use_cuda_graph: true\n  enable_overlap_scheduler: false\nmax_num_tokens: 4096\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (NEW, WANTED), (FLAT, {"cuda_graph": False, "cuda_graph_padding": False, "kv_dtype": "auto"}),
        (OLD, {"cuda_graph": True, "overlap": False, "token_budget": 4096}),
        ("cuda_graph_config: null\nenable_autotuner: true\n", {"cuda_graph": False}),
    ],
)  # fmt: skip
def test_settings_of_the_file(text: str, wanted: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "extra.yaml").write_text(text)
    run = open_run(tmp_path)
    assert run.fact("engine.name") == "trtllm"
    assert {name: run.fact(f"setting.{name}") for name in wanted} == wanted
    # A group's own dtype is not the model's.
    assert run.fact("setting.dtype") is None


def test_a_file_of_another_program_and_one_that_breaks_off(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("speculative_config: {}\nmodel: x\n")
    (tmp_path / "broken.yaml").write_text("print_iter_log: true\nattn_backend: TRTLLM\nx: [1\ny: {\n")
    run = open_run(tmp_path)
    assert {record.path: record.read for record in run.files} == {"other.yaml": False, "broken.yaml": True}
    assert run.fact("setting.attention_backend") == "TRTLLM"
    assert [p.place for p in run.problems if p.severity == "error"] == ["line 3"]
