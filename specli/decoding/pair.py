"""A target and, if there is one, its draft model, loaded and ready to generate."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from specli.decoding.draft_length import FixedLength
from specli.decoding.ending import Ending
from specli.decoding.loop import Speculation, generate, prefill
from specli.decoding.policy import FixedPolicy
from specli.decoding.round import Round
from specli.decoding.stats import Stats
from specli.drafters.model import ModelDrafter
from specli.errors import SpecliError, UsageError
from specli.llama.context import Context
from specli.llama.decoder import OnProgress
from specli.llama.model import Model
from specli.llama.options import ContextOptions
from specli.llama.vocab import shared_vocab
from specli.sampling.draws import SeededDraws
from specli.sampling.transforms import SamplingOptions, Transforms
from specli.sampling.verification import VERIFICATIONS


@dataclass(frozen=True)
class GenerationOptions:
    """Everything that decides a text, beside the models and the prompt.

    Attributes:
        sampling: The transforms of the target's logits.
        verification: 'block', 'token' or 'match'; at temperature 0 all three are greedy.
        n_max: The most tokens a round drafts; 0: plain decoding.
        n_min: A round without room for as many drafts nothing; p_min does not end a draft before.
        p_min: End a draft where the draft model's largest probability is below this.
        draft_temperature: The draft's own temperature; None: the target's.
        n_predict: The most tokens; −1: to the end or the full context.
        stop: Strings at which the text ends.
        ignore_eos: Never generate an end-of-generation token.
        seed: Of the random draws.
    """

    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    verification: str = "block"
    n_max: int = 4
    n_min: int = 0
    p_min: float = 0.0
    draft_temperature: float | None = None
    n_predict: int = -1
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    seed: int = 0

    def check(self) -> None:
        """Refuse values that mean nothing.

        Raises:
            UsageError: Naming the flag.
        """
        self.sampling.check()
        if self.verification not in VERIFICATIONS:
            raise UsageError(f"--verification {self.verification}: not one of {', '.join(VERIFICATIONS)}")
        if self.n_max < 0:
            raise UsageError(f"--n-max {self.n_max}: must be 0 (plain decoding) or more")
        if not 0 <= self.n_min <= max(self.n_max, 0):
            raise UsageError(f"--n-min {self.n_min}: must be between 0 and --n-max ({self.n_max})")
        if not 0.0 <= self.p_min <= 1.0:
            raise UsageError(f"--p-min {self.p_min}: must be a probability, 0 to 1")
        if self.draft_temperature is not None and not abs(self.draft_temperature) < inf:
            raise UsageError(f"--draft-temp {self.draft_temperature}: not a finite number")
        if "" in self.stop:
            raise UsageError("--stop: an empty string would end the text before it begins")
        if self.n_predict == 0 or self.n_predict < -1:
            raise UsageError(f"-n {self.n_predict}: must be at least 1, or −1 for no limit")

    @property
    def effective_verification(self) -> str:
        """The verification that really decides: 'greedy' at temperature 0."""
        return "greedy" if self.sampling.greedy else self.verification


def check_n_max(n_max: int, batch_size: int) -> None:
    """Refuse drafts that do not fit the batch in which the target verifies them.

    Raises:
        UsageError: Naming both sizes.
    """
    if n_max >= batch_size:
        raise UsageError(
            f"--n-max {n_max}: the target verifies a draft and one token more in a batch, which -b {batch_size} limits",
            f"Use --n-max {batch_size - 1} or less, or -b {n_max + 1} or more.",
        )


class Generation:
    """One text being generated: iterate over its rounds, then look at what it amounts to.

    Attributes:
        stats: Counts and times so far.
        token_ids: The tokens so far.
        text: The text so far.
        stop_reason: 'eog', 'length', 'stop', 'context', 'interrupted' or 'error' at the end, None before.
    """

    def __init__(self, stats: Stats, rounds: Iterator[Round], ending: Ending) -> None:
        self.stats = stats
        self.token_ids: list[int] = []
        self.text = ""
        self.stop_reason: str | None = None
        self._rounds = rounds
        self._ending = ending

    def __iter__(self) -> Iterator[Round]:
        for round_ in self._rounds:
            self.stats.add(round_)
            self.token_ids += round_.tokens
            self.text += round_.text
            self.stop_reason = round_.stop_reason
            yield round_

    def end(self, stop_reason: str) -> str:
        """End the text here; return what of it was still held back."""
        self.stop_reason = stop_reason
        held = self._ending.flush()
        self.text += held
        return held


class Pair:
    """A target and its draft model with their contexts.

    Args:
        target: The model whose text is wanted.
        draft: The model that guesses it; None: plain decoding.
        target_options: The target's context.
        draft_options: The draft's context.
        n_max: The most tokens a round may ever draft.

    Raises:
        VocabMismatch: The draft's tokens are not the target's.
        LoadError: A context could not be made.
        UsageError: n_max does not fit the batch.
    """

    def __init__(
        self,
        target: Model,
        draft: Model | None = None,
        target_options: ContextOptions = ContextOptions(),
        draft_options: ContextOptions = ContextOptions(),
        n_max: int = 64,
    ) -> None:
        check_n_max(n_max, target_options.batch_size)
        self._current: Ending | None = None  # of the text being generated: the caches are its alone
        self.n_shared = shared_vocab(target.vocab, draft.vocab) if draft else None
        self.target = Context(target, target_options, n_max + 1)
        try:
            self.draft = Context(draft, draft_options) if draft else None
        except SpecliError:
            self.target.close()
            raise
        self._drafter = ModelDrafter(self.draft, self.n_shared) if self.draft else None

    def warm_up(self) -> None:
        """Bring the weights of both models into memory."""
        self.target.warm_up()
        if self.draft:
            self.draft.warm_up()

    def generate(
        self,
        prompt: Sequence[int],
        options: GenerationOptions,
        on_prefill: OnProgress | None = None,
        on_draft_prefill: OnProgress | None = None,
    ) -> Generation:
        """Start a text; nothing is computed before the first round is asked for.

        Args:
            prompt: Token ids, at least one.
            options: How.
            on_prefill: Called while the target reads the prompt.
            on_draft_prefill: Called while the draft model does.

        Raises:
            UsageError: Options that mean nothing.
            SpecliError: The prompt is empty or longer than the context.
        """
        options.check()
        if options.n_max >= self.target.n_outputs:
            raise UsageError(f"--n-max {options.n_max}: the pair was made for {self.target.n_outputs - 1} at most")
        if not prompt:
            raise SpecliError("the prompt is empty", "Give it some text to continue.")
        if len(prompt) > self.target.n_ctx:
            raise SpecliError(
                f"the prompt is {len(prompt)} tokens long and the context holds {self.target.n_ctx}",
                f"Make room for both with -c {len(prompt) + 512} or more, or shorten the prompt.",
            )
        vocab = self.target.model.vocab
        for token, _ in options.sampling.logit_bias:
            if not 0 <= token < vocab.n_tokens:
                raise UsageError(f"--logit-bias {token}: the vocabulary has {vocab.n_tokens} tokens, counted from 0")
        ending = Ending(vocab.piece, vocab.is_eog, options.n_predict, options.stop, options.ignore_eos)
        stats = Stats(prompt_tokens=len(prompt))
        rounds = self._rounds(prompt, options, stats, ending, on_prefill, on_draft_prefill)
        return Generation(stats, rounds, ending)

    def _rounds(
        self,
        prompt: Sequence[int],
        options: GenerationOptions,
        stats: Stats,
        ending: Ending,
        on_prefill: OnProgress | None,
        on_draft_prefill: OnProgress | None,
    ) -> Iterator[Round]:
        self._current = ending
        started = time.perf_counter()
        prefill(self.target, prompt, on_prefill)
        stats.prefill_seconds = time.perf_counter() - started
        drafters = [self._drafter] if self._drafter and options.n_max else []
        rounds = generate(self.target, drafters, prompt, self._speculation(options), ending, on_draft_prefill)
        for round_ in rounds:
            yield round_
            if self._current is not ending:
                raise SpecliError("another text was begun with the same models", "Finish a text before the next one.")

    def _speculation(self, options: GenerationOptions) -> Speculation:
        sampling = self._with_forbidden(options)
        draft_sampling = sampling
        if options.draft_temperature is not None:
            draft_sampling = replace(sampling, temperature=options.draft_temperature)
        return Speculation(
            sampler=Transforms(sampling),
            draft_sampler=Transforms(draft_sampling, self.n_shared),
            verify=VERIFICATIONS["match" if sampling.greedy else options.verification],
            policy=FixedPolicy(FixedLength(options.n_max, options.n_min, options.p_min)),
            draws=SeededDraws(options.seed),
        )

    def _with_forbidden(self, options: GenerationOptions) -> SamplingOptions:
        """The user's transforms, with the tokens that must never come at −∞."""
        vocab = self.target.model.vocab
        forbidden = [*vocab.suppressed_tokens, *(vocab.eog_tokens if options.ignore_eos else ())]
        bias = (*options.sampling.logit_bias, *((token, -inf) for token in forbidden))
        return replace(options.sampling, logit_bias=bias)

    def close(self) -> None:
        """Free both contexts."""
        self.target.close()
        if self.draft:
            self.draft.close()
