"""A simple model of a serving engine: when requests start and end, and what its prefix cache would report.

The cache is endless and works in blocks of sixteen tokens: a block counts as cached if an earlier sequence of the same
model name began with the same tokens up to its end. The last token of a prompt is always computed. Prompts can be
reused from the moment they arrive, answers from the moment they are finished. Nothing here was measured.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from making.draw import Draw
from making.language import Language
from making.session import Message, Served, Session, iso_seconds

BLOCK_TOKENS = 16
PROMPT_MICROSECONDS = 55
OUTPUT_MILLISECONDS = 16


class EndlessCache:
    """Chains of full blocks, one tree for each model name."""

    def __init__(self) -> None:
        self._chains: dict[tuple[int | str, tuple[int, ...]], int] = {}
        self._unfinished: list[tuple[int, int, str, list[int]]] = []

    def add(self, model: str, ids: list[int]) -> None:
        """Store all full blocks of a sequence."""
        parent: int | str = model
        for block in blocks_of(ids):
            parent = self._chains.setdefault((parent, block), len(self._chains))

    def add_when_finished(self, finished_ms: int, model: str, ids: list[int]) -> None:
        """Store a sequence at a later time."""
        heapq.heappush(self._unfinished, (finished_ms, len(self._chains), model, ids))

    def advance(self, now_ms: int) -> None:
        """Store everything that is finished by now."""
        while self._unfinished and self._unfinished[0][0] <= now_ms:
            _, _, model, ids = heapq.heappop(self._unfinished)
            self.add(model, ids)

    def cached_tokens(self, model: str, ids: list[int]) -> int:
        """Tokens of a prompt that need not be computed, a multiple of the block size."""
        parent: int | str | None = model
        hits = 0
        for block in blocks_of(ids[:-1]):
            parent = self._chains.get((parent, block))
            if parent is None:
                break
            hits += 1
        return hits * BLOCK_TOKENS


def blocks_of(ids: list[int]) -> Iterator[tuple[int, ...]]:
    """The full blocks of a sequence.

    >>> [len(block) for block in blocks_of([7] * 40)]
    [16, 16]
    """
    for end in range(BLOCK_TOKENS, len(ids) + 1, BLOCK_TOKENS):
        yield tuple(ids[end - BLOCK_TOKENS : end])


class Engine:
    """Serves the requests of many sessions in time order."""

    def __init__(self, language: Language, draw: Draw) -> None:
        self._language = language
        self._draw = draw
        self._cache = EndlessCache()

    def serve(self, sessions: list[Session]) -> list[Served]:
        """Every request of every session, ordered by arrival. A session waits for an answer before it goes on."""
        waiting = [(session.start_ms, place, 0) for place, session in enumerate(sessions)]
        heapq.heapify(waiting)
        histories: list[list[Message]] = [[] for _ in sessions]
        served = []
        while waiting:
            now_ms, place, number = heapq.heappop(waiting)
            session, step = sessions[place], sessions[place].steps[number]
            histories[place].extend(step.added)
            result = self._answer(session, list(histories[place]), step.answer, now_ms)
            served.append(result)
            histories[place].append(step.answer)
            if number + 1 < len(session.steps):
                pause_ms = session.steps[number + 1].pause_ms
                heapq.heappush(waiting, (result.finished_ms + pause_ms, place, number + 1))
        return served

    def _answer(self, session: Session, messages: list[Message], answer: Message, now_ms: int) -> Served:
        request_id = self._draw.hexadecimal(12)
        if session.header is not None:
            header = session.header.format(time=iso_seconds(now_ms), request=request_id)
            messages[0] = {"role": "system", "content": header + messages[0]["content"]}
        self._cache.advance(now_ms)
        prompt = self._language.prompt_ids(messages, session.tools)
        output = self._language.answer_ids(answer)
        cached = self._cache.cached_tokens(session.model, prompt)
        first_ms = now_ms + self._draw.integer(24, 70) + (len(prompt) - cached) * PROMPT_MICROSECONDS // 1000
        finished_ms = first_ms + len(output) * OUTPUT_MILLISECONDS + self._draw.integer(0, 120)
        self._cache.add(session.model, prompt)
        # the last generated token has no keys and values yet when the answer ends
        self._cache.add_when_finished(finished_ms, session.model, prompt + output[:-1])
        return Served(
            session, request_id, now_ms, first_ms, finished_ms, messages, answer, len(prompt), cached, len(output)
        )
