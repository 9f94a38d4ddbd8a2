"""``specli chat``: a conversation with a target and its draft."""

import sys
import traceback
from collections.abc import Sequence

import typer

from specli.cli.chat_commands import COMMANDS, Left, is_command, run_command
from specli.cli.chat_input import Messages, PipedMessages, TypedMessages
from specli.cli.chat_session import Session
from specli.cli.chat_settings import SETTINGS
from specli.cli.common_options import Debug, Verbose
from specli.cli.draft_options import DraftFile, DraftFlags
from specli.cli.failures import complain, hold_interrupts, note, of_system, worded
from specli.cli.generation_options import LengthFlags, SamplingFlags, SpeculationFlags, check_draft, generation_options
from specli.cli.groups import takes_options
from specli.cli.llama_flags import Unsupported
from specli.cli.loading import Loader, ready_pair, start_llama
from specli.cli.lookup_options import LookupFlags
from specli.cli.model_names import NameFlags
from specli.cli.target_options import TargetFlags
from specli.cli.template_options import TemplateFlags
from specli.decoding.conversation import Conversation
from specli.decoding.options import longest_draft
from specli.decoding.pair import Pair
from specli.decoding.transcript import Transcript
from specli.errors import SpecliError
from specli.llama.chat import Message, apply_chat_template, chat_template
from specli.llama.model import Model
from specli.llama.reasoning import as_said
from specli.report.live import LiveView
from specli.report.plain import PipedConsole


@takes_options
@worded
def command(
    target: TargetFlags,
    draft_file: DraftFile,
    names: NameFlags,
    draft: DraftFlags,
    speculation: SpeculationFlags,
    lookups: LookupFlags,
    sampling: SamplingFlags,
    length: LengthFlags,
    template: TemplateFlags,
    verbose: Verbose = False,
    debug: Debug = False,
    unsupported: Unsupported = False,
) -> None:
    """Talk with a model, its answers drafted and verified as specli run does.

    At a terminal it prompts; /help says what else can be typed there. Otherwise every line of standard input is a
    message, the answers go to stdout, and all else to stderr. Only what is new is read each turn.
    """
    start_llama(target, verbose=verbose)
    options = generation_options(speculation, sampling, length)
    options.check()
    n_max = longest_draft(options.n_max, target.batch_size)  # the most that /set allows
    lookups.ngram_options()
    template.check_template()
    system = template.system_message()
    target, draft_file = names.located(target, draft_file, speculation.draft_kinds)
    check_draft(options.drafters, has_draft=draft_file.path() is not None)
    hold_interrupts()
    with LiveView(text=False) as view:
        loader = Loader(target, draft_file.path(), draft, options, n_max, view, exact=speculation.exact)
        target_model = loader.load_target()
        transcript = _transcript(target_model, template)
        pair, options = ready_pair(loader, target_model, 0, options, lookups, verbose=verbose)
    session = Session(
        pair,
        options,
        lookups,
        Conversation(system),
        transcript,
        PipedConsole(stderr=True),
        keep_memory=not speculation.no_memory,
    )
    at_terminal = sys.stdin.isatty()
    if at_terminal:
        _greet(pair)
        messages: Messages = TypedMessages({**dict.fromkeys(COMMANDS, ()), "/set": tuple(SETTINGS)})
    else:
        messages = PipedMessages()
    try:
        all_well = _converse(session, messages, go_on=at_terminal, debug=debug)
    finally:
        session.remember()
    if not (all_well or at_terminal):
        raise typer.Exit(1)


def _converse(session: Session, messages: Messages, *, go_on: bool, debug: bool) -> bool:
    """Answer messages until there are no more.

    Args:
        session: The conversation.
        messages: Where they come from.
        go_on: Whether an interruption, or output that cannot be written, ends an answer only.
        debug: Whether errors are shown with where they came from.

    Returns:
        Whether there was no error.
    """
    all_well = True
    while True:
        try:
            if (message := messages.read()) is None:
                return all_well
            _respond(session, message, go_on=go_on)
        except Left:
            return all_well
        except (SpecliError, MemoryError) as error:
            all_well = False
            if debug:
                traceback.print_exc()
            complain(error if isinstance(error, SpecliError) else SpecliError("memory ran out"))


def _respond(session: Session, message: str, *, go_on: bool) -> None:
    """Answer a message, or do what a command says."""
    try:
        if is_command(message):
            run_command(session, message)
        else:
            session.say(message[1:] if message.startswith("//") else message)
    except KeyboardInterrupt:
        if not go_on:
            raise
    except BrokenPipeError:
        raise
    except OSError as error:
        if not go_on:
            raise
        raise SpecliError(
            of_system(error).message, "The answer is not kept; /retry answers the message again."
        ) from error


def _transcript(model: Model, flags: TemplateFlags) -> Transcript:
    """What turns conversations into tokens.

    Raises:
        SpecliError: The model has no chat template, and none was named.
    """
    template, thinking = flags.chat_template() or chat_template(model), flags.thinking()
    if template is None:
        raise SpecliError(
            f"{model.path.name} has no chat template",
            "Name one with --chat-template, or let specli run continue texts as they are.",
        )

    def render(messages: Sequence[Message]) -> str:
        said = [
            {**message, "content": as_said(message["content"])} if message["role"] == "assistant" else message
            for message in messages
        ]
        try:
            return apply_chat_template(model, template, said, thinking=thinking)
        except SpecliError as error:
            raise SpecliError(
                error.message, 'Another template may: --chat-template. /system "" goes without a system message.'
            ) from error

    return Transcript(render, model.vocab.tokenize_chat, model.vocab.tokenize_after)


def _greet(pair: Pair) -> None:
    """Say who answers, and where to learn more."""
    draft = f", drafts by {pair.draft.model.path.name}" if pair.draft else ""
    note(f"{pair.target.model.path.name}{draft}; /help says what can be typed, Ctrl-D leaves")
