"""What a report says of a run beside its counts: the models, the settings, the comparison with plain decoding."""

from dataclasses import dataclass
from typing import Any

from specli.decoding.pair import Generation


@dataclass(frozen=True)
class ModelFacts:
    """A loaded model; sizes in bytes.

    Attributes:
        path: Its file.
        architecture: As GGUF names it.
        parameters: How many weights.
        bytes: Size of all weights.
        layers_offloaded: How many layers went to another device than the CPU, by llama.cpp's account.
        n_layers: How many layers there are, the output layer counted as one.
        weights_by_buffer: Size of the weights by llama.cpp's name of where they are.
        kv_bytes: Size of the KV cache.
    """

    path: str
    architecture: str
    parameters: int
    bytes: int
    layers_offloaded: int
    n_layers: int
    weights_by_buffer: dict[str, int]
    kv_bytes: int


@dataclass(frozen=True)
class FirstDifference:
    """Where a text parts from plain decoding's.

    Attributes:
        index: Which token, from 0.
        token: The token there, None where the text has ended.
        plain_token: Plain decoding's.
        text: The token as text.
        plain_text: Plain decoding's.
        gap: The target's logit of ``plain_token`` minus that of ``token`` there.
        spread: How much of that the width of the batch alone can move.
    """

    index: int
    token: int | None
    plain_token: int | None
    text: str
    plain_text: str
    gap: float | None
    spread: float | None


@dataclass(frozen=True)
class Comparison:
    """The same prompt decoded plainly.

    Attributes:
        plain: Plain decoding's text and figures.
        first_difference: Where the texts part; None where they are identical.
        text_claimed: Whether the verification promises the same text, or the same distribution only.
    """

    plain: Generation
    first_difference: FirstDifference | None
    text_claimed: bool


@dataclass(frozen=True)
class RunFacts:
    """Everything a report says of a run beside its text and counts.

    Attributes:
        target: The target.
        draft: The draft model, if there is one.
        settings: Every value used.
        load_seconds: Time until both models were ready.
        comparison: With ``--compare``, plain decoding.
    """

    target: ModelFacts
    draft: ModelFacts | None
    settings: dict[str, Any]
    load_seconds: float
    comparison: Comparison | None = None
