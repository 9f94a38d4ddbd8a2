"""Measuring the points of a sweep: all of a question in turn, in shuffled blocks."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from specli.bench.grid import Placement, Point
from specli.bench.measurement import Measurement, Question, Widths
from specli.bench.prompts import Prompt
from specli.decoding.loop import prefill
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.decoding.round import Round
from specli.llama.chat import Message
from specli.llama.context import Saved

Tokenize = Callable[[Sequence[Message]], list[int]]
"""Turns a conversation into the tokens of a prompt for its next answer."""

_WARM_UP_TOKENS = 8


class Place(NamedTuple):
    """What a pair of contexts is made for."""

    placement: Placement
    draft: Path | None


@dataclass(frozen=True)
class Sweep:
    """All that a sweep measures.

    Attributes:
        pairs: The models, ready to run, by place.
        points: The settings.
        prompts: The questions.
        tokenize: Of a conversation.
        options: What all texts have in common.
        seed: Of the order and of the texts.
        on_round: Called after every round; may raise to end the sweep.
        cut_short: Prompts of which later turns did not fit the context.
    """

    pairs: Mapping[Place, Pair]
    points: Sequence[Point]
    prompts: Sequence[Prompt]
    tokenize: Tokenize
    options: GenerationOptions
    seed: int
    on_round: Callable[[], None] = lambda: None
    cut_short: set[Prompt] = field(default_factory=set)

    def pair(self, point: Point) -> Pair:
        """The pair a point runs on; one without a draft model runs on any of its placement."""
        if point.draft is not None:
            return self.pairs[Place(point.placement, point.draft)]
        return next(pair for place, pair in self.pairs.items() if place.placement == point.placement)

    def warm_up(self) -> None:
        """Run every pair once: the first texts pay for buffers and pages."""
        tokens = self.tokenize([{"role": "user", "content": self.prompts[0].turns[0]}])
        for pair in self.pairs.values():
            pair.warm_up()
            pair.measure()
            options = replace(self.options, n_max=min(2, pair.n_max), n_predict=_WARM_UP_TOKENS)
            for _ in pair.generate(tokens[:64], options):
                self.on_round()

    def measure(self, block: int, points: Sequence[Point], known: Sequence[Measurement]) -> Iterator[Measurement]:
        """Measure points on every question once.

        Args:
            block: Which pass this is, counted from 0; the first measures all points.
            points: Those wanted.
            known: What was measured before; of this block it is not measured again.
        """
        done = {measurement.key for measurement in known}
        answers = {m.question: m.text for m in known if m.block == 0 and m.point == self.points[0]}
        for prompt in self.prompts:
            conversation = beginning(prompt)
            for turn, said in enumerate(prompt.turns):
                question = Question(prompt.category, prompt.id, turn)
                conversation.append({"role": "user", "content": said})
                tokens = self.tokenize(conversation)
                if not self._fits(tokens):
                    self.cut_short.add(prompt)
                    break
                order = random.Random(f"{self.seed} {block} {question}").sample(points, len(points))
                missing = [point for point in order if (point, question, block) not in done]
                for measurement in self._ask(question, tokens, block, missing):
                    if block == 0 and measurement.point == self.points[0]:
                        answers[question] = measurement.text
                    yield measurement
                conversation.append({"role": "assistant", "content": answers[question]})

    def block_seconds(self) -> float:
        """About how long it takes to measure every point once, as if none gained."""
        seconds = 0.0
        for prompt in self.prompts:
            n_read = len(self.tokenize([*beginning(prompt), {"role": "user", "content": prompt.turns[0]}]))
            for point in self.points:
                learnt = self.pair(point).learnt
                assert learnt  # since the warm-up
                answer = self.options.n_predict * learnt.costs.target.seconds(1)
                reading = sum(learnt.costs.read(name, n_read) for name in point.drafters)
                seconds += len(prompt.turns) * (answer + reading)
        return seconds

    def too_long(self) -> list[Prompt]:
        """Prompts whose first turn leaves no room for an answer."""
        return [
            prompt
            for prompt in self.prompts
            if not self._fits(self.tokenize([*beginning(prompt), {"role": "user", "content": prompt.turns[0]}]))
        ]

    def _fits(self, tokens: Sequence[int]) -> bool:
        n_ctx = min(pair.target.n_ctx for pair in self.pairs.values())
        return len(tokens) + max(1, self.options.n_predict) <= n_ctx

    def _ask(self, question: Question, tokens: list[int], block: int, points: Sequence[Point]) -> Iterator[Measurement]:
        """Answer one question at several points; each target reads it once.

        A draft model reads it anew for each point: when, and whether at all, is part of what is measured.
        """
        prefilled: dict[Pair, tuple[Saved, float]] = {}
        for point in points:
            pair = self.pair(point)
            if pair not in prefilled:
                pair.target.truncate(0)
                before = pair.target.seconds
                prefill(pair.target, tokens)
                prefilled[pair] = pair.target.save(), pair.target.seconds - before
            saved, prefill_seconds = prefilled[pair]
            pair.target.restore(saved)
            pair.forget_drafts()
            yield self._answer(point, question, tokens, block, prefill_seconds)

    def _answer(
        self, point: Point, question: Question, tokens: list[int], block: int, prefill_seconds: float
    ) -> Measurement:
        pair = self.pair(point)
        options = replace(
            self.options,
            sampling=replace(self.options.sampling, temperature=point.temperature),
            n_max=point.n_max,
            drafters=point.drafters or None,
            verification=point.verification,
            seed=self.seed + block,
        )
        generation = pair.generate(tokens, options)
        rounds = []
        for round_ in generation:
            rounds.append(round_)
            self.on_round()
        stats = generation.stats
        return Measurement(
            point=point,
            question=question,
            block=block,
            prompt_tokens=stats.prompt_tokens,
            tokens=stats.tokens,
            rounds=stats.rounds,
            drafted=stats.drafted,
            accepted=stats.accepted,
            rejected=stats.rejected,
            judged_by_position=_at_each([round_.n_accepted + (round_.n_rejected > 0) for round_ in rounds]),
            accepted_by_position=_at_each([round_.n_accepted for round_ in rounds]),
            prefill_seconds=prefill_seconds,
            draft_prefill_seconds=stats.draft_prefill_seconds,
            draft_seconds=stats.draft_seconds,
            verify_seconds=stats.verify_seconds,
            decode_seconds=stats.decode_seconds,
            widths=_widths(rounds),
            text=generation.text,
        )


def beginning(prompt: Prompt) -> list[Message]:
    """What stands before the first turn."""
    return [] if prompt.system is None else [{"role": "system", "content": prompt.system}]


def _at_each(lengths: Sequence[int]) -> tuple[int, ...]:
    """How many of the lengths go beyond each position."""
    return tuple(sum(length > i for length in lengths) for i in range(max(lengths)))


def _widths(rounds: Sequence[Round]) -> dict[int, Widths]:
    seconds: defaultdict[int, list[float]] = defaultdict(list)
    for round_ in rounds:
        seconds[len(round_.drafted) + 1].append(round_.verify_seconds)
    return {width: Widths(len(times), sum(times)) for width, times in sorted(seconds.items())}
