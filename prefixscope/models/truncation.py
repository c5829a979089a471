"""`truncate_prompt_tokens`: a request that asks vLLM to keep only a number of its prompt's tokens.

vLLM 0.32.0, vllm/renderers/params.py (TokenizeParams): the last ones are kept, or the first under
`truncation_side: right`. Without a named side the tokenizer cuts, and keeps its special tokens at the front.
"""

from __future__ import annotations

from collections.abc import Mapping

from prefixscope.records import Json

__all__ = ["truncated"]


def truncated(ids: bytes, special: bytes, body: Mapping[str, Json]) -> bytes:
    """The ids that remain; `special` are the ids that the tokenizer put before the text.

    >>> truncated(b"BOS.1...2...", b"BOS.", {"truncate_prompt_tokens": 2})
    b'BOS.2...'
    >>> truncated(b"BOS.1...2...", b"BOS.", {"truncate_prompt_tokens": 2, "truncation_side": "left"})
    b'1...2...'
    """
    keep = body.get("truncate_prompt_tokens")
    # -1 means the model's context length, which a logged prompt did fit in
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1 or len(ids) <= 4 * keep:
        return ids
    side = body.get("truncation_side")
    if side == "right":
        return ids[: 4 * keep]
    if side == "left" or not special or len(special) >= 4 * keep:
        return ids[-4 * keep :]
    return special + ids[len(special) - 4 * keep :]
