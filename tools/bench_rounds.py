"""Measure what a round costs outside the models: transforms, draws, verification, bookkeeping.

The loop runs as always, on two decoders that only look logits up: those of the Qwen pair along texts of its own where
the models are there, else made-up ones. Prints microseconds a round beside the budgets.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from measuring import DRAFT, TARGET, chat_tokens, default_models, load_pair, machine, rows_along, table

from specli.decoding.draft_length import FixedLength
from specli.decoding.ending import Ending
from specli.decoding.loop import Speculation, generate
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.decoding.policy import FixedPolicy
from specli.drafters.model import ModelDrafter
from specli.llama.decoder import Logits
from specli.llama.options import ContextOptions
from specli.sampling.draws import SeededDraws
from specli.sampling.transforms import SamplingOptions, Transforms
from specli.sampling.verification import VERIFICATIONS

N_MAX = 4
WARM_UP = 20
N_VOCAB = 151_936
QUESTIONS = ("Write a Python function that merges two sorted lists.", "Write a short story about a lighthouse keeper.")


@dataclass(frozen=True)
class Case:
    """One way to sample, and how long a round may take with it in microseconds."""

    name: str
    sampling: SamplingOptions
    verification: str
    budget: float | None


_DEFAULT = SamplingOptions(temperature=0.8, top_k=40, top_p=0.95)
_FULL = SamplingOptions(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
CASES = (
    Case("greedy", SamplingOptions(temperature=0.0), "match", 300),
    *(Case("temp 0.8, top-k 40, top-p 0.95", _DEFAULT, name, 1500) for name in ("block", "token", "match")),
    *(Case("temp 1, full vocabulary", _FULL, name, None) for name in ("block", "token", "match")),
)


class RowDecoder:
    """A decoder that computes nothing: each position has its row of a table of logits, which comes round again.

    Target and draft tables of the same text agree as often as the models do. Rows are written to a buffer as llama.cpp
    writes them, so that they are as near in the processor's caches; ``seconds`` is the time that took.
    """

    def __init__(self, rows: Logits, n_ctx: int) -> None:
        self._n_rows = len(rows)
        self._rows = np.concatenate([rows, rows[:N_MAX]])  # so that no batch runs over the end
        self._logits = np.empty((N_MAX + 1, rows.shape[1]), np.float32)
        self.n_ctx = n_ctx
        self.tokens: list[int] = []
        self.seconds = 0.0

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        """Take the tokens and look the logits up."""
        started = time.perf_counter()
        self.tokens += tokens
        first = (len(self.tokens) - n_logits) % self._n_rows
        logits = self._logits[:n_logits]
        np.copyto(logits, self._rows[first : first + n_logits])
        self.seconds += time.perf_counter() - started
        return logits

    def truncate(self, n_tokens: int) -> None:
        """Forget the tokens from there on."""
        del self.tokens[n_tokens:]

    def checkpoint(self, n_tokens: int | None = None) -> None:
        """Do nothing: it can go back to anywhere."""


def main() -> None:
    """Measure every case and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--models", type=Path, default=default_models(), help="their folder (default: $MODELS, ~/models)"
    )
    parser.add_argument("--rounds", type=int, default=500, help="rounds of each case (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="also write a markdown document")
    arguments = parser.parse_args()
    there = all((arguments.models / name).is_file() for name in (TARGET, DRAFT))
    rows = captured_rows(arguments.models) if there else synthetic_rows(64, N_VOCAB)
    lines = [_line(case, *measure(case, *rows, arguments.rounds)) for case in CASES]
    source = "of the Qwen2.5-Coder pair along its own texts" if there else "made up"
    text = document(lines, f"{len(rows[0])} rows of logits, {source}", arguments.rounds)
    print(text)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(text, encoding="utf-8")


def captured_rows(models: Path) -> tuple[Logits, Logits]:
    """The logits of both models along answers the target gives."""
    target, draft = load_pair(models)
    options = ContextOptions(ctx_size=512)
    pair = Pair(target, draft, options, options, N_MAX)
    rows: tuple[list[Logits], list[Logits]] = [], []
    for question in QUESTIONS:
        prompt = chat_tokens(target, question)
        generation = pair.generate(prompt, GenerationOptions(n_max=N_MAX, n_predict=48, ignore_eos=True))
        for _ in generation:
            pass
        for model, its_rows in zip((target, draft), rows, strict=True):
            its_rows.append(rows_along(model, prompt, generation.token_ids))
    pair.close()
    return np.concatenate(rows[0]), np.concatenate(rows[1])


def synthetic_rows(n_rows: int, n_vocab: int) -> tuple[Logits, Logits]:
    """Logits of about the shape a language model's have: a bell curve, and a few tokens far above it."""
    rng = np.random.default_rng(0)
    target = 2.5 * rng.standard_normal((n_rows, n_vocab), np.float32)
    likely = rng.integers(n_vocab, size=(n_rows, 20))
    np.put_along_axis(target, likely, 10 + rng.exponential(4, likely.shape).astype(np.float32), axis=1)
    return target, target + rng.standard_normal(target.shape, np.float32)


def measure(
    case: Case, target_rows: Logits, draft_rows: Logits, n_rounds: int
) -> tuple[npt.NDArray[np.float64], float]:
    """Run the loop; return each round's seconds outside the decoders, and the mean accepted length."""
    n_ctx = (N_MAX + 1) * (n_rounds + WARM_UP) + 1
    target, draft = RowDecoder(target_rows, n_ctx), RowDecoder(draft_rows, n_ctx)
    how = Speculation(
        sampler=Transforms(case.sampling),
        draft_sampler=Transforms(case.sampling, draft_rows.shape[1]),
        verify=VERIFICATIONS[case.verification],
        policy=FixedPolicy(FixedLength(N_MAX)),
        draws=SeededDraws(0),
    )
    rounds = generate(target, [ModelDrafter(draft)], [0], how, Ending(lambda token: b" word", lambda token: False))
    n_tokens, seconds = 0, []
    for _ in range(WARM_UP + n_rounds):
        before = target.seconds + draft.seconds
        started = time.perf_counter()
        round_ = next(rounds)
        seconds.append(time.perf_counter() - started - (target.seconds + draft.seconds - before))
        n_tokens += len(round_.tokens)
    return np.array(seconds[WARM_UP:]), n_tokens / len(seconds)


def _line(case: Case, seconds: npt.NDArray[np.float64], mean_accepted_length: float) -> list[str]:
    median, p90 = (1e6 * float(np.percentile(seconds, q)) for q in (50, 90))
    verification = "" if case.sampling.greedy else case.verification
    budget = ("", "") if case.budget is None else (f"{case.budget:.0f}", "✓" if median <= case.budget else "✗")
    return [case.name, verification, f"{mean_accepted_length:.2f}", f"{median:.0f}", f"{p90:.0f}", *budget]


def document(lines: list[list[str]], source: str, n_rounds: int) -> str:
    """The table with what it was measured on, in markdown."""
    header = ["sampling", "verification", "tokens per round", "median µs", "90 % µs", "budget µs", ""]
    return f"""# What a round costs outside the models

Microseconds of one round with n-max {N_MAX} and {N_VOCAB:,} token ids, over {n_rounds} rounds. The decoders only look
logits up, which is not counted ({source}). The median is held against the budget.

{machine()}

    tools/bench_rounds.py --rounds {n_rounds}

{table(header, lines)}
"""


if __name__ == "__main__":
    main()
