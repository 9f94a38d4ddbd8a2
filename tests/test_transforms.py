"""The transforms against llama.cpp's own sampler chain: the same survivors with the same probabilities."""

import math
import os
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specli.errors import UsageError
from specli.llama.sampler_chain import sampler_chain
from specli.sampling.transforms import SamplingOptions, Transforms

N_VOCAB = 151_936
NEGLIGIBLE = 1e-30  # single precision ends not far below
OFF = SamplingOptions(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
MODELS = Path(os.environ.get("SPECLI_MODELS", Path.home() / "models"))


def llama_chain(options, logits, history, min_keep=0):
    """What llama.cpp's chain leaves: ids, ascending, and their logits."""
    return sampler_chain(logits, history, **asdict(options), min_keep=min_keep)


def softmax(logits):
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def adjusted(options, logits, history):
    """Logits after llama.cpp's bias and penalties alone, to tell which tokens are on the border of a cut."""
    ids, left = llama_chain(replace(options, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0), logits, history)
    values = np.full(len(logits), -np.inf, np.float32)
    values[ids] = left
    return values


def assert_like_llama(options, logits, history=(), min_keep=0, transforms=None):
    before = logits.copy()
    distribution = (transforms or Transforms(options)).distribution(logits, history)
    assert np.array_equal(logits, before), "logits are read, never written"
    probabilities = distribution.probabilities.astype(np.float64)
    ids = np.arange(len(probabilities)) if distribution.ids is None else distribution.ids
    assert np.all(np.diff(ids) > 0)
    assert probabilities.sum() == pytest.approx(1.0, abs=2e-6)
    ids, probabilities = ids[probabilities > 0], probabilities[probabilities > 0]

    theirs, their_logits = llama_chain(options, logits, history, min_keep)
    values = adjusted(options, logits, history)
    if options.greedy:
        assert values[ids[0]] == values[theirs].max()
        return
    their_probabilities = softmax(their_logits)
    ours_alone = np.setdiff1d(ids[probabilities > NEGLIGIBLE], theirs)
    theirs_alone = np.setdiff1d(theirs[their_probabilities > NEGLIGIBLE], ids)
    if different := len(ours_alone) + len(theirs_alone) > 0:
        assert_on_a_border(options, values, ids, theirs)
    _, ours_at, theirs_at = np.intersect1d(ids, theirs, return_indices=True)
    ours, expected = probabilities[ours_at], their_probabilities[theirs_at]
    if different:  # a token more or less changes every probability by one factor
        ours, expected = ours / ours.sum(), expected / expected.sum()
    likely = expected > NEGLIGIBLE
    np.testing.assert_allclose(ours[likely], expected[likely], rtol=2e-5)


def assert_on_a_border(options, values, ids, theirs):
    """Survivors may differ by tied tokens, or where single precision sums to either side of top-p."""
    if len(ids) == len(theirs):
        assert np.array_equal(np.sort(values[ids]), np.sort(values[theirs])), "as many survivors, but not as likely"
        return
    assert options.top_p < 1.0, "only the sum of top-p depends on the order of summation"
    survivors = values if options.top_k <= 0 else -np.sort(-values)[: options.top_k]
    exact, single = (cumulative_probabilities(survivors.astype(dtype)) for dtype in (np.float64, np.float32))
    slack = 2.0 * np.abs(exact - single).max() + 1e-5
    for n in range(min(len(ids), len(theirs)), max(len(ids), len(theirs))):
        assert exact[n - 1] == pytest.approx(options.top_p, abs=slack)


def cumulative_probabilities(logits):
    """Sums of the largest probabilities, every sum taken one term after the other, as llama.cpp does."""
    weights = np.exp(logits - logits.max())
    return np.cumsum(-np.sort(-weights) / np.cumsum(weights)[-1])


def random_logits(rng, shape, n=N_VOCAB):
    """Rows as language models write them, and worse."""
    logits = rng.normal(0.0, 2.5, n)
    if shape == "peaked":
        logits[rng.integers(n, size=30)] += rng.exponential(6.0, 30) + 8.0
    elif shape == "certain":
        logits[rng.integers(n)] += 40.0
    elif shape == "flat":
        logits *= 0.05
    elif shape == "tied":
        logits = np.round(logits * 2) / 2
    elif shape == "negative":
        logits -= 40.0
    elif shape == "forbidden":
        logits[rng.random(n) < 0.9] = -np.inf
    return logits.astype(np.float32)


SHAPES = ("plain", "peaked", "certain", "flat", "tied", "negative", "forbidden")

sampling_options = st.builds(
    SamplingOptions,
    temperature=st.sampled_from([0.0, 0.3, 0.8, 1.0, 1.7]),
    top_k=st.sampled_from([0, 0, 1, 2, 40, 300, 5000, 200_000, -1]),
    top_p=st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.95, 0.999, 1.0, 1.0]),
    min_p=st.sampled_from([0.0, 0.0, 0.001, 0.05, 0.5, 1.0]),
    repeat_last_n=st.sampled_from([0, 1, 5, 64, -1]),
    repeat_penalty=st.sampled_from([1.0, 1.0, 1.1, 1.5, 0.8]),
    presence_penalty=st.sampled_from([0.0, 0.0, 0.5, -0.3]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 0.2]),
    logit_bias=st.sampled_from([(), (), ((7, 20.0),), ((3, -math.inf), (100_000, 2.5), (9, -1.0)), ((5, -math.inf),)]),
)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(options=sampling_options, seed=st.integers(0, 2**32 - 1), min_keep=st.sampled_from([0, 1]))
def test_random_options(shape, options, seed, min_keep):
    rng = np.random.default_rng(seed)
    logits = random_logits(rng, shape)
    likely = np.argsort(-logits)[:20]
    history = [int(token) for token in rng.choice(likely, size=rng.integers(0, 100))]
    assert_like_llama(options, logits, history, min_keep)


