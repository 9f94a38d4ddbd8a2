"""The document of tools/bench_peer.py: what was measured beside llama.cpp's server, in tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np
from measuring import machine, table
from peer_server import Run

from specli.bench.intervals import RESAMPLES, Figures, median_ratio, pooled_ratio


@dataclass(frozen=True)
class Settings:
    """What the figures were measured with."""

    command: str
    peer_command: str
    peer_version: str
    n_max: int
    tokens: int
    rounds: int
    threads: int


@dataclass(frozen=True)
class Comparison:
    """The runs of both sides: by prompt, then by round."""

    specli: list[list[Run]]
    peer: list[list[Run]]

    def figures(self, figure: Callable[[Run], float]) -> tuple[Figures, Figures]:
        """One figure of every run of both sides, shape (n_prompts, n_rounds)."""
        specli, peer = (np.array([[figure(run) for run in runs] for runs in side]) for side in (self.specli, self.peer))
        return specli, peer

    @property
    def outside_share(self) -> float:
        """The part of specli's time that was not spent inside llama.cpp."""
        runs = _flat(self.specli)
        return 1.0 - sum(run.llama_seconds for run in runs) / sum(run.seconds for run in runs)


class Acceptance(NamedTuple):
    """Expected acceptance of one drafted token, averaged over ``n`` contexts: token rule and exact match."""

    overlap: float
    match: float
    n: int


def document(
    settings: Settings,
    names: list[str],
    prompt_tokens: list[int],
    greedy: Comparison,
    sampled: Comparison,
    acceptance: list[Acceptance],
) -> str:
    """The whole document in markdown."""
    decode = median_ratio(*greedy.figures(lambda run: run.decode_speed))
    request = median_ratio(*greedy.figures(lambda run: run.request_speed))
    rates = [_acceptance_rate(_flat(side)) for side in (greedy.specli, greedy.peer)]
    counts = sampled.figures(lambda run: run.round_tokens), sampled.figures(lambda run: run.rounds)
    per_round = pooled_ratio((counts[0][0], counts[1][0]), (counts[0][1], counts[1][1]))
    identical = [run.text == other.text for run, other in zip(_flat(greedy.specli), _flat(greedy.peer), strict=True)]
    goals = [
        _goal("greedy: tok/s from first to last token, median ratio", str(decode), "≥ 1.05", decode.value >= 1.05),
        _goal("greedy: tok/s of the whole request, median ratio", str(request), "≥ 1.05", request.value >= 1.05),
        _goal(
            "greedy: acceptance rates apart",
            f"{_points(rates[0] - rates[1])} points",
            "≤ 3 points",
            abs(rates[0] - rates[1]) <= 0.03,
        ),
        _goal("temp 1: tokens per round, ratio", str(per_round), "≥ 1.12", per_round.value >= 1.12),
        *(
            _goal(
                f"{title}: specli's time outside llama.cpp",
                f"{runs.outside_share:.2%}",
                "≤ 2 %",
                runs.outside_share <= 0.02,
            )
            for title, runs in (("greedy", greedy), ("temp 1", sampled))
        ),
    ]
    return f"""# specli beside llama.cpp's server

Both run the same two models, Qwen2.5-Coder 1.5B (target) and 0.5B (draft), both Q4_K_M, on the same prompts as the same
token ids, with {settings.threads} threads, drafting at most {settings.n_max} tokens a round. Every answer is
{settings.tokens} tokens long (end-of-generation tokens are forbidden) and starts from an empty cache. Both are loaded
all the time and take turns prompt by prompt; who goes first alternates, and every prompt is asked {settings.rounds}×.
The server is built from the llama.cpp that the installed llama-cpp-python carries ({settings.peer_version}).

{machine()}

    {settings.command}
    {settings.peer_command}

{table(["", "measured", "goal", ""], goals)}

In brackets: 95 % intervals from {RESAMPLES:,} bootstrap samples, prompts first, then the rounds of each.

## Greedy

Speeds in tokens per second, medians of {settings.rounds}. *Decode* is from the first token to the last as they arrive:
the tokens after the first arrival over the time since it (the server's first token comes alone, specli's with its
round). *Request* is from the prompt to the last token, the prefill of both models included. The acceptance rate is
accepted ÷ (accepted + rejected).

{_greedy_table(names, prompt_tokens, greedy)}

Median ratio: decode {decode}, request {request}. Acceptance rate over all: {rates[0]:.1%} : {rates[1]:.1%}. The first
token came after {_first(greedy.specli)} s : {_first(greedy.peer)} s (median). The two texts were the same in
{sum(identical)} of {len(identical)} pairs; where they part, two tokens were so close that the different widths of the
two sides' batches decided.

## Temperature 1

Top-k 0, top-p 1 and min-p 0: the full distribution. The server takes the draft's most likely tokens and keeps them
while they equal what the target draws. specli draws the draft's tokens from its distribution and verifies them by block
verification. *Tokens per round* are those that came out of the target's passes after the prompt's: accepted tokens plus
one a pass (the server draws its first token from the prompt's pass; neither the token nor the pass is counted).

*Expected* is exact, not sampled: on every context along specli's first answers, the probability that one drafted token
is accepted, Σ min(p, q) for a token drawn from q and p(argmax q) for the greedy one.

{_sampled_table(names, sampled, acceptance)}

Ratio of tokens per round over all: {per_round}.
"""


