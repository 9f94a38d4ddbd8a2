"""``--compare``: the same text by plain decoding, and where the two part."""

from dataclasses import replace

from specli.cli.failures import interruptible, raise_held
from specli.decoding.comparison import first_difference, logit_gap
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Generation, Pair
from specli.report.facts import Comparison, FirstDifference
from specli.report.live import LiveView


def compare_with_plain(pair: Pair, tokens: list[int], options: GenerationOptions, generation: Generation) -> Comparison:
    """Decode the same prompt plainly, from an empty cache, and find where the texts part."""
    pair.target.truncate(0)
    with LiveView(text=False) as view, view.prefilling(len(tokens)) as bars:
        plain = pair.generate(tokens, replace(options, n_max=0, n_min=0, drafters=None), *map(interruptible, bars))
        for round_ in plain:
            view.show(round_, plain.stats)
            raise_held()
    index = first_difference(generation.token_ids, plain.token_ids)
    claimed = options.effective_verification in ("greedy", "match")
    difference = None
    if index is not None:
        difference = _difference(pair, tokens, options, generation, plain.token_ids, index)
    raise_held()
    return Comparison(plain, difference, claimed)


def _difference(
    pair: Pair, prompt: list[int], options: GenerationOptions, generation: Generation, plain: list[int], index: int
) -> FirstDifference:
    """Describe where two texts part.

    The spread is told only where the larger logit alone decides: with penalties, biases or a race it proves nothing.
    """
    mine, longest = generation.token_ids, len(generation.stats.drafted_by_position)
    sampling = options.sampling
    by_logit = sampling.greedy and not sampling.penalizes and not sampling.logit_bias
    token = mine[index] if index < len(mine) else None
    plain_token = plain[index] if index < len(plain) else None
    gap = None
    if token is not None and plain_token is not None:
        gap = logit_gap(pair.target, [*prompt, *plain[:index]], plain_token, token, index + 1, [longest + 1])
    name = pair.target.model.vocab.text
    return FirstDifference(
        index=index,
        token=token,
        plain_token=plain_token,
        text="" if token is None else name(token),
        plain_text="" if plain_token is None else name(plain_token),
        gap=gap.gap if gap else None,
        spread=gap.spread if gap and by_logit else None,
    )
