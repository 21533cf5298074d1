"""Writes a random model of four layers with a byte-level tokenizer into a folder: ``python tiny_model.py FOLDER``.

Runs under the engine's own interpreter, which has torch and transformers; nothing is downloaded.
"""

from __future__ import annotations

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

folder = sys.argv[1]
words = ["<end>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
raw = Tokenizer(models.BPE(vocab={word: at for at, word in enumerate(words)}, merges=[]))
raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
raw.decoder = decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<end>", pad_token="<end>")
tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
torch.manual_seed(7)
config = Qwen2Config(
    vocab_size=320,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=4096,
    tie_word_embeddings=False,
    eos_token_id=0,
    bos_token_id=None,
    pad_token_id=0,
)
Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
tokenizer.save_pretrained(folder)
