"""What ``specli verify`` found: a verdict in words, a table, and JSON."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.errors import SpecliError, UsageError
from specli.proof.goodness import Goodness
from specli.proof.greedy import GreedyProof, Parting, Replay
from specli.proof.noise import QUANTILE
from specli.proof.prove import Proof
from specli.report.plain import plain
from specli.sampling.transforms import SamplingOptions

Document = dict[str, Any]


class _Row(NamedTuple):
    part: str
    what: str
    found: str


def print_proof(console: Console, proof: Proof, token_text: Callable[[int], str]) -> None:
    """Print the table, what is wrong, and the verdict.

    Args:
        console: Where to.
        proof: What was found.
        token_text: A token as text.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for title in ("part", "what was done", "what was found"):
        table.add_column(title, overflow="fold")
    for row in _rows(proof, token_text):
        table.add_row(*map(plain, row))
    console.print(table)
    console.print()
    for fault in proof.faults.first.values():
        count = proof.faults.counts[fault.kind]
        often = f"{count} times; the first: " if count > 1 else ""
        words = f"✗ {fault.kind.value} ({often}{fault.where}: {fault.detail})"
        console.print(Text(words, style="red"), soft_wrap=True)
    console.print(Text(verdict(proof), style="bold red" if proof.faults else "bold green"), soft_wrap=True)


def verdict(proof: Proof) -> str:
    """The whole in a sentence."""
    if not proof.faults:
        partings = len(proof.greedy.partings)
        if not partings:
            return f"Lossless here, and the greedy texts are identical.{_idle(proof)} ({proof.seconds:.0f} s)"
        texts = "1 greedy text parts" if partings == 1 else f"{partings} greedy texts part"
        return (
            f"Lossless here. {texts} from plain decoding at near-ties that batch width alone turns: numerics, no fault "
            f"of the algorithm; --exact avoids it.{_idle(proof)} ({proof.seconds:.0f} s)"
        )
    if proof.is_lossless:
        return f"The text is the target's, but drafts are made wrongly, and slowly. ({proof.seconds:.0f} s)"
    return f"NOT lossless. ({proof.seconds:.0f} s)"


def _idle(proof: Proof) -> str:
    """Who had nothing to prove."""
    drafted = proof.plumbing.drafted_by if proof.plumbing else {}
    idle = [name for name, n_tokens in drafted.items() if not n_tokens]
    if not idle:
        return ""
    return (
        f" Of {', '.join(idle)} little is proved: there was nothing to draft; give it texts of its own with --prompts."
    )


def _rows(proof: Proof, token_text: Callable[[int], str]) -> list[_Row]:
    rows = [_widths(proof), *_greedy(proof.greedy, token_text)]
    largest = max((law for law in proof.laws.values() if law is not None), default=0.0)
    rows.append(
        _Row(
            "arithmetic",
            f"every random path of {len(proof.laws)} settings on real probabilities",
            f"no text's probability is more than {largest:.1g} from the target's",
        )
    )
    for verification, fit in proof.seeded.items():
        rows.append(_Row("seeded, on tables", f"{fit.n_runs} texts by {verification} verification", _fit(fit)))
    if plumbing := proof.plumbing:
        rows.append(
            _Row(
                "decisions",
                f"{plumbing.n_decisions} random decisions of {plumbing.n_texts} sampled texts",
                _drafted(plumbing.drafted_by),
            )
        )
        rows.append(
            _Row(
                "logits",
                f"{plumbing.n_rows} rows of the target beside a fresh prefill",
                f"within {plumbing.farthest_row:.2g} (allowed: {plumbing.row_tolerance:.2g})",
            )
        )
        if plumbing.n_draft_rows:
            rows.append(
                _Row(
                    "draft's logits",
                    f"{plumbing.n_draft_rows} rows of the draft beside a fresh prefill",
                    f"within {plumbing.farthest_draft_row:.2g} (allowed: {plumbing.draft_row_tolerance:.2g})",
                )
            )
    if real := proof.real:
        rows.append(_Row("seeded, real", f"{real.n_runs} texts of the real models", _fit(real)))
    return rows


def _fit(fit: Goodness) -> str:
    if fit.visible_bias is None:
        return f"p = {fit.p_value:.2g}; too few to see a bias"
    return f"p = {fit.p_value:.2g}; a bias of {100 * fit.visible_bias:.1f} % would have been seen"


def _drafted(drafted_by: dict[str, int]) -> str:
    return "drafted: " + ", ".join(f"{name} {count} tokens" for name, count in drafted_by.items())


