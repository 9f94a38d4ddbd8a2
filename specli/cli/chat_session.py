"""A conversation with a pair of models: each answer is generated, shown, and kept."""

import secrets
import sys
from dataclasses import replace

from rich.console import Console

from specli.cli.chat_settings import change, hindrance
from specli.cli.failures import note
from specli.cli.generating import generate_shown
from specli.cli.line_settings import keys_unseen
from specli.cli.lookup_options import LookupFlags
from specli.cli.lookups import add_lookups
from specli.cli.memory import recall, remember
from specli.decoding.conversation import Conversation, Encoded
from specli.decoding.ending import CONTEXT, FAILED, INTERRUPTED, LENGTH
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Generation, Pair
from specli.decoding.stats import Stats
from specli.decoding.transcript import Transcript
from specli.drafters.ngram import NGRAM_DRAFTERS
from specli.errors import SpecliError, UsageError
from specli.llama.reasoning import opened
from specli.report.chat_report import print_answer_line
from specli.report.live import LiveView

_ENDED_EARLY = {
    CONTEXT: "the context is full, so the answer ends here; the next message drops the oldest turns",
    LENGTH: "the answer ends here, after {} tokens; /set n-predict -1 lifts the limit",
    INTERRUPTED: "interrupted; what is there of the answer stays in the conversation",
}


