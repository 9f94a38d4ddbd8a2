"""Tiny targets with heads of their own, and tiny draft modules that read a target's hidden states."""

from pathlib import Path

import gguf
import numpy as np
from tiny_gguf import (
    CHAT_TEMPLATE,
    FEED_FORWARD,
    HEADS,
    KV_HEADS,
    N_VOCAB,
    WIDTH,
    bigram_chain,
    finish,
    with_noise,
    write_metadata,
    write_vocabulary,
)

_HEAD = WIDTH // HEADS


def write_step_model(
    path: Path,
    *,
    heads: int = 3,
    amplitude: float = 1.5,
    layers: int = 3,
    seed: int = 0,
    window: int = 16,
    declared_heads: int | None = None,
) -> Path:
    """Write a model of step35's architecture: dense, every second layer sliding, with several chained MTP heads.

    Args:
        path: The file.
        heads: How many.
        amplitude: How strongly the layers disturb the bigram chain.
        layers: How many, without the heads'.
        seed: Of the weights.
        window: The sliding window, in tokens.
        declared_heads: How many the metadata name; None: as many as there are.
    """
    writer = gguf.GGUFWriter(path, "step35")
    n_all = layers + heads
    write_metadata(writer, n_all, 512, window)
    writer.add_uint32("step35.expert_feed_forward_length", FEED_FORWARD)
    writer.add_array("step35.attention.sliding_window_pattern", [i % 2 == 1 for i in range(n_all)])
    writer.add_uint32("step35.nextn_predict_layers", heads if declared_heads is None else declared_heads)
    write_vocabulary(writer, N_VOCAB, {}, CHAT_TEMPLATE)
    rng = np.random.default_rng(seed)
    weights = bigram_chain(rng, N_VOCAB)
    for i in range(n_all):
        weights |= _dense_layer(rng, i, amplitude if i < layers else 0.2)
        if i >= layers:
            weights |= {
                f"blk.{i}.nextn.eh_proj.weight": np.concatenate([np.eye(WIDTH), _matrix(rng, WIDTH, WIDTH, 0.2)], 1),
                f"blk.{i}.nextn.enorm.weight": np.ones(WIDTH),
                f"blk.{i}.nextn.hnorm.weight": np.ones(WIDTH),
            }
    return finish(writer, path, weights)


def _matrix(rng: np.random.Generator, rows: int, columns: int, scale: float = 1.0) -> np.ndarray:
    return rng.normal(0.0, scale / np.sqrt(columns), (rows, columns))


def _dense_layer(rng: np.random.Generator, i: int, amplitude: float) -> dict[str, np.ndarray]:
    blk = f"blk.{i}."
    return {
        blk + "attn_norm.weight": np.ones(WIDTH),
        blk + "attn_q.weight": _matrix(rng, HEADS * _HEAD, WIDTH, 2.0),
        blk + "attn_k.weight": _matrix(rng, KV_HEADS * _HEAD, WIDTH, 2.0),
        blk + "attn_v.weight": _matrix(rng, KV_HEADS * _HEAD, WIDTH),
        blk + "attn_output.weight": _matrix(rng, WIDTH, HEADS * _HEAD, amplitude),
        blk + "ffn_norm.weight": np.ones(WIDTH),
        blk + "ffn_gate.weight": _matrix(rng, FEED_FORWARD, WIDTH),
        blk + "ffn_up.weight": _matrix(rng, FEED_FORWARD, WIDTH),
        blk + "ffn_down.weight": _matrix(rng, WIDTH, FEED_FORWARD, amplitude),
    }


_GAIN = 3.0  # how sharply EAGLE-3's attention looks at its own position


