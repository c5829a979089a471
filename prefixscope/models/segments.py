"""Exact ids from a slow tokenizer, with a memory of the stretches between special tokens.

`tokenizers` first cuts a text at its added tokens and encodes every piece alone, so the ids of a piece can be reused
wherever the same piece stands. A cut is exact at a token that takes no blanks with it, is found before normalisation,
and can't overlap another added token. A piece is encoded behind the token in front of it, because some tokenizers
(Metaspace) treat the beginning of the text differently.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["SegmentEncoder", "cut_tokens"]

MEMORY_BYTES = 64 << 20
"""Characters and ids that are remembered, in bytes."""


class SegmentEncoder:
    """`tokenizers` that encodes each stretch of text between two special tokens once.

    Gives the ids of `backend.encode(text)`; texts with post-processing and tokenizers without any token to cut at go
    through the backend as they are.
    """

    name = "tokenizers with a segment memo"

    def __init__(self, backend: Any, serialised: str, memory: int = MEMORY_BYTES) -> None:
        self._backend = backend
        self._cuts = cut_tokens(json.loads(serialised))
        self._pattern = re.compile(f"({_alternatives(self._cuts)})") if self._cuts else None
        self._room = memory
        self._known: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self.encoded_characters = 0
        """Characters that were not remembered."""

    def encode(self, text: str, add_special_tokens: bool) -> bytes:
        """Little-endian uint32 ids. Raises ValueError where the tokenizer breaks the rule of the cuts."""
        if self._pattern is None or add_special_tokens:
            return self._encoded(text, add_special_tokens)
        first, *pieces = self._pattern.split(text)
        ids = [self._segment("", first)] if first else []
        for token, behind in zip(pieces[::2], pieces[1::2], strict=True):
            ids.append(self._segment(token, behind))
        return b"".join(ids)

    def first_cut(self, text: str) -> int | None:
        """Where the first token stands at which the text may be cut."""
        found = None if self._pattern is None else self._pattern.search(text)
        return None if found is None else found.start()

    def _segment(self, token: str, behind: str) -> bytes:
        """The ids of a special token and the text behind it, up to the next one."""
        key = (token, behind)
        known = self._known
        ids = known.get(key)
        if ids is not None:
            known.move_to_end(key)
            return ids
        ids = known[key] = self._encoded(token + behind, False)
        if token and not ids.startswith(self._cuts[token]):
            raise ValueError(f"{token} does not stand for itself")
        self._room -= len(behind) + len(ids)
        while self._room < 0 and len(known) > 1:
            (_, gone), gone_ids = known.popitem(last=False)
            self._room += len(gone) + len(gone_ids)
        return ids

    def _encoded(self, text: str, add_special_tokens: bool) -> bytes:
        self.encoded_characters += len(text)
        ids = self._backend.encode(text, add_special_tokens=add_special_tokens).ids
        return np.asarray(ids, dtype="<u4").tobytes()


def cut_tokens(serialised: Mapping[str, Any]) -> dict[str, bytes]:
    """The added tokens of a tokenizer.json at which a text may be cut, with their ids as little-endian uint32.

    >>> plain = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True}
    >>> added = [{"content": "<s>", "id": 1, **plain}, {"content": "<s><s>", "id": 2, **plain}]
    >>> cut_tokens({"added_tokens": added}), cut_tokens({"added_tokens": added[:1]})
    ({}, {'<s>': b'\\x01\\x00\\x00\\x00'})
    """
    added = serialised.get("added_tokens") or []
    normalizer = serialised.get("normalizer")
    nothing_normalized = normalizer is None or (
        normalizer.get("type") == "Sequence" and not normalizer.get("normalizers")
    )
    contents = [token["content"] for token in added if token["content"]]
    overlapping = _Overlaps(contents)
    return {
        token["content"]: int(token["id"]).to_bytes(4, "little")
        for token in added
        if token["content"]
        and token["special"]
        and not (token["lstrip"] or token["rstrip"] or token["single_word"])
        and (nothing_normalized or not token["normalized"])
        and not overlapping.touches(token["content"])
    }


class _Overlaps:
    """Which of many tokens could share a character with another one (or another occurrence of itself) in some text."""

    def __init__(self, contents: Iterable[str]) -> None:
        self._contents = set(contents)
        self._beginnings = {content[:end] for content in self._contents for end in range(1, len(content))}
        self._endings = {content[start:] for content in self._contents for start in range(1, len(content))}
        self._all = "\n".join(self._contents)

    def touches(self, content: str) -> bool:
        length = len(content)
        if any(content[start:] in self._beginnings or content[:start] in self._endings for start in range(1, length)):
            return True
        inner = (content[start:end] for start in range(length) for end in range(start + 1, length + 1))
        return self._all.count(content) > 1 or any(piece in self._contents and piece != content for piece in inner)


def _alternatives(words: Iterable[str]) -> str:
    """A pattern for any of these words, none of which begins another one; branches as a tree, so that it is fast.

    >>> _alternatives(["<s>", "</s>", "[X]"])
    '(?:<(?:/s>|s>)|\\\\[X\\\\])'
    """
    by_first: dict[str, list[str]] = {}
    for word in sorted(words):
        by_first.setdefault(word[:1], []).append(word[1:])
    branches = []
    for first, rests in by_first.items():
        branches.append(re.escape(first) + (re.escape(rests[0]) if len(rests) == 1 else _alternatives(rests)))
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
