"""Real sampled texts: decisions audited, rows of logits beside a fresh prefill, tokens beside their law."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from specli.decoding.loop import generate, prefill
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.drafters.drafter import known
from specli.drafters.names import MODEL, TRAINED
from specli.llama.context import Context
from specli.proof.audit import Seen
from specli.proof.audited import AuditedText, write_audited
from specli.proof.enumeration import Law, law_of_steps
from specli.proof.faults import Faults, Kind
from specli.proof.goodness import Goodness, test_texts
from specli.proof.matrix import MATRIX, Setting, in_use
from specli.proof.noise import Noise, row_distance, rows_at_once
from specli.proof.tables import RememberedRows, spreading_temperature
from specli.sampling.draws import SeededDraws
from specli.sampling.transforms import SamplingOptions

N_TOKENS = 6
_ROUNDS_CHECKED = 2  # of each text: a prefill each
_SEEDED_TOKENS = 3
_N_CHOICES = 3  # of them, at every place
_LEAST_RUNS = 20


@dataclass
class PlumbingProof:
    """What was found.

    Attributes:
        n_texts: How many texts.
        n_decisions: How many random decisions of theirs.
        n_rows: How many of the target's rows were compared with a fresh prefill.
        farthest_row: The largest distance of one.
        row_tolerance: What plain computation alone does, with a margin.
        n_draft_rows: Likewise of the draft model.
        farthest_draft_row: Likewise.
        draft_row_tolerance: Likewise.
        drafted_by: By drafter, the tokens drafted.
    """

    n_texts: int = 0
    n_decisions: int = 0
    n_rows: int = 0
    farthest_row: float = 0.0
    row_tolerance: float = 0.0
    n_draft_rows: int = 0
    farthest_draft_row: float = 0.0
    draft_row_tolerance: float = 0.0
    drafted_by: dict[str, int] = field(default_factory=dict)


def check_plumbing(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    options: GenerationOptions,
    noise: Noise,
    faults: Faults,
    on_text: Callable[[int, int], None] = lambda _done, _total: None,
) -> PlumbingProof:
    """Write a short text at every setting of the matrix, and check everything about it.

    Args:
        pair: The models.
        prompts: Taken in turn.
        options: The settings in use, with a fixed n-max.
        noise: Of the target.
        faults: Where faults are noted.
        on_text: Called with the texts done and in all.
    """
    proof = PlumbingProof(row_tolerance=noise.row_tolerance)
    draft = pair.draft if pair.draft and pair.draft.model.kind == MODEL else None
    if draft:
        proof.draft_row_tolerance = _noise_of_prefills(draft, prompts[0], pair.n_shared).row_tolerance
    names = pair.names(options)
    todo = [(setting, name) for setting in (in_use(options), *MATRIX) for name in _drafters(setting, names)]
    for number, (setting, name) in enumerate(todo):
        on_text(number, len(todo))
        sampled = options_of(setting, options, name, seed=number)
        where = f"sampled text, {setting.name}, {name}"
        prompt = prompts[number % len(prompts)]
        if name not in TRAINED:
            prompt = [*prompt, *prompt[: len(prompt) // 2]]  # something to look up
        text = write_audited(pair, prompt, sampled, faults, where, keep_rows=True)
        proof.n_texts += 1
        proof.n_decisions += text.audit.n_decisions
        proof.drafted_by[name] = proof.drafted_by.get(name, 0) + text.stats.drafted
        _check_target_rows(pair.target, text, proof, faults, where)
        if draft and name == MODEL:
            _check_draft_rows(draft, pair.n_shared, text, proof, faults, where)
    return proof


def options_of(setting: Setting, options: GenerationOptions, drafter: str, seed: int) -> GenerationOptions:
    """Options of a real text at a setting of the matrix."""
    return replace(
        options,
        sampling=replace(setting.sampling, logit_bias=options.sampling.logit_bias),
        verification=setting.verification,
        drafters=(drafter,),
        draft_temperature=setting.draft_temperature,
        p_min=setting.p_min,
        n_predict=N_TOKENS,
        seed=seed,
    )


def _drafters(setting: Setting, names: Sequence[str]) -> list[str]:
    """Who can draft at a setting: lookups are always one-hot, so that settings of a draft's own are none of theirs."""
    lookups = [name for name in names if name not in TRAINED]
    computing = [name for name in names if name in TRAINED]
    if setting.looks_up:
        return lookups
    if setting.draft_temperature is not None or setting.p_min:
        return computing
    return computing or lookups


def _check_target_rows(target: Context, text: AuditedText, proof: PlumbingProof, faults: Faults, where: str) -> None:
    rounds = [rows for rows in text.audit.target_rows if len(rows[-1].tokens) <= target.n_ctx]
    for rows in _some(rounds):
        fresh = rows_at_once(target, rows[-1].tokens, len(rows))
        for seen, row in zip(rows[len(rows) - len(fresh) :], fresh, strict=True):
            distance = row_distance(row, seen.row)
            proof.n_rows += 1
            proof.farthest_row = max(proof.farthest_row, distance)
            if not distance <= proof.row_tolerance:
                detail = f"logits are {distance:.2g} from a fresh prefill's, and {proof.row_tolerance:.2g} is allowed"
                faults.add(Kind.CACHE, where, detail)


