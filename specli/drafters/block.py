"""What drafts a whole block in one pass, out of the target's hidden states: DFlash (Chen et al., 2026) and DSpark."""

import time
from collections.abc import Callable, Sequence
from functools import partial

from specli.drafters.drafter import Draft, DrawToken, Forecast, LengthRule, Sampler, extend, known, seen, shared_prefix
from specli.llama.decoder import BlockDecoder, FeatureSource, OnProgress

_LEFT_BY_A_ROUND = 8  # tokens a round may leave to read: few enough to cost next to nothing


class BlockDrafter:
    """Fills in masked tokens after the last one, all at once, beside keys and values made of the target's states.

    Each token is drawn from its own row, whatever that supposes of those before it: DFlash's rows know of no other
    drafted token, DSpark's suppose the likeliest, DFlash 2's know the one drawn before. All are lossless, since what is
    verified is the very distribution that was drawn from.

    Args:
        name: As ``--drafter`` knows it.
        module: It, in a cache of its own, which holds all of the context but the last token.
        features: The target's hidden states.
        mask: The token that stands for one to fill in.
        n_most: The most tokens of a block.
        from_anchor: Whether the last token's own row proposes the first token, not that of the first mask.
        has_confidence: Whether it tells how sure it is of each token; else the row tells.
        n_vocab: How many token ids it knows, counted from 0; None: all.
    """

    def __init__(
        self,
        name: str,
        module: BlockDecoder,
        features: FeatureSource,
        mask: int,
        n_most: int,
        *,
        from_anchor: bool = False,
        has_confidence: bool = False,
        n_vocab: int | None = None,
    ) -> None:
        self.name = name
        self._module = module
        self._features = features
        self._mask = mask
        self._n_most = n_most
        self._from_anchor = from_anchor
        self._has_confidence = has_confidence
        self._n_vocab = n_vocab
        self._n_true = 0  # how many of its cache's states are the target's
        self._has_proposed = False
        self._on_prefill: OnProgress | None = None

    def begin(self, prompt: Sequence[int], on_prefill: OnProgress | None = None) -> None:
        """Keep of the cache what the new prompt shares with it, if a text that ended early left that in order."""
        self._on_prefill = on_prefill
        self._has_proposed = False
        n_shared = shared_prefix(self._module.tokens, known(prompt[:-1], self._n_vocab))
        self._module.truncate(min(n_shared, self._n_true))

    def forecast(self, context: Sequence[int]) -> Forecast:
        """How much it would have to read; how sure it would be takes a computation."""
        n_unread = len(context) - len(self._module.tokens)
        return Forecast(None, n_unread=max(0, n_unread - _LEFT_BY_A_ROUND), in_one_pass=True, most=self._n_most)

    def propose(self, context: Sequence[int], sampler: Sampler, draw: DrawToken, rule: LengthRule) -> Draft:
        """Read the target's hidden states of what is new in the context, then fill in a block after it."""
        draft = Draft()
        n_rows = min(rule.most, self._n_most)
        if not n_rows or not rule.propose_another(0):
            return draft
        seconds = self._catch_up(context)
        draft.prefill_seconds, self._has_proposed = (0.0 if self._has_proposed else seconds), True
        history = seen(context, sampler)
        first = self._fill_in(known(context[-1:], self._n_vocab)[0], n_rows)
        for i in range(n_rows):
            row = self._module.row(first + i, draft.tokens[-1] if draft.tokens else context[-1])
            token = extend(draft, row, history, sampler, draw, rule, self._confidence(first + i))
            if token is None or not rule.propose_another(i + 1):
                break
            history.append(token)
        self._module.truncate(len(context) - 1)
        return draft

    def accept(self, n_accepted: int, token: int) -> None:
        """Nothing to take back: the cache only ever holds what the target has computed of the text itself."""

    def rehearse(self, n_tokens: int) -> None:
        """Do the work of reading ``n_tokens`` and filling in a block; the cache is empty before and after."""
        self._module.truncate(0)
        states = self._features.rehearse(n_tokens)
        for place in range(0, n_tokens, self._module.n_ubatch):
            piece = states[place : place + self._module.n_ubatch]
            self._module.inject([0] * len(piece), piece)
        self._fill_in(0, self._n_most)
        self._module.truncate(0)
        self._n_true = 0

    def _fill_in(self, last: int, n_rows: int) -> int:
        """Work out ``n_rows`` tokens after the last; return the place of the first."""
        n_masks = n_rows - 1 if self._from_anchor else n_rows
        self._module.fill_in([last, *[self._mask] * n_masks])
        return n_masks + 1 - n_rows

    def _confidence(self, place: int) -> Callable[[], float] | None:
        return partial(self._module.confidence, place) if self._has_confidence else None

    def _catch_up(self, context: Sequence[int]) -> float:
        """Read what the target has computed and the cache lacks; return the seconds it took."""
        started = time.perf_counter()
        start, end = len(self._module.tokens), len(context) - 1
        for place in range(start, end, self._module.n_ubatch):
            stop = min(end, place + self._module.n_ubatch)
            self._module.inject(known(context[place:stop], self._n_vocab), self._features.rows(place, stop))
            if self._on_prefill and not self._has_proposed:
                self._on_prefill(stop - start, end - start)
        self._n_true = len(self._module.tokens)
        return time.perf_counter() - started
