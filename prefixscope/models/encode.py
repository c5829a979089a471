"""Text to exact token ids: little-endian uint32, made by the loaded tokenizer's own backend.

fastokens is built from the serialised backend (never from the file: transformers rebuilds some backends, and the ids
differ), and `tokenizers` stays its judge: the first texts are all compared, then a seeded sample. One difference ends
its use for the rest of the run. Where fastokens refuses a tokenizer, it may serve it in another spelling
(respelled.py); else `tokenizers` itself serves with a memory of the stretches between special tokens (segments.py).
Each of them is under the same judge.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import xxhash

from prefixscope.models.heap import give_back_freed_memory
from prefixscope.records import Source

if TYPE_CHECKING:
    from prefixscope.models.loaded_tokenizer import LoadedTokenizer

__all__ = [
    "Build",
    "CheckedEncoder",
    "Encoder",
    "EncoderDisagreement",
    "LateEncoder",
    "SlowEncoder",
    "TokenizersEncoder",
    "encoder_for",
    "ids_to_bytes",
    "without_surrogates",
]

ALWAYS_CHECKED = 64
CHECKED_ONE_IN = 2048
BUILD_AFTER_CHARACTERS = 1 << 18
"""A fast engine takes about a second to build: shorter logs are encoded before it would be ready."""
SEGMENT_CACHE_BYTES = 16 << 20
"""Stretches between special tokens that fastokens remembers: in chats most of a prompt was seen before."""
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

    The encoder has already fallen back; ids made before must be made again. `location` names the model's tokenizer,
    `source` the request at which it was seen.
    """

    location: str | None = None
    source: Source | None = None


def ids_to_bytes(ids: list[int]) -> bytes:
    """Little-endian uint32.

    >>> ids_to_bytes([1, 256]).hex()
    '0100000000010000'
    """
    return np.asarray(ids, dtype="<u4").tobytes()


class TokenizersEncoder:
    """The `tokenizers` backend itself: always right, slow. It is asked for when the first text comes."""

    name = "tokenizers"

    def __init__(self, tokenizer: LoadedTokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str, add_special_tokens: bool) -> bytes:
        fast = self._tokenizer.backend.encode_batch_fast  # the same ids, without their places in the text
        return ids_to_bytes(fast([text], add_special_tokens=add_special_tokens)[0].ids)


class SlowEncoder:
    """A tokenizer without a Rust backend (SentencePiece, mistral-common, plain Python)."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.name = f"transformers {type(tokenizer).__name__}"

    def encode(self, text: str, add_special_tokens: bool) -> bytes:
        return ids_to_bytes(self._tokenizer.encode(text, add_special_tokens=add_special_tokens))


class CheckedEncoder:
    """A fast engine under a judge: compares the first 64 texts and then about one in 2,048, chosen by their hash.

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
        dropped = f"{self._judge.name} ({self._fast_name} gave other ids and was dropped)"
        return dropped if self._fast is None else self._fast_name

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

    def prove(self, text: str, add_special_tokens: bool, right: bytes) -> None:
        """Counts a text whose ids the judge gave already as one of the first, and compares them."""
        if self._fast is None:
            return
        self._seen += 1
        self.checked += 1
        try:
            same = self._fast.encode(text, add_special_tokens) == right
        except Exception:
            same = False
        if not same:
            self._fall_back(right)

    def _fall_back(self, right: bytes) -> bytes:
        self._fast = None
        self.disagreed = True
        if self.unchecked:
            raise EncoderDisagreement(f"{self._fast_name} and {self._judge.name} differ")
        return right


