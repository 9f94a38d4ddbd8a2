"""llama.cpp's own chain of samplers: what specli's transforms must agree with."""

import ctypes
from collections.abc import Sequence
from typing import Any

import llama_cpp
import numpy as np
import numpy.typing as npt

from specli.llama.decoder import Logits

_TOKEN_DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


def sampler_chain(
    logits: Logits,
    history: Sequence[int],
    *,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    repeat_last_n: int,
    repeat_penalty: float,
    presence_penalty: float,
    frequency_penalty: float,
    logit_bias: Sequence[tuple[int, float]],
    min_keep: int = 0,
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Send a row of logits through llama.cpp's logit bias, penalties, top-k, top-p, min-p and temperature.

    Args:
        logits: float32, shape (n_vocab,); read, never written.
        history: The tokens before, oldest first.
        temperature: 0 or less: greedy.
        top_k: 0: all.
        top_p: 1: all.
        min_p: 0: all.
        repeat_last_n: How many of the tokens before the penalties see; −1: all.
        repeat_penalty: 1: off.
        presence_penalty: 0: off.
        frequency_penalty: 0: off.
        logit_bias: (token id, added to its logit) pairs.
        min_keep: How many tokens top-p and min-p leave at least.

    Returns:
        The ids that are left, intp, ascending, and their logits, float64, both shape (n,).
    """
    n = len(logits)
    bias = (llama_cpp.llama_logit_bias * len(logit_bias))(*logit_bias)
    last_n = max(1, len(history)) if repeat_last_n < 0 else repeat_last_n
    penalties = llama_cpp.llama_sampler_init_penalties(n, last_n, repeat_penalty, frequency_penalty, presence_penalty)
    samplers: tuple[Any, ...] = (
        llama_cpp.llama_sampler_init_logit_bias(n, len(bias), bias),
        penalties,
        llama_cpp.llama_sampler_init_top_k(top_k),
        llama_cpp.llama_sampler_init_top_p(top_p, min_keep),
        llama_cpp.llama_sampler_init_min_p(min_p, min_keep),
        llama_cpp.llama_sampler_init_temp(temperature),
    )
    chain: Any = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    for sampler in samplers:
        llama_cpp.llama_sampler_chain_add(chain, sampler)
    for token in history:
        llama_cpp.llama_sampler_accept(penalties, token)
    data = np.zeros(n, _TOKEN_DATA)
    data["id"] = np.arange(n)
    data["logit"] = logits
    array = llama_cpp.llama_token_data_array(
        data=data.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token_data)), size=n, selected=-1, sorted=False
    )
    llama_cpp.llama_sampler_apply(chain, ctypes.byref(array))
    llama_cpp.llama_sampler_free(chain)
    left = data[: array.size]  # the chain works in place
    left = left[left["logit"] > -np.inf]
    left = left[np.argsort(left["id"])]
    return left["id"].astype(np.intp), left["logit"].astype(np.float64)
