"""Tiny GGUF models, written in milliseconds: a bigram chain that random layers disturb, so that text is not degenerate.

``output[next(x)] = embedding[x]`` for a permutation ``next`` over the bytes; the layers add seeded noise of a given
amplitude to the residual stream. A draft is its target plus noise on every weight: acceptance is neither 0 nor 1.
"""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np

N_VOCAB = 288
WIDTH, HEADS, KV_HEADS, FEED_FORWARD = 64, 4, 2, 96
_CONVOLUTION, _STATE, _RANK, _GROUPS = 4, 16, 4, 2  # of the recurrent layers
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
    writer = gguf.GGUFWriter(path, "gemma3" if sliding_window else "llama")
    write_metadata(writer, layers, n_ctx, sliding_window)
    write_vocabulary(writer, n_vocab, rename or {}, chat_template)
    weights = _weights(seed, amplitude, layers, n_vocab, gemma=bool(sliding_window))
    return finish(writer, path, with_noise(weights, noise, noise_seed))


def write_hybrid_model(
    path: Path,
    *,
    seed: int = 0,
    noise: float = 0.0,
    amplitude: float = 1.5,
    layers: int = 4,
    n_ctx: int = 512,
    mtp: bool = False,
    heads_only: bool = False,
    sharpness: float = 6.0,
    head_output: np.ndarray | None = None,
) -> Path:
    """Write a model of qwen35's architecture, every second layer recurrent and the others attention.

    Args:
        path: The file.
        seed: Of the weights: two models of one seed are the same but for ``noise``.
        noise: Standard deviation of what is added to every weight, relative to the weights' own.
        amplitude: How strongly the layers disturb the bigram chain.
        layers: How many.
        n_ctx: Trained context, tokens.
        mtp: With a head for further tokens (MTP) beside the layers.
        heads_only: With that alone.
        sharpness: How sure the model is of what follows.
        head_output: The head's own output matrix, shape (n_vocab, width); None: the model's.
    """
    writer = gguf.GGUFWriter(path, "qwen35")
    write_metadata(writer, layers + mtp, n_ctx, 0)
    if mtp:
        writer.add_uint32("qwen35.nextn_predict_layers", 1)
    writer.add_rope_dimension_sections([3, 3, 2, 0])
    writer.add_ssm_conv_kernel(_CONVOLUTION)
    writer.add_ssm_inner_size(_STATE * _RANK)
    writer.add_ssm_state_size(_STATE)
    writer.add_ssm_time_step_rank(_RANK)
    writer.add_ssm_group_count(_GROUPS)
    writer.add_uint32("qwen35.full_attention_interval", 2)
    write_vocabulary(writer, N_VOCAB, {}, CHAT_TEMPLATE)
    weights = _hybrid_weights(seed, amplitude, layers)
    if mtp:
        weights |= _mtp_head(seed, layers)
    weights["output.weight"] *= sharpness / 6.0
    if head_output is not None:
        weights[f"blk.{layers}.nextn.shared_head_head.weight"] = head_output
    if heads_only:
        weights = {
            name: values for name, values in weights.items() if not name.startswith("blk.") or f".{layers}." in name
        }
    return finish(writer, path, with_noise(weights, noise, noise_seed=1))


def with_noise(weights: dict[str, np.ndarray], noise: float, noise_seed: int) -> dict[str, np.ndarray]:
    """The weights with noise on all but the norms."""
    if not noise:
        return weights
    noisy = {}
    for name, values in weights.items():
        rng = np.random.default_rng([noise_seed, len(name), sum(name.encode())])
        kept = name.endswith("norm.weight")
        noisy[name] = values if kept else values + rng.normal(0.0, noise * values.std(), values.shape)
    return noisy


