"""Generating a text that is shown as it comes."""

from collections.abc import Callable, Sequence

from specli.cli.failures import interruptible, raise_held
from specli.decoding.ending import FAILED, INTERRUPTED
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Generation, Pair
from specli.decoding.round import Round
from specli.decoding.stats import Stats
from specli.llama.errors import DecodeError
from specli.report.live import LiveView

_PROMPT_END = 16  # tokens among which a mark is looked for


def generate_shown(
    pair: Pair, tokens: Sequence[int], options: GenerationOptions, view: LiveView, show: Callable[[Round, Stats], None]
) -> tuple[Generation, DecodeError | None]:
    """Generate a text and show it; an interruption or a failing computation, which is returned, ends it there."""
    view.begin("".join(map(pair.target.model.vocab.text, tokens[-_PROMPT_END:])))
    with view.prefilling(len(tokens)) as bars:
        generation = pair.generate(tokens, options, *map(interruptible, bars))
        try:
            for round_ in generation:
                show(round_, generation.stats)
                raise_held()
        except (KeyboardInterrupt, DecodeError) as error:
            failure = error if isinstance(error, DecodeError) else None
            view.write(generation.end(FAILED if failure else INTERRUPTED))
            return generation, failure
    return generation, None
