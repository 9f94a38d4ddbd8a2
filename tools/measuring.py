"""What the benchmarks share: the pair of models, their logits along a text, and words for the machine."""

import argparse
import os
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np

from specli.errors import SpecliError
from specli.llama import log
from specli.llama.chat import apply_chat_template, chat_template
from specli.llama.context import Context
from specli.llama.decoder import Logits
from specli.llama.model import Model
from specli.llama.options import ContextOptions

TARGET = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
DRAFT = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"


def default_models() -> Path:
    """The folder models are in unless said otherwise."""
    return Path(os.environ.get("MODELS") or "~/models").expanduser()


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the options for where the models and the prompts are."""
    prompts = [Path(name) for name in os.environ.get("PROMPTS", "").split(os.pathsep) if name]
    add = parser.add_argument
    add("--models", type=Path, default=default_models(), help="folder of the models (default: $MODELS, ~/models)")
    add("--prompts", type=Path, nargs="+", default=prompts, help="JSONL files (default: $PROMPTS, joined by ':')")


def load_pair(folder: Path) -> tuple[Model, Model]:
    """Load the target and the draft model."""
    return load_target(folder), _load(folder, DRAFT, "0.5B")


def load_target(folder: Path) -> Model:
    """Load the target."""
    return _load(folder, TARGET, "1.5B")


def _load(folder: Path, name: str, size: str) -> Model:
    if not (folder / name).is_file():
        raise SpecliError(
            f"{folder}: {name} is not there",
            f"Say where it is with --models, or get it:\n"
            f"  hf download Qwen/Qwen2.5-Coder-{size}-Instruct-GGUF {name} --local-dir {folder}",
        )
    log.install()
    return Model(folder / name)


def chat_tokens(model: Model, text: str) -> list[int]:
    """The tokens of a question in the model's own chat format."""
    template = chat_template(model)
    assert template, "the pair's files carry a chat template"
    prompt = apply_chat_template(model, template, [{"role": "user", "content": text}])
    return model.vocab.tokenize(prompt, add_special=True, parse_special=True)


def rows_along(model: Model, prompt: list[int], answer: list[int], threads: int | None = None) -> Logits:
    """The logits from which each token of an answer is drawn, in one pass; shape (len(answer), n_vocab)."""
    n_tokens = len(prompt) + len(answer)
    context = Context(model, ContextOptions(ctx_size=n_tokens, threads=threads), n_outputs=len(answer))
    try:
        return np.array(context.decode([*prompt, *answer[:-1]], len(answer)))
    finally:
        context.close()


def machine() -> str:
    """What the figures depend on beside the programs: processor, versions, date."""
    return (
        f"{_processor()}, {os.cpu_count()} CPUs; {platform.system()}, Python {platform.python_version()}, "
        f"numpy {version('numpy')}, llama-cpp-python {version('llama-cpp-python')}; {date.today().isoformat()}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def table(header: list[str], rows: list[list[str]]) -> str:
    """A markdown table: the first column to the left, numbers to the right."""
    rule = [":--", *["--:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))
