"""Text to exact token ids: little-endian uint32, made by the loaded tokenizer's own backend.

fastokens is built from the serialised backend (never from the file: transformers rebuilds some backends, and the ids
differ), and `tokenizers` stays its judge: the first texts are all compared, then a seeded sample. One difference ends
its use for the rest of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import xxhash

__all__ = ["CheckedEncoder", "Encoder", "EncoderDisagreement", "SlowEncoder", "TokenizersEncoder", "encoder_for"]

ALWAYS_CHECKED = 64
CHECKED_ONE_IN = 256
_SEED = 20261


class Encoder(Protocol):
    """Anything that turns text into ids. `name` says which engine serves, for the report."""

    @property
    def name(self) -> str: ...

    def encode(self, text: str, add_special_tokens: bool) -> bytes:
        """The ids of `text`; `add_special_tokens` is what the post-processor adds (BOS, EOS, ...)."""
        ...


class EncoderDisagreement(Exception):  # noqa: N818 - a signal to start over, not a user error
    """The fast engine gave other ids than `tokenizers`, after texts that nobody compared.

    The encoder has already fallen back; ids made before must be made again.
    """


def ids_to_bytes(ids: list[int]) -> bytes:
    """Little-endian uint32.

    >>> ids_to_bytes([1, 256]).hex()
    '0100000000010000'
    """
    return np.asarray(ids, dtype="<u4").tobytes()


class TokenizersEncoder:
    """The `tokenizers` backend itself: always right, slow."""

    name = "tokenizers"

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def encode(self, text: str, add_special_tokens: bool) -> bytes:
        return ids_to_bytes(self._backend.encode(text, add_special_tokens=add_special_tokens).ids)


class SlowEncoder:
    """A tokenizer without a Rust backend (SentencePiece, mistral-common, plain Python)."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.name = f"transformers {type(tokenizer).__name__}"

    def encode(self, text: str, add_special_tokens: bool) -> bytes:
        return ids_to_bytes(self._tokenizer.encode(text, add_special_tokens=add_special_tokens))


class CheckedEncoder:
    """A fast engine under a judge: compares the first 64 texts and then about one in 256, chosen by their hash.

    `unchecked` counts texts whose ids only the fast engine saw. On a difference the judge serves the rest of the run;
    if unchecked ids are out, `EncoderDisagreement` is raised once, so that the caller can make them again.
    """

    def __init__(self, fast: Encoder, judge: Encoder) -> None:
        self._fast: Encoder | None = fast
        self._fast_name = fast.name
        self._judge = judge
        self._seen = 0
        self.checked = 0
        self.unchecked = 0
        self.disagreed = False

    @property
    def name(self) -> str:
        if self._fast is None:
            return f"{self._judge.name} ({self._fast_name} gave other ids and was dropped)"
        return self._fast_name

    def encode(self, text: str, add_special_tokens: bool) -> bytes:
        if self._fast is None:
            return self._judge.encode(text, add_special_tokens)
        self._seen += 1
        try:
            ids = self._fast.encode(text, add_special_tokens)
        except Exception:  # foreign code that refuses a text: the judge decides what the text is worth
            return self._fall_back(self._judge.encode(text, add_special_tokens))
        if self._seen > ALWAYS_CHECKED and _hash(text) % CHECKED_ONE_IN:
            self.unchecked += 1
            return ids
        self.checked += 1
        right = self._judge.encode(text, add_special_tokens)
        return right if right == ids else self._fall_back(right)

    def _fall_back(self, right: bytes) -> bytes:
        self._fast = None
        self.disagreed = True
        if self.unchecked:
            raise EncoderDisagreement(f"{self._fast_name} and {self._judge.name} differ")
        return right


def _hash(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"), seed=_SEED)


class _FlatEncoder:
    """fastokens; its flat form hands out the ids as one buffer, no Python ints."""

    name = "fastokens"

    def __init__(self, encode_batch_flat: Callable[..., tuple[bytes, bytes]]) -> None:
        self._encode = encode_batch_flat

    def encode(self, text: str, add_special_tokens: bool) -> bytes:
        return bytes(self._encode([text], add_special_tokens=add_special_tokens)[0])


def encoder_for(tokenizer: Any, *, fast: bool = True) -> Encoder:
    """The encoder of a loaded transformers tokenizer: fastokens where it loads, else its backend, else itself."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not hasattr(backend, "to_str"):
        return SlowEncoder(tokenizer)
    backend.no_truncation()
    backend.no_padding()
    judge = TokenizersEncoder(backend)
    if not fast:
        return judge
    try:
        import fastokens

        flat = fastokens.Tokenizer.from_json_str(backend.to_str()).encode_batch_flat
    except Exception:  # it refuses models it can't do exactly (Metaspace, Unigram, WordPiece) in various ways
        return judge
    return CheckedEncoder(_FlatEncoder(flat), judge)


def without_surrogates(text: str) -> tuple[str, int]:
    r"""The text with every lone surrogate as U+FFFD, and how many there were. No tokenizer takes them.

    >>> without_surrogates("a\ud800b")
    ('a\ufffdb', 1)
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # a JSON text may escape one astral character as two surrogates that the decoder already joined: only lone
        # ones are left here, and each stands for itself
        cleaned = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
        return cleaned, sum("\ud800" <= character <= "\udfff" for character in text)
    return text, 0
