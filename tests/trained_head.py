"""A tiny model with an MTP head whose output matrix was trained on what the target itself wrote (distillation)."""

from pathlib import Path

import numpy as np
from tiny_gguf import N_VOCAB, WIDTH, write_hybrid_model

from specli.llama.context import Context
from specli.llama.hidden_context import HiddenContext
from specli.llama.model import Model
from specli.llama.options import ContextOptions, ModelOptions

_OPTIONS = ContextOptions(ctx_size=256, flash_attn="off", cache_type_k="f32", cache_type_v="f32", threads=1)
_TEXTS, _LENGTH = 60, 100
_STEPS, _RATE = 400, 0.02
_SHARPNESS = 1.4  # of the target's distributions: as undecided as language models are about words


def write_trained_model(path: Path) -> Path:
    """Write a hybrid model with a head that predicts as its target does; takes some seconds.

    The head's states are what they are; the matrix that makes logits of them is fitted to the target's distributions by
    gradient descent on the cross entropy (Adam: Kingma and Ba, 2015), over texts drawn from the target.
    """
    write_hybrid_model(path, mtp=True, amplitude=0.8, sharpness=_SHARPNESS)
    states, distributions = _collect(path)
    write_hybrid_model(path, mtp=True, amplitude=0.8, sharpness=_SHARPNESS, head_output=_fit(states, distributions))
    return path


def _collect(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The head's states along sampled texts, shape (n, width), and what the target says there, shape (n, n_vocab)."""
    model = Model(path, ModelOptions(load_mtp=True))
    target = Context(model, _OPTIONS, 1)
    features = target.keep_features(None)
    head = HiddenContext(model, _OPTIONS, target, is_mtp=True)
    rng = np.random.default_rng(0)
    states, distributions = [], []
    for _ in range(_TEXTS):
        target.truncate(0)
        head.truncate(0)
        token, before = int(rng.integers(256)), np.zeros((1, WIDTH), np.float32)
        for position in range(_LENGTH):
            logits = target.decode([token], 1)[0].astype(float)
            weights = np.exp(logits - logits.max())
            distributions.append(weights / weights.sum())
            head.decode_hidden([token], before, logits=True)
            states.append(head.hidden()[0].copy())
            token, before = int(rng.choice(N_VOCAB, p=distributions[-1])), features.rows(position, position + 1)
    for thing in (head, target, model):
        thing.close()
    return np.array(states), np.array(distributions)


def _fit(states: np.ndarray, distributions: np.ndarray) -> np.ndarray:
    """The matrix, shape (n_vocab, width)."""
    matrix = np.zeros((N_VOCAB, WIDTH))
    mean, square = np.zeros_like(matrix), np.zeros_like(matrix)
    for step in range(1, _STEPS + 1):
        logits = states @ matrix.T
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        gradient = (weights / weights.sum(axis=1, keepdims=True) - distributions).T @ states / len(states)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        matrix -= _RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return matrix
