"""The draft/verify loop: draft, verify, accept, roll back."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from specli.decoding.draft_length import UntilEog
from specli.decoding.ending import CONTEXT, Ending
from specli.decoding.policy import Choice, Policy
from specli.decoding.round import Round
from specli.drafters.drafter import Draft, Drafter, Sampler, shared_prefix
from specli.llama.decoder import Decoder, OnProgress, Rows, read
from specli.sampling.distribution import Distribution
from specli.sampling.draws import Draws, Purpose
from specli.sampling.verification import Target, Verify


@dataclass(frozen=True)
class Speculation:
    """How a text is generated.

    Attributes:
        sampler: The user's transforms on the target's logits.
        draft_sampler: The transforms on the drafter's.
        verify: One of ``sampling.verification``.
        policy: Which drafter a round asks, and how many tokens it drafts.
        draws: The randomness.
        coupled: Whether drafts are drawn with the noise of their positions, as match verification draws the target's
            tokens, so that close distributions draw the same (Gumbel coupling: Daliri et al., 2024).
    """

    sampler: Sampler
    draft_sampler: Sampler
    verify: Verify
    policy: Policy
    draws: Draws
    coupled: bool = False


def generate(
    target: Decoder,
    drafters: Sequence[Drafter],
    prompt: Sequence[int],
    how: Speculation,
    ending: Ending,
    on_draft_prefill: OnProgress | None = None,
) -> Iterator[Round]:
    """Generate a text after a prompt.

    Before the first round the target's cache must hold a prefix of ``prompt[:-1]`` (``prefill`` sees to it); after
    every round it holds everything but the last token, or less where its memory cannot be cut.

    Args:
        target: The model whose text is wanted.
        drafters: What can guess it, the preferred first; none: plain decoding.
        prompt: At least one token.
        how: Sampling, verification, draft length.
        ending: Where the text ends.
        on_draft_prefill: Called while a drafter reads the prompt.

    Raises:
        DecodeError: From the target or the drafter.
    """
    context = list(prompt)
    for drafter in drafters:
        drafter.begin(prompt, on_draft_prefill)
    stop_reason = None
    while stop_reason is None:
        started = time.perf_counter()
        if missing := context[len(target.tokens) : -1]:  # a memory that cannot be cut went back further than asked
            target.decode(missing, 0)
        complete = time.perf_counter()
        position = len(context)
        room = _room(target, context, ending)
        choice = how.policy.choose(drafters, context, room, ending.remaining) if room > 0 else None
        draft = _draft(choice, context, how, ending)
        drafted = time.perf_counter()
        target.checkpoint(len(draft.tokens))
        remembered = time.perf_counter()
        rows = target.decode([context[-1], *draft.tokens], len(draft.tokens) + 1)
        distributions = _target_distributions(how.sampler, rows, context, draft)
        verdict = how.verify(draft.tokens, draft.distributions, distributions, how.draws, position)
        verified = time.perf_counter()

        emitted = [*draft.tokens[: verdict.n_accepted], verdict.token]
        tokens, texts, stop_reason = _until_end(emitted, ending)
        context += tokens
        if stop_reason is None and len(context) > target.n_ctx:
            stop_reason = CONTEXT
            texts[-1] += ending.flush()

        target.truncate(len(context) - 1)
        n_accepted = min(verdict.n_accepted, len(tokens))
        for drafter in drafters:
            drafter.accept(len(tokens) - 1, tokens[-1])
        cut_off = len(tokens) <= verdict.n_accepted
        n_lost = len(draft.tokens) - n_accepted
        round_ = Round(
            drafter=choice.drafter.name if choice else None,
            drafted=tuple(draft.tokens),
            n_accepted=n_accepted,
            n_rejected=0 if cut_off else n_lost,
            n_discarded=n_lost if cut_off else 0,
            tokens=tuple(tokens),
            texts=tuple(texts),
            stop_reason=stop_reason,
            draft_prefill_seconds=draft.prefill_seconds,
            draft_seconds=drafted - complete - draft.prefill_seconds,
            verify_seconds=verified - remembered,
            rollback_seconds=(complete - started) + (remembered - drafted),
            seconds=0.0,
        )
        if room > 0:
            how.policy.learn(round_, partial(_confidence, how.sampler, rows, distributions))
        yield replace(round_, seconds=time.perf_counter() - started)


def prefill(target: Decoder, prompt: Sequence[int], on_progress: OnProgress | None = None) -> int:
    """Bring the target's cache to the prompt without its last token, keeping what it shares with it already.

    Returns:
        How many tokens it kept.
    """
    wanted = prompt[:-1]
    target.truncate(shared_prefix(target.tokens, wanted))
    n_kept = len(target.tokens)
    read(target, wanted[n_kept:], on_progress)
    return n_kept


def _room(target: Decoder, context: Sequence[int], ending: Ending) -> int:
    """How many drafted tokens the context and the answer's length leave room for beside the target's own token."""
    room = target.n_ctx - len(context)
    return room if ending.remaining is None else min(room, ending.remaining - 1)


def _draft(choice: Choice | None, context: Sequence[int], how: Speculation, ending: Ending) -> Draft:
    """Let the chosen drafter propose; an end-of-generation token is kept and ends the draft."""
    if choice is None:
        return Draft()
    position = len(context)
    rule = UntilEog(choice.rule)

    def draw(distribution: Distribution, i: int) -> int:
        if how.coupled:
            token = how.draws.race(distribution, position + i)
        else:
            token = how.draws.choose(distribution, Purpose.DRAFT, position, i)
        rule.ended = ending.is_eog(token)
        return token

    return choice.drafter.propose(context, how.draft_sampler, draw, rule)


def _target_distributions(sampler: Sampler, rows: Rows, context: Sequence[int], draft: Draft) -> Target:
    """The target's distribution after each number of draft tokens, worked out when first asked for."""
    n_history = sampler.history_length
    recent = context[-n_history:] if n_history else context if n_history is None else ()

    known: dict[int, Distribution] = {}

    def distribution(i: int) -> Distribution:
        if i not in known:
            known[i] = sampler.distribution(rows[i], [*recent, *draft.tokens[:i]] if n_history != 0 else ())
        return known[i]

    return distribution


def _confidence(sampler: Sampler, rows: Rows, distributions: Target, i: int) -> float:
    """How sure the target was of the token after ``i`` draft tokens, which it has been asked for before."""
    return sampler.confidence(rows[i], distributions(i))


def _until_end(emitted: Sequence[int], ending: Ending) -> tuple[list[int], list[str], str | None]:
    """The emitted tokens up to where the text ends, if it does, and the text each lets be shown."""
    tokens, texts = [], []
    for token in emitted:
        text, stop_reason = ending.push(token)
        tokens.append(token)
        texts.append(text)
        if stop_reason:
            return tokens, texts, stop_reason
    return tokens, texts, None
