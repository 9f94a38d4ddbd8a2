"""How a lookup's guesses have fared in a text: every token judges them, drafted or not."""

from collections.abc import Sequence

from specli.decoding.calibration import Calibration
from specli.drafters.drafter import Guess

_FIRST_MISSES = 3.0  # a text is doubted by half at first: most of what drafts lose they lose on texts that copy nothing
_FIRST_EXPECTED = 2.0
_MEMORY = 0.99  # of the counts, per judged guess: a text may begin to copy late


class TrackRecord:
    """What a text has told about the guesses of a drafter that looks them up.

    In a text that copies, guesses come true that after the same match in another text would be wrong in one of ten
    cases. So the chance of a miss, known from the texts before, is multiplied by how many there were in this one for
    each that was to be expected.

    Args:
        calibration: What is known from the texts before. It learns from this one.

    Attributes:
        n_right: How many of the latest tokens came as guessed, one after another, as far as there were guesses.
    """

    def __init__(self, calibration: Calibration) -> None:
        self.n_right = 0
        self._calibration = calibration
        self._before = Calibration.of(calibration.prior, calibration.tables)
        self._misses, self._expected = _FIRST_MISSES, _FIRST_EXPECTED
        self._guesses: Sequence[Guess] = ()

    def expect(self, guesses: Sequence[Guess]) -> list[float]:
        """Take note of the guesses at the end of the text so far.

        Returns:
            How likely each is to come, if those before it have.
        """
        self._guesses = guesses
        excess = self._misses / self._expected
        return [max(0.0, 1.0 - excess * self._miss(guess)) for guess in guesses]

    def see(self, tokens: Sequence[int]) -> None:
        """Learn from the tokens that came there: they judge the guesses up to the first miss."""
        guesses, self._guesses = self._guesses, ()
        right = bool(guesses)
        for guess, token in zip(guesses, tokens, strict=False):
            right = guess.token == token
            self._misses = _MEMORY * self._misses + (not right)
            self._expected = _MEMORY * self._expected + self._miss(guess)
            self._calibration.judge(guess.confidence, right)
            if not right:
                break
            self.n_right += 1
        if not right:
            self.n_right = 0

    def _miss(self, guess: Guess) -> float:
        return 1.0 - self._before.probability(guess.confidence)
