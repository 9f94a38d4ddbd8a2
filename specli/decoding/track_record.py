"""How a lookup's guesses have fared in a text: every token judges them, drafted or not."""

from collections.abc import Sequence

from specli.decoding.calibration import Calibration
from specli.drafters.drafter import Forecast

_FIRST_MISSES = 3.0  # a text begins as if so many guesses of it had been wrong ...
_FIRST_EXPECTED = 2.0  # ... where so many were expected to be


class TrackRecord:
    """What a text has told about the guesses of a drafter that looks them up.

    Texts differ: one that copies another is right where the same match, in another, is wrong in one of ten cases. So
    the chance of a miss, which the calibration knows of all texts, is multiplied by how many there were in this one
    per miss expected.

    Args:
        calibration: Learns from every guess.

    Attributes:
        n_right: How many of the latest tokens came as guessed, one after another.
    """

    def __init__(self, calibration: Calibration) -> None:
        self.n_right = 0
        self._calibration = calibration
        self._misses, self._expected = _FIRST_MISSES, _FIRST_EXPECTED
        self._forecast = Forecast(())

    def probabilities(self, forecast: Forecast) -> list[float]:
        """How likely each guess is to come, those before it having come; ``see`` will judge them."""
        self._forecast = forecast
        excess = self._misses / self._expected
        return [max(0.0, 1.0 - excess * miss) for miss in map(self._miss, forecast.confidences or ())]

    def see(self, tokens: Sequence[int]) -> None:
        """Learn from the tokens that came where the latest forecast was made."""
        right = True
        for guess, confidence, token in zip(
            self._forecast.tokens, self._forecast.confidences or (), tokens, strict=False
        ):
            right = guess == token
            self._expected += self._miss(confidence)
            self._misses += not right
            self._calibration.judge(confidence, right)
            if not right:
                break
            self.n_right += 1
        if not right or not self._forecast.tokens:
            self.n_right = 0
        self._forecast = Forecast(())

    def _miss(self, confidence: float) -> float:
        return 1.0 - self._calibration.probability(confidence)
