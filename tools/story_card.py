"""Writes the model card of the pair inside specli, every figure of it measured: make story-card."""

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from stories.corpus import story
from stories.plan import DRAFT_STAGES, N_TOKENIZED, TARGET_STAGES, n_stories

import specli
from specli.decoding.stats import Stats, summed
from specli.llama.options import ContextOptions
from specli.models import stories as inside
from specli.report.sizes import decimal_size

_TEMPLATE = Path(__file__).parent / "stories" / "card.md"
_N_TEXTS = 100
_N_MAX = 8
_USUAL = 0.8


class Measured(NamedTuple):
    """What the stories at one temperature amount to."""

    texts: list[str]
    stats: Stats
    bits: float


def measure(speculator: specli.Speculator, temperature: float) -> Measured:
    """Tell stories, one a seed, and measure the target's entropy at every token of them.

    Args:
        speculator: The pair.
        temperature: At which, without truncation; 0: one story, as they are all the same.
    """
    texts, stats, entropies = [], [], []
    whole = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
    prompt = speculator.tokenize(inside.PROMPT)
    for seed in range(_N_TEXTS if temperature else 1):
        generation = speculator.generate(prompt, temperature=temperature, seed=seed, n_max=_N_MAX, **whole)
        for _ in generation:
            pass
        texts.append(generation.text)
        stats.append(generation.stats)
        entropies += token_entropies(speculator, prompt, generation.token_ids)
    return Measured(texts, summed(stats), float(np.mean(entropies)))


def token_entropies(speculator: specli.Speculator, prompt: Sequence[int], tokens: Sequence[int]) -> list[float]:
    """The entropy, in bits, of the target's distribution at temperature 1 before every token of a text."""
    target = speculator.pair.target
    target.truncate(0)
    target.decode(prompt[:-1], 0)
    entropies = []
    for given in [prompt[-1], *tokens[:-1]]:
        logits = np.asarray(target.decode([given], 1)[0], np.float64)
        p = np.exp(logits - logits.max())
        p /= p.sum()
        entropies.append(float(-(p * np.log2(np.maximum(p, 1e-300))).sum()))
    return entropies


def by_position(stats: Stats) -> list[float]:
    """The share accepted of the tokens drafted at each position whose predecessors were all accepted."""
    reached = [stats.drafted_by_position[0], *stats.accepted_by_position]
    return [accepted / n for n, accepted in zip(reached, stats.accepted_by_position, strict=False) if n]


def copied(texts: Sequence[str], n_trained: int) -> int:
    """How many texts are among the first stories of the corpus, word for word."""
    trained = {text for _, text in map(story, range(n_trained))}
    return sum(text in trained for text in texts)


def ends_well(text: str) -> bool:
    """Whether a story has an end."""
    return text.endswith(("\nThe end.", "\n完。"))


def card() -> str:
    """The card."""
    context = ContextOptions(ctx_size=1024)
    with specli.load(inside.TARGET, inside.DRAFT, context_options=context, n_max=_N_MAX) as speculator:
        greedy, usual, hot = (measure(speculator, temperature) for temperature in (0.0, _USUAL, 1.0))
        facts = _model_facts(speculator)
    n_target, n_draft = n_stories(TARGET_STAGES), n_stories(DRAFT_STAGES)
    n_words = [len(re.findall(r"\w+", text)) for text in hot.texts if text.isascii()]
    acceptance = _table({"greedy, one story": greedy, f"temperature {_USUAL}": usual, "temperature 1": hot})
    return _TEMPLATE.read_text(encoding="utf-8").format(
        **facts,
        n_tokenized=N_TOKENIZED,
        n_target=n_target,
        n_draft=n_draft,
        bits=hot.bits,
        n_texts=_N_TEXTS,
        n_different=len(set(hot.texts)),
        n_words=int(np.median(n_words)),
        n_compared=2 * _N_TEXTS,
        n_copied=copied([*hot.texts, *usual.texts], max(n_target, n_draft)),
        n_ending=sum(map(ends_well, hot.texts)),
        n_max=_N_MAX,
        acceptance="\n".join(acceptance),
        temperature=_USUAL,
        seed=inside.SEED,
        prompt=inside.PROMPT,
        story="\n>\n".join(f"> {paragraph}" for paragraph in usual.texts[inside.SEED].split("\n")),
    )


def _model_facts(speculator: specli.Speculator) -> dict[str, Any]:
    assert speculator.pair.draft
    models = {"target": speculator.pair.target.model, "draft": speculator.pair.draft.model}
    facts: dict[str, Any] = {"n_vocab": models["target"].vocab.n_tokens}
    for name, model in models.items():
        facts[f"{name}_parameters"], facts[f"{name}_layers"] = model.n_parameters, model.n_layer
        facts[f"{name}_file"], facts[f"{name}_size"] = model.path.name, decimal_size(model.path.stat().st_size)
    facts["ratio"] = facts["target_parameters"] / facts["draft_parameters"]
    return facts


def _table(rows: dict[str, Measured]) -> Iterator[str]:
    yield "| | acceptance rate | τ | " + " | ".join(str(i + 1) for i in range(_N_MAX)) + " |"
    yield "|---" * (3 + _N_MAX) + "|"
    for name, one in rows.items():
        shares = " | ".join(f"{share:.0%}" for share in by_position(one.stats))
        yield f"| {name} | {one.stats.acceptance_rate:.1%} | {one.stats.mean_accepted_length:.2f} | {shares} |"


def main() -> None:
    """Write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=inside.FOLDER / "MODEL_CARD.md")
    parser.parse_args().out.write_text(card(), encoding="utf-8")


if __name__ == "__main__":
    main()
