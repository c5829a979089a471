"""The obvious way: compare every request with every earlier one, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    namespace: int
    prompt: tuple[int, ...]
    output: tuple[int, ...] = ()

    @property
    def sequence(self) -> tuple[int, ...]:
        """Tokens whose KV exists: the last sampled one has none."""
        return self.prompt + self.output[:-1]


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def lineage(requests: Sequence[Request]) -> list[tuple[int, int, int]]:
    """(shared, shared with prompts only, parent) of every request."""
    rows = []
    for row, request in enumerate(requests):
        shared, shared_prompt, parent = 0, 0, -1
        for earlier in range(row):
            if requests[earlier].namespace != request.namespace:
                continue
            length = common(request.sequence, requests[earlier].sequence)
            if length and length >= shared:
                shared, parent = length, earlier
            shared_prompt = max(shared_prompt, common(request.sequence, requests[earlier].prompt))
        rows.append((shared, shared_prompt, parent))
    return rows


def cached_blocks(requests: Sequence[Request], block_size: int, *, last_token: bool = True) -> list[int]:
    """Tokens an engine with full blocks and an infinite cache reuses, by looking up every block's whole prefix."""
    stored: set[tuple[int, tuple[int, ...]]] = set()
    rows = []
    for request in requests:
        limit = len(request.prompt) - 1 if last_token else len(request.prompt)
        hit = 0
        while hit + block_size <= limit and (request.namespace, request.prompt[: hit + block_size]) in stored:
            hit += block_size
        rows.append(hit)
        sequence = request.sequence
        for end in range(block_size, len(sequence) + 1, block_size):
            stored.add((request.namespace, sequence[:end]))
    return rows
