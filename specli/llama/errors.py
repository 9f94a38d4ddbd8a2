"""What can go wrong inside llama.cpp, as exceptions that say so."""

from specli.errors import SpecliError


class LoadError(SpecliError):
    """A model, an adapter or a context that llama.cpp could not set up."""


class DecodeError(SpecliError):
    """llama_decode failed; the cache holds what it held before the call."""

    def __init__(self, code: int, name: str, n_tokens: int, n_cached: int, n_ctx: int) -> None:
        meaning = _MEANINGS.get(code, _FATAL if code < 0 else _UNKNOWN)
        super().__init__(
            f"{name}: decoding {n_tokens} tokens after {n_cached} of a context of {n_ctx} failed: {meaning} "
            f"(llama_decode returned {code})"
        )
        self.code = code


_MEANINGS = {
    1: "no room was left in the KV cache; try a larger context (-c) or a smaller batch (-b)",
    2: "the computation was aborted",
    -1: "the batch was invalid (a token outside the vocabulary, or a gap in the positions)",
    -2: "memory for the computation could not be allocated; try a smaller context (-c) or batch (-ub)",
    -3: "the computation failed on the device; run with --verbose for llama.cpp's own words",
}
_FATAL = "llama.cpp reports a fatal error; run with --verbose for its own words"
_UNKNOWN = "llama.cpp reports a condition unknown to this version of specli"
