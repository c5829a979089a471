"""What vLLM does with prompts that hold media, the slow way: placeholders written out, keys of full blocks compared.

A block's key is its tokens, the key of the block before it, and for every item that reaches into it the item's
identifier with its offset from the block's start (v1/core/kv_cache_utils.py: generate_block_hash_extra_keys, 0.19+).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PAD = -1


@dataclass(frozen=True)
class Image:
    """An image as the engine sees it: what identifies it, and in how many tokens it is seen."""

    identity: str
    tokens: int


Prompt = Sequence[bytes | Image]


def prompt_tokens(prompt: Prompt) -> int:
    return sum(len(part) if isinstance(part, bytes) else part.tokens for part in prompt)


def block_keys(prompt: Prompt, block: int) -> list[tuple[object, ...]]:
    """The keys of all full blocks, each holding the one before it."""
    tokens: list[int] = []
    items: list[tuple[int, int, str]] = []
    for part in prompt:
        if isinstance(part, bytes):
            tokens.extend(part)
        else:
            items.append((len(tokens), len(tokens) + part.tokens, part.identity))
            tokens.extend([PAD] * part.tokens)
    keys: list[tuple[object, ...]] = []
    above: object = None
    for start in range(0, len(tokens) // block * block, block):
        inside = tuple((name, first - start) for first, end, name in items if first < start + block and end > start)
        key = (above, tuple(tokens[start : start + block]), inside)
        keys.append(key)
        above = key
    return keys


def cached_tokens(prompts: Sequence[Prompt], block: int) -> list[int]:
    """Tokens each prompt finds of those before it, the last token always recomputed."""
    stored: set[tuple[object, ...]] = set()
    found = []
    for prompt in prompts:
        keys = block_keys(prompt, block)
        most = (prompt_tokens(prompt) - 1) // block
        hits = 0
        while hits < min(len(keys), most) and keys[hits] in stored:
            hits += 1
        found.append(hits * block)
        stored.update(keys)
    return found
