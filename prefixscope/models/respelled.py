"""A fast engine for tokenizers that spell blanks as "▁" (Metaspace), which the fast library does not know.

Behind the first special token Metaspace does nothing but put "▁" for every blank, and that can be said as a
normalisation, which the library does know. Only what stands in front of the first special token is treated
differently, and stays with `tokenizers`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from prefixscope.models.segments import SegmentEncoder

__all__ = ["RespelledEncoder", "respelled"]


class _Flat(Protocol):
    def encode(self, text: str, add_special_tokens: bool) -> bytes: ...


class RespelledEncoder:
    """Gives the ids of the original tokenizer; `flat` encodes with the respelled one, `segments` with the original."""

    name = "fastokens (blanks spelled out)"

    def __init__(self, flat: _Flat, segments: SegmentEncoder) -> None:
        self._flat = flat
        self._segments = segments

    def encode(self, text: str, add_special_tokens: bool) -> bytes:
        start = None if add_special_tokens else self._segments.first_cut(text)
        if start is None:
            return self._segments.encode(text, add_special_tokens)
        behind = self._flat.encode(text[start:] if start else text, False)
        return self._segments.encode(text[:start], False) + behind if start else behind


def respelled(serialised: str) -> str | None:
    """A tokenizer.json with the same ids behind any special token and without Metaspace; None where there is none.

    >>> bpe = {"model": {"type": "BPE"}, "normalizer": None, "added_tokens": []}
    >>> metaspace = {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": False}
    >>> json.loads(respelled(json.dumps({**bpe, "pre_tokenizer": metaspace})))["normalizer"]["normalizers"]
    [{'type': 'Replace', 'pattern': {'String': ' '}, 'content': '_'}]
    >>> respelled(json.dumps({**bpe, "pre_tokenizer": {**metaspace, "prepend_scheme": "always"}})) is None
    True
    """
    tokenizer: dict[str, Any] = json.loads(serialised)
    metaspace = tokenizer.get("pre_tokenizer") or {}
    if not _is_plain_metaspace(metaspace) or (tokenizer.get("model") or {}).get("type") != "BPE":
        return None
    if any(token["normalized"] and " " in token["content"] for token in tokenizer.get("added_tokens") or ()):
        return None  # it would be looked for after its blank is gone
    before = tokenizer.get("normalizer")
    blanks = {"type": "Replace", "pattern": {"String": " "}, "content": metaspace["replacement"]}
    tokenizer["normalizer"] = {"type": "Sequence", "normalizers": [*([] if before is None else [before]), blanks]}
    tokenizer["pre_tokenizer"] = None
    return json.dumps(tokenizer)


def _is_plain_metaspace(pre_tokenizer: Mapping[str, Any]) -> bool:
    """Whether it only replaces: no cutting into words, and nothing put in front of later pieces."""
    return (
        pre_tokenizer.get("type") == "Metaspace"
        and pre_tokenizer.get("split") is False
        and pre_tokenizer.get("prepend_scheme") in ("first", "never")
    )
