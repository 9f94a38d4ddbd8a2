"""Networks as GGUF files of llama's architecture, quantised by llama.cpp."""

import ctypes
import json
import os
import tempfile
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
from stories.network import EPSILON, ROPE_BASE, Network
from stories.plan import CONTEXT, N_VOCAB, Shape
from stories.tokens import END, SPECIAL, STORY, USER
from tokenizers import Tokenizer

_CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    f"{{%- if message['role'] == 'user' -%}}{{{{ '{USER}' + message['content'] }}}}"
    f"{{%- elif message['role'] == 'assistant' -%}}{{{{ '{STORY}' + message['content'] + '{END}' }}}}"
    "{%- else -%}{{ raise_exception('these models tell stories and take no system message') }}{%- endif -%}"
    "{%- endfor -%}"
    f"{{%- if add_generation_prompt -%}}{{{{ '{STORY}' }}}}{{%- endif -%}}"
)


def export(network: Network, tokenizer: Tokenizer, name: str, path: Path) -> None:
    """Write a network.

    Args:
        network: Its weights.
        tokenizer: Its tokens.
        name: What the file says it is called.
        path: The file.
    """
    with tempfile.TemporaryDirectory() as folder:
        full = Path(folder) / "full.gguf"
        _write(network, tokenizer, name, full)
        params = llama_cpp.llama_model_quantize_default_params()
        params.ftype, params.nthread = llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, os.cpu_count() or 1
        if llama_cpp.llama_model_quantize(bytes(full), bytes(path), ctypes.byref(params)):
            raise RuntimeError(f"{path}: llama.cpp could not quantise it")


def _write(network: Network, tokenizer: Tokenizer, name: str, path: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_description("Tells short stories for children, in English and Chinese; knows nothing else.")
    writer.add_license("mit")
    writer.add_author("specli")
    _write_sizes(writer, network.shape)
    _write_vocabulary(writer, tokenizer)
    for tensor, weight in network.tensors().items():
        writer.add_tensor(tensor, weight.detach().float().numpy().astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_sizes(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(1)
    writer.add_key_length(shape.head_width)
    writer.add_value_length(shape.head_width)
    writer.add_rope_dimension_count(shape.head_width)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_vocab_size(N_VOCAB)


def _write_vocabulary(writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    types = [gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL for token in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    end = tokenizer.token_to_id(END)
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)
    writer.add_add_bos_token(True)
    writer.add_chat_template(_CHAT_TEMPLATE)
