"""All parts of the proof, one after the other."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.drafters.names import MODEL
from specli.proof.arithmetic import exact_distance, make_tables, seeded_texts
from specli.proof.faults import Faults
from specli.proof.goodness import Goodness
from specli.proof.greedy import GreedyProof, Replay, compare_greedy
from specli.proof.matrix import MATRIX, in_use
from specli.proof.plumbing import PlumbingProof, check_plumbing, check_seeded
from specli.proof.widths import WIDEST, Widths, measure_widths

N_MAX = 4
"""Tokens drafted a round where the settings say auto, so that every round drafts."""

_ENDING = 16  # tokens of a prompt, where any context will do

OnProgress = Callable[[str], None]
"""Told what is being done."""


@dataclass(frozen=True)
class Effort:
    """How much is done.

    Attributes:
        n_prompts: Prompts whose greedy texts are compared.
        n_tokens: Tokens of each.
        n_tables: Prompts on whose real probabilities every path is taken.
        n_seeded: Seeded texts on those, of each verification.
        least_real: Seeded texts of the real models, at least.
        seconds_real: What those may take, if that is enough for more.
    """

    n_prompts: int = 3
    n_tokens: int = 32
    n_tables: int = 2
    n_seeded: int = 1200
    least_real: int = 80
    seconds_real: float = 2.0


THOROUGH = Effort(n_prompts=12, n_tokens=96, n_tables=4, n_seeded=10_000, least_real=300, seconds_real=120.0)
"""What --thorough does."""


@dataclass
class Proof:
    """What was found.

    Attributes:
        widths: Batch widths.
        greedy: Greedy texts.
        replays: How to see again what is not explained there.
        laws: By setting, how far any text's probability is from the target's.
        seeded: By verification, the seeded texts on tables.
        plumbing: Sampled texts of the real models; None without drafters.
        real: Their seeded texts.
        faults: What is wrong.
        seconds: How long it took.
    """

    widths: Widths
    greedy: GreedyProof
    replays: list[Replay]
    laws: dict[str, float | None] = field(default_factory=dict)
    seeded: dict[str, Goodness] = field(default_factory=dict)
    plumbing: PlumbingProof | None = None
    real: Goodness | None = None
    faults: Faults = field(default_factory=Faults)
    seconds: float = 0.0

    @property
    def is_lossless(self) -> bool:
        """Whether nothing is wrong with the text."""
        return all(kind.is_lossless for kind in self.faults.first)


def prove(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    options: GenerationOptions,
    effort: Effort = Effort(),
    on_progress: OnProgress = lambda _: None,
) -> Proof:
    """Prove, or refute, that a pair writes what its target alone would have written.

    Args:
        pair: The models.
        prompts: Token ids.
        options: The settings in use.
        effort: How much to do.
        on_progress: Told what is being done.
    """
    started = time.monotonic()
    n_max = options.n_max or min(N_MAX, pair.n_max)
    options = replace(options, n_max=n_max, n_min=min(options.n_min, n_max), n_predict=effort.n_tokens, stop=())
    options = replace(options, drafters=pair.names(replace(options, n_max=None)))
    faults = Faults()
    on_progress("batch widths")
    widths = measure_widths(pair.target, pair.target.model.vocab.n_tokens, min(WIDEST, pair.target.n_outputs))
    chosen = prompts[: effort.n_prompts]

    def on_prompt(number: int) -> None:
        on_progress(f"greedy texts, {number + 1} of {len(chosen)}")

    greedy, replays = compare_greedy(pair, chosen, options, faults, on_prompt)
    proof = Proof(widths, greedy, replays, faults=faults)
    _prove_arithmetic(pair, prompts, options, effort, proof, on_progress)

    def on_text(done: int, total: int) -> None:
        on_progress(f"sampled texts, {done + 1} of {total}")

    endings = [prompt[-_ENDING:] for prompt in prompts]
    proof.plumbing = check_plumbing(pair, endings, options, greedy.noise, faults, on_text)

    def on_seconds(seconds: float) -> None:
        on_progress(f"seeded texts, {seconds:.0f} s")

    proof.real = check_seeded(
        pair, endings[0], options, greedy.noise, faults, effort.least_real, effort.seconds_real, on_seconds
    )
    proof.seconds = time.monotonic() - started
    return proof


def _prove_arithmetic(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    options: GenerationOptions,
    effort: Effort,
    proof: Proof,
    on_progress: OnProgress,
) -> None:
    draft = pair.draft if pair.draft and pair.draft.model.kind == MODEL else None
    tables = [
        make_tables(pair.target, draft, prompt[-_ENDING:], pair.n_shared) for prompt in prompts[: effort.n_tables]
    ]
    settings = [in_use(options), *MATRIX]
    for number, setting in enumerate(settings):
        on_progress(f"every path of {len(settings)} settings, {number + 1}")
        proof.laws[setting.name] = exact_distance(tables[number % len(tables)], setting, proof.faults)
    for setting in (MATRIX[0], MATRIX[1], MATRIX[3]):
        words = f"seeded texts on tables, {setting.verification} verification"
        proof.seeded[setting.verification] = seeded_texts(
            tables[0], setting, proof.faults, effort.n_seeded, partial(on_progress, words)
        )
