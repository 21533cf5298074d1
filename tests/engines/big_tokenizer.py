"""Writes the files of a model without weights and with 32,000 words: ``python big_tokenizer.py FOLDER``.

Runs under an interpreter that has transformers; a simulated engine answers with words drawn from all of them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

folder, size = Path(sys.argv[1]), 32_000
words = ["<end>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
words += [f"Ġw{number}" for number in range(size - len(words))]
raw = Tokenizer(models.BPE(vocab={word: at for at, word in enumerate(words)}, merges=[]))
raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
raw.decoder = decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<end>")
tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
tokenizer.save_pretrained(folder)
config = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": size,
    "max_position_embeddings": 4096, "eos_token_id": 0, "torch_dtype": "bfloat16",
}  # fmt: skip
(folder / "config.json").write_text(json.dumps(config))
