"""The Python interface: load a target and a draft model, generate text from them."""

import dataclasses
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from specli.decoding.heads import with_heads
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Generation, Pair
from specli.errors import SpecliError
from specli.llama import log
from specli.llama.chat import Message, chat_tokens
from specli.llama.model import Model
from specli.llama.options import ContextOptions, ModelOptions
from specli.sampling.transforms import SamplingOptions

_SAMPLING_FIELDS = {field.name for field in dataclasses.fields(SamplingOptions)}


class Speculator:
    """A loaded target and its draft model.

    Attributes:
        pair: Both models' contexts, for finer control.
    """

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    def generate(self, prompt: str | Sequence[Message] | Sequence[int], **options: Any) -> Generation:
        """Start a text; iterating over the result runs it, round by round.

        Args:
            prompt: A question, chat messages, or token ids to continue as they are. Text goes through the model's chat
                template where it has one.
            **options: Fields of ``GenerationOptions`` and ``SamplingOptions``: n_max, verification, temperature, ….

        Raises:
            SpecliError: Options that mean nothing, or a prompt that does not fit.
        """
        sampling = {name: options.pop(name) for name in _SAMPLING_FIELDS & options.keys()}
        return self.pair.generate(
            self.tokenize(prompt), GenerationOptions(sampling=SamplingOptions(**sampling), **options)
        )

    def stream(self, prompt: str | Sequence[Message] | Sequence[int], **options: Any) -> Iterator[str]:
        """Generate a text as ``generate`` does and yield it piece by piece."""
        for round_ in self.generate(prompt, **options):
            yield round_.text

    def tokenize(self, prompt: str | Sequence[Message] | Sequence[int]) -> list[int]:
        """Turn a prompt into token ids, through the chat template where the model has one."""
        if not isinstance(prompt, str):
            messages = [item for item in prompt if isinstance(item, dict)]
            if not messages:
                return [operator.index(token) for token in prompt if not isinstance(token, dict)]
        else:
            messages = [{"role": "user", "content": prompt}]
        return chat_tokens(self.pair.target.model, messages)

    def close(self) -> None:
        """Free both models."""
        models = [context.model for context in (self.pair.draft, self.pair.target) if context]
        self.pair.close()
        for model in models:
            model.close()

    def __enter__(self) -> "Speculator":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def load(
    target: str | Path,
    draft: str | Path | None = None,
    *,
    model_options: ModelOptions = ModelOptions(),
    draft_model_options: ModelOptions | None = None,
    context_options: ContextOptions = ContextOptions(ctx_size=8192),
    draft_context_options: ContextOptions | None = None,
    n_max: int = 64,
) -> Speculator:
    """Load a target and, if one is named, its draft model.

    Args:
        target: The GGUF model whose text is wanted.
        draft: A small GGUF model of the same vocabulary, or a draft module that was trained with the target.
        model_options: How the target is loaded; the draft too, where it has no options of its own.
        draft_model_options: How the draft is loaded.
        context_options: The target's context; the draft's too, where it has no options of its own.
        draft_context_options: The draft's context.
        n_max: The most tokens a round may ever draft.

    Raises:
        SpecliError: A file that is not such a model, a draft that does not match, memory that does not suffice.
    """
    log.install()
    if draft_model_options is None:  # what names the target's own tensors, metadata or shares is not the draft's
        draft_model_options = replace(model_options, lora=(), override_kv=(), override_tensor=(), tensor_split=())
    models: list[Model] = []
    try:
        models.append(Model(Path(target), with_heads(Path(target), model_options, None)))
        if draft:
            models.append(Model(Path(draft), draft_model_options))
        if draft and draft_context_options is None:
            draft_context_options = replace(
                context_options, ctx_size=min(context_options.ctx_size, models[1].n_ctx_train)
            )
        pair = Pair(
            models[0], models[1] if draft else None, context_options, draft_context_options or context_options, n_max
        )
    except SpecliError:
        for model in models:
            model.close()
        raise
    pair.warm_up()
    return Speculator(pair)