def finish(writer: gguf.GGUFWriter, path: Path, weights: dict[str, np.ndarray]) -> Path:
    """Write the tensors in single precision, and close the file."""
    for name, values in weights.items():
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_metadata(
    writer: gguf.GGUFWriter, layers: int, n_ctx: int, sliding_window: int, kv_heads: int = KV_HEADS
) -> None:
    """Write the sizes that all the models here have in common."""
    writer.add_context_length(n_ctx)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(WIDTH // HEADS)
    writer.add_value_length(WIDTH // HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    if sliding_window:
        writer.add_sliding_window(sliding_window)


def write_vocabulary(writer: gguf.GGUFWriter, n_vocab: int, rename: dict[int, str], template: str | None) -> None:
    """Write the tokenizer."""
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

    norm = np.ones(WIDTH)
    weights = bigram_chain(rng, n_vocab)
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
                blk + "post_attention_norm.weight": norm * 3.0 * amplitude,  # beside embeddings scaled by √64
                blk + "post_ffw_norm.weight": norm * 3.0 * amplitude,
            }
    return weights


def bigram_chain(rng: np.random.Generator, n_vocab: int) -> dict[str, np.ndarray]:
    """The tensors outside the layers: without any layers, each byte is followed by its successor."""
    embedding = rng.normal(0.0, 1.0, (N_VOCAB, WIDTH))
    successor = rng.permutation(256)
    output = rng.normal(0.0, 0.3, (N_VOCAB, WIDTH))
    output[successor] = embedding[:256]
    output /= np.sqrt(WIDTH) / 6.0
    embedding, output = (np.resize(table, (n_vocab, WIDTH)) for table in (embedding, output))
    return {"token_embd.weight": embedding, "output_norm.weight": np.ones(WIDTH), "output.weight": output}


def _hybrid_weights(seed: int, amplitude: float, layers: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    inner = _STATE * _RANK
    mixed = 2 * _STATE * _GROUPS + inner

    def matrix(rows: int, columns: int, scale: float = 1.0) -> np.ndarray:
        return rng.normal(0.0, scale / np.sqrt(columns), (rows, columns))

    weights = bigram_chain(rng, N_VOCAB)
    for i in range(layers):
        blk = f"blk.{i}."
        weights |= {
            blk + "attn_norm.weight": np.ones(WIDTH),
            blk + "post_attention_norm.weight": np.ones(WIDTH),
            blk + "ffn_gate.weight": matrix(FEED_FORWARD, WIDTH),
            blk + "ffn_up.weight": matrix(FEED_FORWARD, WIDTH),
            blk + "ffn_down.weight": matrix(WIDTH, FEED_FORWARD, amplitude),
        }
        if i % 2:
            weights |= _gated_attention(blk, matrix, amplitude)
        else:
            weights |= {
                blk + "attn_qkv.weight": matrix(mixed, WIDTH),
                blk + "attn_gate.weight": matrix(inner, WIDTH),
                blk + "ssm_conv1d.weight": matrix(mixed, _CONVOLUTION),
                blk + "ssm_dt.bias": rng.normal(0.0, 0.1, _RANK),
                blk + "ssm_a": -np.exp(rng.normal(-1.0, 0.3, _RANK)),
                blk + "ssm_beta.weight": matrix(_RANK, WIDTH),
                blk + "ssm_alpha.weight": matrix(_RANK, WIDTH),
                blk + "ssm_norm.weight": np.ones(_STATE),
                blk + "ssm_out.weight": matrix(WIDTH, inner, amplitude),
            }
    return weights


def _gated_attention(blk: str, matrix: Callable[..., np.ndarray], amplitude: float) -> dict[str, np.ndarray]:
    """Qwen3.5's attention: each head's query is followed by its gate."""
    head = WIDTH // HEADS
    return {
        blk + "attn_q.weight": matrix(2 * HEADS * head, WIDTH, 2.0),
        blk + "attn_k.weight": matrix(KV_HEADS * head, WIDTH, 2.0),
        blk + "attn_v.weight": matrix(KV_HEADS * head, WIDTH),
        blk + "attn_output.weight": matrix(WIDTH, HEADS * head, amplitude),
        blk + "attn_q_norm.weight": np.ones(head),
        blk + "attn_k_norm.weight": np.ones(head),
    }


def _mtp_head(seed: int, layers: int) -> dict[str, np.ndarray]:
    """A head that reads the token more than the hidden state: it follows the bigram chain that the layers disturb."""
    rng = np.random.default_rng([seed, layers])

    def matrix(rows: int, columns: int, scale: float = 1.0) -> np.ndarray:
        return rng.normal(0.0, scale / np.sqrt(columns), (rows, columns))

    blk = f"blk.{layers}."
    return {
        blk + "nextn.eh_proj.weight": np.concatenate([np.eye(WIDTH), matrix(WIDTH, WIDTH, 0.2)], axis=1),
        blk + "nextn.enorm.weight": np.ones(WIDTH),
        blk + "nextn.hnorm.weight": np.ones(WIDTH),
        blk + "attn_norm.weight": np.ones(WIDTH),
        blk + "post_attention_norm.weight": np.ones(WIDTH),
        blk + "ffn_gate.weight": matrix(FEED_FORWARD, WIDTH),
        blk + "ffn_up.weight": matrix(FEED_FORWARD, WIDTH),
        blk + "ffn_down.weight": matrix(WIDTH, FEED_FORWARD, 0.2),
        **_gated_attention(blk, matrix, 0.2),
    }
