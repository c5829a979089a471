"""Writes a synthetic chat log: sessions that grow turn by turn behind shared system prompts, tools and documents.

    python benchmarks/generate.py --requests 2000 --tokens 8000 --sharing 0.8 --seed 1 -o shared.jsonl

`--sharing` says how much of the prompt text repeats an earlier request, from 0 (every request is new from its first
word on) to 0.97. `--tokens` is the mean length of a prompt, estimated at 3.8 characters a token. The same arguments
give the same bytes on every machine. Everything is invented.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from text import Writer

CHARACTERS_PER_TOKEN = 3.8
LARGEST_SHARING = 0.97
GROUPS = 4
"""So many different system prompts are in use; half of them come with tools."""
LIVE_SESSIONS = 64
"""So many sessions take turns."""
MOST_TURNS = 12
START_S = 1_780_000_000


@dataclass(frozen=True)
class Shape:
    """How long the pieces are, in characters: `system` is shared by a group, `turn` is new in every request."""

    turns: int
    system: int
    turn: int


def shape_of(tokens: int, sharing: float) -> Shape:
    """The shape whose requests are `tokens` long on average and share the given part of their text.

    Of requests of mean length L, (1 - sharing) L is new each time; K turns of it grow behind what the system prompt
    adds to reach L: L = system + turn (K + 1) / 2.

    >>> shape_of(1000, 0.8)
    Shape(turns=6, system=1140, turn=760)
    """
    length = tokens * CHARACTERS_PER_TOKEN
    turn = (1 - sharing) * length
    turns = max(1, min(MOST_TURNS, int(1.5 * length / turn) - 1))
    return Shape(turns, round(length - turn * (turns + 1) / 2), round(turn))


@dataclass(frozen=True)
class Group:
    """What all sessions of one application have in common."""

    system: str
    tools: list[dict[str, Any]] | None


def group_of(writer: Writer, shape: Shape, with_tools: bool) -> Group:
    """A system prompt with a document behind it; with tools, their definitions take a third of the room."""
    tools = None
    room = shape.system
    if with_tools and room > 3000:
        tools = []
        while len(json.dumps(tools, ensure_ascii=False)) < room // 3:
            tools.append(writer.tool())
        room -= len(json.dumps(tools, ensure_ascii=False))
    return Group(writer.text(room) if room > 0 else "", tools)


class Session:
    """One conversation: each call of `request` adds an answer and a question."""

    def __init__(self, number: int, group: Group, shape: Shape, writer: Writer) -> None:
        self.number, self.group, self.shape, self.writer = number, group, shape, writer
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": group.system}] if group.system else []
        self.turns = 0
        self.script = writer.draw.choices(("plain", "typographic", "mixed"), (50, 35, 15))[0]

    def request(self) -> dict[str, Any]:
        room = self.shape.turn
        self.writer.script = self.script
        if self.turns and self.group.tools and self.writer.draw.random() < 0.5:
            room -= self._tool_step(room)
        elif self.turns:
            answer = self.writer.text(room // 2)
            self.messages.append({"role": "assistant", "content": answer})
            room -= len(answer)
        self.messages.append({"role": "user", "content": self.writer.text(room)})
        self.turns += 1
        body: dict[str, Any] = {"model": "chat", "messages": list(self.messages)}
        if self.group.tools:
            body["tools"] = self.group.tools
        return body

    def _tool_step(self, room: int) -> int:
        name = self.writer.draw.choice(self.group.tools or [])["function"]["name"]
        call = {
            "id": f"{self.writer.draw.randrange(10**9):09d}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(self.writer.arguments())},
        }
        result, answer = self.writer.text(room // 3), self.writer.text(room // 6)
        self.messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        self.messages.append({"role": "assistant", "content": answer})
        return len(result) + len(answer) + 120


def requests(count: int, tokens: int, sharing: float, seed: int) -> Iterator[dict[str, Any]]:
    """The logged requests in order of time, as native rows."""
    writer = Writer(random.Random(seed))
    shape = shape_of(tokens, sharing)
    groups = [group_of(writer, shape, with_tools=number % 2 == 1) for number in range(GROUPS)]
    live: list[Session] = []
    begun = 0
    for number in range(count):
        while len(live) < LIVE_SESSIONS:
            live.append(Session(begun, groups[begun % GROUPS], shape, writer))
            begun += 1
        place = writer.draw.randrange(len(live))
        session = live[place]
        row = {"request_id": f"r{number}", "timestamp": START_S + number * 0.25, "session_id": f"s{session.number}"}
        yield {**row, **session.request()}
        if session.turns >= shape.turns:
            live.pop(place)


def write(file: IO[bytes], count: int, tokens: int, sharing: float, seed: int) -> None:
    """Writes JSON lines as most loggers do: no blanks, text not escaped."""
    for row in requests(count, tokens, sharing, seed):
        file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=8000, help="mean tokens of a prompt")
    parser.add_argument("--sharing", type=float, default=0.8, help="0 to 0.97")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", required=True)
    asked = parser.parse_args()
    if not 0 <= asked.sharing <= LARGEST_SHARING:
        parser.error(f"--sharing is a number from 0 to {LARGEST_SHARING}")
    if asked.requests < 1 or asked.tokens < 10:
        parser.error("--requests must be at least 1 and --tokens at least 10")
    with open(asked.output, "wb") as file:
        write(file, asked.requests, asked.tokens, asked.sharing, asked.seed)


if __name__ == "__main__":
    main()
