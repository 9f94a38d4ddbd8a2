"""Measure what automatic lengths cost at worst: a long prompt, and a draft model that is never right.

The draft model's logits are those of its neighbours in the vocabulary, so that it is as sure as ever, and wrong. Writes
a markdown document.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bench_peer import GREEDY, first_turn, read_sets
from measuring import add_inputs, chat_tokens, load_pair, machine, table

from specli.bench.intervals import RESAMPLES, median_estimate
from specli.decoding.options import AUTO_N_MAX, GenerationOptions
from specli.decoding.pair import Pair
from specli.drafters.model import ModelDrafter
from specli.drafters.names import MODEL
from specli.errors import SpecliError
from specli.llama.context import Context, physical_cores
from specli.llama.decoder import Logits
from specli.llama.options import ContextOptions


class NeverRight:
    """A decoder that takes every token for the one after it in the vocabulary (a ``Decoder``)."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.n_ctx, self.n_ubatch = context.n_ctx, context.n_ubatch

    @property
    def tokens(self) -> Sequence[int]:
        """The tokens in the cache."""
        return self._context.tokens

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        """Decode, and move every logit by one id."""
        return np.roll(self._context.decode(tokens, n_logits), 1, axis=-1)

    def truncate(self, n_tokens: int) -> None:
        """Cut the cache."""
        self._context.truncate(n_tokens)

    def checkpoint(self, n_tokens: int | None = None) -> None:
        """Promise to cut no further than here."""
        self._context.checkpoint(n_tokens)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add_inputs(parser)
    add("--category", default="rag", help="whose prompts are joined (default: %(default)s)")
    add("--prompt-tokens", type=int, default=3000, help="tokens of the prompt, at least (default: %(default)s)")
    add("--tokens", type=int, default=128, help="tokens an answer (default: %(default)s)")
    add("--rounds", type=int, default=5, help="how often both answer (default: %(default)s)")
    add("--out", type=Path, default=Path("docs/bench-long-prompt.md"), help="the document (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        text = benchmark(arguments)
    except SpecliError as error:
        sys.exit(f"bench_long_prompt: {error}")
    arguments.out.write_text(text, encoding="utf-8")
    print(text)


def benchmark(arguments: argparse.Namespace) -> str:
    """Measure plain decoding and automatic lengths in turn, and return the document."""
    target, draft = load_pair(arguments.models)
    rows = [row for row in read_sets(arguments.prompts) if row["category"] == arguments.category]
    text, prompt = "", []
    for row in rows:
        if len(prompt) < arguments.prompt_tokens:
            text += first_turn(row) + "\n\n"
            prompt = chat_tokens(target, text)
    options = ContextOptions(ctx_size=len(prompt) + arguments.tokens + 64, threads=physical_cores())
    pair = Pair(target, draft, options, options, AUTO_N_MAX)
    pair.warm_up()
    pair.measure()
    assert pair.draft
    pair.add_drafter(MODEL, ModelDrafter(NeverRight(pair.draft), pair.n_shared))
    ways = {"plain": (0, None), "auto": (None, (MODEL,))}
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    rows_shown = []
    for round_ in range(arguments.rounds):
        for name in list(ways)[:: 1 if round_ % 2 == 0 else -1]:
            n_max, drafters = ways[name]
            for context in (pair.target, pair.draft):
                context.truncate(0)
            how = GenerationOptions(GREEDY, n_max=n_max, drafters=drafters, n_predict=arguments.tokens, ignore_eos=True)
            generation = pair.generate(prompt, how)
            for _ in generation:
                pass
            stats = generation.stats
            assert stats.accepted == 0, "it was to be never right"
            seconds = stats.prefill_seconds + stats.draft_prefill_seconds + stats.decode_seconds
            speeds[name].append(stats.tokens / seconds)
            cells = [stats.prefill_seconds, stats.draft_prefill_seconds, stats.decode_seconds]
            rows_shown.append([name, str(round_ + 1), *(f"{cell:.2f}" for cell in cells), str(stats.drafted)])
    pair.close()
    ratio = median_estimate([[a / b for a, b in zip(speeds["auto"], speeds["plain"], strict=True)]])
    header = ["", "round", "prefill s", "draft prefill s", "decode s", "tokens drafted"]
    return f"""# A long prompt, and a draft model that is never right

`make bench-long-prompt`: Qwen2.5-Coder 1.5B and 0.5B, Q4_K_M, greedy, a prompt of {len(prompt)} tokens (questions of
Spec-Bench's category {arguments.category} one after the other), {arguments.tokens} tokens an answer. The draft model's
logits are moved by one id, so that it is as sure as ever and always wrong. Plain decoding and `--n-max auto
--drafter model` in turn, {arguments.rounds}×.

{machine()}

End to end, auto ÷ plain: {ratio} (median; 95 % interval from {RESAMPLES:,} bootstrap samples).

{table(header, rows_shown)}
"""


if __name__ == "__main__":
    main()
