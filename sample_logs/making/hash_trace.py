"""A trace without texts: one number for each block of 512 tokens, in the form of the Mooncake traces.

Two rows share a prefix exactly where their lists of numbers begin alike. A number stands for a block together with
everything before it; the last one of a row may stand for a block that is not full.
"""

from __future__ import annotations

from typing import Any

from making.draw import Draw

UNIT_TOKENS = 512
Block = tuple[Any, ...]


class BlockNumbers:
    """Counts blocks in the order they are first seen; equal blocks after equal beginnings get equal numbers."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int | None, Block], int] = {}

    def chain(self, blocks: list[Block]) -> list[int]:
        """The numbers of a sequence of blocks."""
        parent, chain = None, []
        for block in blocks:
            parent = self._numbers.setdefault((parent, block), len(self._numbers))
            chain.append(parent)
        return chain


def trace_requests(draw: Draw, sessions: int) -> list[dict[str, Any]]:
    """Times and sizes of all requests: sessions that grow, on one of three system prompts."""
    start_ms, requests = 0, []
    for session in range(sessions):
        start_ms += draw.waiting_ms(9_000)
        kind = draw.one_of([0, 0, 0, 1, 1, 2])
        now_ms, length = start_ms, [2300, 4700, 900][kind] + draw.integer(40, 1500)
        for turn in range(draw.integer(1, 9)):
            output = draw.integer(12, 600)
            requests.append({"at": now_ms, "kind": kind, "session": session, "turn": turn, "in": length, "out": output})
            length += output + draw.integer(30, 1400)
            now_ms += output * 16 + draw.integer(2_000, 60_000)
    return sorted(requests, key=lambda request: (request["at"], request["session"]))


def blocks_of_request(request: dict[str, Any]) -> list[Block]:
    """What each block of a request holds: system prompt, conversation, and a last block that is not full."""
    full, rest = divmod(request["in"], UNIT_TOKENS)
    shared = [2300, 4700, 900][request["kind"]] // UNIT_TOKENS
    blocks: list[Block] = [("system", request["kind"], place) for place in range(min(shared, full))]
    blocks += [("session", request["session"], place) for place in range(len(blocks), full)]
    return [*blocks, ("part", request["session"], request["turn"])] if rest else blocks


def hash_trace_rows(name: str, sessions: int, count: int) -> list[dict[str, Any]]:
    """The first `count` rows of the trace, times in milliseconds from its start."""
    numbers = BlockNumbers()
    return [
        {
            "timestamp": request["at"],
            "input_length": request["in"],
            "output_length": request["out"],
            "hash_ids": numbers.chain(blocks_of_request(request)),
        }
        for request in trace_requests(Draw(name), sessions)[:count]
    ]
