"""The JSON documents of a run; their shape is described in docs/formats.md."""

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from specli.decoding.comparison import decode_speedup, speedup
from specli.decoding.pair import Generation
from specli.decoding.round import Round
from specli.report.facts import Comparison, ModelFacts, RunFacts

Document = dict[str, Any]


def run_document(generation: Generation, facts: RunFacts) -> Document:
    """The document of a finished (or interrupted) text: ``specli.run/1``."""
    stats = generation.stats
    document = {
        "schema": "specli.run/1",
        "text": generation.text,
        "token_ids": generation.token_ids,
        "stop_reason": generation.stop_reason,
        "target": _model(facts.target),
        "draft": _model(facts.draft) if facts.draft else None,
        "settings": facts.settings,
        "prompt_tokens": stats.prompt_tokens,
        "tokens": stats.tokens,
        "rounds": stats.rounds,
        "drafted": stats.drafted,
        "accepted": stats.accepted,
        "rejected": stats.rejected,
        "discarded": stats.discarded,
        "acceptance_rate": stats.acceptance_rate,
        "mean_accepted_length": stats.mean_accepted_length,
        "accepted_by_position": stats.accepted_by_position,
        "drafted_by_position": stats.drafted_by_position,
        "drafters": {name: asdict(drafter) for name, drafter in stats.by_drafter.items()},
        "seconds": {
            "load": facts.load_seconds,
            "prefill": stats.prefill_seconds,
            "draft_prefill": stats.draft_prefill_seconds,
            "decode": stats.decode_seconds,
            "draft": stats.draft_seconds,
            "verify": stats.verify_seconds,
            "other": stats.other_seconds,
        },
        "tokens_per_second": stats.tokens_per_second,
    }
    if facts.comparison:
        document |= _comparison(generation, facts.comparison)
    return _document(document)


def round_event(number: int, round_: Round, token_text: Callable[[int], str]) -> Document:
    """The event of one round, counted from 1: ``specli.round/1``.

    Args:
        number: Which round.
        round_: The round.
        token_text: A token as text, for the drafted tokens that never became part of the answer.
    """
    return _document(
        {
            "schema": "specli.round/1",
            "round": number,
            "drafter": round_.drafter,
            "drafted": round_.drafted,
            "drafted_texts": [token_text(token) for token in round_.drafted],
            "accepted": round_.n_accepted,
            "rejected": round_.n_rejected,
            "discarded": round_.n_discarded,
            "tokens": round_.tokens,
            "text": round_.text,
            "seconds": round_.seconds,
            "stop_reason": round_.stop_reason,
        }
    )


def _document(values: Document) -> Document:
    return {key: _jsonable(value) for key, value in values.items()}


def _jsonable(value: Any) -> Any:
    """Turn a value into what JSON has: tuples to lists, paths to text, numbers that are not finite to null."""
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _model(facts: ModelFacts) -> Document:
    return {name: getattr(facts, name) for name in ("path", "architecture", "parameters", "bytes", "layers_offloaded")}


def _comparison(generation: Generation, comparison: Comparison) -> Document:
    plain, difference = comparison.plain, comparison.first_difference
    return {
        "plain": {
            "tokens_per_second": plain.stats.tokens_per_second,
            "text": plain.text,
            "identical": difference is None,
            "first_difference": asdict(difference) if difference else None,
        },
        "speedup": speedup(generation.stats, plain.stats),
        "decode_speedup": decode_speedup(generation.stats, plain.stats),
    }
