"""Measure automatic draft lengths beside plain decoding and fixed lengths: the same pair and prompts, in turn.

Writes a markdown document, anew after every round.
"""

import argparse
import copy
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bench_peer import GREEDY, Question, first_turn, read_sets
from measuring import add_inputs, chat_tokens, load_pair, machine, table

from specli.bench.intervals import RESAMPLES, Estimate, Figures, median_ratio
from specli.decoding.loop import prefill
from specli.decoding.options import AUTO_N_MAX, GenerationOptions
from specli.decoding.pair import Pair
from specli.decoding.remembered import Learnt
from specli.errors import SpecliError
from specli.llama.context import physical_cores
from specli.llama.options import ContextOptions

GROUPS = {
    **dict.fromkeys(
        ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"), "mt_bench"
    ),
    **{name: name for name in ("translation", "summarization", "qa", "math_reasoning", "rag", "edit")},
}
EDIT = "edit"
PLAIN, AUTO = "plain", "auto suffix,model"
VARIANTS: dict[str, tuple[int | None, tuple[str, ...]]] = {
    PLAIN: (0, ()),
    "auto model": (None, ("model",)),
    AUTO: (None, ("suffix", "model")),
    "auto suffix": (None, ("suffix",)),
    **{f"n-max {n_max}": (n_max, ("model",)) for n_max in (2, 4, 8)},
}


class Timing(NamedTuple):
    """What one text took.

    Attributes:
        decode_speed: Tokens per second from the end of reading the prompt.
        request_speed: Tokens per second, both models' reading of the prompt included.
        drafted_share: Of the rounds, how many drafted.
    """

    decode_speed: float
    request_speed: float
    drafted_share: float


@dataclass
class Measured:
    """All timings: by variant, then by prompt, then by round."""

    questions: list[Question]
    groups: list[str]
    timings: dict[str, list[list[Timing]]]

    def figures(self, variant: str, field: str, group: str | None = None) -> Figures:
        """One figure of every run of a variant, shape (n_prompts, n_rounds); of one group, or of all."""
        chosen = [i for i, name in enumerate(self.groups) if group in (None, name)]
        return np.array([[getattr(timing, field) for timing in self.timings[variant][i]] for i in chosen])

    def speedup(self, variant: str, field: str, group: str | None = None) -> Estimate:
        """A variant's speed beside plain decoding's of the same prompt and round."""
        figures = self.figures(variant, field, group)
        return median_ratio(figures, self.figures(PLAIN, field, group)[:, : figures.shape[1]])