@pytest.mark.parametrize(
    "options",
    [
        SamplingOptions(),
        OFF,
        replace(OFF, temperature=0.8),
        replace(OFF, top_p=0.95),
        replace(OFF, top_p=0.9999),
        replace(OFF, min_p=0.05),
        replace(OFF, top_k=40),
        replace(OFF, top_k=1),
        replace(OFF, top_p=0.9, min_p=0.1),
        replace(OFF, repeat_penalty=1.2, presence_penalty=0.5, frequency_penalty=0.1),
        replace(OFF, logit_bias=((0, -math.inf), (1, 3.0))),
        SamplingOptions(temperature=0.0),
        SamplingOptions(temperature=0.0, repeat_penalty=1.3),
        SamplingOptions(temperature=0.0, logit_bias=((2, -math.inf), (1, 3.0))),
    ],
    ids=lambda options: (
        ",".join(f"{name}={value}" for name, value in vars(options).items() if value != getattr(OFF, name)) or "off"
    ),
)
@pytest.mark.parametrize("shape", SHAPES)
def test_usual_options(options, shape):
    for seed in range(2):
        logits = random_logits(np.random.default_rng(seed), shape)
        history = np.argsort(-logits)[[0, 1, 1, 3, 700, 76_000, 80_000, 90_000]].tolist()  # of either sign
        assert_like_llama(options, logits, history)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    options=sampling_options,
    logits=st.lists(st.integers(-8, 8).map(lambda i: i / 2), min_size=1, max_size=12),
    history=st.lists(st.integers(0, 11), max_size=6),
    min_keep=st.sampled_from([0, 1]),
)
def test_tiny_vocabularies_full_of_ties(options, logits, history, min_keep):
    options = replace(options, logit_bias=tuple(pair for pair in options.logit_bias if pair[0] < len(logits)))
    row = np.array(logits, np.float32)
    if all((token, -math.inf) in options.logit_bias for token in range(len(row))):
        return
    assert_like_llama(options, row, [token for token in history if token < len(row)], min_keep)


