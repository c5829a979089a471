"""Two minima over the hashes of a prompt's parts: prompts that are alike in most of them have one in common."""

from __future__ import annotations

import re

import numpy as np
import xxhash

__all__ = ["TextSketches", "token_sketches"]

_CHUNK = re.compile(r"[\n.!?;]+")
_LONG_SENTENCE, _KEPT_SENTENCE = 16, 400
_KNOWN_SENTENCES = 1 << 16
_NO_HASHES = (1 << 64, 1 << 64)
_STRIDE = 8


class TextSketches:
    """Of texts, over their sentences. A sentence is hashed once: system prompts have the same ones again and again."""

    def __init__(self) -> None:
        self._sentences: dict[str, tuple[int, int]] = {}

    def of(self, text: str) -> tuple[int, ...]:
        """The sketches of a text; sentences of a few characters count only where there are no others."""
        known = self._sentences
        pieces = [piece for piece in _CHUNK.split(text) if len(piece) >= _LONG_SENTENCE]
        hashes = [known.get(piece) or self._sentence(piece) for piece in pieces]
        if not hashes or min(hashes) == _NO_HASHES:
            hashes = [_hashed(text.strip() or "-")]
        return min(hashes)[0], min([other for _, other in hashes])

    def _sentence(self, piece: str) -> tuple[int, int]:
        stripped = piece.strip()
        hashes = _hashed(stripped) if len(stripped) >= _LONG_SENTENCE else _NO_HASHES
        if len(piece) <= _KEPT_SENTENCE:
            if len(self._sentences) >= _KNOWN_SENTENCES:
                self._sentences.clear()
            self._sentences[piece] = hashes
        return hashes


def _hashed(piece: str) -> tuple[int, int]:
    value = xxhash.xxh3_64_intdigest(piece.encode("utf-8", "surrogatepass"))
    return value, value ^ 0x5555555555555555


def token_sketches(tokens: bytes) -> tuple[int, ...]:
    """As for text, over stretches of eight tokens at any place of the first few thousand."""
    values = np.frombuffer(tokens[:16384], "<u4").astype(np.uint64)
    if len(values) <= _STRIDE:
        return ()
    with np.errstate(over="ignore"):
        hashed = np.zeros(len(values) - _STRIDE, np.uint64)
        for place in range(_STRIDE):
            hashed ^= values[place : place + len(hashed)]
            hashed *= np.uint64(0x9E3779B97F4A7C15)
        hashed ^= hashed >> np.uint64(29)
        return int(hashed.min()), int((hashed ^ np.uint64(0x5555555555555555)).min())
