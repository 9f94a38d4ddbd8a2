"""Replay automatic draft lengths on traces of real texts, under the costs of this and of other hardware.

Writes a markdown document. Traces are what `specli run --save-trace` records.
"""

import argparse
import copy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

from measuring import table

from specli.decoding.calibration import Calibration
from specli.decoding.costs import CostCurve, Costs
from specli.decoding.draft_length import FixedLength
from specli.decoding.policy import AutoPolicy, FixedPolicy
from specli.decoding.replay import replay
from specli.decoding.trace import LENGTH, Trace, load
from specli.drafters.drafter import shared_prefix

FIXED = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
LONG = 64  # tokens; of shorter texts the best length for each is chance
Calibrations = dict[str, Calibration]


class Hardware(NamedTuple):
    """What decoding costs somewhere, in forward passes of the target over one token.

    Attributes:
        target: By width.
        step: Of one token drafted by the model.
        read: Of one token the model reads in a batch.
    """

    target: Mapping[int, float]
    step: float
    read: float

    def costs(self) -> Costs:
        """As the policy knows them: they do not change."""
        return Costs(CostCurve(self.target), {"model": self.step}, {"model": self.read}, frozen=True)


_FLAT_TO_8 = {1: 1.0, 8: 1.1, 16: 2.0, 32: 4.0}
_FLAT_TO_32 = {1: 1.0, 32: 1.2}
_STEEP = {1: 1.0, 2: 1.8, 3: 2.5, 5: 3.4, 9: 7.0, 17: 9.5, 33: 18.0}
_NO_MATRIX_UNIT = {1: 1.0, 2: 1.5, 3: 2.0, 5: 2.2, 6: 2.7, 9: 3.3, 17: 3.9, 33: 6.5}


def hardware(traces: Sequence[Trace]) -> dict[str, Hardware]:
    """The machine that recorded the traces, and models of others."""
    measured = _as_measured(traces)
    return {
        "as measured": measured,
        "CPU without matrix unit": Hardware(_NO_MATRIX_UNIT, 0.5, 0.05),
        "CPU, wide batches dear": Hardware(_STEEP, 0.6, 0.15),
        "as measured, draft step 1/10": Hardware(measured.target, 0.1, 0.01),
        **{
            f"flat to {width}, draft step 1/{fraction}": Hardware(curve, 1.0 / fraction, 0.1 / fraction)
            for width, curve in ((8, _FLAT_TO_8), (32, _FLAT_TO_32))
            for fraction in (4, 10, 30)
        },
    }


def _as_measured(traces: Sequence[Trace]) -> Hardware:
    """The medians of what the traces say."""
    widths = sorted(set.intersection(*(set(trace.target_seconds) for trace in traces)))
    units = [trace.target_seconds[1] for trace in traces]
    return Hardware(
        {w: median(trace.target_seconds[w] / u for trace, u in zip(traces, units, strict=True)) for w in widths},
        median(trace.costs.step("model") / u for trace, u in zip(traces, units, strict=True)),
        median(trace.costs.read("model", 1) / u for trace, u in zip(traces, units, strict=True)),
    )


def oracle_seconds(trace: Trace, costs: Costs, names: Sequence[str]) -> float:
    """The least time for a text by somebody who knows which drafts will be accepted, and need read nothing.

    Worked out backwards: the least time from a position is that of the best round there, and from where it leads.
    """
    n_tokens = len(trace.tokens)
    least = [0.0] * (n_tokens + 1)
    for i in range(n_tokens - 1, -1, -1):
        options = [costs.target.seconds(1) + least[i + 1]]
        for name in names:
            n_right = shared_prefix(trace.proposals[name][i].tokens, trace.tokens[i : n_tokens - 1])
            options += [
                n * costs.step(name) + costs.target.seconds(n + 1) + least[i + n + 1] for n in range(1, n_right + 1)
            ]
        least[i] = min(options)
    return least[0]


@dataclass(frozen=True)
class Outcome:
    """Seconds by text, of every way to write them.

    Attributes:
        tokens: How many each text has.
        fixed: By n-max; 0 is plain decoding.
        auto: Automatic lengths that know nothing yet.
        remembered: Automatic lengths that know the other half of the texts.
        oracle: The least.
    """

    tokens: list[int]
    fixed: dict[int, list[float]]
    auto: list[float]
    remembered: list[float]
    oracle: list[float]

    @property
    def best_single(self) -> int:
        """The n-max that is fastest over all texts."""
        return min(self.fixed, key=lambda n_max: sum(self.fixed[n_max]))

    def worst(self, seconds: Sequence[float]) -> float:
        """The least speed-up over plain decoding of any text."""
        return min(plain / mine for plain, mine in zip(self.fixed[0], seconds, strict=True))

    def by_text(self, seconds: Sequence[float]) -> float:
        """Speed relative to the n-max that turns out best for each text, averaged over the longer ones."""
        best = [min(column) for column in zip(*self.fixed.values(), strict=True)]
        return mean(b / s for b, s, n in zip(best, seconds, self.tokens, strict=True) if n >= LONG)


