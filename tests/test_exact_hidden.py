"""Drafters that read the target's hidden states: the target's law exactly, and each state beside the right token.

The states of these tables are fingerprints of the texts they stand for: positive the target's, negative the module's.
"""

from collections.abc import Sequence

import numpy as np
import pytest
from exact import ExactSampler, LookupDrafter, Setup, Table, TableDecoder, assert_exact

from specli.decoding.draft_length import FixedLength
from specli.decoding.policy import FixedPolicy
from specli.drafters.block import BlockDrafter
from specli.drafters.drafter import Forecast
from specli.drafters.hidden_state import HiddenStateDrafter
from specli.proof.enumeration import every_path
from specli.sampling.verification import VERIFICATIONS, verify_block

every_verification = pytest.mark.parametrize("verify", VERIFICATIONS.values(), ids=VERIFICATIONS.keys())
TARGET, DRAFT = Table(3, seed=1), Table(3, seed=2)
_MASK = 7


def fingerprint(tokens: Sequence[int]) -> float:
    number = 1
    for token in tokens:
        number = number * 8 + token
    return float(number)


class TargetStates:
    """The target's states, of tokens that are in its cache."""

    width = 1

    def __init__(self, target: TableDecoder) -> None:
        self._target = target

    def rows(self, start: int, end: int) -> np.ndarray:
        assert 0 <= start <= end <= len(self._target.tokens), "the target has not computed these"
        states = [fingerprint(self._target.tokens[: i + 1]) for i in range(start, end)]
        return np.array(states, float).reshape(-1, 1)

    def rehearse(self, n_tokens: int) -> np.ndarray:
        return np.zeros((n_tokens, 1))


class TableModule:
    """A module of one or several heads whose logits come from tables; it knows which head has read what."""

    def __init__(self, decoder: TableDecoder, first: int, n_heads: int) -> None:
        self.n_ctx, self.n_ubatch = decoder.n_ctx, 3
        self._decoder = decoder  # whose tokens begin with those the module does not read
        self._decoder.tokens = [0][:first]  # what every prompt here begins with
        self._first = first
        self._read: list[list[tuple[int, float]]] = [[] for _ in range(n_heads)]
        self._head = 0
        self._tables = [decoder.table, Table(decoder.table.n_vocab, seed=20)][:n_heads]

    @property
    def tokens(self) -> list[int]:
        return self._decoder.tokens[self._first :]

    def decode_hidden(self, tokens: Sequence[int], hidden: np.ndarray, *, logits: bool) -> np.ndarray:
        assert len(hidden) == len(tokens) > 0
        read = self._read[self._head]
        assert [token for token, _ in read[: len(self.tokens)]] == self.tokens, "the head has not read what is before"
        del read[len(self.tokens) :]
        for token, (state,) in zip(tokens, hidden, strict=True):
            before = self._decoder.tokens
            assert abs(state) == (fingerprint(before) if before else 0.0), "a state of another text"
            read.append((token, state))
            self._decoder.tokens.append(token)
        table = self._tables[self._head]
        rows = [table.logits(tuple(self._decoder.tokens))] if logits else []
        return np.array(rows).reshape(len(rows), table.n_vocab)

    def hidden(self) -> np.ndarray:
        return np.array([[-fingerprint(self._decoder.tokens)]])

    def select_head(self, i: int) -> None:
        self._head = i

    def truncate(self, n_tokens: int) -> None:
        del self._decoder.tokens[self._first + n_tokens :]

    def check(self) -> None:
        """Nothing that stays was read with the module's own states."""
        for read in self._read:
            assert all(state >= 0.0 for _, state in read[: len(self.tokens)])


class CheckedDrafter(HiddenStateDrafter):
    """Looks after every round at what its module keeps."""

    def accept(self, n_accepted: int, token: int) -> None:
        super().accept(n_accepted, token)
        self._module.check()


def hidden_state(first: int = 0, n_heads: int = 1):
    def make(decoder: TableDecoder, target: TableDecoder) -> CheckedDrafter:
        module = TableModule(decoder, first, n_heads)
        return CheckedDrafter("mtp", module, TargetStates(target), first=first, n_heads=n_heads)

    return make


class TableBlock:
    """A module that fills in blocks; its rows know of no other place, of the likeliest before, or of the one drawn."""

    def __init__(self, decoder: TableDecoder, knows: str) -> None:
        self.n_ubatch = 3
        self._decoder = decoder
        self._knows = knows
        self._block: list[int] = []

    @property
    def tokens(self) -> list[int]:
        return self._decoder.tokens

    def truncate(self, n_tokens: int) -> None:
        del self._decoder.tokens[n_tokens:]

    def inject(self, tokens: Sequence[int], features: np.ndarray) -> None:
        assert 0 < len(tokens) <= self.n_ubatch
        for token, (state,) in zip(tokens, features, strict=True):
            self._decoder.tokens.append(token)
            assert state == fingerprint(self._decoder.tokens), "a state of another text"

    def fill_in(self, block: Sequence[int]) -> None:
        assert block[0] != _MASK and set(block[1:]) <= {_MASK}
        self._block = list(block)
        self._decoder.tokens.extend(block)

    def row(self, i: int, before: int) -> np.ndarray:
        n = len(self._decoder.tokens) - len(self._block)
        context = (*self._decoder.tokens[:n], self._block[0])
        known = {"nothing": (), "likeliest": self._likeliest(context, i), "drawn": (before,)}[self._knows]
        return self._decoder.table.logits((*context, 10 + i, *known))

    def _likeliest(self, context: tuple[int, ...], i: int) -> tuple[int, ...]:
        chain: tuple[int, ...] = ()
        for j in range(i):
            chain = (*chain, int(self._decoder.table.logits((*context, 10 + j, *chain)).argmax()))
        return chain

    def confidence(self, i: int) -> float:
        return 0.9 if i < 2 else 0.1


