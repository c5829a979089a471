"""Words in front of an id, a nonce or a counter: behind one of them a short number is no part of the text."""

from __future__ import annotations

__all__ = ["LABELS"]

_WORDS = (
    "id ids uuid guid nonce token request req session trace span hash key ref reference seed salt cch "
    "run job ticket build version correlation checksum digest signature call turn step iteration attempt "
    "seq pid commit rev revision count counter number no nr"
)
LABELS = frozenset(_WORDS.split())
"""In lower case."""