class Session:
    """What a conversation consists of while it goes on.

    Args:
        pair: The models.
        options: How answers are generated.
        lookups: Where drafters without a model look.
        conversation: Where it begins.
        transcript: Turns it into tokens.
        console: For all that is not an answer.
        keep_memory: Whether what is learnt about the pair is used and kept.

    Attributes:
        pair: As given.
        options: As they are now.
        conversation: As it is now.
        console: As given.
        answers: Counts and times of each answer.
    """

    def __init__(
        self,
        pair: Pair,
        options: GenerationOptions,
        lookups: LookupFlags,
        conversation: Conversation,
        transcript: Transcript,
        console: Console,
        *,
        keep_memory: bool,
    ) -> None:
        self.pair = pair
        self.options = options
        self.conversation = conversation
        self.console = console
        self.answers: list[Stats] = []
        self._lookups = replace(lookups, corpus=None)  # which the pair has already
        self._transcript = transcript
        self._keep_memory = keep_memory
        self._learnt_with: GenerationOptions | None = None
        self._n_retries = 0

    def say(self, message: str) -> None:
        """Answer a message.

        Raises:
            KeyboardInterrupt: The answer was interrupted; what there is of it is kept.
            SpecliError: It failed; likewise.
        """
        if self.conversation.is_unanswered:
            note("the message before has no answer; it is left out of the conversation")
        self.conversation.ask(message)
        self._n_retries = 0
        self._answer(self.options)

    def retry(self) -> None:
        """Answer the last message again, by other draws; raises what ``say`` does, and where nothing was said yet."""
        if not self.conversation.turns:
            raise SpecliError("/retry: nothing was said yet")
        self._n_retries += 1
        if self.options.sampling.greedy:
            note("at temperature 0 the answer will be the same; /set temp 0.8")
        self._answer(replace(self.options, seed=self.options.seed + self._n_retries))

    def begin(self, conversation: Conversation) -> None:
        """Go on with another conversation, by other draws unless a seed was asked for."""
        self.conversation = conversation
        self.answers.clear()
        if not self.options.repeatable:
            self.options = replace(self.options, seed=secrets.randbits(32))

    @property
    def n_used(self) -> int:
        """How many tokens of this conversation the context holds."""
        return len(self.pair.target.tokens) if self.answers else 0

    def change_setting(self, name: str, value: str) -> None:
        """Change a setting from the next answer on.

        Raises:
            UsageError: Naming what can be.
        """
        options = change(self.options, name, value)
        self._check_n_max(options.n_max)
        wanted = set(NGRAM_DRAFTERS) & set(options.drafters or ())
        mine = set(NGRAM_DRAFTERS) & set(self.options.drafters or ())
        add_lookups(self.pair, self._lookups, wanted - mine)
        try:
            self.pair.check(options)
        except SpecliError:
            self._remove(wanted - mine)
            raise
        self._remove(mine - wanted)
        self.remember()  # with a seed, nothing is learnt any more
        self.options = options
        if why := hindrance(options, name):
            note(why)

    def _check_n_max(self, n_max: int | None) -> None:
        """Refuse longer drafts than the contexts were made for."""
        if n_max != self.options.n_max and (1 if n_max is None else n_max) > self.pair.n_max:
            asked = "auto" if n_max is None else n_max
            most = f"{self.pair.n_max} at most" if self.pair.n_max else "plain decoding"
            raise UsageError(
                f"/set n-max {asked}: the contexts were made for {most}", f"Start specli chat with --n-max {asked}."
            )

    def _remove(self, names: set[str]) -> None:
        """Take back n-gram drafters, which nobody gets by default."""
        for name in names:
            self.pair.remove_drafter(name)

    def remember(self) -> None:
        """Keep what was learnt about the pair."""
        if self._learnt_with and self._keep_memory:
            remember(self.pair, self._learnt_with)

    @keys_unseen()
    def _answer(self, options: GenerationOptions) -> None:
        prompt = self._prompt()
        self._recall(options)
        with LiveView(n_max=options.n_max) as view:
            generation, failure = generate_shown(self.pair, prompt.tokens, options, view, view.show)
        outcome = self._keep(prompt, generation)
        if not sys.stdout.isatty() and not generation.text.endswith("\n"):
            print(flush=True)
        print_answer_line(self.console, generation.stats, options.n_max)
        if failure:
            raise failure
        if outcome:
            note(outcome)
        if generation.stop_reason == INTERRUPTED:
            raise KeyboardInterrupt

    def _prompt(self) -> Encoded:
        """What the model reads to answer the last turn."""
        before = self.conversation.n_dropped
        prompt = self.conversation.encoded(self._transcript.encode, self.pair.target.n_ctx)
        if n_dropped := self.conversation.n_dropped - before:
            turns = "turn" if n_dropped == 1 else "turns"
            note(f"the context is full: the model no longer sees the oldest {n_dropped} {turns}")
        return prompt

    def _keep(self, prompt: Encoded, generation: Generation) -> str | None:
        """Keep an answer, and its tokens where they stand for its text alone; return what is to be said of it.

        What there is of an answer is kept, too, unless there is a whole one from before.
        """
        self.answers.append(generation.stats)
        whole = generation.stop_reason not in (INTERRUPTED, FAILED)
        if not (whole or self.conversation.is_unanswered):
            return "interrupted; the answer from before stays in the conversation"
        if not generation.token_ids:
            return "interrupted before an answer began; /retry answers the message"
        self.conversation.answer(opened(prompt.text) + generation.text)
        vocab, tokens = self.pair.target.model.vocab, generation.token_ids
        if vocab.is_eog(tokens[-1]):
            tokens = tokens[:-1]
        pieces = [vocab.piece(token) for token in tokens]
        if all(pieces) and b"".join(pieces) == generation.text.encode():
            self._transcript.add(prompt, generation.text, tokens)
        why = _ENDED_EARLY.get(generation.stop_reason or "")
        return why and why.format(len(generation.token_ids))

    def _recall(self, options: GenerationOptions) -> None:
        """Bring what automatic lengths go by, which is learnt for greedy texts and each verification apart."""
        if options.n_max is not None or not self.pair.n_max:
            return
        known = self._learnt_with
        if known and known.effective_verification == options.effective_verification:
            self._learnt_with = options
            return
        self.remember()
        self.pair.learnt = None
        recall(self.pair, options, keep=self._keep_memory)
        self._learnt_with = options
