"""Prompts that are logged as ids or lengths, checked."""

from __future__ import annotations

from prefixscope.models.encode import ids_to_bytes
from prefixscope.models.template import Unrenderable
from prefixscope.records import Json

__all__ = ["length_of", "token_ids_of"]

_UINT32_END = 1 << 32


def token_ids_of(value: Json) -> bytes:
    """A logged list of ids as bytes. Raises Unrenderable where it is none."""
    if not isinstance(value, (list, tuple)):
        raise Unrenderable("bad_token_ids", "prompt_token_ids is not a list")
    if not value:
        raise Unrenderable("no_prompt", "the prompt is empty")
    if set(map(type, value)) != {int}:
        odd = next(one for one in value if type(one) is not int)
        raise Unrenderable("bad_token_ids", f"a token id is not a whole number: {odd!r:.60}")
    if min(value) < 0 or max(value) >= _UINT32_END:
        odd = next(one for one in value if not 0 <= one < _UINT32_END)
        raise Unrenderable("bad_token_ids", f"a token id does not fit in 32 bits: {odd}")
    return ids_to_bytes(list(value))


def length_of(value: Json) -> int | None:
    """A logged number of tokens, None where there is none. Raises Unrenderable where it is no number."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Unrenderable("bad_hash_ids", f"input_length is not a number of tokens: {value!r:.60}")
    return value