def test_a_min_p_that_nothing_reaches_keeps_the_most_likely():
    """As llama.cpp does."""
    for options in (replace(OFF, min_p=1.5), replace(OFF, min_p=1.5, top_k=5), replace(OFF, min_p=1.5, top_p=0.5)):
        assert_like_llama(options, random_logits(np.random.default_rng(0), "plain"))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    options=sampling_options,
    shapes=st.lists(st.sampled_from(SHAPES), min_size=2, max_size=8),
    seed=st.integers(0, 2**32 - 1),
    n_shared=st.sampled_from([None, 5000, 19_000]),
)
def test_earlier_rows_leave_no_trace(options, shapes, seed, n_shared):
    """Transforms that have seen other rows do what fresh ones do, to the bit."""
    rng = np.random.default_rng(seed)
    used = Transforms(options, n_shared)
    history = rng.integers(100, size=10).tolist()
    for shape in shapes:
        logits = random_logits(rng, shape, n=20_000)
        if shape == "tied":
            logits[rng.integers(len(logits), size=3)] += 30.0
        ours, fresh = used.distribution(logits, history), Transforms(options, n_shared).distribution(logits, history)
        assert (ours.ids is None) == (fresh.ids is None)
        assert ours.ids is None or np.array_equal(ours.ids, fresh.ids)
        assert np.array_equal(ours.probabilities, fresh.probabilities)
        assert used.confidence(logits, ours) == Transforms(options, n_shared).confidence(logits, fresh)


@pytest.mark.parametrize("options", [OFF, SamplingOptions(), replace(OFF, top_p=0.9), SamplingOptions(temperature=0.0)])
def test_distributions_outlive_the_logits(options):
    """What is kept past the next decode must be no view of the model's buffer."""
    rng = np.random.default_rng(0)
    transforms = Transforms(options)
    logits = random_logits(rng, "peaked")
    distribution = transforms.distribution(logits, ())
    probabilities = distribution.probabilities.copy()
    ids = None if distribution.ids is None else distribution.ids.copy()
    logits[:] = np.nan
    transforms.distribution(random_logits(rng, "plain"), ())
    assert np.array_equal(distribution.probabilities, probabilities)
    assert ids is None or np.array_equal(distribution.ids, ids)


@pytest.mark.parametrize("options", [OFF, SamplingOptions(), replace(OFF, top_p=0.9), SamplingOptions(temperature=0.0)])
def test_only_shared_ids(options):
    """A draft with a larger vocabulary proposes nothing the target has not; the rest is as if it had no more."""
    logits = random_logits(np.random.default_rng(0), "peaked")
    n_shared = N_VOCAB - 500
    logits[n_shared + 3] = 90.0
    ours = Transforms(options, n_shared).distribution(logits, ())
    expected = Transforms(options).distribution(logits[:n_shared].copy(), ())
    assert ours.probability(n_shared + 3) == 0.0
    assert np.array_equal(ours.probabilities, expected.probabilities)
    assert (ours.ids is None and expected.ids is None) or np.array_equal(ours.ids, expected.ids)


@pytest.mark.parametrize("shape", SHAPES)
def test_confidence(shape):
    """Sampling, the largest probability of what is drawn from; greedily, the softmax's but for what hardly counts."""
    logits = random_logits(np.random.default_rng(0), shape, n=150_000)
    largest = softmax(logits.astype(np.float64)).max()
    for options, within in ((SamplingOptions(temperature=0.0), 0.01), (OFF, 1e-4)):
        transforms = Transforms(options)
        confidence = transforms.confidence(logits, transforms.distribution(logits, ()))
        assert confidence == pytest.approx(largest, rel=within)
    transforms = Transforms(SamplingOptions())
    distribution = transforms.distribution(logits, ())
    assert transforms.confidence(logits, distribution) == pytest.approx(distribution.probabilities.max(), rel=1e-12)


