"""Greedy texts, drafted and plain: where they part, and whether that is numerics."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace

from specli.decoding.comparison import first_difference, logit_gap
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.llama.decoder import Logits
from specli.llama.sampler_chain import sampler_chain
from specli.proof.audited import write_audited
from specli.proof.faults import Faults, Kind
from specli.proof.noise import Noise, measure_noise
from specli.sampling.transforms import SamplingOptions

_LEAST_ACCEPTANCE = 0.9  # of a model that drafts for itself: batch width alone costs it a few


@dataclass(frozen=True)
class Parting:
    """Where a drafted text leaves the plain one.

    Attributes:
        prompt: Which one, counted from 0.
        drafter: Who drafted.
        index: Of the first token that differs.
        token: It.
        plain_token: Plain decoding's; None of either: the text had ended.
        gap: The target's logit of the plain token minus that of the other, in plain decoding.
        noise: What batch width alone does to such gaps.
    """

    prompt: int
    drafter: str
    index: int
    token: int | None
    plain_token: int | None
    gap: float | None
    noise: float

    @property
    def is_numerics(self) -> bool:
        """Whether batch width explains it."""
        return self.gap is not None and abs(self.gap) <= self.noise


@dataclass
class GreedyProof:
    """What was found.

    Attributes:
        n_texts: How many drafted texts.
        n_tokens: Tokens of each, at most.
        partings: One of each text that parts.
        noise: Of plain computations along the plain texts.
        acceptance: By drafter, accepted and judged tokens.
    """

    n_texts: int = 0
    n_tokens: int = 0
    partings: list[Parting] = field(default_factory=list)
    noise: Noise = field(default_factory=lambda: Noise([], []))
    acceptance: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Replay:
    """What it takes to see a failure again."""

    prompt: tuple[int, ...]
    plain: tuple[int, ...]
    drafted: tuple[int, ...]
    parting: Parting
    options: GenerationOptions


def compare_greedy(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    options: GenerationOptions,
    faults: Faults,
    on_prompt: Callable[[int], None] = lambda _: None,
) -> tuple[GreedyProof, list[Replay]]:
    """Write each prompt's greedy text plainly and with each drafter, and judge the first difference of each.

    Args:
        pair: The models.
        prompts: Token ids.
        options: The settings in use, with a fixed n-max; temperature 0 whatever they say.
        faults: Where faults are noted.
        on_prompt: Called before each prompt.

    Returns:
        What was found, and how to see again what is not explained.
    """
    sampling = replace(options.sampling, temperature=0.0)
    plain_options = replace(options, sampling=sampling, n_max=0, n_min=0, drafters=None)
    proof, differences = GreedyProof(n_tokens=options.n_predict), []
    shortest = min(range(len(prompts)), key=lambda number: len(prompts[number]))
    for number, prompt in enumerate(prompts):
        on_prompt(number)
        where = f"greedy, prompt {number + 1}"
        plain = write_audited(pair, prompt, plain_options, faults, f"{where}, plain", keep_rows=True)
        rows = [batch[0].row for batch in plain.audit.target_rows]
        widths = dict.fromkeys((1, pair.target.n_outputs) if number == shortest else (pair.target.n_outputs,))
        measure_noise(pair.target, prompt, plain.token_ids, rows, list(widths), proof.noise)
        for name in pair.names(options):
            drafted_options = replace(options, sampling=sampling, drafters=(name,))
            drafted = write_audited(pair, prompt, drafted_options, faults, f"{where}, {name}")
            proof.n_texts += 1
            stats, (accepted, judged) = drafted.stats, proof.acceptance.get(name, (0, 0))
            proof.acceptance[name] = (accepted + stats.accepted, judged + stats.accepted + stats.rejected)
            index = first_difference(drafted.token_ids, plain.token_ids)
            if index is not None:
                row = rows[index] if index < len(rows) else None
                differences.append(
                    _Difference(number, name, index, row, plain.token_ids, drafted.token_ids, drafted_options)
                )
    replays = []
    for difference in differences:
        parting = _judge(pair, prompts[difference.prompt], difference, proof.noise, pair.sampling(plain_options))
        proof.partings.append(parting)
        if not parting.is_numerics:
            prompt = tuple(prompts[difference.prompt])
            replays.append(Replay(prompt, difference.plain, difference.drafted, parting, difference.options))
            why = "one of them has ended" if parting.gap is None else f"{parting.gap:.3f} > {parting.noise:.3f}"
            where = f"greedy, prompt {parting.prompt + 1}, {parting.drafter}"
            faults.add(Kind.TEXT, where, f"token {parting.index + 1}: {why}")
    _check_self_draft(pair, options, proof, faults)
    return proof, replays


@dataclass(frozen=True)
class _Difference:
    """Two texts that part, and plain decoding's row of logits there, if it came so far."""

    prompt: int
    drafter: str
    index: int
    row: Logits | None
    plain: tuple[int, ...]
    drafted: tuple[int, ...]
    options: GenerationOptions


def _judge(
    pair: Pair, prompt: Sequence[int], difference: _Difference, noise: Noise, sampling: SamplingOptions
) -> Parting:
    number, name, index = difference.prompt, difference.drafter, difference.index
    token = difference.drafted[index] if index < len(difference.drafted) else None
    plain_token = difference.plain[index] if index < len(difference.plain) else None
    if token is None or plain_token is None or difference.row is None:
        return Parting(number, name, index, token, plain_token, None, noise.gap)
    context = [*prompt, *difference.plain[:index]]
    scores = _scores(difference.row, context, sampling)
    gap = scores.get(plain_token, -float("inf")) - scores.get(token, -float("inf"))
    scale = max(sampling.repeat_penalty, 1.0 / sampling.repeat_penalty)
    known = noise.gap * scale
    if abs(gap) > known:  # near there the noise may be greater than elsewhere
        spread = logit_gap(pair.target, context, plain_token, token, index + 1, [pair.target.n_outputs]).spread
        known = max(known, spread * scale)
    return Parting(number, name, index, token, plain_token, gap, known)


def _scores(row: Logits, context: Sequence[int], sampling: SamplingOptions) -> dict[int, float]:
    """The logits that decide at temperature 0: with biases and penalties."""
    deciding = replace(sampling, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
    ids, values = sampler_chain(row, context if sampling.penalizes else (), **asdict(deciding))
    return dict(zip(ids.tolist(), values.tolist(), strict=True))


def _check_self_draft(pair: Pair, options: GenerationOptions, proof: GreedyProof, faults: Faults) -> None:
    """A model that drafts for itself, set up alike, must be right nearly always, else it is asked wrongly."""
    if not pair.draft or pair.draft.model.path.resolve() != pair.target.model.path.resolve():
        return
    is_greedy = options.draft_temperature is None or options.draft_temperature <= 0.0
    if (
        not is_greedy
        or pair.draft.options != pair.target.options
        or pair.draft.model.options != pair.target.model.options
    ):
        return
    accepted, judged = proof.acceptance.get(pair.draft.model.kind, (0, 0))
    if judged and accepted / judged < _LEAST_ACCEPTANCE:
        detail = f"drafting for itself the model has {100 * accepted / judged:.0f} % of its tokens accepted"
        faults.add(Kind.DRAFT_INPUT, "greedy, acceptance", detail)
