"""A target and, if there is one, its draft model, loaded and ready to generate."""

import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from specli.decoding.draft_length import FixedLength
from specli.decoding.ending import Ending
from specli.decoding.loop import Speculation, generate, prefill
from specli.decoding.measuring import measure_costs
from specli.decoding.options import AUTO_N_MAX, GenerationOptions, check_n_max
from specli.decoding.piecewise import PiecewiseTarget
from specli.decoding.policy import AutoPolicy, FixedPolicy, Policy
from specli.decoding.remembered import Learnt
from specli.decoding.round import Round
from specli.decoding.stats import Stats
from specli.decoding.trace import Trace, record
from specli.decoding.trained import mtp_drafter, trained_drafter
from specli.drafters.drafter import Drafter, TrainedDrafter
from specli.drafters.lookup import Index, LookupDrafter
from specli.drafters.names import CORPUS, DFLASH, DSPARK, EAGLE3, MODEL, MTP, SUFFIX, TRAINED
from specli.drafters.suffix import SuffixIndex
from specli.errors import SpecliError, UsageError
from specli.llama.context import Context
from specli.llama.decoder import Decoder, OnProgress
from specli.llama.model import Model
from specli.llama.options import ContextOptions
from specli.llama.vocab import shared_vocab
from specli.sampling.draws import SeededDraws
from specli.sampling.transforms import SamplingOptions, Transforms
from specli.sampling.verification import VERIFICATIONS


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
    """A target with what computes drafts for it, and their contexts: a draft, heads of its own, both or neither.

    Args:
        target: The model whose text is wanted.
        draft: A model that guesses it, or a module trained for it; None: there is none.
        target_options: The target's context.
        draft_options: The context of the draft, or of the target's own heads (as long as the target's then).
        n_max: The most tokens a round may ever draft.
        exact_width: Verify at most so many tokens at once, so that the text is bit by bit plain decoding's where that
            width is known to be (``proof.widths``); None: all of a draft.

    Attributes:
        target: The target's context.
        verifier: The same, as the loop uses it: a few tokens at a time with ``exact_width``.
        draft: The draft's; None without one.
        heads: That of heads inside the target's own file; None without any.
        n_shared: How many token ids, counted from 0, target and draft have in common; None without a draft.
        learnt: What automatic draft lengths go by; None until ``measure`` or somebody who remembers it fills it in.

    Raises:
        VocabMismatch: The draft's tokens are not the target's.
        LoadError: A context could not be made.
        SpecliError: A draft as the target, or one that was made for another target.
        UsageError: n_max does not fit the batch.
    """

    def __init__(
        self,
        target: Model,
        draft: Model | None = None,
        target_options: ContextOptions = ContextOptions(),
        draft_options: ContextOptions = ContextOptions(),
        n_max: int = 64,
        exact_width: int | None = None,
    ) -> None:
        check_n_max(n_max, target_options.batch_size)
        if target.kind != MODEL:
            raise SpecliError(f"{target.path}: drafts for other models ({target.kind})", "Name it with --draft.")
        self.n_max = n_max
        self.exact_width = exact_width
        self.learnt: Learnt | None = None
        self._current: Ending | None = None  # of the text being generated: the caches are its alone
        self.n_shared = shared_vocab(target.vocab, draft.vocab) if draft else None
        self.target = Context(target, target_options, n_max + 1)
        self.verifier: Decoder = PiecewiseTarget(self.target, exact_width) if exact_width else self.target
        self.draft: Context | None = None
        self.heads: Context | None = None
        self._drafters: dict[str, Drafter] = {}
        self._trained: dict[str, TrainedDrafter] = {}
        self.add_lookup(SUFFIX, SuffixIndex())
        try:
            if target.n_mtp_heads:
                self.heads, self._trained[MTP] = mtp_drafter(target, draft_options, self.target)
            if draft:
                self.draft, self._trained[draft.kind] = trained_drafter(
                    draft, draft_options, self.target, self.n_shared
                )
        except BaseException:
            self.close()
            raise
        self._drafters |= self._trained

    def warm_up(self) -> None:
        """Bring the weights of both models into memory."""
        self.target.warm_up()
        for drafter in self._trained.values():
            drafter.rehearse(1)

    def add_lookup(self, name: str, index: Index) -> None:
        """Let texts be looked up in one more index."""
        self.add_drafter(name, LookupDrafter(name, index, self.target.model.vocab.n_tokens, self.n_max))

    def add_drafter(self, name: str, drafter: Drafter) -> None:
        """Let somebody propose under a name of ``drafters.names``."""
        self._drafters[name] = drafter

    def remove_drafter(self, name: str) -> None:
        """Let somebody propose no more."""
        del self._drafters[name]

    def forget_drafts(self) -> None:
        """Empty the caches of all drafters that compute."""
        for context in (self.draft, self.heads):
            if context:
                context.truncate(0)

    def measure(self) -> None:
        """Measure what decoding costs here, if nobody remembers it; the caches are empty afterwards."""
        if self.learnt is None:
            drafters = {name: drafter.rehearse for name, drafter in self._trained.items()}
            self.learnt = Learnt(measure_costs(self.verifier, drafters, self.n_max))

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
        self.check(options)
        if not prompt:
            raise SpecliError("the prompt is empty", "Give it some text to continue.")
        if len(prompt) > self.target.n_ctx:
            raise SpecliError(
                f"the prompt is {len(prompt)} tokens long and the context holds {self.target.n_ctx}",
                f"Make room for both with -c {len(prompt) + 512} or more, or shorten the prompt.",
            )
        ending = self.ending(options)
        stats = Stats(prompt_tokens=len(prompt))
        rounds = self._rounds(prompt, options, stats, ending, on_prefill, on_draft_prefill)
        return Generation(stats, rounds, ending)

    def trace(
        self, prompt: Sequence[int], tokens: Sequence[int], options: GenerationOptions, on_progress: OnProgress | None
    ) -> Trace:
        """Record what each drafter would have proposed at every position of a text, and what decoding costs here.

        Args:
            prompt: Token ids.
            tokens: The text that followed it.
            options: How it was generated: their drafters are asked.
            on_progress: Called with the positions done and in all.
        """
        self._current = None
        self.measure()
        assert self.learnt
        drafters = [self._drafter(name) for name in self.names(options)]
        samplers, is_eog = self._samplers(options), self.target.model.vocab.is_eog
        return record(self.target, drafters, prompt, tokens, *samplers, is_eog, self.learnt.costs, on_progress)

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
        drafters, speculation = self.parts(options)
        started = time.perf_counter()
        stats.kept_tokens = prefill(self.target, prompt, on_prefill)
        stats.prefill_seconds = time.perf_counter() - started
        rounds = generate(self.verifier, drafters, prompt, speculation, ending, on_draft_prefill)
        for round_ in rounds:
            yield round_
            if self._current is not ending:
                raise SpecliError("another text was begun with the same models", "Finish a text before the next one.")

    def names(self, options: GenerationOptions) -> tuple[str, ...]:
        """The drafters to ask: those named, else with a fixed length the draft, else all there are, lookups first.

        A fixed length would ignore how differently sure a lookup is of its guesses.
        """
        if options.n_max == 0:
            return ()
        if options.drafters is not None:
            return options.drafters
        if options.n_max is not None and self._trained:
            return (list(self._trained)[-1],)  # the draft's own, where there are heads too
        lookups = [name for name in self._drafters if name not in self._trained]
        return (*lookups, *self._trained)

    def _drafter(self, name: str) -> Drafter:
        if name not in self._drafters:
            if self.draft and name in TRAINED:
                draft = self.draft.model
                raise UsageError(f"--drafter {name}: {draft.path.name} drafts as {draft.kind}")
            raise UsageError(f"--drafter {name} takes {_NEEDS.get(name, 'Pair.add_lookup')}")
        return self._drafters[name]

    def _policy(self, options: GenerationOptions) -> Policy:
        if options.n_max is not None:
            return FixedPolicy(FixedLength(options.n_max, options.n_min, options.p_min))
        self.measure()
        assert self.learnt
        learnt = copy.deepcopy(self.learnt) if options.repeatable else self.learnt
        learnt.costs.frozen = options.repeatable
        n_max = min(self.n_max, AUTO_N_MAX, self.target.n_snapshots or AUTO_N_MAX)
        return AutoPolicy(learnt.costs, learnt.calibrations, n_max, options.n_min, options.p_min)

    def check(self, options: GenerationOptions) -> None:
        """Refuse options that mean nothing, or do not go with these models.

        Raises:
            UsageError: Naming the flag.
        """
        options.check()
        if options.n_max is not None and options.n_max > self.n_max:
            raise UsageError(f"--n-max {options.n_max}: the pair was made for {self.n_max} at most")
        for name in self.names(options):
            self._drafter(name)
        n_vocab = self.target.model.vocab.n_tokens
        for token, _ in options.sampling.logit_bias:
            if not 0 <= token < n_vocab:
                raise UsageError(f"--logit-bias {token}: the vocabulary has {n_vocab} tokens, counted from 0")
        if self.exact_width and options.effective_verification not in ("greedy", "match"):
            raise UsageError("--exact: above temperature 0 only match verification gives plain decoding's text")

    def parts(self, options: GenerationOptions) -> tuple[list[Drafter], Speculation]:
        """What ``generate`` gives the loop beside the target: the drafters to ask, and all that decides the text.

        Raises:
            UsageError: A drafter that is not there, or options that do not go with these models.
        """
        self.check(options)
        drafters = [self._drafter(name) for name in self.names(options)]
        sampler, draft_sampler = self._samplers(options)
        verification = "match" if options.sampling.greedy else options.verification
        speculation = Speculation(
            sampler=sampler,
            draft_sampler=draft_sampler,
            verify=VERIFICATIONS[verification],
            policy=self._policy(options),
            draws=SeededDraws(options.seed),
            coupled=verification == "match",
        )
        return drafters, speculation

    def ending(self, options: GenerationOptions) -> Ending:
        """Where a text ends."""
        vocab = self.target.model.vocab
        return Ending(vocab.piece, vocab.is_eog, options.n_predict, options.stop, options.ignore_eos)

    def _samplers(self, options: GenerationOptions) -> tuple[Transforms, Transforms]:
        """The target's transforms, and the draft's."""
        sampling = self.sampling(options)
        draft_sampling = sampling
        if options.draft_temperature is not None:
            draft_sampling = replace(sampling, temperature=options.draft_temperature)
        return Transforms(sampling), Transforms(draft_sampling, self.n_shared)

    def sampling(self, options: GenerationOptions) -> SamplingOptions:
        """The user's transforms, with the tokens that must never come at −∞."""
        vocab = self.target.model.vocab
        forbidden = [*vocab.suppressed_tokens, *(vocab.eog_tokens if options.ignore_eos else ())]
        bias = (*options.sampling.logit_bias, *((token, -inf) for token in forbidden))
        return replace(options.sampling, logit_bias=bias)

    def close(self) -> None:
        """Free all contexts."""
        for context in (self.draft, self.heads, self.target):
            if context:
                context.close()


_NEEDS = {
    MODEL: "--draft FILE",
    **dict.fromkeys((EAGLE3, DFLASH, DSPARK), "--draft FILE, trained for this target"),
    CORPUS: "--corpus FILE",
    MTP: "a target with such heads, or a file of them as --draft",
}
