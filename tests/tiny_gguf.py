"""Tiny GGUF models, written in milliseconds: a bigram chain that random layers disturb, so that text is not degenerate.

``output[next(x)] = embedding[x]`` for a permutation ``next`` over the bytes; the layers add seeded noise of a given
amplitude to the residual stream. A draft is its target plus noise on every weight: acceptance is neither 0 nor 1.
"""

from pathlib import Path

import gguf
import numpy as np

N_VOCAB = 288
WIDTH, HEADS, KV_HEADS, FEED_FORWARD = 64, 4, 2, 96
_SPECIAL = ["<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    "{% if enable_thinking is defined %}{{ '<think>' if enable_thinking else '<no-think>' }}{% endif %}"
)


def byte_characters() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes, by byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(rest)) for byte in range(256)]


def vocabulary(n_vocab: int = N_VOCAB) -> tuple[list[str], list[int], list[str]]:
    """Tokens, token types and merges: a byte a token, eight merges, four control tokens, unused ones."""
    tokens = byte_characters()
    merges = ["t h", "i n", "e r", "a n", "o n", "r e", "h e", "e s"]
    tokens += [merge.replace(" ", "") for merge in merges]
    types = [1] * len(tokens) + [3] * len(_SPECIAL)
    tokens += _SPECIAL
    unused = n_vocab - len(tokens)
    return tokens + [f"[PAD{i}]" for i in range(unused)], types + [5] * unused, merges


def write_model(
    path: Path,
    *,
    seed: int = 0,
    noise: float = 0.0,
    noise_seed: int = 1,
    amplitude: float = 1.5,
    layers: int = 2,
    n_ctx: int = 512,
    n_vocab: int = N_VOCAB,
    sliding_window: int = 0,
    rename: dict[int, str] | None = None,
    chat_template: str | None = CHAT_TEMPLATE,
) -> Path:
    """Write a model.

    Args:
        path: The file.
        seed: Of the weights: two models of one seed are the same but for ``noise``.
        noise: Standard deviation of what is added to every weight, relative to the weights' own.
        noise_seed: Of that noise.
        amplitude: How strongly the layers disturb the bigram chain.
        layers: How many.
        n_ctx: Trained context, tokens.
        n_vocab: Size of the vocabulary, at least 272.
        sliding_window: Tokens; above 0 the architecture is gemma3's, with every layer but each sixth sliding.
        rename: Other texts for some tokens.
        chat_template: None: the file has none.
    """
    architecture = "gemma3" if sliding_window else "llama"
    writer = gguf.GGUFWriter(path, architecture)
    _write_metadata(writer, layers, n_ctx, sliding_window)
    _write_vocabulary(writer, n_vocab, rename or {}, chat_template)
    for name, weights in _weights(seed, amplitude, layers, n_vocab, gemma=bool(sliding_window)).items():
        if noise and not name.endswith("norm.weight"):
            rng = np.random.default_rng([noise_seed, len(name), sum(name.encode())])
            weights = weights + rng.normal(0.0, noise * weights.std(), weights.shape)
        writer.add_tensor(name, weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_metadata(writer: gguf.GGUFWriter, layers: int, n_ctx: int, sliding_window: int) -> None:
    writer.add_context_length(n_ctx)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(WIDTH // HEADS)
    writer.add_value_length(WIDTH // HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    if sliding_window:
        writer.add_sliding_window(sliding_window)


def _write_vocabulary(writer: gguf.GGUFWriter, n_vocab: int, rename: dict[int, str], template: str | None) -> None:
    tokens, types, merges = vocabulary(n_vocab)
    tokens = [rename.get(i, token) for i, token in enumerate(tokens)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tokens.index(_SPECIAL[0]))
    writer.add_eos_token_id(tokens.index(_SPECIAL[1]))
    writer.add_eot_token_id(tokens.index(_SPECIAL[3]))
    writer.add_add_bos_token(False)
    if template:
        writer.add_chat_template(template)


def _weights(seed: int, amplitude: float, layers: int, n_vocab: int, *, gemma: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    head = WIDTH // HEADS

    def matrix(rows: int, columns: int, scale: float = 1.0) -> np.ndarray:
        return rng.normal(0.0, scale / np.sqrt(columns), (rows, columns))

    embedding = rng.normal(0.0, 1.0, (N_VOCAB, WIDTH))
    successor = rng.permutation(256)
    output = rng.normal(0.0, 0.3, (N_VOCAB, WIDTH))
    output[successor] = embedding[:256]
    output /= np.sqrt(WIDTH) / 6.0
    embedding, output = (np.resize(table, (n_vocab, WIDTH)) for table in (embedding, output))
    norm = np.ones(WIDTH)
    weights = {"token_embd.weight": embedding, "output_norm.weight": norm, "output.weight": output}
    for i in range(layers):
        blk = f"blk.{i}."
        weights |= {
            blk + "attn_norm.weight": norm,
            blk + "attn_q.weight": matrix(HEADS * head, WIDTH, 2.0),
            blk + "attn_k.weight": matrix(KV_HEADS * head, WIDTH, 2.0),
            blk + "attn_v.weight": matrix(KV_HEADS * head, WIDTH),
            blk + "attn_output.weight": matrix(WIDTH, HEADS * head, amplitude),
            blk + "ffn_norm.weight": norm,
            blk + "ffn_gate.weight": matrix(FEED_FORWARD, WIDTH),
            blk + "ffn_up.weight": matrix(FEED_FORWARD, WIDTH),
            blk + "ffn_down.weight": matrix(WIDTH, FEED_FORWARD, amplitude),
        }
        if gemma:
            weights |= {
                blk + "attn_q_norm.weight": np.ones(head),
                blk + "attn_k_norm.weight": np.ones(head),
                blk + "post_attention_norm.weight": norm,
                blk + "post_ffw_norm.weight": norm,
            }
    return weights
