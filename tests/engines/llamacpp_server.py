"""llama.cpp's own server on a random model: ``python llamacpp_server.py MODEL.gguf PORT SLOTS``.

Runs under an interpreter with xllamacpp, which carries the server as it is, and gguf, with which the model is written
where it is not there yet; nothing is downloaded. A token is a byte, and answers are of printable ones: half a
character is no text that a server could send.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

HIDDEN, LAYERS, HEADS, KV_HEADS = 256, 4, 4, 2


def words_of() -> list[str]:
    """The end, then a word for each byte: printable ones stand for themselves, the others for letters past 255."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in own]
    return ["<end>", *map(chr, own), *(chr(256 + at) for at in range(len(others)))]


def write(model: Path) -> None:
    words = words_of()
    made = gguf.GGUFWriter(str(model), "qwen2")
    made.add_context_length(4096)
    made.add_embedding_length(HIDDEN)
    made.add_block_count(LAYERS)
    made.add_feed_forward_length(2 * HIDDEN)
    made.add_head_count(HEADS)
    made.add_head_count_kv(KV_HEADS)
    made.add_layer_norm_rms_eps(1e-6)
    made.add_tokenizer_model("gpt2")
    made.add_tokenizer_pre("gpt-2")
    made.add_token_list(words)
    made.add_token_types([gguf.TokenType.CONTROL if word == "<end>" else gguf.TokenType.NORMAL for word in words])
    made.add_token_merges(["a b"])  # none is refused; this one leads to no word, so bytes stay bytes
    made.add_eos_token_id(0)
    random, narrow = np.random.default_rng(7), HIDDEN // HEADS * KV_HEADS
    shapes = {"token_embd.weight": (len(words), HIDDEN), "output.weight": (len(words), HIDDEN)}
    for at in range(LAYERS):
        for name, rows, columns in (
            ("attn_q", HIDDEN, HIDDEN), ("attn_k", narrow, HIDDEN), ("attn_v", narrow, HIDDEN),
            ("attn_output", HIDDEN, HIDDEN), ("ffn_gate", 2 * HIDDEN, HIDDEN), ("ffn_up", 2 * HIDDEN, HIDDEN),
            ("ffn_down", HIDDEN, 2 * HIDDEN),
        ):  # fmt: skip
            shapes[f"blk.{at}.{name}.weight"] = rows, columns
        for name, rows in (("attn_q", HIDDEN), ("attn_k", narrow), ("attn_v", narrow)):
            made.add_tensor(f"blk.{at}.{name}.bias", np.zeros(rows, np.float32))
        for name in ("attn_norm", "ffn_norm"):
            made.add_tensor(f"blk.{at}.{name}.weight", np.ones(HIDDEN, np.float32))
    made.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
    for name, shape in shapes.items():
        weights = (random.standard_normal(shape) * 0.02).astype(np.float16)
        if name == "output.weight":
            weights[[not word.isascii() or word == "<end>" for word in words]] = 0
        made.add_tensor(name, weights)
    made.write_header_to_file()
    made.write_kv_data_to_file()
    made.write_tensors_to_file()
    made.close()


def serve(model: Path, port: int, slots: int) -> None:
    wanted = xllamacpp.CommonParams()
    wanted.model.path = str(model)
    wanted.hostnames, wanted.port = ["127.0.0.1"], port
    wanted.n_parallel, wanted.n_ctx = slots, 1024 * slots
    wanted.model_alias = {"tiny"}
    wanted.endpoint_metrics = wanted.endpoint_slots = wanted.endpoint_props = True
    wanted.warmup = False
    server = xllamacpp.Server(wanted)
    print(server.listening_address, flush=True)  # noqa: T201
    signal.pause()


if __name__ == "__main__":
    at = Path(sys.argv[1])
    if not at.exists():
        write(at)
    serve(at, int(sys.argv[2]), int(sys.argv[3]))
