"""--exact: verification in pieces no wider than what is exact, stopped at the first rejection."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import EXACT
from exact import ExactSampler, Setup, Table, TableDecoder, assert_exact
from terminals import environment, python

from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.decoding.piecewise import PiecewiseTarget
from specli.llama.model import Model
from specli.proof.widths import WIDEST, Widths, measure_widths
from specli.sampling.draws import SeededDraws
from specli.sampling.transforms import SamplingOptions
from specli.sampling.verification import verify_block, verify_match

TARGET, DRAFT = Table(3, seed=1), Table(3, seed=2)


class Watched(TableDecoder):
    """Notes the size of every batch."""

    def __init__(self, table, n_ctx=64, forgetful=False):
        super().__init__(table, n_ctx, forgetful)
        self.sizes: list[int] = []

    def decode(self, tokens, n_logits):
        self.sizes.append(len(tokens))
        return super().decode(tokens, n_logits)


def test_rows_are_computed_piece_by_piece_and_when_asked_for():
    decoder = Watched(TARGET)
    decoder.decode([0, 1], 0)
    rows = PiecewiseTarget(decoder, 3).decode([2, 0, 1, 2, 0, 1, 2], 7)
    assert decoder.sizes == [2, 3], "the first piece at once"
    first = rows[0].copy()
    assert decoder.sizes == [2, 3]
    rows[3]
    assert decoder.sizes == [2, 3, 3]
    np.testing.assert_array_equal(rows[0], first, "kept when the buffer was overwritten")
    np.testing.assert_array_equal(rows[5], TARGET.logits((0, 1, 2, 0, 1, 2, 0, 1)))
    assert decoder.tokens == [0, 1, 2, 0, 1, 2, 0, 1]


def test_tokens_without_logits_are_decoded_narrowly_too():
    decoder = Watched(TARGET)
    PiecewiseTarget(decoder, 2).decode([0, 1, 2, 0, 1], 1)
    assert decoder.sizes == [2, 2, 1]
    PiecewiseTarget(decoder, 2).decode([0, 1, 2], 0)
    assert decoder.sizes == [2, 2, 1, 2, 1]


@pytest.mark.parametrize("verify", [verify_match, verify_block])
@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("forgetful", [False, True])
def test_pieces_leave_the_law_as_it_is(monkeypatch, verify, width, forgetful):
    import exact as harness

    generate = harness.generate
    monkeypatch.setattr(harness, "generate", lambda target, *more: generate(PiecewiseTarget(target, width), *more))
    monkeypatch.setattr(harness.Rounds, "_check", lambda self, round_: None)  # a piece may lack what was not verified
    gamma = 3 if verify is verify_block else 2
    assert_exact(Setup(TARGET, DRAFT, gamma, verify, ExactSampler(), forgetful=forgetful), 4)


def test_a_rejection_leaves_out_the_other_pieces():
    """With a draft that is never right only the first piece of each round is computed."""

    class Wrong(Table):
        def _logits(self, context):
            return np.where(TARGET.logits(context) == TARGET.logits(context).max(), -np.inf, 0.0)

    import exact as harness

    decoders = []
    generate = harness.generate

    def piecewise(target, *more):
        decoders.append(Watched(target.table))
        decoders[-1].decode(list(target.tokens), 0)
        return generate(PiecewiseTarget(decoders[-1], 2), *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(harness, "generate", piecewise)
        patch.setattr(harness.Rounds, "_check", lambda self, round_: None)
        setup = Setup(TARGET, Wrong(3, seed=3), 6, verify_match, ExactSampler(temperature=0.0))
        rounds = setup.rounds(SeededDraws(0)).run(8)
    assert rounds.stats.accepted == 0
    assert max(decoders[0].sizes[1:]) <= 2
    assert len(decoders[0].sizes) == 1 + rounds.stats.rounds


@pytest.mark.parametrize(
    "identical, exact",
    [({8: (2, 3, 4), 40: (2, 3)}, 3), ({8: (2, 3, 4), 40: (3, 4)}, 1), ({8: (2, 3, 4, 5)}, 5), ({}, 1)],
)
def test_the_widest_exact_width(identical, exact):
    assert Widths((2, 3, 4, 5), identical, {}).exact == exact


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_texts_of_an_exact_width_are_plain_decodings(smollm, temperature):
    """Bit by bit, at a width that was measured here."""
    target = Model(smollm)
    options = replace(EXACT, ctx_size=512, threads=2, cache_type_k="f16", cache_type_v="f16")
    probe = Pair(target, target, options, options, WIDEST - 1)
    widths = measure_widths(probe.target, target.vocab.n_tokens, WIDEST, stop_early=True)
    probe.close()
    if widths.exact == 1:
        pytest.skip("no batch of several tokens is exact on this machine")
    pair = Pair(target, target, options, options, 8, widths.exact)
    prompt = target.vocab.tokenize("The three largest rivers are", add_special=True, parse_special=False)
    texts, rounds = [], []
    for n_max in (0, 8):
        pair.target.truncate(0)
        sampling = SamplingOptions(temperature)
        generation = pair.generate(
            prompt, GenerationOptions(sampling, "match", n_max=n_max, n_predict=48, ignore_eos=True, seed=3)
        )
        for _ in generation:
            pass
        texts.append(generation.token_ids)
        rounds.append(generation.stats.rounds)
    assert texts[0] == texts[1]
    assert rounds[1] < rounds[0]
    pair.close()
    target.close()


def test_the_command_line(tiny, tmp_path):
    """It says what it does, and remembers it; where nothing is exact it decodes plainly."""
    import json
    import subprocess

    def specli(*arguments):
        return subprocess.run(
            python("-m", "specli", "run", "--target", tiny / "target.gguf", "--draft", tiny / "draft.gguf", *arguments),
            capture_output=True,
            env=environment(XDG_CACHE_HOME=str(tmp_path)),
            timeout=60,
            check=False,
        )

    common = ("--exact", "--temp", 0.9, "-s", 5, "-n", 24, "-t", 1, "--compare", "--format", "json", "hello")
    first, again = specli(*common), specli(*common)
    assert first.returncode == again.returncode == 0, first.stderr.decode()
    assert b"comparing batches with single tokens" in first.stderr
    assert b"comparing batches with single tokens" not in again.stderr
    documents = [json.loads(done.stdout) for done in (first, again)]
    assert documents[0]["plain"]["identical"] and documents[1]["plain"]["identical"]
    assert documents[0]["token_ids"] == documents[1]["token_ids"]
    settings = documents[0]["settings"]
    assert settings["verification"] == "match"
    assert (settings["exact_width"] > 1) == (documents[0]["drafted"] > 0)
    refused = specli("--exact", "--verification", "block", "hello")
    assert refused.returncode == 2 and b"--exact" in refused.stderr