def _check_draft_rows(
    draft: Context, n_shared: int | None, text: AuditedText, proof: PlumbingProof, faults: Faults, where: str
) -> None:
    rounds = [rows for rows in text.audit.draft_rows if rows and len(rows[-1].tokens) <= draft.n_ctx]
    for rows in _some(rounds):
        for seen in {0: rows[0], len(rows) - 1: rows[-1]}.values():
            fresh = rows_at_once(draft, known(seen.tokens, n_shared), 1)[0]
            distance = row_distance(fresh, seen.row)
            proof.n_draft_rows += 1
            proof.farthest_draft_row = max(proof.farthest_draft_row, distance)
            if not distance <= proof.draft_row_tolerance:
                allowed = proof.draft_row_tolerance
                detail = f"its logits are {distance:.2g} from a fresh prefill's, and {allowed:.2g} is allowed"
                faults.add(Kind.DRAFT_INPUT, where, detail)


def _some(rounds: Sequence[list[Seen]]) -> list[list[Seen]]:
    """The first round of a text, and its last ones."""
    return [*rounds[:1], *rounds[max(1, len(rounds) - _ROUNDS_CHECKED + 1) :]]


def _noise_of_prefills(draft: Context, prompt: Sequence[int], n_shared: int | None) -> Noise:
    """How far a draft's rows by single tokens lie from those of prefills, along its own text."""
    noise = Noise([], [])
    tokens = list(known(prompt, n_shared))
    start = len(tokens) // 2
    draft.truncate(0)
    draft.decode(tokens[:start], 0)
    singles = [draft.decode([token], 1)[0].copy() for token in tokens[start:]]
    for i in range(0, len(singles), max(1, len(singles) // 8)):
        noise.add(singles[i], rows_at_once(draft, tokens[: start + i + 1], 1)[0])
    return noise


def check_seeded(
    pair: Pair,
    prompt: Sequence[int],
    options: GenerationOptions,
    noise: Noise,
    faults: Faults,
    least_runs: int,
    seconds: float,
    on_text: Callable[[float], None] = lambda _: None,
) -> Goodness:
    """Write many short real texts of three tokens with seeds, and test them against the target's distribution.

    All tokens but the three likeliest are forbidden, at a temperature that spreads those. Batch width moves their
    probabilities a little; there are not so many texts that it would show.

    Args:
        pair: The models.
        prompt: At least one token.
        options: The settings in use, with a fixed n-max.
        noise: Of the target.
        faults: Where faults are noted.
        least_runs: How many texts at least, if the noise allows.
        seconds: How long they may take, if that is enough for more.
        on_text: Called with the seconds that it has taken.
    """
    row = RememberedRows(pair.target, prompt).row(())
    choices = np.sort(np.argpartition(row, -_N_CHOICES)[-_N_CHOICES:])
    others = np.setdiff1d(np.arange(len(row)), choices).tolist()
    temperature = spreading_temperature(row[choices])
    sampling = SamplingOptions(
        temperature, top_k=0, top_p=1.0, min_p=0.0, logit_bias=tuple((token, -np.inf) for token in others)
    )
    seeded = replace(options, sampling=sampling, n_predict=_SEEDED_TOKENS, n_min=0, p_min=0.0, ignore_eos=False)
    laws = [_law(pair, prompt, choices.tolist(), temperature, at_once=at_once) for at_once in (False, True)]
    started = time.monotonic()

    drafters, how = pair.parts(seeded)

    def write(seed: int) -> tuple[int, ...]:
        on_text(time.monotonic() - started)
        prefill(pair.target, prompt)
        how_seeded = replace(how, draws=SeededDraws(seed))
        rounds = generate(pair.verifier, drafters, prompt, how_seeded, pair.ending(seeded))
        return tuple(token for round_ in rounds for token in round_.tokens)

    write(0)
    warm = time.monotonic()
    write(1)
    wanted = max(least_runs, int(seconds / max(time.monotonic() - warm, 1e-3)))
    goodness = test_texts(write, laws, min(wanted, _most_runs(noise, temperature)))
    if goodness.differs:
        detail = f"{goodness.n_runs} texts are not the target's (p = {goodness.p_value:.1g})"
        faults.add(Kind.DISTRIBUTION, "seeded texts of the real models", detail)
    return goodness


def _most_runs(noise: Noise, temperature: float) -> int:
    """As many texts as leave what batch width does to a probability within the spread of a sample five times as large.

    A probability p moves by about p(1 − p) ≤ ¼ of what its logit does, over the temperature.
    """
    typical = float(np.sqrt(np.mean(np.square(noise.gaps)))) if noise.gaps else 0.0
    moved = typical / (4.0 * temperature)
    return max(_LEAST_RUNS, int(1.0 / (5.0 * moved**2))) if moved > 1e-6 else 1 << 30


def _law(pair: Pair, prompt: Sequence[int], choices: Sequence[int], temperature: float, *, at_once: bool) -> Law:
    """The law of texts of three tokens, from logits that are computed one token at a time, or each in a whole prefill.

    A choice may end the text.
    """
    rows = RememberedRows(pair.target, prompt)
    is_eog = pair.target.model.vocab.is_eog

    def next_token(text: tuple[int, ...]) -> list[tuple[int, float]]:
        row = rows_at_once(pair.target, [*prompt, *text], 1)[0] if at_once else rows.row(text)
        weights = np.exp((row[choices].astype(np.float64) - row[choices].max()) / temperature)
        return list(zip(choices, (weights / weights.sum()).tolist(), strict=True))

    return law_of_steps(next_token, lambda text: len(text) == _SEEDED_TOKENS or is_eog(text[-1]))
