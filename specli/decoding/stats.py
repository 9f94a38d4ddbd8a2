"""What happened in a text's rounds, added up in the field's terms."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest

from specli.decoding.round import Round


@dataclass
class DrafterStats:
    """What one drafter was asked for and what became of it.

    Attributes:
        rounds: Rounds it was asked in.
        drafted: Tokens it proposed.
        accepted: Of them.
        rejected: Of them.
    """

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    rejected: int = 0


@dataclass
class Stats:
    """Counts and times of one text.

    drafted = accepted + rejected + discarded. Times are in seconds.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        kept_tokens: Of them, what the target's cache held already.
        tokens: Tokens of the answer, the end-of-generation token included.
        rounds: Target forward passes after the prefill.
        drafted_by_position: How often a token was drafted at each position, discarded ones not counted.
        accepted_by_position: How often the token at each position was accepted.
        by_drafter: The same by the drafter that was asked.
        prefill_seconds: The target reading the prompt.
        draft_prefill_seconds: The drafter reading the prompt.
        draft_seconds: Drafting.
        verify_seconds: The target's forward passes, the verdicts on them, and what taking tokens back takes where its
            memory cannot be cut.
        decode_seconds: All rounds, from the end of the target's prefill to the last token, without
            ``draft_prefill_seconds``.
    """

    prompt_tokens: int = 0
    kept_tokens: int = 0
    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    rejected: int = 0
    discarded: int = 0
    drafted_by_position: list[int] = field(default_factory=list)
    accepted_by_position: list[int] = field(default_factory=list)
    by_drafter: dict[str, DrafterStats] = field(default_factory=dict)
    prefill_seconds: float = 0.0
    draft_prefill_seconds: float = 0.0
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    decode_seconds: float = 0.0

    def add(self, round_: Round) -> None:
        """Count one more round."""
        n_judged = round_.n_accepted + round_.n_rejected
        self.rounds += 1
        self.tokens += len(round_.tokens)
        self.drafted += len(round_.drafted)
        self.accepted += round_.n_accepted
        self.rejected += round_.n_rejected
        self.discarded += round_.n_discarded
        missing = n_judged - len(self.drafted_by_position)
        self.drafted_by_position += [0] * missing
        self.accepted_by_position += [0] * missing
        for i in range(n_judged):
            self.drafted_by_position[i] += 1
            self.accepted_by_position[i] += i < round_.n_accepted
        if round_.drafter:
            of_drafter = self.by_drafter.setdefault(round_.drafter, DrafterStats())
            of_drafter.rounds += 1
            of_drafter.drafted += len(round_.drafted)
            of_drafter.accepted += round_.n_accepted
            of_drafter.rejected += round_.n_rejected
        self.draft_prefill_seconds += round_.draft_prefill_seconds
        self.draft_seconds += round_.draft_seconds
        self.verify_seconds += round_.verify_seconds + round_.rollback_seconds
        self.decode_seconds += round_.seconds - round_.draft_prefill_seconds

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted ÷ (accepted + rejected); None before anything was drafted."""
        judged = self.accepted + self.rejected
        return self.accepted / judged if judged else None

    @property
    def mean_accepted_length(self) -> float | None:
        """Tokens ÷ rounds (1.00 is plain decoding); None before the first round."""
        return self.tokens / self.rounds if self.rounds else None

    @property
    def tokens_per_second(self) -> float | None:
        """Decode speed, prefill not counted; None before the first round."""
        return self.tokens / self.decode_seconds if self.decode_seconds else None

    @property
    def other_seconds(self) -> float:
        """Time of the rounds outside drafting and verifying: transforms, verification, bookkeeping."""
        return self.decode_seconds - self.draft_seconds - self.verify_seconds

    @property
    def total_seconds(self) -> float:
        """End to end: from the prompt to the last token."""
        return self.prefill_seconds + self.draft_prefill_seconds + self.decode_seconds


def summed(texts: Iterable[Stats]) -> Stats:
    """The counts and times of several texts as of one."""
    total = Stats()
    for text in texts:
        for name, value in vars(text).items():
            mine = getattr(total, name)
            if isinstance(value, list):
                value = [a + b for a, b in zip_longest(mine, value, fillvalue=0)]
            elif isinstance(value, dict):
                value = {drafter: _both(mine.get(drafter), value.get(drafter)) for drafter in mine | value}
            else:
                value = mine + value
            setattr(total, name, value)
    return total


def _both(one: DrafterStats | None, other: DrafterStats | None) -> DrafterStats:
    one, other = one or DrafterStats(), other or DrafterStats()
    return DrafterStats(**{name: value + vars(other)[name] for name, value in vars(one).items()})
