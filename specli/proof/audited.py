"""A real text by a real pair, every decision of it audited."""

from collections.abc import Sequence
from dataclasses import dataclass

from specli.decoding.loop import generate, prefill
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.decoding.stats import Stats
from specli.proof.audit import Audit
from specli.proof.faults import Faults


@dataclass(frozen=True)
class AuditedText:
    """What was written, and what was seen meanwhile."""

    prompt: tuple[int, ...]
    token_ids: tuple[int, ...]
    stats: Stats
    audit: Audit


def write_audited(
    pair: Pair,
    prompt: Sequence[int],
    options: GenerationOptions,
    faults: Faults,
    where: str,
    *,
    keep_rows: bool = False,
) -> AuditedText:
    """Write a text from an empty cache as ``Pair.generate`` does, and note what is wrong about it.

    Args:
        pair: The models.
        prompt: At least one token.
        options: How.
        faults: Where faults are noted.
        where: What to call the text in them.
        keep_rows: Whether to keep the rows of logits it was made with.
    """
    audit = Audit(prompt, pair.sampling(options), options.effective_verification, faults, where, keep_rows=keep_rows)
    drafters, how = pair.parts(options)
    stats = Stats(prompt_tokens=len(prompt))
    pair.target.truncate(0)
    prefill(pair.target, prompt)
    watched = [audit.drafter(drafter) for drafter in drafters]
    for round_ in generate(audit.target(pair.verifier), watched, prompt, audit.speculation(how), pair.ending(options)):
        stats.add(round_)
        audit.end_round(round_)
    return AuditedText(tuple(prompt), tuple(audit.context[len(prompt) :]), stats, audit)