class LateEncoder:
    """The judge alone for the first texts; a fast engine, built in the background, once there is enough to encode.

    With `ahead` it is built from the first text on: much is known to come. `waiting` tells that the engine is being
    built and that it is better to come back than to wait. Which texts the judge encodes, and so `name`, depends on the
    texts alone and not on how long the building takes.
    """

    def __init__(self, judge: Encoder, build: Callable[[], Encoder], *, ahead: bool = False) -> None:
        self._judge = judge
        self._build = build
        self._ahead = ahead
        self._thread: threading.Thread | None = None
        self._built: Encoder | None = None
        self._engine: Encoder | None = None
        self._early: list[tuple[str, bool, bytes]] = []
        self._characters = 0

    @property
    def name(self) -> str:
        return (self._engine or self._judge).name

    @property
    def disagreed(self) -> bool:
        """Whether the fast engine was dropped."""
        return isinstance(self._engine, CheckedEncoder) and self._engine.disagreed

    @property
    def waiting(self) -> bool:
        """Whether the next text has to wait for the engine."""
        return self._due and self._thread is not None and self._thread.is_alive()

    @property
    def _due(self) -> bool:
        return self._engine is None and self._thread is not None and len(self._early) >= ALWAYS_CHECKED

    def encode(self, text: str, add_special_tokens: bool) -> bytes:
        if self._ahead:
            self._begin()
        if self._due:
            self._engine = self._proved_engine()
        if self._engine is not None:
            return self._engine.encode(text, add_special_tokens)
        ids = self._judge.encode(text, add_special_tokens)
        if len(self._early) < ALWAYS_CHECKED:
            self._early.append((text, add_special_tokens, ids))
        self._characters += len(text)
        if self._characters >= BUILD_AFTER_CHARACTERS:
            self._begin()
        return ids

    def _begin(self) -> None:
        if self._thread is None:
            # no daemon: an interpreter that ends while foreign code of a daemon runs may be aborted as a whole
            self._thread = threading.Thread(target=self._build_it, name="build a fast tokenizer")
            self._thread.start()

    def _build_it(self) -> None:
        # whatever goes wrong while a foreign engine is built: the judge can do without it
        with contextlib.suppress(Exception):
            self._built = self._build()
        give_back_freed_memory()

    def _proved_engine(self) -> Encoder:
        """The fast engine after it gave the same ids for the first texts, else the judge."""
        assert self._thread is not None
        self._thread.join()
        early, self._early = self._early, []
        if self._built is None:
            return self._judge
        checked = CheckedEncoder(self._built, self._judge)
        for text, add_special_tokens, ids in early:
            checked.prove(text, add_special_tokens, ids)
        return checked


def _hash(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"), seed=_SEED)


class _FlatEncoder:
    """fastokens; its flat form hands out the ids as one buffer, no Python ints."""

    name = "fastokens"

    def __init__(self, serialised: str) -> None:
        import fastokens

        tokenizer = fastokens.Tokenizer.from_json_str(serialised)
        tokenizer.enable_segment_cache(SEGMENT_CACHE_BYTES)
        self._encode = tokenizer.encode_batch_flat

    def encode(self, text: str, add_special_tokens: bool) -> bytes:
        return bytes(self._encode([text], add_special_tokens=add_special_tokens)[0])


def _fast_engine(tokenizer: LoadedTokenizer) -> Encoder:
    """fastokens where it loads the tokenizer, if need be respelled; else `tokenizers` with a memory."""
    from prefixscope.models.respelled import RespelledEncoder, respelled
    from prefixscope.models.segments import SegmentEncoder

    serialised = tokenizer.serialised
    assert serialised is not None
    # it refuses models that it can't do exactly (Metaspace, Unigram, WordPiece) in various ways
    with contextlib.suppress(Exception):
        return _FlatEncoder(serialised)
    segments = SegmentEncoder(tokenizer.backend, serialised)
    with contextlib.suppress(Exception):
        other = respelled(serialised)
        if other is not None:
            return RespelledEncoder(_FlatEncoder(other), segments)
    return segments


Build = Literal["now", "ahead", "when_due"]
"""When a fast engine is built: before anything is encoded; beside it, from the beginning; or once it is worth it."""


def encoder_for(tokenizer: LoadedTokenizer, *, fast: bool = True, build: Build = "now") -> Encoder:
    """The encoder of a tokenizer: a fast engine under a judge, else its backend, else transformers' object."""
    if tokenizer.slow is not None:
        return SlowEncoder(tokenizer.slow)
    judge = TokenizersEncoder(tokenizer)
    if not fast or tokenizer.serialised is None:
        return judge
    if build == "now":
        return CheckedEncoder(_fast_engine(tokenizer), judge)
    return LateEncoder(judge, lambda: _fast_engine(tokenizer), ahead=build == "ahead")


def without_surrogates(text: str) -> tuple[str, int]:
    r"""The text with every lone surrogate as U+FFFD, and how many there were. No tokenizer takes them.

    >>> without_surrogates("a\ud800b")
    ('a\ufffdb', 1)
    """
    if text.isascii():
        return text, 0
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # a JSON text may escape one astral character as two surrogates that the decoder already joined: only lone
        # ones are left here, and each stands for itself
        cleaned = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
        return cleaned, sum("\ud800" <= character <= "\udfff" for character in text)
    return text, 0