def test_how_much_history():
    assert Transforms(SamplingOptions()).history_length == 0
    assert Transforms(SamplingOptions(repeat_penalty=1.1)).history_length == 64
    assert Transforms(SamplingOptions(repeat_penalty=1.1, repeat_last_n=0)).history_length == 0
    assert Transforms(SamplingOptions(presence_penalty=0.1, repeat_last_n=-1)).history_length is None
    assert Transforms(SamplingOptions(frequency_penalty=0.1, repeat_last_n=7)).history_length == 7


@pytest.mark.parametrize(
    "flag, options",
    [
        ("--temp", SamplingOptions(temperature=math.nan)),
        ("--temp", SamplingOptions(temperature=math.inf)),
        ("--top-p", SamplingOptions(top_p=math.nan)),
        ("--min-p", SamplingOptions(min_p=math.nan)),
        ("--repeat-penalty", SamplingOptions(repeat_penalty=0.0)),
        ("--repeat-penalty", SamplingOptions(repeat_penalty=math.inf)),
        ("--presence-penalty", SamplingOptions(presence_penalty=math.nan)),
        ("--frequency-penalty", SamplingOptions(frequency_penalty=-math.inf)),
        ("--repeat-last-n", SamplingOptions(repeat_last_n=-2)),
    ],
)
def test_options_that_mean_nothing(flag, options):
    with pytest.raises(UsageError, match=flag):
        options.check()


PROMPTS = (
    "def merge_sorted_lists(a, b):\n    ",
    "The capital of France is",
    "今天天气",
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,",
)


@pytest.fixture(scope="module")
def real_rows():
    """Logits of a real model after each token of a few prompts, with the tokens before."""
    path = MODELS / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    from specli.llama.context import Context
    from specli.llama.model import Model
    from specli.llama.options import ContextOptions, ModelOptions

    model = Model(path, ModelOptions())
    context = Context(model, ContextOptions(ctx_size=256), n_outputs=64)
    rows = []
    for prompt in PROMPTS:
        tokens = model.vocab.tokenize(prompt, add_special=True, parse_special=True)
        context.truncate(0)
        logits = context.decode(tokens, len(tokens))
        rows += [(logits[i].copy(), tokens[: i + 1]) for i in range(0, len(tokens), 5)]
    context.close()
    model.close()
    return rows


@pytest.mark.parametrize(
    "options",
    [
        SamplingOptions(),
        OFF,
        replace(OFF, temperature=0.6, top_p=0.95),
        replace(OFF, min_p=0.02),
        replace(OFF, top_k=20, top_p=0.8),
        SamplingOptions(repeat_penalty=1.1, presence_penalty=0.3, frequency_penalty=0.2, repeat_last_n=8),
        SamplingOptions(temperature=0.0, repeat_penalty=1.1),
    ],
    ids=["defaults", "off", "top-p", "min-p", "top-k,top-p", "penalties", "greedy"],
)
def test_real_logits(real_rows, options):
    transforms = Transforms(options)
    for logits, history in real_rows:
        assert_like_llama(options, logits, history, transforms=transforms)


@pytest.mark.parametrize("temperature", [0.7, 1.0])
@pytest.mark.parametrize("shift", [-3000.0, -100.0, -50.0, 50.0, 100.0, 3000.0])
@pytest.mark.parametrize("forbidden", [(), (7,)])
def test_where_logits_lie_does_not_matter(shift, temperature, forbidden):
    """Adding a number to all logits, beyond where their exponentials overflow or vanish, changes no probability."""
    logits = random_logits(np.random.default_rng(0), "peaked")
    logits[7] = logits.max() + 60.0
    bias = tuple((token, -np.inf) for token in forbidden)
    transforms = Transforms(replace(OFF, temperature=temperature, logit_bias=bias))
    expected = logits.astype(np.float64)
    expected[list(forbidden)] = -np.inf
    shifted = transforms.distribution(logits + np.float32(shift), ())
    assert shifted.probabilities == pytest.approx(softmax(expected / temperature), rel=5e-3, abs=1e-12)
