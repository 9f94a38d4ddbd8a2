"""What a model's file says, in words and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from specli.models.cache_size import cache_size
from specli.models.description import Description
from specli.models.draft_module import DraftModule, draft_module
from specli.report.plain import PipedConsole, plain
from specli.report.sizes import binary_size, decimal_count

CACHE_TYPES = ("f16", "q8_0", "q4_0")
_CONTEXTS = (4096, 8192, 32768, 131072)
_LICENCE_KEYS = ("general.license", "general.license.name")


def document(model: Description) -> dict[str, Any]:
    """Everything for programs: sizes in bytes, unknown values null."""
    return {
        "schema": "specli.model/1",
        "paths": [str(path) for path in model.paths],
        "name": model.text("general.name"),
        "architecture": model.architecture,
        "parameters": model.n_parameters,
        "file_bytes": model.file_bytes,
        "weight_bytes": model.n_weight_bytes,
        "quantizations": [
            {"type": one.name, "tensors": one.n_tensors, "parameters": one.n_values, "bytes": one.n_bytes}
            for one in model.quantizations
        ],
        "layers": model.n_layers,
        "mtp_layers": model.n_mtp_layers,
        "draft_module": asdict(module) if (module := draft_module(model)) else None,
        "embedding_length": model.number("embedding_length"),
        "heads": model.number("attention.head_count"),
        "kv_heads": model.number("attention.head_count_kv"),
        "experts": model.number("expert_count"),
        "experts_used": model.number("expert_used_count"),
        "sliding_window": model.number("attention.sliding_window"),
        "context": model.number("context_length"),
        "tokenizer": model.text("tokenizer.ggml.model"),
        "pre_tokenizer": model.text("tokenizer.ggml.pre"),
        "vocabulary": model.n_vocab,
        "chat_template": model.text("tokenizer.chat_template"),
        "licence": licence(model),
        "memory": memory_rows(model),
    }


def licence(model: Description) -> str | None:
    """The licence the file names."""
    return next((found for key in _LICENCE_KEYS if (found := model.text(key))), None)


def memory_rows(model: Description) -> list[dict[str, Any]]:
    """What contexts of some sizes take beside the weights, by the type of the cache; bytes."""
    if not model.tensors:
        return []
    rows = []
    for n_ctx in contexts(model):
        for kind in CACHE_TYPES:
            if size := cache_size(model, n_ctx, kind, kind):
                rows.append(
                    {
                        "context": n_ctx,
                        "cache_type": kind,
                        "kv_bytes": size.full + size.window,
                        "state_bytes": size.state,
                        "exact": size.exact,
                        "with_weights": None if model.n_weight_bytes is None else model.n_weight_bytes + size.total,
                    }
                )
    return rows


def contexts(model: Description) -> list[int]:
    """Contexts worth a row: common ones, and all that the model was trained with."""
    trained = model.number("context_length") or _CONTEXTS[-1]
    return sorted({n for n in _CONTEXTS if n < trained} | {trained})


def print_inspection(model: Description, memory_bytes: Sequence[tuple[str, int]]) -> None:
    """Print what the file says, to stdout.

    Args:
        model: The file.
        memory_bytes: This machine's memories: names and bytes.
    """
    console = PipedConsole(soft_wrap=True)
    for name, value in _facts(model):
        console.print(plain(f"{name:<14} {value}"))
    rows = memory_rows(model)
    if not rows:
        return
    table = Table(box=None, pad_edge=False, title="weights + KV cache by context", title_justify="left")
    table.add_column("context", justify="right")
    for kind in CACHE_TYPES:
        table.add_column(f"-ctk {kind} -ctv {kind}", justify="right")
    for n_ctx in contexts(model):
        table.add_row(f"{n_ctx:,}", *(_cell(rows, n_ctx, kind) for kind in CACHE_TYPES))
    console.print()
    console.print(table)
    if not all(row["exact"] for row in rows):
        console.print("≤: the file does not say which layers see a sliding window only.")
    if memory_bytes:
        there = ", ".join(f"{name} {binary_size(n)}" for name, n in memory_bytes)
        console.print(f"This machine: {there}. llama.cpp takes some more to compute in.")


def _facts(model: Description) -> list[tuple[str, str]]:
    several = f", {len(model.paths)} files" if len(model.paths) > 1 else ""
    facts = [("file", f"{model.paths[0]} ({binary_size(model.file_bytes)}{several})")]
    if name := model.text("general.name"):
        facts.append(("name", name))
    experts = model.number("expert_count")
    mixture = f", {experts} experts of which {model.number('expert_used_count')} answer" if experts else ""
    count = f", {decimal_count(model.n_parameters)} parameters" if model.tensors else ", a vocabulary only"
    facts.append(("architecture", f"{model.architecture}{count}{mixture}"))
    if model.quantizations:
        facts.append(("weights", ", ".join(_share(model, one.name, one.n_values) for one in model.quantizations)))
    facts.append(("layers", _layers(model)))
    if module := draft_module(model):
        facts.append(("drafts as", _module(module)))
    if context := model.number("context_length"):
        facts.append(("context", f"{context:,} tokens"))
    kinds = [kind for kind in (model.text("tokenizer.ggml.model"), model.text("tokenizer.ggml.pre")) if kind]
    facts.append(("tokenizer", f"{' '.join(kinds) or 'none'}, {model.n_vocab:,} tokens"))
    facts.append(("chat template", "yes" if model.text("tokenizer.chat_template") else "none"))
    facts.append(("licence", licence(model) or "not said"))
    return facts


def _share(model: Description, name: str, n_values: int) -> str:
    return f"{name} {n_values / max(1, model.n_parameters):.1%}"


def _module(module: DraftModule) -> str:
    """What a draft module drafts as, and of which target."""
    reads = "hidden states"
    if module.target_layers:
        reads += f" of layers {', '.join(map(str, module.target_layers))}"
    parts = [f"{module.kind}, which reads a target's {reads}, {module.target_width} wide"]
    if module.block_size:
        parts.append(f"blocks of {module.most} tokens")
    if module.n_vocab:
        parts.append(f"a vocabulary of its own of {module.n_vocab:,} tokens")
    return "; ".join(parts)


def _layers(model: Description) -> str:
    parts = [f"{model.n_layers if model.n_layers is not None else 'unknown'}"]
    if heads := model.number("attention.head_count"):
        parts.append(f"{heads} heads, {model.number('attention.head_count_kv') or heads} of keys and values")
    if window := model.number("attention.sliding_window"):
        parts.append(f"sliding window of {window}")
    if model.number("ssm.inner_size"):
        parts.append("recurrent layers")
    if model.n_mtp_layers:
        parts.append(f"{model.n_mtp_layers} MTP layers beside them")
    return ", ".join(parts)


def _cell(rows: Sequence[dict[str, Any]], n_ctx: int, kind: str) -> str:
    row = next((row for row in rows if (row["context"], row["cache_type"]) == (n_ctx, kind)), None)
    if row is None or row["with_weights"] is None:
        return "–"
    return f"{'' if row['exact'] else '≤ '}{binary_size(row['with_weights'])}"