def measure(traces: Sequence[Trace], costs: Costs, names: Sequence[str]) -> Outcome:
    """Replay everything under one machine's costs."""
    fixed = {
        n_max: [replay(t, FixedPolicy(FixedLength(n_max)), costs, ["model"], n_max).seconds for t in traces]
        for n_max in FIXED
    }
    halves = [learnt(traces[start::2], costs, names) for start in (1, 0)]  # each text is told what the others taught
    return Outcome(
        tokens=[len(trace.tokens) for trace in traces],
        fixed=fixed,
        auto=[auto_seconds(trace, costs, names, {}) for trace in traces],
        remembered=[auto_seconds(trace, costs, names, copy.deepcopy(halves[i % 2])) for i, trace in enumerate(traces)],
        oracle=[oracle_seconds(trace, costs, names) for trace in traces],
    )


def auto_seconds(trace: Trace, costs: Costs, names: Sequence[str], calibrations: Calibrations) -> float:
    """What automatic lengths take; what they learn stays in ``calibrations``."""
    return replay(trace, AutoPolicy(costs, calibrations, LENGTH), costs, names, LENGTH).seconds


def learnt(traces: Sequence[Trace], costs: Costs, names: Sequence[str]) -> Calibrations:
    """What automatic lengths know after these texts."""
    calibrations: Calibrations = {}
    for trace in traces:
        auto_seconds(trace, costs, names, calibrations)
    return calibrations


def summary(outcomes: Mapping[str, Outcome]) -> str:
    """One row a machine."""
    rows = []
    for name, outcome in outcomes.items():
        plain, n_max = sum(outcome.fixed[0]), outcome.best_single
        single = sum(outcome.fixed[n_max])
        row = [name, f"{plain / sum(outcome.oracle):.2f}", f"{plain / single:.2f} (n-max {n_max})"]
        for seconds in (outcome.auto, outcome.remembered):
            row += [
                f"{plain / sum(seconds):.2f}",
                f"{outcome.worst(seconds):.2f}",
                f"{single / sum(seconds):.2f}",
                f"{outcome.by_text(seconds):.2f}",
            ]
        rows.append(row)
    header = ["machine", "oracle", "best single n-max"]
    header += ["auto", "worst text", "of best single", "of best by text"]
    header += ["remembered", "worst text", "of best single", "of best by text"]
    return table(header, rows)


def by_text(outcome: Outcome, names: Sequence[str]) -> str:
    """One row a text, on the machine that recorded them: × plain."""
    rows = []
    for i, name in enumerate(names):
        plain = outcome.fixed[0][i]
        best = min(outcome.fixed, key=lambda n_max: outcome.fixed[n_max][i])
        speedups = [plain / seconds[i] for seconds in (outcome.auto, outcome.remembered, outcome.oracle)]
        fixed = f"{plain / outcome.fixed[best][i]:.2f} (n-max {best})"
        rows.append([name, str(outcome.tokens[i]), fixed, *(f"{speedup:.2f}" for speedup in speedups)])
    return table(["text", "tokens", "best fixed", "auto", "remembered", "oracle"], rows)


def document(names: Sequence[str], traces: Sequence[Trace]) -> str:
    """The document: both choices of drafters on every machine."""
    machines = hardware(traces)
    parts = [_HEAD.format(n_texts=len(traces), n_tokens=sum(len(trace.tokens) for trace in traces))]
    for title, drafters in (("model", ["model"]), ("suffix,model", ["suffix", "model"])):
        outcomes = {name: measure(traces, machine.costs(), drafters) for name, machine in machines.items()}
        first = next(iter(outcomes.values()))
        parts.append(f"## `--drafter {title}`\n\n{summary(outcomes)}\n\nAs measured, text by text, × plain:\n")
        parts.append(by_text(first, names) + "\n")
    measured = machines["as measured"]
    widths = ", ".join(f"{width}: {seconds:.2f}" for width, seconds in measured.target.items())
    parts.append(f"As measured: forward passes of {{{widths}}}, a draft step {measured.step:.2f}, ")
    parts[-1] += f"a token read by the draft model {measured.read:.3f} times one token of the target.\n"
    return "\n".join(parts)


_HEAD = f"""# Automatic draft lengths, replayed

`make bench-policy`: {{n_texts}} greedy texts, {{n_tokens}} tokens, of Qwen2.5-Coder 1.5B with its 0.5B draft, for
each position of which `specli run --save-trace` has recorded what every drafter would have proposed. Time is counted
by the costs of a machine: of the one that recorded them, and of models of others, whose verification takes nearly the
same time up to a width (flat to 8: 1.1 times that of one token, to 32: 1.2 times) and whose draft steps take a fraction
of a forward pass of the target; *CPU without matrix unit* and *CPU, wide batches dear* are modelled on two without
AMX. Drafting counts, and the draft model's reading of the prompt; the target's reading does not.

All numbers are ratios of speed. *auto* is `--n-max auto`, of at most {LENGTH} tokens, that knows nothing but the costs;
*remembered* has met the other half of the texts before. *worst text* is the least speed-up over plain decoding, *of
best single* compares with the best of n-max {", ".join(str(n) for n in FIXED)} for all texts together, *of best
by text* with the best for each, chosen afterwards (mean over texts of {LONG} tokens and more; shorter ones' best is
chance). The *oracle* knows which drafts will be accepted and reads nothing: no policy reaches it.
"""


def main() -> None:
    """Replay, and write the document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=Path("tests/traces"), help="folder (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("docs/bench-policy.md"), help="(default: %(default)s)")
    arguments = parser.parse_args()
    files = sorted(arguments.traces.glob("*.json"))
    if not files:
        sys.exit(f"bench_policy: {arguments.traces}: no traces there")
    try:
        text = document([file.stem for file in files], [load(file) for file in files])
    except ValueError as error:
        sys.exit(f"bench_policy: {error}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