def write_eagle3(
    path: Path,
    *,
    target_layers: list[int],
    target_width: int = WIDTH,
    seed: int = 0,
    noise: float = 0.2,
    reduced: int | None = None,
    own_embeddings: bool = True,
    n_vocab: int = N_VOCAB,
) -> Path:
    """Write an EAGLE-3 draft for a target of ``tiny_gguf``, which follows the chain that the target's layers disturb.

    A constant feature of the embeddings is query and key: rotated by position they meet best at their own, so that the
    value, which is the token's embedding, passes through.

    Args:
        path: The file.
        target_layers: Three layers of the target whose inputs it reads.
        target_width: How wide they are.
        seed: The target's.
        noise: How much the target's hidden states disturb the draft.
        reduced: How many ids its own vocabulary has, the target's lowest even ones first; None: all of the target's.
        own_embeddings: Whether it has embeddings and an output matrix of its own, not the target's.
        n_vocab: Tokens of its tokenizer.
    """
    writer = gguf.GGUFWriter(path, "eagle3")
    write_metadata(writer, 1, 512, 0, kv_heads=HEADS)
    writer.add_array("eagle3.target_layers", target_layers)
    writer.add_uint32("eagle3.target_hidden_size", target_width)
    writer.add_bool("eagle3.norm_before_residual", True)
    write_vocabulary(writer, n_vocab, {}, CHAT_TEMPLATE)
    chain = {name: table[:n_vocab] for name, table in bigram_chain(np.random.default_rng(seed), N_VOCAB).items()}
    embedding, output = chain["token_embd.weight"].copy(), chain["output.weight"].copy()
    embedding[:, 0], output[:, 0] = 8.0, 0.0
    rng = np.random.default_rng([seed, 3])
    look = np.zeros((WIDTH, 2 * WIDTH))
    look[:, 0] = _GAIN
    weights = {
        "fc.weight": _matrix(rng, WIDTH, 3 * target_width),
        "output_norm.weight": np.ones(WIDTH),
        "token_embd.weight": embedding,
        "output.weight": output,
        "blk.0.attn_norm.weight": np.ones(WIDTH),
        "blk.0.attn_norm_2.weight": np.full(WIDTH, noise),
        "blk.0.attn_q.weight": look,
        "blk.0.attn_k.weight": look,
        "blk.0.attn_v.weight": np.concatenate([np.eye(WIDTH), np.zeros((WIDTH, WIDTH))], axis=1),
        "blk.0.attn_output.weight": np.eye(WIDTH),
        "blk.0.ffn_norm.weight": np.ones(WIDTH),
        "blk.0.ffn_gate.weight": _matrix(rng, FEED_FORWARD, WIDTH),
        "blk.0.ffn_up.weight": _matrix(rng, FEED_FORWARD, WIDTH),
        "blk.0.ffn_down.weight": _matrix(rng, WIDTH, FEED_FORWARD, 0.1),
    }
    if reduced is not None:
        ids = [*range(0, N_VOCAB, 2), *range(1, N_VOCAB, 2)][:reduced]
        weights["output.weight"] = output[ids]
        writer.add_tensor("d2t", np.array(ids, np.int64))
    if not own_embeddings:
        del weights["token_embd.weight"], weights["output.weight"]
    return finish(writer, path, weights)


BLOCK = 8


