"""Runs specli in this process and interrupts it in one phase: python tests/interrupted_run.py PHASE ARGUMENT…"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

PHASES = ("load", "prefill", "draft", "verify", "report", "prove")


def interrupts(function: Callable[..., Any], nth: int) -> Callable[..., Any]:
    """The same function, which is interrupted at the start of its nth call."""
    calls = 0

    def interrupted(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            os.kill(os.getpid(), signal.SIGINT)
        return function(*arguments, **options)

    return interrupted


def patch(phase: str) -> None:
    """Interrupt what a phase consists of."""
    from specli.cli import run
    from specli.decoding import loop, pair
    from specli.drafters.model import ModelDrafter
    from specli.llama import context, model
    from specli.proof import audited

    if phase == "load":
        model.check_model_file = interrupts(model.check_model_file, 2)  # the draft's, while the target is loaded
    elif phase == "prefill":
        pair.prefill = interrupts(pair.prefill, 1)
    elif phase == "draft":
        ModelDrafter.propose = interrupts(ModelDrafter.propose, 3)
    elif phase == "verify":
        context.Context.decode = interrupts(context.Context.decode, 40)
    elif phase == "report":
        run.print_summary = interrupts(run.print_summary, 1)
    elif phase == "prove":
        audited.generate = interrupts(loop.generate, 2)


if __name__ == "__main__":
    os.environ["SPECLI_CHILD"] = "1"
    patch(sys.argv[1])
    sys.argv[1:] = sys.argv[2:]
    from specli.cli.main import main

    main()
