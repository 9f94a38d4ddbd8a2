"""How likely a drafted token is to be accepted, given how sure of it its drafter was: learnt as it goes."""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

_EDGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.995)
_PRIOR_WEIGHT = 6.0  # judged tokens that the prior is worth, in each bin
_AGREEMENT_WEIGHT = 3.0  # accepted tokens that believing the prior is worth
_MEMORY = 300.0  # judged tokens of a bin after which older ones count for little
_FOLLOW_RATE = 0.05
_TYPICAL_RATE = 0.005
_FIRST_TYPICAL = 0.75


def identity(confidence: float) -> float:
    """The prior of drafters whose confidence is a probability of acceptance."""
    return confidence


def models_prior(confidence: float) -> float:
    """The prior of draft models: larger ones of the family agree more often than the model is sure.

    Qwen2.5-Coder 0.5B drafting for 1.5B, greedily: of the tokens it was 0.25, 0.55 and 0.75 sure of, 0.38, 0.75 and
    0.86 were accepted.
    """
    return 1.0 - math.pow(1.0 - confidence, 1.6)


PRIORS: dict[str, Callable[[float], float]] = {"lookup": identity, "model": models_prior}
"""Acceptance probability by confidence, before anything is known, by the kind of drafter."""


class Calibration:
    """Acceptance by confidence, and what a drafter's next confidence is likely to be worth.

    Args:
        prior: One of PRIORS.

    Attributes:
        prior: As given.
    """

    def __init__(self, prior: str) -> None:
        middles = [(a + b) / 2 for a, b in zip((0.0, *_EDGES), (*_EDGES, 1.0), strict=True)]
        self.prior = prior
        self._prior = [PRIORS[prior](middle) for middle in middles]
        self.accepted = [0.0] * len(middles)
        self.judged = [0.0] * len(middles)
        self.follows = list(self._prior)
        self.typical = [_FIRST_TYPICAL]
        self._probabilities: list[float] = []  # by bin; empty when something new was learnt

    @property
    def tables(self) -> dict[str, list[float]]:
        """What was learnt that outlives a text, by name."""
        return {"accepted": self.accepted, "judged": self.judged, "follows": self.follows, "typical": self.typical}

    @staticmethod
    def of(prior: str, tables: Mapping[str, Sequence[float]]) -> "Calibration":
        """The calibration with this prior and these ``tables``.

        Raises:
            ValueError: They are no such tables.
            KeyError: One is missing, or there is no such prior.
        """
        calibration = Calibration(prior)
        for name, table in calibration.tables.items():
            values = [float(value) for value in tables[name]]
            if len(values) != len(table) or not all(0.0 <= value < 1e9 for value in values):
                raise ValueError(f"damaged: {name}")
            table[:] = values
        if max(*calibration.follows, *calibration.typical) > 1.0:
            raise ValueError("damaged: a probability above 1")
        if any(a > n for a, n in zip(calibration.accepted, calibration.judged, strict=True)):
            raise ValueError("damaged: more accepted than judged")
        return calibration

    def probability(self, confidence: float) -> float:
        """The probability that a token of this confidence is accepted, those before it being accepted."""
        if not self._probabilities:
            self._probabilities = self._by_bin()
        return self._probabilities[bisect_right(_EDGES, confidence)]

    def _by_bin(self) -> list[float]:
        """Probabilities of acceptance; a bin that is new learns from all others how far the prior can be believed."""
        expected = sum(judged * prior for judged, prior in zip(self.judged, self._prior, strict=True))
        agreement = (sum(self.accepted) + _AGREEMENT_WEIGHT) / (expected + _AGREEMENT_WEIGHT)
        return [
            (accepted + _PRIOR_WEIGHT * min(1.0, prior * agreement)) / (judged + _PRIOR_WEIGHT)
            for accepted, judged, prior in zip(self.accepted, self.judged, self._prior, strict=True)
        ]

    def following(self, confidence: float) -> float:
        """The expected acceptance probability of the token after one of this confidence."""
        return self.follows[bisect_right(_EDGES, confidence)]

    @property
    def typical_probability(self) -> float:
        """The acceptance probability to expect of a token at the beginning of a text."""
        return self.typical[0]

    def judge(self, confidence: float, accepted: bool) -> None:
        """Learn what became of a token."""
        i = bisect_right(_EDGES, confidence)
        keep = 1.0 - 1.0 / _MEMORY
        self.accepted[i] = self.accepted[i] * keep + accepted
        self.judged[i] = self.judged[i] * keep + 1.0
        self._probabilities.clear()

    def see(self, confidences: Sequence[float]) -> None:
        """Learn which confidences follow each other in a draft."""
        for confidence, after in pairwise(confidences):
            i = bisect_right(_EDGES, confidence)
            self.follows[i] += _FOLLOW_RATE * (self.probability(after) - self.follows[i])

    def expect(self, acceptance: float) -> None:
        """Learn what is to be expected of drafts in the texts of these days."""
        self.typical[0] += _TYPICAL_RATE * (acceptance - self.typical[0])