def _greedy_table(names: list[str], prompt_tokens: list[int], greedy: Comparison) -> str:
    header = ["prompt", "tokens"]
    for what in ("decode", "request"):
        header += [f"{what} specli", "server", "ratio"]
    header += ["accepted specli", "server"]
    rows = []
    for name, n_tokens, runs, peer_runs in zip(names, prompt_tokens, greedy.specli, greedy.peer, strict=True):
        cells = [name, str(n_tokens)]
        for figure in (_decode_speed, _request_speed):
            ratio = median(figure(run) / figure(other) for run, other in zip(runs, peer_runs, strict=True))
            cells += [f"{median(map(figure, side)):.2f}" for side in (runs, peer_runs)] + [f"{ratio:.3f}"]
        rows.append([*cells, *(f"{_acceptance_rate(side):.1%}" for side in (runs, peer_runs))])
    return table(header, rows)


def _sampled_table(names: list[str], sampled: Comparison, acceptance: list[Acceptance]) -> str:
    header = ["prompt", "tokens per round specli", "server", "accepted specli", "server", "expected Σ min(p, q)"]
    header += ["p(argmax q)", "contexts"]
    n = sum(one.n for one in acceptance)
    mean = Acceptance(sum(a.overlap * a.n for a in acceptance) / n, sum(a.match * a.n for a in acceptance) / n, n)
    rows = []
    for name, runs, peer_runs, expected in zip(
        [*names, "all"],
        [*sampled.specli, _flat(sampled.specli)],
        [*sampled.peer, _flat(sampled.peer)],
        [*acceptance, mean],
        strict=True,
    ):
        cells = [f"{_per_round(side):.3f}" for side in (runs, peer_runs)]
        cells += [f"{_acceptance_rate(side):.1%}" for side in (runs, peer_runs)]
        rows.append([name, *cells, f"{expected.overlap:.1%}", f"{expected.match:.1%}", str(expected.n)])
    return table(header, rows)


def _goal(what: str, measured: str, goal: str, met: bool) -> list[str]:
    return [what, measured, goal, "✓" if met else "✗"]


def _flat(side: Sequence[Sequence[Run]]) -> list[Run]:
    return [run for runs in side for run in runs]


def _decode_speed(run: Run) -> float:
    return run.decode_speed


def _request_speed(run: Run) -> float:
    return run.request_speed


def _acceptance_rate(runs: Sequence[Run]) -> float:
    return sum(run.accepted for run in runs) / sum(run.drafted for run in runs)


def _per_round(runs: Sequence[Run]) -> float:
    return sum(run.round_tokens for run in runs) / sum(run.rounds for run in runs)


def _first(side: Sequence[Sequence[Run]]) -> str:
    return f"{median(run.first_seconds for run in _flat(side)):.2f}"


def _points(difference: float) -> str:
    return f"{100 * difference:+.1f}"
