"""The closing report: what a run took, for people."""

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from specli.decoding.comparison import decode_speedup, speedup
from specli.decoding.ending import CONTEXT, EOG, INTERRUPTED, LENGTH, STOP
from specli.decoding.pair import Generation
from specli.decoding.stats import Stats
from specli.report.facts import Comparison, FirstDifference, ModelFacts, RunFacts

_REASONS = {
    EOG: "the model ended it",
    LENGTH: "the length asked for",
    STOP: "a stop string",
    CONTEXT: "the context is full",
    INTERRUPTED: "interrupted",
    None: "not finished",
}
_BARS = " ▁▂▃▄▅▆▇█"
_MOST_BARS = 16
_GIB = 1 << 30
_MIB = 1 << 20


def print_summary(console: Console, generation: Generation, facts: RunFacts) -> None:
    """Print the closing report of a text."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in _lines(generation, facts):
        table.add_row(label, value)
    console.print(Group(Text(), table), highlight=False)


def _lines(generation: Generation, facts: RunFacts) -> Iterator[tuple[str, RenderableType]]:
    stats = generation.stats
    yield "tokens", f"{stats.tokens} in {stats.rounds} rounds; ended: {_REASONS[generation.stop_reason]}"
    if stats.drafted:
        yield "drafted", _drafted(stats)
        yield "by position", _positions(stats)
    yield "speed", _speed(stats)
    if stats.decode_seconds:
        yield "time", _time(stats)
    yield "target", _model(facts.target)
    if facts.draft:
        yield "draft", _model(facts.draft)
    yield "settings", _settings(facts)
    if facts.comparison:
        yield "plain", _speedup(stats, facts.comparison)
        yield "text", _sameness(facts.comparison)


def _drafted(stats: Stats) -> str:
    cut = f", {stats.discarded} cut off by the end" if stats.discarded else ""
    rate = f"{stats.acceptance_rate:.1%} accepted, " if stats.acceptance_rate is not None else ""
    return (
        f"{stats.drafted}: {stats.accepted} accepted, {stats.rejected} rejected{cut} "
        f"({rate}τ {stats.mean_accepted_length:.2f} tokens a round)"
    )


def _positions(stats: Stats) -> Text:
    """Acceptance at each position of a draft, as bars with percentages."""
    text = Text()
    pairs = list(zip(stats.accepted_by_position, stats.drafted_by_position, strict=True))
    for i, (accepted, drafted) in enumerate(pairs[:_MOST_BARS], start=1):
        share = accepted / drafted if drafted else 0.0
        text.append(f"{i} ", style="dim").append(_BARS[round(share * (len(_BARS) - 1))], style="green")
        text.append(f" {share:.0%}  ")
    return text


def _speed(stats: Stats) -> str:
    parts = []
    if stats.tokens_per_second:
        parts.append(f"decode {stats.tokens_per_second:.2f} tok/s")
    if stats.prefill_seconds and stats.prompt_tokens > 1:
        parts.append(f"prefill {(stats.prompt_tokens - 1) / stats.prefill_seconds:.1f} tok/s ({stats.prompt_tokens})")
    return ", ".join(parts) or "nothing was decoded"


def _time(stats: Stats) -> str:
    def share(seconds: float) -> str:
        return f"{seconds / stats.decode_seconds:.1%}"

    drafting = f"draft {share(stats.draft_seconds)}, " if stats.drafted else ""
    prefills = f"prefill {stats.prefill_seconds:.2f} s"
    if stats.draft_prefill_seconds:
        prefills += f" and {stats.draft_prefill_seconds:.2f} s of the draft"
    verifying = "verify" if stats.drafted else "target"
    return (
        f"decode {stats.decode_seconds:.2f} s: {drafting}{verifying} {share(stats.verify_seconds)}, "
        f"rest {share(stats.other_seconds)}; {prefills}"
    )


def _model(model: ModelFacts) -> str:
    where = f"{model.layers_offloaded} of {model.n_layers} layers offloaded" if model.layers_offloaded else "on the CPU"
    return (
        f"{model.architecture} {_count(model.parameters)}, weights {_size(model.bytes)}, "
        f"KV cache {_size(model.kv_bytes)}, {where}"
    )


def _settings(facts: RunFacts) -> str:
    settings = facts.settings
    shown = {"temp": settings["temperature"], "seed": settings["seed"]}
    if facts.draft:
        shown = {"n-max": settings["n_max"], "verification": settings["verification"], **shown}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def _speedup(stats: Stats, comparison: Comparison) -> Text:
    plain = comparison.plain.stats
    total, decode = speedup(stats, plain), decode_speedup(stats, plain)
    if total is None or decode is None:
        return Text("nothing to compare")
    text = Text(f"{plain.tokens_per_second:.2f} tok/s; speed-up ")
    text.append(f"{total:.2f}×", style="bold green" if total >= 1 else "bold red")
    return text.append(f" end to end, {decode:.2f}× decode only")


def _sameness(comparison: Comparison) -> str:
    difference = comparison.first_difference
    if difference is None:
        return "identical to plain decoding"
    if not comparison.text_claimed:
        return "another than plain decoding's: equality in distribution, not in text, is what this verification claims"
    return _parting(difference)


def _parting(difference: FirstDifference) -> str:
    here = (
        f"differs from plain decoding at token {difference.index + 1}: "
        f"{difference.text!r}, plain {difference.plain_text!r}"
    )
    if difference.gap is None or difference.spread is None:
        return here
    apart = f"{here}; the target's logits of the two are {abs(difference.gap):.3f} apart there"
    if abs(difference.gap) <= difference.spread:
        return f"{apart}, and batch width alone moves that by {difference.spread:.3f}: numerics"
    return f"{apart}, and batch width alone moves that by {difference.spread:.3f} only"


def _count(n: int) -> str:
    return f"{n / 1e9:.2f} B" if n >= 1e9 else f"{n / 1e6:.0f} M"


def _size(n_bytes: int) -> str:
    return f"{n_bytes / _GIB:.2f} GiB" if n_bytes >= _GIB else f"{n_bytes / _MIB:.0f} MiB"
