"""The closing report: what a run took, for people."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from specli.decoding.comparison import decode_speedup, speedup
from specli.decoding.ending import CONTEXT, EOG, FAILED, INTERRUPTED, LENGTH, STOP
from specli.decoding.pair import Generation
from specli.decoding.stats import Stats
from specli.report.facts import Comparison, FirstDifference, ModelFacts, RunFacts
from specli.report.sizes import binary_size, decimal_count

_REASONS = {
    EOG: "the model ended it",
    LENGTH: "the length asked for",
    STOP: "a stop string",
    CONTEXT: "the context is full",
    FAILED: "an error",
    INTERRUPTED: "interrupted",
    None: "not finished",
}
_LABEL_WIDTH = 13
_NARROWEST = 20
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_BAR_WIDTH = 5
_POSITION_WIDTH = 15  # "1 ███▌   71%" and a gap
_MOST_POSITIONS = 16


def print_summary(console: Console, generation: Generation, facts: RunFacts) -> None:
    """Print the closing report of a text."""
    width = max(console.width - _LABEL_WIDTH, _NARROWEST)
    console.print()
    for label, value in _rows(generation, facts, width):
        text = Text(value) if isinstance(value, str) else value
        for i, line in enumerate(text.wrap(console, width)):
            line.rstrip()
            start = "" if i else label
            console.print(Text(f"{start:<{_LABEL_WIDTH}}", style="bold").append_text(line), highlight=False)


def _rows(generation: Generation, facts: RunFacts, width: int) -> Iterator[tuple[str, str | Text]]:
    stats = generation.stats
    rounds = "1 round" if stats.rounds == 1 else f"{stats.rounds} rounds"
    yield "tokens", f"{stats.tokens} in {rounds}; ended: {_REASONS[generation.stop_reason]}"
    if stats.drafted:
        yield "drafted", _drafted(stats)
        yield "acceptance", _acceptance(stats)
        yield "by position", _positions(stats, width // _POSITION_WIDTH)
    if facts.settings["n_max"] == "auto" or len(facts.settings["drafters"]) > 1:
        yield "by drafter", _drafters(stats)
    yield "speed", _speed(stats)
    yield "time", _time(stats, facts.load_seconds)
    yield "target", _model(facts.target)
    if facts.draft:
        yield "draft", _model(facts.draft)
    yield "settings", _settings(facts)
    if facts.comparison:
        yield "plain", _speedup(stats, facts.comparison)
        yield "text", _sameness(facts.comparison)


def _drafted(stats: Stats) -> Text:
    text = Text(f"{stats.drafted}: ").append(f"{stats.accepted} accepted", "green")
    text.append(", ").append(f"{stats.rejected} rejected", "red")
    return text.append(f", {stats.discarded} discarded at the end") if stats.discarded else text


def _acceptance(stats: Stats) -> Text:
    text = Text()
    if stats.acceptance_rate is not None:
        text.append(f"{100 * stats.acceptance_rate:.1f}%", "bold").append(", ")
    return text.append(f"τ {stats.mean_accepted_length:.2f}", "bold").append(" tokens a round")


def _positions(stats: Stats, columns: int) -> Text:
    """Acceptance at each position of a draft as bars, so many a line."""
    text = Text()
    pairs = zip(stats.accepted_by_position, stats.drafted_by_position, strict=True)
    for i, (accepted, drafted) in enumerate(pairs):
        if i == _MOST_POSITIONS:
            return text.append("\n…")
        if i and i % columns == 0:
            text.append("\n")
        share = accepted / drafted
        text.append(f"{i + 1:<3}" if stats.drafted_by_position[9:] else f"{i + 1} ", "dim")
        text.append(_bar(share), "green").append(f"{100 * share:4.0f}%   ")
    return text


def _drafters(stats: Stats) -> str:
    """Who was asked how often, and what came of it."""
    parts = [
        f"{name} {drafter.rounds} rounds, {drafter.accepted} of {drafter.drafted} accepted"
        for name, drafter in stats.by_drafter.items()
    ]
    plain = stats.rounds - sum(drafter.rounds for drafter in stats.by_drafter.values())
    if not parts:
        return "nobody was asked: plain decoding was expected to be the fastest"
    return "; ".join([*parts, f"nobody {plain} rounds"])


def _bar(share: float) -> str:
    """A bar of eighths of a character, padded to its full width."""
    whole, eighths = divmod(round(share * _BAR_WIDTH * 8), 8)
    return ("█" * whole + (_EIGHTHS[eighths] if eighths else "")).ljust(_BAR_WIDTH)


def _speed(stats: Stats) -> Text:
    if not stats.tokens_per_second:
        return Text("nothing was decoded")
    text = Text().append(f"{stats.tokens_per_second:.2f} tok/s", "bold").append(" decode")
    n_prefilled = stats.prompt_tokens - 1  # the last one is decoded in the first round
    if stats.prefill_seconds and n_prefilled > 0:
        text.append(f", {n_prefilled / stats.prefill_seconds:.1f} tok/s prefill of {stats.prompt_tokens} tokens")
    return text


def _time(stats: Stats, load_seconds: float) -> str:
    """Where the decode time went, and on a second line what came before."""
    parts = [("draft", stats.draft_seconds)] if stats.drafted else []
    parts += [("verify" if stats.drafted else "target", stats.verify_seconds), ("rest", max(0.0, stats.other_seconds))]
    total = stats.decode_seconds
    shares = ", ".join(f"{name} {100 * seconds / total:.1f}%" for name, seconds in parts) if total else ""
    of_draft = f", of the draft {stats.draft_prefill_seconds:.2f} s" if stats.drafted else ""
    before = f"prefill {stats.prefill_seconds:.2f} s{of_draft}, loading {load_seconds:.1f} s"
    return f"decode {total:.2f} s: {shares}\n{before}" if total else before


def _model(model: ModelFacts) -> str:
    where = "on the CPU"
    if model.layers_offloaded:
        buffers = ", ".join(f"{name} {binary_size(size)}" for name, size in model.weights_by_buffer.items())
        where = f"{model.layers_offloaded} of {model.n_layers} layers offloaded ({buffers})"
    return (
        f"{model.architecture} {decimal_count(model.parameters)}, weights {binary_size(model.bytes)}, "
        f"KV cache {binary_size(model.kv_bytes)}, {where}"
    )


def _settings(facts: RunFacts) -> str:
    settings = facts.settings
    shown = {"temp": settings["temperature"], "seed": settings["seed"]}
    if settings["n_max"] != 0:
        shown = {"n-max": settings["n_max"], "verification": settings["verification"], **shown}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def _speedup(stats: Stats, comparison: Comparison) -> Text:
    plain = comparison.plain.stats
    total, decode = speedup(stats, plain), decode_speedup(stats, plain)
    if total is None or decode is None:
        return Text("nothing to compare")
    text = Text(f"{plain.tokens_per_second:.2f} tok/s decode; speed-up ")
    text.append(f"{total:.2f}×", style="bold green" if total >= 1 else "bold red")
    return text.append(f" end to end, {decode:.2f}× decode")


def _sameness(comparison: Comparison) -> str:
    difference = comparison.first_difference
    if difference is None:
        return "identical to plain decoding"
    if not comparison.text_claimed:
        return "not plain decoding's: this verification promises its distribution, not its text"
    return _parting(difference)


def _parting(difference: FirstDifference) -> str:
    here = (
        f"differs from plain decoding at token {difference.index + 1}: "
        f"{_token(difference.token, difference.text)} here, "
        f"{_token(difference.plain_token, difference.plain_text)} there"
    )
    if difference.gap is None:
        return here
    apart = f"{here}, {abs(difference.gap):.3f} apart in the target's logits"
    if difference.spread is None:
        return apart
    if abs(difference.gap) <= difference.spread:
        return f"{apart}; batch width alone moves that by {difference.spread:.3f}: numerics"
    return f"{apart}, more than the {difference.spread:.3f} that other batch widths moved it by here"


def _token(token: int | None, text: str) -> str:
    return "the end" if token is None else repr(text)
