"""Speculative decoding for GGUF models: run it, see it, and know that it is lossless.

``specli.load("target.gguf", draft="draft.gguf")`` returns a ``Speculator``, whose ``stream`` yields text and whose
``generate`` yields rounds.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specli.api import Speculator, load

__all__ = ["Speculator", "load"]


def __getattr__(name: str) -> Any:
    """Load llama.cpp only when the interface is used, so that ``specli --help`` is quick."""
    if name in __all__:
        from specli import api

        return getattr(api, name)
    raise AttributeError(f"module 'specli' has no attribute {name!r}")
