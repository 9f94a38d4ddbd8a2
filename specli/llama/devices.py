"""Devices and buffer types by name, through ggml's backend registry."""

import ctypes
from dataclasses import dataclass
from typing import Any

import llama_cpp
from llama_cpp._ggml import libggml

from specli.errors import UsageError

_TYPE_CPU = 0  # GGML_BACKEND_DEVICE_TYPE_CPU


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(libggml, name)
    function.restype = result
    function.argtypes = arguments
    return function


_load_all = _function("ggml_backend_load_all", None)
_count = _function("ggml_backend_dev_count", ctypes.c_size_t)
_get = _function("ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t)
_type = _function("ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p)
_name = _function("ggml_backend_dev_name", ctypes.c_char_p, ctypes.c_void_p)
_description = _function("ggml_backend_dev_description", ctypes.c_char_p, ctypes.c_void_p)
_memory = _function(
    "ggml_backend_dev_memory", None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_buffer_type = _function("ggml_backend_dev_buffer_type", ctypes.c_void_p, ctypes.c_void_p)
_buffer_type_name = _function("ggml_backend_buft_name", ctypes.c_char_p, ctypes.c_void_p)
_registry_by_name = _function("ggml_backend_reg_by_name", ctypes.c_void_p, ctypes.c_char_p)
_registry_function = _function("ggml_backend_reg_get_proc_address", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_register = _function("ggml_backend_register", None, ctypes.c_void_p)


@dataclass(frozen=True)
class Device:
    """A device that layers can be offloaded to; memory in bytes."""

    name: str
    description: str
    memory: int
    memory_free: int
    handle: int


def _handles() -> list[int]:
    _load_all()
    return [_get(i) for i in range(_count())]


def system_info() -> str:
    """Return llama.cpp's own line on what it computes with here: CPU features and backends."""
    return str(llama_cpp.llama_print_system_info().decode(errors="replace").strip())


def list_devices() -> list[Device]:
    """Return the devices this build of llama.cpp can offload to (never the CPU itself)."""
    devices = []
    for handle in _handles():
        if _type(handle) == _TYPE_CPU:
            continue
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        _memory(handle, ctypes.byref(free), ctypes.byref(total))
        devices.append(Device(_name(handle).decode(), _description(handle).decode(), total.value, free.value, handle))
    return devices


def supports_offload() -> bool:
    """Whether this build of llama.cpp, on this machine, can offload layers at all."""
    return bool(llama_cpp.llama_supports_gpu_offload())


def device_handles(names: tuple[str, ...]) -> list[int]:
    """Turn ``--device`` names into handles.

    Raises:
        UsageError: A name that ``--list-devices`` does not print.
    """
    known = {device.name: device.handle for device in list_devices()}
    for name in names:
        if name not in known:
            there = ", ".join(known) or "none: this build of llama.cpp runs on the CPU only"
            raise UsageError(f"--device: there is no device {name!r} (devices: {there})")
    return [known[name] for name in names]


def buffer_type_handle(name: str) -> int:
    """Turn a buffer type's name, as ``--override-tensor`` takes it, into a handle.

    Raises:
        UsageError: A name that no device of this machine has.
    """
    types = {_buffer_type_name(_buffer_type(handle)).decode(): _buffer_type(handle) for handle in _handles()}
    if name not in types:
        raise UsageError(f"--override-tensor: there is no buffer type {name!r} (buffer types: {', '.join(types)})")
    return int(types[name])


def add_rpc_servers(servers: list[str]) -> None:
    """Make the devices of remote ``host:port`` servers (llama.cpp's rpc-server) usable here.

    Raises:
        UsageError: llama.cpp was built without RPC, or a server that does not answer.
    """
    registry = _registry_by_name(b"RPC") if llama_cpp.llama_supports_rpc() else None
    if not registry:
        raise UsageError("--rpc: llama.cpp was built without RPC", "Rebuild it: make install CMAKE_ARGS=-DGGML_RPC=on")
    prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)
    add_server = prototype(_registry_function(registry, b"ggml_backend_rpc_add_server"))
    for server in servers:
        added = add_server(server.encode())
        if not added:
            raise UsageError(f"--rpc: no server answers at {server!r}")
        _register(added)
