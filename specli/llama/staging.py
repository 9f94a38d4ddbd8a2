"""llama.cpp's staging interface (llama-ext.h): hidden states, which its stable interface does not give.

The functions are C++, so each compiler names them differently in the library: they are looked up one by one.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import llama_cpp

from specli.errors import SpecliError

_CONTEXT = llama_cpp.llama_context_p_ctypes
_FLOATS = ctypes.POINTER(ctypes.c_float)
_SIGNATURES: dict[str, tuple[str, Any, list[Any]]] = {
    "llama_set_embeddings_nextn": ("P13llama_contextbb", None, [_CONTEXT, ctypes.c_bool, ctypes.c_bool]),
    "llama_get_embeddings_nextn": ("P13llama_context", _FLOATS, [_CONTEXT]),
    "llama_set_nextn_layer_offset": ("P13llama_contexti", None, [_CONTEXT, ctypes.c_int32]),
    "llama_set_embeddings_layer_inp": ("P13llama_contextjb", None, [_CONTEXT, ctypes.c_uint32, ctypes.c_bool]),
    "llama_get_embeddings_layer_inp": ("P13llama_contextj", _FLOATS, [_CONTEXT, ctypes.c_uint32]),
}
"""By name: how GCC and Clang encode the parameters (Itanium C++ ABI, 5.1.5), the result, the parameters."""


def is_there() -> bool:
    """Whether this build has all of it, under names that are known here."""
    try:
        return all(map(function, _SIGNATURES))
    except SpecliError:
        return False


@cache
def function(name: str) -> Callable[..., Any]:
    """Look a function up.

    Raises:
        SpecliError: This build of llama.cpp does not have it, or under a name that is not known here.
    """
    parameters, result, arguments = _SIGNATURES[name]
    for symbol in (name, f"_Z{len(name)}{name}{parameters}"):
        found = getattr(llama_cpp.llama_cpp._lib, symbol, None)
        if found is not None:
            found.restype, found.argtypes = result, arguments
            return found  # type: ignore[no-any-return]
    raise SpecliError(
        f"this build of llama.cpp does not give hidden states ({name} is missing)",
        "Drafters that read the target's hidden states (mtp, eagle3, dflash, dspark) take a build by GCC or Clang "
        "of a version that specli was tried with; specli doctor tells yours.",
    )
