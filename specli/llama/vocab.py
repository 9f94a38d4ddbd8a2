"""A model's vocabulary: text to tokens and back, special tokens, and whether two vocabularies match."""

import ctypes
import hashlib
from functools import cached_property

import llama_cpp
import numpy as np

from specli.errors import SpecliError
from specli.llama.reasoning import CONTROL_TOKENS

_NO_TOKEN = -1  # LLAMA_TOKEN_NULL
_MAX_SIZE_DIFFERENCE = 128
_FIRST_COMPARED = 5
_SHOWN = {name.encode() for name in CONTROL_TOKENS}


class Vocab:
    """The vocabulary of a loaded model.

    Args:
        model: The model's handle, which must outlive this object.
    """

    def __init__(self, model: llama_cpp.llama_model_p) -> None:
        self._vocab = llama_cpp.llama_model_get_vocab(model)
        self.n_tokens: int = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self.type: int = llama_cpp.llama_vocab_type(self._vocab)
        self.bos: int = llama_cpp.llama_vocab_bos(self._vocab)
        self.mask: int = llama_cpp.llama_vocab_mask(self._vocab)
        self.eos: int = llama_cpp.llama_vocab_eos(self._vocab)
        self.add_bos: bool = llama_cpp.llama_vocab_get_add_bos(self._vocab)
        self.add_eos: bool = llama_cpp.llama_vocab_get_add_eos(self._vocab)
        self._pieces: dict[int, bytes] = {}
        self._eog: dict[int, bool] = {}

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Turn text into token ids.

        Args:
            text: Any text, encoded as UTF-8 (unpaired surrogates become '?').
            add_special: Add BOS and EOS where the model wants them.
            parse_special: Read ``<|...|>`` and the like as the special tokens they name.
        """
        data = text.encode("utf-8", errors="replace")
        capacity = len(data) + 8
        buffer = (llama_cpp.llama_token * capacity)()
        n = llama_cpp.llama_tokenize(self._vocab, data, len(data), buffer, capacity, add_special, parse_special)
        if n < 0:
            buffer = (llama_cpp.llama_token * -n)()
            n = llama_cpp.llama_tokenize(self._vocab, data, len(data), buffer, -n, add_special, parse_special)
        return list(buffer[:n])

    def tokenize_chat(self, rendered: str) -> list[int]:
        """Turn a rendered chat template into token ids; a BOS that the template prints is not doubled."""
        tokens = self.tokenize(rendered, add_special=True, parse_special=True)
        return tokens[1:] if self.add_bos and tokens[:2] == [self.bos] * 2 else tokens

    def tokenize_after(self, rest: str) -> list[int] | None:
        """Turn what follows other tokens into token ids; None where it may belong to one token with what is before.

        A control token is where texts can surely be parted.
        """
        tokens = self.tokenize(rest, add_special=False, parse_special=True)
        return tokens if not tokens or not self._render(tokens[0], special=False) else None

    def piece(self, token: int) -> bytes:
        """Return the bytes a token stands for in text; empty for control tokens. UTF-8 may span tokens.

        Those that tell reasoning from answer (``reasoning.CONTROL_TOKENS``) stand for their names.
        """
        if (piece := self._pieces.get(token)) is None:
            piece = self._render(token, special=False)
            if not piece and (name := self.raw_text(token)) in _SHOWN:
                piece = name
            self._pieces[token] = piece
        return piece

    def text(self, token: int) -> str:
        """Return a token as a person would name it: a control or unused token by its name in the file."""
        return (self._render(token, special=True) or self.raw_text(token)).decode("utf-8", errors="replace")

    def _render(self, token: int, *, special: bool) -> bytes:
        capacity = 64
        buffer = ctypes.create_string_buffer(capacity)
        n = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, capacity, 0, special)
        if n < 0:
            buffer = ctypes.create_string_buffer(-n)
            n = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, -n, 0, special)
        return buffer.raw[:n]

    def raw_text(self, token: int) -> bytes:
        """Return a token's text as the file stores it, or b'' for NULL (no token)."""
        return llama_cpp.llama_vocab_get_text(self._vocab, token) if token != _NO_TOKEN else b""

    def is_eog(self, token: int) -> bool:
        """Whether the token ends generation (EOS, end of turn, and the like)."""
        if (eog := self._eog.get(token)) is None:
            eog = self._eog[token] = bool(llama_cpp.llama_vocab_is_eog(self._vocab, token))
        return eog

    @cached_property
    def eog_tokens(self) -> tuple[int, ...]:
        """Every token that ends generation."""
        return tuple(token for token in range(self.n_tokens) if llama_cpp.llama_vocab_is_eog(self._vocab, token))

    @cached_property
    def suppressed_tokens(self) -> tuple[int, ...]:
        """Tokens that the model's file says must never be generated."""
        n = ctypes.c_int32()
        tokens = llama_cpp.llama_vocab_get_suppress_tokens(self._vocab, ctypes.byref(n))
        return tuple(np.ctypeslib.as_array(tokens, (n.value,)).tolist()) if n.value else ()

    def fingerprint(self) -> str:
        """A name that other tokens, or tokens in another order, do not have."""
        digest = hashlib.sha256(repr(self.type).encode())
        for token in range(self.n_tokens):
            digest.update(self.raw_text(token) + b"\0")
        return digest.hexdigest()


class VocabMismatch(SpecliError):
    """A draft whose vocabulary is not the target's.

    Attributes:
        difference: The first that was found.
    """

    def __init__(self, difference: str) -> None:
        self.difference = difference
        super().__init__(
            f"the draft model's vocabulary is not the target's: {difference}",
            "Take a draft of the target's own family: both must be trained on the same tokens.",
        )


def shared_vocab(target: Vocab, draft: Vocab) -> int:
    """Check that a draft's tokens mean what the target's mean, by llama.cpp's rule.

    Same type, same BOS and EOS where they are added, sizes within 128, and the same text for every shared id from 5 up.

    Returns:
        How many token ids, counted from 0, both vocabularies have.

    Raises:
        VocabMismatch: Naming the first difference.
    """
    if target.type != draft.type:
        raise VocabMismatch(f"tokenizer type {draft.type}, the target's is {target.type}")
    for name in ("bos", "eos"):
        added = (getattr(target, f"add_{name}"), getattr(draft, f"add_{name}"))
        tokens = (getattr(target, name), getattr(draft, name))
        if added[0] != added[1] or (added[0] and tokens[0] != tokens[1]):
            said = [f"{token} ({'added' if add else 'not added'})" for add, token in zip(added, tokens, strict=True)]
            raise VocabMismatch(f"{name.upper()} token {said[1]}, the target's is {said[0]}")
    n_shared = min(target.n_tokens, draft.n_tokens)
    for token in range(_FIRST_COMPARED, n_shared):
        if target.raw_text(token) != draft.raw_text(token):
            raise VocabMismatch(
                f"token {token} is {draft.text(token)!r} there and {target.text(token)!r} in the target"
            )
    if abs(target.n_tokens - draft.n_tokens) > _MAX_SIZE_DIFFERENCE:
        raise VocabMismatch(
            f"{draft.n_tokens} tokens against {target.n_tokens}, more than {_MAX_SIZE_DIFFERENCE} apart"
        )
    return n_shared