def block(knows: str = "nothing", n_most: int = 4, **options: bool):
    def make(decoder: TableDecoder, target: TableDecoder) -> BlockDrafter:
        module = TableBlock(decoder, knows)
        return BlockDrafter("dflash", module, TargetStates(target), _MASK, n_most, **options)

    return make


KINDS = {
    "mtp": hidden_state(),
    "mtp-heads": hidden_state(n_heads=2),
    "eagle3": hidden_state(first=1),
    "dflash": block(),
    "dspark": block("likeliest", from_anchor=True),
    "dflash2": block("drawn"),
}


def p_min_rule(gamma: int, p_min: float):
    return lambda setup: FixedPolicy(FixedLength(gamma, 0, p_min))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verify, gamma", [*((verify, 1) for verify in VERIFICATIONS.values()), (verify_block, 2)])
def test_the_law_is_the_targets(kind, gamma, verify):
    assert_exact(Setup(TARGET, DRAFT, gamma, verify, make_drafter=KINDS[kind], reads_target=True))


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_drafts(kind):
    sampler = ExactSampler(temperature=0.0)
    assert_exact(
        Setup(TARGET, DRAFT, 3, verify_block, draft_sampler=sampler, make_drafter=KINDS[kind], reads_target=True)
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p_min", [0.45])
def test_p_min(kind, p_min):
    make = KINDS[kind]
    assert_exact(
        Setup(TARGET, DRAFT, 2, verify_block, make_policy=p_min_rule(2, p_min), make_drafter=make, reads_target=True)
    )


@every_verification
def test_a_confidence_head_ends_a_draft(verify):
    make = block("likeliest", from_anchor=True, has_confidence=True)
    setup = Setup(TARGET, DRAFT, 2, verify, make_policy=p_min_rule(4, 0.5), make_drafter=make, reads_target=True)
    assert_exact(setup)
    for _, rounds in every_path(lambda draws: setup.rounds(draws).run(3)):
        assert max(len(rounds.stats.drafted_by_position), 1) <= 2


@pytest.mark.parametrize("kind", KINDS)
def test_penalties(kind):
    sampler = ExactSampler(penalty=0.7, window=2)
    assert_exact(Setup(TARGET, DRAFT, 2, verify_block, sampler, make_drafter=KINDS[kind], reads_target=True))


@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_is_cut_at_checkpoints_only(kind):
    assert_exact(Setup(TARGET, DRAFT, 2, verify_block, forgetful=True, make_drafter=KINDS[kind], reads_target=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prompt", [(0,), (0, 1, 2, 0, 1, 2, 2, 1, 0, 0, 1, 2, 0)])
def test_short_and_long_prompts(kind, prompt):
    assert_exact(Setup(TARGET, DRAFT, 1, verify_block, prompt=prompt, make_drafter=KINDS[kind], reads_target=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_ctx", [2, 4])
def test_full_context(kind, n_ctx):
    setup = Setup(
        TARGET, DRAFT, 2, verify_block, n_ctx=n_ctx, draft_n_ctx=n_ctx, make_drafter=KINDS[kind], reads_target=True
    )
    assert_exact(setup, n=4)


@pytest.mark.parametrize("kind", KINDS)
def test_heads_and_blocks_end_drafts(kind):
    """Two heads draft two tokens at most, a block what was left of it; one head goes on."""
    most = {"mtp": 6, "eagle3": 6, "mtp-heads": 2}.get(kind, 4)
    setup = Setup(TARGET, DRAFT, 6, sampler=ExactSampler(temperature=0.0), make_drafter=KINDS[kind], reads_target=True)
    for _, rounds in every_path(lambda draws: setup.rounds(draws).run(12)):
        drafted = rounds.stats.drafted / rounds.stats.rounds
        assert drafted == most


@every_verification
def test_several_drafters_take_turns(verify):
    """Rounds that another drafted are read before the next of its own."""

    class EveryOther(LookupDrafter):
        def forecast(self, context):
            return Forecast(None if len(context) % 2 else ())

    def make(decoder, target):
        return [EveryOther(3, seed=5), hidden_state()(decoder, target)]

    assert_exact(Setup(TARGET, DRAFT, 2, verify, make_drafter=make, reads_target=True))
