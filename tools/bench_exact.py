"""Write texts with --exact, drafted and plain, compare them bit by bit, and measure what exactness costs.

Writes a markdown document, anew after every prompt.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from bench_peer import GREEDY, Question, first_turn, read_sets
from measuring import DRAFT, TARGET, add_inputs, chat_tokens, machine, table

from specli.bench.intervals import median_ratio
from specli.cli.exact import ExactSetup, exact_setup
from specli.decoding.comparison import first_difference
from specli.decoding.loop import prefill
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.errors import SpecliError
from specli.llama import devices, log
from specli.llama.context import physical_cores
from specli.llama.model import Model
from specli.llama.options import ContextOptions, ModelOptions

N_MAX = 4
LONGEST = 300  # tokens of a prompt


@dataclass
class Measured:
    """Decode speeds, tokens per second, by way and prompt, and where texts parted.

    Attributes:
        speeds: By way; NaN of the prompts a way was not asked.
        differences: (prompt, index of the first token that differs) of exact texts.
        n_parted: Of the usual drafted texts, how many part from the usual plain ones.
    """

    speeds: dict[str, list[float]] = field(default_factory=dict)
    differences: list[tuple[str, int]] = field(default_factory=list)
    n_parted: int = 0


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add_inputs(parser)
    add("--out", type=Path, default=Path("docs/bench-exact.md"), help="the document (default: %(default)s)")
    add("--tokens", type=int, default=64, help="most tokens of an answer (default: %(default)s)")
    add("--limit", type=int, default=40, help="prompts (default: %(default)s)")
    add("--every", type=int, default=4, help="ask every so many-th without --exact too (default: %(default)s)")
    add("--threads", type=int, default=physical_cores(), help="threads (default: %(default)s)")
    try:
        benchmark(parser.parse_args())
    except SpecliError as error:
        sys.exit(f"bench_exact: {error}")


def benchmark(arguments: argparse.Namespace) -> None:
    """Ask prompt by prompt, and write the document after each."""
    log.install()
    path = arguments.models / TARGET
    context = ContextOptions(ctx_size=1024, threads=arguments.threads)
    setup = exact_setup(path, ModelOptions(), context, Model)
    if setup.width == 1:
        raise SpecliError("no batch of several tokens is exact here: there is nothing to measure")
    usual_target = Model(path)
    exact_target = usual_target if setup.model.repack else Model(path, setup.model)
    draft = Model(arguments.models / DRAFT)
    exact = Pair(exact_target, draft, setup.of_context(context), context, N_MAX, setup.width)
    usual = Pair(usual_target, draft, context, context, N_MAX)
    questions = _choose(usual_target, read_sets(arguments.prompts), arguments.limit)
    measured = Measured()
    for number, (question, prompt) in enumerate(questions):
        plain = _write(exact, prompt, 0, arguments.tokens, "exact, plain", measured)
        drafted = _write(exact, prompt, N_MAX, arguments.tokens, "exact, drafted", measured)
        if (index := first_difference(drafted, plain)) is not None:
            measured.differences.append((question.name, index))
        if number % arguments.every == 0:
            texts = [
                _write(usual, prompt, n_max, arguments.tokens, name, measured)
                for n_max, name in ((0, "plain"), (N_MAX, "drafted"))
            ]
            measured.n_parted += first_difference(*texts) is not None
        else:
            for name in ("plain", "drafted"):
                measured.speeds[name].append(float("nan"))
        shown = ", ".join(f"{name} {speeds[-1]:.1f}" for name, speeds in measured.speeds.items())
        print(f"{number + 1} of {len(questions)}, {question.name}: {shown} tok/s", file=sys.stderr)
        names = [question.name for question, _ in questions[: number + 1]]
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(_document(measured, setup, names, arguments), encoding="utf-8")


def _choose(model: Model, rows: Sequence[dict[str, object]], limit: int) -> list[tuple[Question, list[int]]]:
    """Prompts of all categories in turn, those that are not too long."""
    by_category: dict[str, list[tuple[Question, list[int]]]] = {}
    for row in rows:
        question = Question(f"{row['category']} {row['question_id']}", first_turn(row))
        group = by_category.setdefault(str(row["category"]), [])
        if len(group) < limit and len(tokens := chat_tokens(model, question.text)) <= LONGEST:
            group.append((question, tokens))
    turns = [[group[i] for group in by_category.values() if i < len(group)] for i in range(limit)]
    return [one for turn in turns for one in turn][:limit]


def _write(pair: Pair, prompt: list[int], n_max: int, n_tokens: int, name: str, measured: Measured) -> list[int]:
    """Write a greedy text from an empty cache; note its speed."""
    pair.target.truncate(0)
    prefill(pair.target, prompt)
    assert pair.draft
    pair.draft.truncate(0)
    drafters = ("model",) if n_max else None
    options = GenerationOptions(replace(GREEDY), n_max=n_max, drafters=drafters, n_predict=n_tokens)
    generation = pair.generate(prompt, options)
    for _ in generation:
        pass
    measured.speeds.setdefault(name, []).append(generation.stats.tokens_per_second or float("nan"))
    return generation.token_ids


def _document(measured: Measured, setup: ExactSetup, names: Sequence[str], arguments: argparse.Namespace) -> str:
    speeds = {name: np.array(values)[:, None] for name, values in measured.speeds.items()}
    n = len(names)
    asked = ~np.isnan(speeds["plain"][:, 0])

    def ratio(a: str, b: str) -> str:
        both = ~np.isnan(speeds[a][:, 0]) & ~np.isnan(speeds[b][:, 0])
        return str(median_ratio(speeds[a][both], speeds[b][both]))

    rows = [
        ["exact texts, drafted = plain", f"{n - len(measured.differences)} of {n}"],
        ["usual texts, drafted = plain", f"{int(asked.sum()) - measured.n_parted} of {int(asked.sum())}"],
        ["exact, drafted ÷ exact, plain", ratio("exact, drafted", "exact, plain")],
        ["exact, plain ÷ plain", ratio("exact, plain", "plain")],
        ["exact, drafted ÷ plain", ratio("exact, drafted", "plain")],
        ["drafted ÷ plain", ratio("drafted", "plain")],
        ["exact, drafted ÷ drafted", ratio("exact, drafted", "drafted")],
    ]
    differences = "; ".join(f"{name} at token {index + 1}" for name, index in measured.differences)
    return f"""# What --exact costs

`make bench-exact`: Qwen2.5-Coder 1.5B (target) and 0.5B (draft), both Q4_K_M, {arguments.threads} threads, greedy, at
most {arguments.tokens} tokens, at most {N_MAX} drafted a round, {n} prompts of at most {LONGEST} tokens, each from an
empty cache. Speeds are those of decoding, in turn prompt by prompt; one in {arguments.every} without --exact too.
{setup.words()}.

{machine()}; llama.cpp: {devices.system_info()}

{table(["", "measured"], rows)}

Ratios are medians over prompts, with 95 % intervals from bootstrap samples of them.
{f"Exact texts that part: {differences}." if differences else ""}
Prompts: {", ".join(names)}.
"""


if __name__ == "__main__":
    main()
