"""Random hash traces as bytes, from clean ones to ones in which nearly every kind of row is odd in some way."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any
from zlib import crc32

Row = dict[str, Any]


def random_trace(
    seed: int, rows: int, *, unit: int, oddity: float, bailian: bool = False, one_model: bool = False
) -> bytes:
    """Lines of a trace; `oddity` is the share of rows that are changed once or twice."""
    draw = random.Random(seed)
    lines: list[bytes] = []
    live: list[list[int]] = [[] for _ in range(6)]
    fresh = 0
    models = [None if one_model else draw.choice((None, "a", "b", 7)) for _ in live]
    start, step = draw.choice(((0, 40), (1_700_000_000_000, 1000), (0, 0), (5, 7)))
    for number in range(rows):
        place = draw.randrange(len(live))
        if len(live[place]) > 12:
            live[place] = list(draw.choice(live)[: draw.randrange(6)])
        new = draw.randint(0, 3)
        live[place] = live[place] + list(range(fresh, fresh + new))
        fresh += new
        ids = list(live[place])
        length = max(len(ids) * unit + draw.randrange(1 - unit, unit), 1)
        row: Row = {"timestamp": start + step * number, "input_length": length, "output_length": draw.randrange(9)}
        row["hash_ids"] = ids
        if bailian:
            row = {"chat_id": number, "parent_chat_id": number - 1, **row, "timestamp": round(0.25 * number, 3)}
        if models[place] is not None:
            row["model"] = models[place]
        raw = None
        if draw.random() < oddity:
            for _ in range(draw.randint(1, 2)):
                draw.choice(_ODD_ROWS)(row, draw)
            if draw.random() < 0.3:
                raw = draw.choice(_ODD_LINES)(json.dumps(row))
        lines.append(json.dumps(row, separators=draw.choice(((",", ":"), None))).encode() if raw is None else raw)
    return b"\n".join(lines) + draw.choice((b"\n", b"", b'\n{"timestamp": 1, "hash_ids": ['))


def _set(name: str, *values: Any) -> Callable[[Row, random.Random], None]:
    def change(row: Row, draw: random.Random) -> None:
        row[name] = draw.choice(values)

    return change


def _without(name: str) -> Callable[[Row, random.Random], None]:
    def change(row: Row, draw: random.Random) -> None:
        row.pop(name, None)

    return change


def _ids(change: Callable[[list[Any], random.Random], list[Any]]) -> Callable[[Row, random.Random], None]:
    def changed(row: Row, draw: random.Random) -> None:
        if isinstance(row.get("hash_ids"), list):
            row["hash_ids"] = change(list(row["hash_ids"]), draw)

    return changed


def _one(*values: Any) -> Callable[[Row, random.Random], None]:
    """One of the ids becomes one of these."""

    def change(ids: list[Any], draw: random.Random) -> list[Any]:
        if ids:
            ids[draw.randrange(len(ids))] = draw.choice(values)
        return ids

    return _ids(change)


_ODD_ROWS = (
    _set("timestamp", None, "", "soon", -1, 0, 10**30, 12.5, 1_700_000_000, "2026-11-30T10:00:00", "17", True, []),
    _without("timestamp"),
    _without("input_length"),
    _without("hash_ids"),
    _set("input_length", 0, -5, 2**41, "12", 64.0, 64.5, None, True, 1),
    _set("output_length", 0, 1, 1.0, -1, None, "9", 2**50, [True]),
    _without("output_length"),
    _set("hash_ids", None, "ids", {}, [], [3]),
    _set("model", None, "a", "", 1.5, True, ["a"]),
    _set("session_id", "s", 4, None),
    _set("request_id", "r", 12, None, False),
    _set("id", "i", 3),
    _set("delay", 5),
    _set("text_input", "hello"),
    _set("note", True, False, "true"),
    _ids(lambda ids, draw: draw.sample(ids, len(ids))),
    _ids(lambda ids, draw: ids[::-1]),
    _ids(lambda ids, draw: [ids[0]] * len(ids) if ids else ids),
    _ids(lambda ids, draw: ids[:-1]),
    _ids(lambda ids, draw: [draw.randrange(5) for _ in ids]),
    _ids(lambda ids, draw: [crc32(str(one).encode()) * 0x9E3779B97F4A7C15 % 2**64 for one in ids]),
    _one(2**24, 2**24 - 1, 2**32 + 1, 2**63, 2**64 - 1, 3),
    _one(-1, 2**64, 2**80, -(2**63)),
    _one(True, False, 1.0, "7", None, [1]),
)

_ODD_LINES: tuple[Callable[[str], bytes], ...] = (
    lambda line: b"",
    lambda line: b"  \t",
    lambda line: line.encode()[:-9],
    lambda line: b"not json",
    lambda line: b"[1, 2]",
    lambda line: (line + " " + line).encode(),
    lambda line: (line + " x").encode(),
    lambda line: f"[{line}, {line}]".encode(),
    lambda line: f"[{line}]".encode(),
    lambda line: ('{"timestamp": 3, ' + line[1:]).encode(),
    lambda line: (line[:-1] + ', "extra": NaN}').encode(),
    lambda line: b"\xef\xbb\xbf" + line.encode(),
    lambda line: line.encode()[:-1] + b', "x": "\xff"}',
    lambda line: (line[:-1] + ', "x": "\\ud800"}').encode(),
    lambda line: b"  " + line.encode() + b" \r",
)
