"""The draft/verify loop: draft, verify, accept, roll back."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from specli.decoding.draft_length import FixedLength, UntilEog
from specli.decoding.ending import CONTEXT, Ending
from specli.decoding.round import Round
from specli.drafters.drafter import Draft, Drafter, Sampler, shared_prefix
from specli.llama.decoder import Decoder, Logits
from specli.sampling.distribution import Distribution
from specli.sampling.draws import Draws, Purpose
from specli.sampling.verification import Target, Verify, verify_match

OnProgress = Callable[[int, int], None]
"""Called with (tokens decoded so far, tokens in all)."""


@dataclass(frozen=True)
class Speculation:
    """How a text is generated.

    Attributes:
        sampler: The user's transforms on the target's logits.
        draft_sampler: The transforms on the drafter's.
        verify: One of ``sampling.verification``.
        length: How many tokens a round drafts.
        draws: The randomness.
    """

    sampler: Sampler
    draft_sampler: Sampler
    verify: Verify
    length: FixedLength
    draws: Draws


def generate(
    target: Decoder, drafter: Drafter | None, prompt: Sequence[int], how: Speculation, ending: Ending
) -> Iterator[Round]:
    """Generate a text after a prompt.

    Before the first round the target's cache must hold a prefix of ``prompt[:-1]`` (``prefill`` sees to it); after
    every round it holds everything but the last token.

    Raises:
        DecodeError: From the target or the drafter.
    """
    context = list(prompt)
    if drafter:
        drafter.begin(prompt)
    stop_reason = None
    while stop_reason is None:
        started = time.perf_counter()
        position = len(context)
        draft = _draft(drafter, context, how, _room(target, context, ending), ending)
        drafted = time.perf_counter()
        rows = _verify_pass(target, context, draft)
        verified = time.perf_counter()

        distributions = _target_distributions(how.sampler, rows, context, draft)
        verdict = how.verify(draft.tokens, draft.distributions, distributions, how.draws, position)
        emitted = [*draft.tokens[: verdict.n_accepted], verdict.token]
        tokens, texts, stop_reason = _until_end(emitted, ending)
        context += tokens
        if stop_reason is None and len(context) > target.n_ctx:
            stop_reason = CONTEXT
            texts[-1] += ending.flush()

        target.truncate(len(context) - 1)
        n_accepted = min(verdict.n_accepted, len(tokens))
        if drafter:
            drafter.accept(len(tokens) - 1, tokens[-1])
        cut_off = len(tokens) <= verdict.n_accepted
        n_lost = len(draft.tokens) - n_accepted
        yield Round(
            drafted=tuple(draft.tokens),
            n_accepted=n_accepted,
            n_rejected=0 if cut_off else n_lost,
            n_discarded=n_lost if cut_off else 0,
            tokens=tuple(tokens),
            texts=tuple(texts),
            stop_reason=stop_reason,
            draft_prefill_seconds=draft.prefill_seconds,
            draft_seconds=drafted - started - draft.prefill_seconds,
            verify_seconds=verified - drafted,
            seconds=time.perf_counter() - started,
        )


def prefill(target: Decoder, prompt: Sequence[int], piece_size: int, on_progress: OnProgress | None = None) -> None:
    """Bring the target's cache to the prompt without its last token, keeping what it shares with it already.

    Args:
        target: The target.
        prompt: At least one token.
        piece_size: How many tokens to decode at a time; between pieces an interruption is noticed.
        on_progress: Called after every piece.
    """
    wanted = prompt[:-1]
    target.truncate(shared_prefix(target.tokens, wanted))
    for start in range(len(target.tokens), len(wanted), piece_size):
        target.decode(wanted[start : start + piece_size], 0)
        if on_progress:
            on_progress(min(start + piece_size, len(wanted)), len(wanted))


def _room(target: Decoder, context: Sequence[int], ending: Ending) -> int:
    """How many drafted tokens the context and the answer's length leave room for beside the target's own token."""
    room = target.n_ctx - len(context)
    return room if ending.remaining is None else min(room, ending.remaining - 1)


def _draft(drafter: Drafter | None, context: Sequence[int], how: Speculation, room: int, ending: Ending) -> Draft:
    """Let the drafter propose; an end-of-generation token is kept and ends the draft."""
    if drafter is None or room <= 0:
        return Draft()
    position = len(context)
    rule = UntilEog(how.length.within(room))

    def draw(distribution: Distribution, i: int) -> int:
        if how.verify is verify_match:
            token = how.draws.race(distribution, position + i)
        else:
            token = how.draws.choose(distribution, Purpose.DRAFT, position, i)
        rule.ended = ending.is_eog(token)
        return token

    return drafter.propose(context, how.draft_sampler, draw, rule)


def _verify_pass(target: Decoder, context: Sequence[int], draft: Draft) -> Logits:
    """Decode the last token of the context and the draft in one batch; shape (γ + 1, n_vocab)."""
    if missing := context[len(target.tokens) : -1]:  # a memory that cannot be cut went back further than asked
        target.decode(missing, 0)
    target.checkpoint()
    return target.decode([context[-1], *draft.tokens], len(draft.tokens) + 1)


def _target_distributions(sampler: Sampler, rows: Logits, context: Sequence[int], draft: Draft) -> Target:
    """The target's distribution after each number of draft tokens, worked out when first asked for."""
    n_history = sampler.history_length
    recent = context[-n_history:] if n_history else context if n_history is None else ()

    known: dict[int, Distribution] = {}

    def distribution(i: int) -> Distribution:
        if i not in known:
            known[i] = sampler.distribution(rows[i], [*recent, *draft.tokens[:i]] if n_history != 0 else ())
        return known[i]

    return distribution


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