def write_dflash(
    path: Path,
    *,
    target_layers: list[int],
    seed: int = 0,
    markov: bool = False,
    from_anchor: bool = True,
    confidence: bool = False,
    selector: bool = False,
    multimodal: bool = False,
    reduced: int | None = None,
    own_embeddings: bool = True,
    n_vocab: int = N_VOCAB,
    block_size: int = BLOCK,
    mask: int | None = None,
) -> Path:
    """Write a DFlash draft for a target of ``tiny_gguf``, or a DSpark or DFlash 2 draft.

    DFlash: attention looks one position back, so that the first mask sees the last token and follows the bigram chain;
    the others see masks. DSpark: a Markov head that is that chain. Both read the target's hidden states too, a little.

    Args:
        path: The file.
        target_layers: Layers of the target whose inputs it reads.
        seed: The target's.
        markov: DSpark's Markov head.
        from_anchor: With it, whether the last token's row proposes.
        confidence: With a head that says how sure it is.
        selector: With DFlash 2's selector, which is the bigram chain among its candidates.
        multimodal: With rotary embeddings of several sections, as of drafts for Qwen3.5.
        reduced: As of ``write_eagle3``, like the following.
        own_embeddings: Whether it has embeddings of its own.
        n_vocab: Tokens of its tokenizer.
        block_size: What the metadata say.
        mask: The token that stands for one to fill in; None: the last.
    """
    writer = gguf.GGUFWriter(path, "dflash")
    if multimodal:
        writer.add_rope_dimension_sections([_HEAD // 2, 0, 0, 0])
    write_metadata(writer, 1, 512, 0, kv_heads=HEADS)
    writer.add_array("dflash.target_layers", target_layers)
    writer.add_uint32("dflash.block_size", block_size)
    writer.add_mask_token_id(n_vocab - 1 if mask is None else mask)
    if markov:
        writer.add_bool("dflash.sample_from_anchor", from_anchor)
        writer.add_bool("dflash.has_confidence_head", confidence)
    write_vocabulary(writer, n_vocab, {}, CHAT_TEMPLATE)
    chain = {name: table[:n_vocab] for name, table in bigram_chain(np.random.default_rng(seed), N_VOCAB).items()}
    embedding, output = chain["token_embd.weight"].copy(), chain["output.weight"].copy()
    embedding[:, 0], output[:, 0] = 8.0, 0.0
    rng = np.random.default_rng([seed, 4])
    look_back, be_seen = np.zeros((WIDTH, WIDTH)), np.zeros((WIDTH, WIDTH))
    be_seen[:, 0] = 1.0
    angles = 10000.0 ** (-np.arange(_HEAD // 2) / (_HEAD // 2))
    look_back[:, 0] = np.tile(np.concatenate([np.cos(angles) + np.sin(angles), np.cos(angles) - np.sin(angles)]), HEADS)
    weights = {
        "fc.weight": _matrix(rng, WIDTH, len(target_layers) * WIDTH),
        "enc.output_norm.weight": np.full(WIDTH, 0.3),
        "output_norm.weight": np.full(WIDTH, 0.1 if markov else 1.0),
        "token_embd.weight": embedding,
        "output.weight": output,
        "blk.0.attn_norm.weight": np.ones(WIDTH),
        "blk.0.attn_q.weight": look_back,
        "blk.0.attn_k.weight": be_seen,
        "blk.0.attn_v.weight": np.eye(WIDTH),
        "blk.0.attn_output.weight": np.eye(WIDTH),
        "blk.0.attn_q_norm.weight": np.full(_HEAD, _GAIN),
        "blk.0.attn_k_norm.weight": np.full(_HEAD, _GAIN),
        "blk.0.ffn_norm.weight": np.ones(WIDTH),
        "blk.0.ffn_gate.weight": _matrix(rng, FEED_FORWARD, WIDTH),
        "blk.0.ffn_up.weight": _matrix(rng, FEED_FORWARD, WIDTH),
        "blk.0.ffn_down.weight": _matrix(rng, WIDTH, FEED_FORWARD, 0.1),
    }
    if selector:
        weights |= _selector(writer, chain)
    ids = [*range(0, N_VOCAB, 2), *range(1, N_VOCAB, 2)][:reduced]
    if reduced is not None:
        weights["output.weight"] = output[ids]
        writer.add_tensor("d2t", np.array(ids, np.int64))
    if markov:
        weights["markov_w1.weight"] = chain["token_embd.weight"]
        weights["markov_w2.weight"] = chain["output.weight"][ids if reduced is not None else slice(None)]
    if confidence:
        weights["conf_proj.weight"] = _matrix(rng, 1, 2 * WIDTH, 2.0)
        weights["conf_proj.bias"] = np.array([1.0])
    if not own_embeddings:
        del weights["token_embd.weight"], weights["output.weight"]
    return finish(writer, path, weights)


def _selector(writer: gguf.GGUFWriter, chain: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """DFlash 2's: convolutions that change nothing, and scores of candidates by the bigram chain."""
    kernel, group = 2, 16
    writer.add_uint32("dflash.conv_kernel_size", kernel)
    writer.add_uint32("dflash.conv_group_size", group)
    writer.add_uint32("dflash.selector_rank", WIDTH)
    writer.add_uint32("dflash.selector_top_k", 7)
    gate = np.zeros((WIDTH, WIDTH))
    gate[:, 0] = 1.0  # the constant feature
    same = np.zeros((2, kernel, WIDTH))
    same[:, 0] = 1.0
    nothing = np.zeros((2 * kernel * WIDTH // group, WIDTH))
    return {
        "selector_predecessor.weight": chain["token_embd.weight"],
        "selector_successor.weight": chain["output.weight"],
        "selector_hidden.weight": gate,
        "blk.0.attn_conv_base": same,
        "blk.0.ffn_conv_base": same,
        "blk.0.attn_conv_proj.weight": nothing,
        "blk.0.ffn_conv_proj.weight": nothing,
    }


_INNER, _STATE, _RANK, _CONVOLUTION = 2 * WIDTH, 16, 4, 4


def write_mamba(path: Path, *, seed: int = 0, noise: float = 0.0, amplitude: float = 4.0, layers: int = 2) -> Path:
    """Write a Mamba model: nothing but recurrent layers, of which llama.cpp keeps no snapshots.

    Args:
        path: The file.
        seed: Of the weights: two models of one seed are the same but for ``noise``.
        noise: Standard deviation of what is added to every weight, relative to the weights' own.
        amplitude: How strongly the layers disturb the bigram chain.
        layers: How many.
    """
    writer = gguf.GGUFWriter(path, "mamba")
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_block_count(layers)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_ssm_conv_kernel(_CONVOLUTION)
    writer.add_ssm_inner_size(_INNER)
    writer.add_ssm_state_size(_STATE)
    writer.add_ssm_time_step_rank(_RANK)
    write_vocabulary(writer, N_VOCAB, {}, CHAT_TEMPLATE)
    rng = np.random.default_rng(seed)
    weights = bigram_chain(rng, N_VOCAB)
    for i in range(layers):
        blk = f"blk.{i}."
        weights |= {
            blk + "attn_norm.weight": np.ones(WIDTH),
            blk + "ssm_in.weight": _matrix(rng, 2 * _INNER, WIDTH),
            blk + "ssm_conv1d.weight": _matrix(rng, _INNER, _CONVOLUTION),
            blk + "ssm_conv1d.bias": rng.normal(0.0, 0.1, _INNER),
            blk + "ssm_x.weight": _matrix(rng, _RANK + 2 * _STATE, _INNER),
            blk + "ssm_dt.weight": _matrix(rng, _INNER, _RANK),
            blk + "ssm_dt.bias": rng.normal(-2.0, 0.3, _INNER),
            blk + "ssm_a": -np.exp(rng.normal(0.0, 0.5, (_INNER, _STATE))),
            blk + "ssm_d": np.ones(_INNER),
            blk + "ssm_out.weight": _matrix(rng, WIDTH, _INNER, amplitude),
        }
    return finish(writer, path, with_noise(weights, noise, noise_seed=1))
