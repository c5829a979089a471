"""Images, audio and video in messages: which parts are media, and what their identity is.

An engine replaces a medium by placeholder tokens and keys their blocks by its content (vLLM: `uuid` of the part, else a
content hash). How many tokens a medium expands to is not known here, so prompts count the template's own placeholder
only, and requests share nothing unless they carry the same media in the same order: a lower bound of the reuse.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import xxhash

from prefixscope.records import Json

__all__ = ["identity_of_media", "media_parts"]

_TEXT_KINDS = frozenset({
    "text", "input_text", "output_text", "refusal", "thinking", "reasoning", "tool_reference",
})  # fmt: skip


def media_parts(messages: Json) -> Iterator[Mapping[str, Json]]:
    """Every part of every message that is no text, in order."""
    for message in messages if isinstance(messages, Sequence) and not isinstance(messages, str) else ():
        content = message.get("content") if isinstance(message, Mapping) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and part.get("type", "text") not in _TEXT_KINDS:
                yield part


def identity_of_media(messages: Json) -> str | None:
    """One hash over the identities of all media in order; None where there are none.

    A `uuid` is the identity the client gave; else the part's own content counts (the URL where only that is logged).

    >>> identity_of_media([{"content": "text"}]) is None
    True
    """
    digest = None
    for part in media_parts(messages):
        digest = digest or xxhash.xxh3_128()
        given = part.get("uuid")
        known = {"uuid": given} if given else {key: value for key, value in part.items() if key != "uuid"}
        digest.update(json.dumps(known, sort_keys=True, default=str).encode("utf-8", "surrogatepass") + b"\n")
    return None if digest is None else digest.hexdigest()
