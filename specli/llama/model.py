"""Loading a model: its weights, vocabulary, metadata and adapters."""

import ctypes
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp

from specli.errors import SpecliError, UsageError
from specli.llama import callbacks, devices, log, memory
from specli.llama.callbacks import keeps_interrupt
from specli.llama.errors import LoadError
from specli.llama.options import LOAD_MODES, SPLIT_MODES, ModelOptions
from specli.llama.vocab import Vocab
from specli.models.draft_module import MODEL, MTP, drafter_kind
from specli.models.model_file import check_model_file

_EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
_KV_TAGS = {"int": 0, "float": 1, "bool": 2, "str": 3}  # LLAMA_KV_OVERRIDE_TYPE_*
_SPLIT_MODE = {name: i for i, name in enumerate(SPLIT_MODES)}
_LOAD_MODE = {name: i - 1 for i, name in enumerate(LOAD_MODES)}

_LOAD_HINT = (
    "A file cut short must be fetched again; an architecture unknown to this version takes a newer llama.cpp; "
    "--verbose shows the whole log."
)

OnLoad = Callable[[float], None]
"""Called with the fraction loaded, 0 to 1."""


class _TensorOverride(ctypes.Structure):
    _fields_ = [("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p)]


class Model:
    """A loaded GGUF model.

    Args:
        path: The file; the first part of a split one.
        options: llama.cpp's options for loading.
        on_progress: Called while the weights are read.

    Attributes:
        path: Its file.
        options: As given.
        kind: As what it can draft, one of ``models.draft_module``'s.
        architecture: As GGUF names it ('qwen2', 'llama', ...).
        weights: Bytes of weights by buffer, by llama.cpp's own account.
        layers_offloaded: How many layers really went to another device than the CPU.
        n_embd: Width of its layers' inputs.
        n_embd_out: Width of its last hidden states.
        n_mtp_heads: How many heads for further tokens (MTP, NextN) were loaded.
        n_swa: The sliding window in tokens, 0 without one.
        is_recurrent: Whether (part of) its state cannot be cut token by token.

    Raises:
        SpecliError: The file is not a model that generates text.
        LoadError: llama.cpp could not load it.
        UsageError: An option names a device, buffer type or key that is not there.
    """

    def __init__(self, path: Path, options: ModelOptions = ModelOptions(), on_progress: OnLoad | None = None) -> None:
        check_model_file(path)
        self.path = path
        self.options = options
        self.kind = drafter_kind(path)
        if self.kind == MTP:
            options = replace(options, load_mtp=True)
        params, self._alive = _model_params(options, on_progress)
        with log.capture() as lines:
            self.handle: Any = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        callbacks.raise_kept()
        if not self.handle:
            raise LoadError(f"{path}: llama.cpp could not load it: {log.failure(lines)}", _LOAD_HINT)
        self.weights = memory.weights_by_device(lines)
        self.layers_offloaded = memory.layers_offloaded(lines)
        self.vocab = Vocab(self.handle)
        self.architecture = self.metadata("general.architecture") or "unknown"
        self.n_parameters: int = llama_cpp.llama_model_n_params(self.handle)
        self.n_bytes: int = llama_cpp.llama_model_size(self.handle)
        self.n_layer: int = llama_cpp.llama_model_n_layer(self.handle)
        self.n_embd: int = llama_cpp.llama_model_n_embd(self.handle)
        self.n_embd_out: int = llama_cpp.llama_model_n_embd_out(self.handle)
        self.n_mtp_heads: int = llama_cpp.llama_model_n_layer_nextn(self.handle) if options.load_mtp else 0
        self.n_ctx_train: int = llama_cpp.llama_model_n_ctx_train(self.handle)
        self.n_swa: int = llama_cpp.llama_model_n_swa(self.handle)
        self.is_recurrent: bool = llama_cpp.llama_model_is_recurrent(self.handle) or llama_cpp.llama_model_is_hybrid(
            self.handle
        )
        try:
            if self.kind in (MODEL, MTP) and not self._is_decoder_only():
                raise SpecliError(f"{path}: a {self.architecture} model, which is not a decoder-only language model")
            self.adapters = [(self._load_adapter(file), scale) for file, scale in options.lora]
        except SpecliError:
            self.close()
            raise

    def metadata(self, key: str) -> str | None:
        """Return a metadata value as text, or None where the file has no such key."""
        size = llama_cpp.llama_model_meta_val_str(self.handle, key.encode(), None, 0)
        if size < 0:
            return None
        buffer = ctypes.create_string_buffer(size + 1)
        llama_cpp.llama_model_meta_val_str(self.handle, key.encode(), buffer, size + 1)
        return buffer.value.decode("utf-8", errors="replace")

    def _is_decoder_only(self) -> bool:
        return bool(
            llama_cpp.llama_model_has_decoder(self.handle) and not llama_cpp.llama_model_has_encoder(self.handle)
        )

    def _load_adapter(self, path: Path) -> Any:
        if not path.is_file():
            raise SpecliError(f"--lora {path}: no such file")
        with log.capture() as lines:
            adapter = llama_cpp.llama_adapter_lora_init(self.handle, str(path).encode())
        if not adapter:
            raise LoadError(f"--lora {path}: not an adapter for {self.path.name}: {log.failure(lines)}")
        return adapter

    def close(self) -> None:
        """Free the model; its contexts must be closed before."""
        if self.handle:
            llama_cpp.llama_model_free(self.handle)
            self.handle = None


def _model_params(options: ModelOptions, on_progress: OnLoad | None) -> tuple[Any, list[Any]]:
    """Fill llama.cpp's struct; the second value is what must stay alive as long as the model."""
    params = llama_cpp.llama_model_default_params()
    alive: list[Any] = []
    params.n_gpu_layers = options.n_gpu_layers
    params.split_mode = _named("-sm", _SPLIT_MODE, options.split_mode)
    params.load_mode = _named("--load-mode", _LOAD_MODE, options.load_mode)
    params.main_gpu = options.main_gpu
    params.load_mtp = options.load_mtp
    params.use_extra_bufts = options.repack
    if options.device is not None:
        handles = devices.device_handles(options.device)
        alive.append((ctypes.c_void_p * (len(handles) + 1))(*handles, None))
        params.devices = ctypes.cast(alive[-1], ctypes.c_void_p)
    if options.tensor_split:
        n = llama_cpp.llama_max_devices()
        if len(options.tensor_split) > n:
            raise UsageError(f"-ts: {len(options.tensor_split)} parts for {n} devices")
        alive.append((ctypes.c_float * n)(*options.tensor_split))
        params.tensor_split = ctypes.cast(alive[-1], ctypes.POINTER(ctypes.c_float))
    if overrides := _tensor_overrides(options):
        alive.append((_TensorOverride * (len(overrides) + 1))(*overrides))
        params.tensor_buft_overrides = ctypes.cast(alive[-1], ctypes.c_void_p)
    if options.override_kv:
        entries = [_kv_override(text) for text in options.override_kv]
        alive.append((llama_cpp.llama_model_kv_override * (len(entries) + 1))(*entries))
        params.kv_overrides = alive[-1]
    if on_progress:
        report = on_progress

        @keeps_interrupt(False)
        def on_fraction(fraction: float, _user_data: Any) -> bool:
            report(fraction)
            return True

        alive.append(llama_cpp.llama_progress_callback(on_fraction))
        params.progress_callback = alive[-1]
    return params, alive


def _named(flag: str, numbers: dict[str, int], name: str) -> int:
    if name not in numbers:
        raise UsageError(f"{flag}: {name!r} is not one of {', '.join(numbers)}")
    return numbers[name]


def _tensor_overrides(options: ModelOptions) -> list[_TensorOverride]:
    pairs = list(options.override_tensor)
    if options.cpu_moe:
        pairs.append((_EXPERTS, "CPU"))
    pairs += [(rf"blk\.{i}{_EXPERTS}", "CPU") for i in range(options.n_cpu_moe)]
    return [_TensorOverride(pattern.encode(), devices.buffer_type_handle(name)) for pattern, name in pairs]


def _kv_override(text: str) -> Any:
    match = re.fullmatch(r"([^=]{1,127})=(int|float|bool|str):(.*)", text, re.DOTALL)
    if not match:
        raise UsageError(f"--override-kv: {text!r} is not KEY=TYPE:VALUE with TYPE int, float, bool or str")
    key, kind, value = match.groups()
    entry = llama_cpp.llama_model_kv_override(tag=_KV_TAGS[kind], key=key.encode())
    try:
        if kind == "int":
            entry.value.val_i64 = int(value)
        elif kind == "float":
            entry.value.val_f64 = float(value)
        elif kind == "bool":
            entry.value.val_bool = {"true": True, "false": False}[value]
        else:
            entry.value.val_str = value.encode()[:127]
    except (ValueError, KeyError):
        raise UsageError(f"--override-kv: {value!r} is not of type {kind}") from None
    return entry