def main() -> None:
    """Run the benchmark."""
    arguments = _arguments()
    try:
        benchmark(arguments)
    except SpecliError as error:
        sys.exit(f"bench_auto: {error}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add_inputs(parser)
    add("--out", type=Path, default=Path("docs/bench-auto.md"), help="the document (default: %(default)s)")
    add("--tokens", type=int, default=64, help="most tokens of an answer (default: %(default)s; twice that of an edit)")
    add("--rounds", type=int, default=2, help="how often every prompt is asked (default: %(default)s)")
    add("--more", type=int, default=8, help=f"further rounds, of {PLAIN} and {AUTO} alone (default: %(default)s)")
    add("--limit", type=int, default=2, help="prompts of a group (default: %(default)s; twice that of edits)")
    add("--threads", type=int, default=physical_cores(), help="threads (default: %(default)s)")
    return parser.parse_args()


def benchmark(arguments: argparse.Namespace) -> None:
    """Measure round by round, and write the document after each."""
    questions = choose_questions(read_sets(arguments.prompts), arguments.limit)
    groups = [question.name.split()[0] for question in questions]
    target, draft = load_pair(arguments.models)
    options = ContextOptions(ctx_size=4096, threads=arguments.threads)
    pair = Pair(target, draft, options, options, AUTO_N_MAX)
    pair.warm_up()
    pair.measure()
    prompts = [chat_tokens(target, question.text) for question in questions]
    measured = Measured(questions, groups, {name: [[] for _ in prompts] for name in VARIANTS})
    rng = random.Random(0)
    assert pair.learnt
    for round_ in range(arguments.rounds + arguments.more):
        variants = list(VARIANTS) if round_ < arguments.rounds else [PLAIN, AUTO]
        learnt = {name: copy.deepcopy(pair.learnt) for name in VARIANTS}  # each way learns from its own texts alone
        for i, prompt in enumerate(prompts):
            n_tokens = arguments.tokens * (2 if groups[i] == EDIT else 1)
            timings = time_prompt(pair, prompt, n_tokens, learnt, rng.sample(variants, len(variants)))
            for name, timing in timings.items():
                measured.timings[name][i].append(timing)
            shown = ", ".join(f"{name} {timing.decode_speed:.1f}" for name, timing in timings.items())
            print(f"round {round_ + 1}, {questions[i].name}: {shown} tok/s", file=sys.stderr)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(document(measured, arguments), encoding="utf-8")
    pair.close()


def choose_questions(rows: Sequence[Mapping[str, object]], limit: int) -> list[Question]:
    """The first questions of each group, of MT-Bench's of different categories."""
    chosen: dict[str, list[Question]] = {group: [] for group in GROUPS.values()}
    categories: list[str] = []
    for row in rows:
        category = str(row["category"])
        group = GROUPS.get(category)
        if group is None or len(chosen[group]) == limit * (2 if group == EDIT else 1):
            continue
        if group != category and category in categories:
            continue
        categories.append(category)
        chosen[group].append(Question(f"{group} {row['question_id']}", first_turn(row)))
    return [question for questions in chosen.values() for question in questions]


def time_prompt(
    pair: Pair, prompt: list[int], n_tokens: int, learnt: Mapping[str, Learnt], variants: Sequence[str]
) -> dict[str, Timing]:
    """Answer a prompt in these ways, in turn; the target reads it once, the draft model anew each time."""
    assert pair.draft
    pair.target.truncate(0)
    started = time.perf_counter()
    prefill(pair.target, prompt)
    prefill_seconds = time.perf_counter() - started
    before, timings = pair.learnt, {}
    for name in variants:
        n_max, drafters = VARIANTS[name]
        pair.draft.truncate(0)
        pair.learnt = learnt[name]
        generation = pair.generate(
            prompt, GenerationOptions(GREEDY, n_max=n_max, drafters=drafters or None, n_predict=n_tokens)
        )
        n_drafted = sum(bool(round_.drafted) for round_ in generation)
        stats = generation.stats
        timings[name] = Timing(
            decode_speed=stats.tokens / stats.decode_seconds,
            request_speed=stats.tokens / (prefill_seconds + stats.draft_prefill_seconds + stats.decode_seconds),
            drafted_share=n_drafted / stats.rounds,
        )
    pair.learnt = before
    return timings


def document(measured: Measured, arguments: argparse.Namespace) -> str:
    """The document in markdown."""
    groups = list(dict.fromkeys(measured.groups))
    n_rounds = len(measured.timings[AUTO][0])
    n_full = min(n_rounds, arguments.rounds)
    more = f" ({PLAIN} and {AUTO} {n_rounds}×)" if n_rounds > n_full else ""
    return f"""# Automatic draft lengths, measured

`make bench-auto`: Qwen2.5-Coder 1.5B (target) and 0.5B (draft), both Q4_K_M, {arguments.threads} threads, greedy, at
most {arguments.tokens} tokens an answer ({2 * arguments.tokens} of an edit), {len(measured.questions)} prompts. Every
prompt is answered in every way one after the other, in random order, {n_full}×{more}; speeds
are compared with plain decoding's of the same prompt and round. Models are loaded once; the draft model reads each
prompt anew every time. Automatic lengths go by costs measured at the start; in every round each way begins to learn
anew, and from its own texts alone, as `specli run` does from run to run.

{machine()}

{table(["", "measured", "goal", ""], _goals(measured, groups))}

## Decode speed, × plain

From the end of reading the prompt. Medians over prompts and rounds, with 95 % intervals from {RESAMPLES:,} bootstrap
samples: prompts first, then the rounds of each.

{_speedups(measured, groups, "decode_speed")}

## End-to-end speed, × plain

Both models' reading of the prompt included.

{_speedups(measured, groups, "request_speed")}

## Rounds that drafted

{_shares(measured, groups)}

Prompts: {", ".join(question.name for question in measured.questions)}.
"""


def _goals(measured: Measured, groups: Sequence[str]) -> list[list[str]]:
    rows = []
    for group in groups:
        speedup = measured.speedup(AUTO, "decode_speed", group)
        goal, least = ("≥ 2.0", 2.0) if group == EDIT else ("≥ 0.97, interval from 0.94", 0.97)
        rows.append(
            [f"{AUTO}, decode, {group}", str(speedup), goal, _met(speedup.value >= least and speedup.low >= 0.94)]
        )
        for name, (n_max, _) in VARIANTS.items():
            fixed = measured.speedup(name, "decode_speed", group).value
            if n_max and fixed > 1.1:
                share = (speedup.value - 1.0) / (fixed - 1.0)
                rows.append([f"… of the gain of {name}", f"{share:.0%}", "≥ 90 %", _met(share >= 0.9)])
    overall = measured.speedup(AUTO, "decode_speed")
    return [*rows, [f"{AUTO}, decode, all", str(overall), "> 1", _met(overall.value > 1.0)]]


def _speedups(measured: Measured, groups: Sequence[str], field: str) -> str:
    names = [name for name in VARIANTS if name != PLAIN]
    rows = [
        [group or "all", *(str(measured.speedup(name, field, group)) for name in names)] for group in (*groups, None)
    ]
    return table(["", *names], rows)


def _shares(measured: Measured, groups: Sequence[str]) -> str:
    names = [name for name in VARIANTS if name != PLAIN]
    rows = [
        [group or "all", *(f"{measured.figures(name, 'drafted_share', group).mean():.0%}" for name in names)]
        for group in (*groups, None)
    ]
    return table(["", *names], rows)


def _met(met: bool) -> str:
    return "✓" if met else "✗"


if __name__ == "__main__":
    main()