def _widths(proof: Proof) -> _Row:
    widths = proof.widths
    found = [
        f"{_numbers(same) or 'none'} identical to 1 after {length} tokens" for length, same in widths.identical.items()
    ]
    if not widths.tried or not found:
        return _Row("batch width", "nothing: the batch or the context is too small", "")
    return _Row("batch width", f"widths 2 to {widths.tried[-1]}, bit by bit", "; ".join(found))


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _greedy(greedy: GreedyProof, token_text: Callable[[int], str]) -> list[_Row]:
    identical = greedy.n_texts - len(greedy.partings)
    rates = ", ".join(
        f"{name} {100 * accepted / judged:.0f} % accepted" if judged else f"{name} drafted nothing"
        for name, (accepted, judged) in greedy.acceptance.items()
    )
    rows = [
        _Row(
            "greedy",
            f"{greedy.n_texts} texts of {greedy.n_tokens} tokens, drafted and plain",
            f"{identical} identical; {rates}",
        ),
        _Row(
            "noise",
            f"logit gaps at {len(greedy.noise.gaps)} places, plain at several widths",
            f"{100 * QUANTILE:.0f} % move by less than {greedy.noise.gap:.2g}",
        ),
    ]
    for parting in greedy.partings:
        both = [
            "the end" if token is None else repr(token_text(token)) for token in (parting.plain_token, parting.token)
        ]
        where = f"prompt {parting.prompt + 1}, {parting.drafter}: token {parting.index + 1}"
        gap = "" if parting.gap is None else f"gap {parting.gap:.2g}, noise {parting.noise:.2g}: "
        rows.append(
            _Row(
                "", f"{where}, {both[0]} or {both[1]}", f"{gap}{'numerics' if parting.is_numerics else 'NOT explained'}"
            )
        )
    return rows


def proof_document(proof: Proof, settings: Document) -> Document:
    """Everything for programs: ``specli.verify/1``."""
    greedy = proof.greedy
    return {
        "schema": "specli.verify/1",
        "verdict": verdict(proof),
        "lossless": proof.is_lossless,
        "passed": not proof.faults,
        "faults": [
            {
                "kind": fault.kind.name.lower(),
                "meaning": fault.kind.value,
                "where": fault.where,
                "detail": fault.detail,
                "count": proof.faults.counts[fault.kind],
            }
            for fault in proof.faults.first.values()
        ],
        "widths": {
            "tried": proof.widths.tried,
            "identical": {str(length): same for length, same in proof.widths.identical.items()},
            "exact": proof.widths.exact,
        },
        "greedy": {
            "texts": greedy.n_texts,
            "identical": greedy.n_texts - len(greedy.partings),
            "partings": [_parting(parting) for parting in greedy.partings],
            "noise": {"quantile": QUANTILE, "gap": greedy.noise.gap, "places": len(greedy.noise.gaps)},
            "acceptance": {
                name: accepted / judged if judged else None for name, (accepted, judged) in greedy.acceptance.items()
            },
        },
        "arithmetic": proof.laws,
        "seeded_on_tables": {name: asdict(fit) for name, fit in proof.seeded.items()},
        "plumbing": asdict(proof.plumbing) if proof.plumbing else None,
        "seeded_real": asdict(proof.real) if proof.real else None,
        "settings": settings,
        "seconds": proof.seconds,
    }


def _parting(parting: Parting) -> Document:
    gap = parting.gap if parting.gap is not None and math.isfinite(parting.gap) else None
    return {**asdict(parting), "gap": gap, "numerics": parting.is_numerics}


def settings_document(pair: Pair, options: GenerationOptions) -> Document:
    """What was proved about."""
    return {
        "target": str(pair.target.model.path),
        "draft": str(pair.draft.model.path) if pair.draft else None,
        **_options(options),
        "drafters": list(pair.names(replace(options, n_max=None))),
    }


def replay_document(replay: Replay) -> Document:
    """A failure, so that it can be looked at again: ``specli.replay/1``."""
    return {
        "schema": _REPLAY_SCHEMA,
        "prompt": replay.prompt,
        "plain": replay.plain,
        "drafted": replay.drafted,
        "parting": _parting(replay.parting),
        "options": _options(replay.options),
    }


def read_replay(path: Path) -> tuple[list[int], GenerationOptions]:
    """The prompt of a replay file, and the options it failed with.

    Raises:
        SpecliError: It cannot be read, or is none.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != _REPLAY_SCHEMA:
            raise ValueError(f"of another kind, {document['schema']}")
        prompt = [int(token) for token in document["prompt"]]
        if not prompt or min(prompt) < 0:
            raise ValueError("there is no prompt in it")
        values = document["options"]
        sampling = values.pop("sampling")
        bias = tuple((int(token), float(one)) for token, one in sampling.pop("logit_bias"))
        drafters = tuple(values.pop("drafters") or ()) or None
        stop = tuple(values.pop("stop"))
        options = GenerationOptions(
            SamplingOptions(**sampling, logit_bias=bias), drafters=drafters, stop=stop, **values
        )
        options.check()
    except OSError as error:
        raise SpecliError(f"--replay {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, UsageError) as error:
        raise SpecliError(
            f"--replay {path}: not a failure that specli verify wrote: {error}",
            "It writes them to specli-verify.json, where greedy texts part.",
        ) from error
    return prompt, options


_REPLAY_SCHEMA = "specli.replay/1"


def _options(options: GenerationOptions) -> Document:
    """Options with JSON's numbers: an infinite bias is a text."""
    values = asdict(options)
    bias = options.sampling.logit_bias
    values["sampling"]["logit_bias"] = [[token, one if math.isfinite(one) else str(one)] for token, one in bias]
    return values
