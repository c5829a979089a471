"""Lines read with a memory of what was read before are what they are without it, whatever came before."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import orjson
import pytest

from prefixscope.logs import known_pieces, parsing
from prefixscope.logs.detect import plan_for
from prefixscope.logs.known_pieces import KnownPieces
from prefixscope.logs.lines import LineBatch, decode_line, plain_object
from prefixscope.logs.parsing import parse_batch
from tests.logs.reading_of import read_bytes

LONG = "a long text, told again with every turn; " * 20


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def exact(value: Any) -> str:
    """Tells 1, 1.0 and true apart, and the order of keys."""
    return repr(value)


def message(draw: random.Random) -> Any:
    """Mostly a plain message; sometimes one that holds what is looked for, or what orjson writes in another way."""
    role = draw.choice(["user", "assistant", "tool"])
    odd: list[Any] = [
        {"role": role, "content": draw.choice(['"messages":[', ',"messages":[{"role"', '],"tools":[{', "\\", '\\"'])},
        {"role": role, "content": None, "tool_calls": [{"function": {"name": "f", "arguments": '{"messages":[]}'}}]},
        {"role": role, "messages": [{"role": role}], "tools": [{"name": "x"}]},
        {"role": role, "content": [{"type": "text", "text": LONG}], "n": draw.choice([1, 1.0, True, -0.0, 2**63])},
        {"content": LONG[: draw.randrange(200)], "role": role},
        {"role": role, "content": "x"}, {}, "text", 7, 71, [], [[{"role": role}]], None,
    ]  # fmt: skip
    if draw.random() < 0.3:
        return draw.choice(odd)
    return {"role": role, "content": LONG + draw.choice(["", "é", "世界", "🙂"]) + str(draw.randrange(50))}


def row(draw: random.Random, messages: list[Any], tools: list[Any] | None) -> bytes:
    """A line around messages, written in one of many ways."""
    body: dict[str, Any] = {"messages": messages}
    if tools is not None:
        body = {**body, "tools": tools} if draw.random() < 0.8 else {"tools": tools, **body}
    around = draw.random()
    value: dict[str, Any] = {"request_id": f"r{draw.randrange(1000)}", "timestamp": 1_780_000_000.25, **body}
    if around < 0.15:
        value = {"ts": 1, "request": body, "response": {"messages": 1}}
    elif around < 0.2:
        value = {"metadata": {"messages": messages[:1]}, **value}
    raw = compact(value)
    written = draw.random()
    if written < 0.06:
        raw = json.dumps(value).encode()
    elif written < 0.1:
        raw = raw.replace(b'{"request_id"', b'{"messages":[],"request_id"')
    elif written < 0.14:
        raw = raw[:-1] + b',"messages":[{"role":"user","content":"the last one counts"}],"tools":[1]}'
    elif written < 0.18:
        raw = raw.replace(b"1780000000.25", b"1780000000.250000")
    elif written < 0.22:
        raw = raw[: draw.randrange(len(raw))]
    elif written < 0.26:
        place = draw.randrange(len(raw))
        raw = raw[:place] + draw.choice([b",", b"]", b'"', b"}", b"\\", b"\xff", b"1", b" "]) + raw[place:]
    elif written < 0.3:
        raw = raw.replace(b'"role":"user"', b'"role":"x","role":"user"')
    elif written < 0.34:
        raw = raw.replace(b'"timestamp":', draw.choice([b'"timestamp":1,"timestamp":', b'"seed":%d,"ts":' % (1 << 64)]))
    elif written < 0.38:
        raw = raw.replace(b'"messages":[', draw.choice([b'"x\\"messages":[', b'"x,\\"messages":[', b'"messages": [']))
    return raw


def lines(seed: int, count: int) -> list[bytes]:
    """Conversations that grow, begin anew, lose and change messages."""
    draw = random.Random(seed)
    sessions: list[tuple[list[Any], list[Any] | None]] = [([], None)]
    found = []
    for _ in range(count):
        if draw.random() < 0.2 or len(sessions[-1][0]) > 12:
            tools = [
                {"type": "function", "name": LONG[: draw.randrange(300)], "n": n} for n in range(draw.randrange(3))
            ]
            sessions.append(([message(draw)], tools if draw.random() < 0.6 else None))
        messages, tools_now = draw.choice(sessions[-4:])
        messages.extend(message(draw) for _ in range(draw.randrange(3)))
        if messages and draw.random() < 0.1:
            messages[draw.randrange(len(messages))] = message(draw)
        found.append(row(draw, messages, tools_now))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_every_line_is_what_it_is_alone(seed: int) -> None:
    pieces = KnownPieces(room=1 << random.Random(seed).randrange(12, 24))
    for raw in lines(seed, 150):
        found, right = pieces.plain_object(raw), plain_object(raw)
        # a line that is not taken here is read again, slowly
        assert found is None or exact(found) == exact(right), raw
        assert found is not None or right is None or exact(right) == exact(decode_line(raw).values[0])


def test_most_is_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    real = orjson.loads
    monkeypatch.setattr(known_pieces.orjson, "loads", lambda raw: (decoded.append(len(raw)), real(raw))[1])
    pieces, messages = KnownPieces(), []
    tools = [{"name": LONG}]
    for number in range(20):
        messages.append({"role": "user", "content": f"{number} {LONG}"})
        raw = compact({"id": number, "messages": messages, "tools": tools})
        found = pieces.plain_object(raw)
        assert found == {"id": number, "messages": messages, "tools": tools}
    assert max(decoded[2:]) < 2 * len(LONG) < 20 * len(LONG) < len(raw)


def test_a_repeated_key_is_never_lost() -> None:
    """Known messages under a key that comes again further on: orjson keeps the last one, and the first mark is gone."""
    pieces = KnownPieces()
    first = compact({"messages": [{"role": "user", "content": LONG}]})
    assert pieces.plain_object(first) is not None
    twice = first[:-1] + b',"messages":[{"role":"user","content":"b"}]}'
    nested = b'{"a":' + first + b',"messages":[{"role":"user","content":"b"}]}'
    inside = first[:-2] + b',{"role":"user","role":"user"}]}'
    for raw, value in ((twice, None), (inside, None), (nested, orjson.loads(nested))):
        assert plain_object(raw) == value
        assert pieces.plain_object(raw) in (value, None)
    assert decode_line(twice).notes and decode_line(inside).notes


def test_beginnings_that_are_alike_are_told_apart_to_their_end() -> None:
    pieces = KnownPieces()
    for number in (*range(40), *range(40)):
        messages = [{"role": "user", "content": f"{LONG}{number}"}, {"role": "user", "content": f"{number}"}]
        assert pieces.plain_object(compact({"messages": messages})) == {"messages": messages}


def test_numbers_are_no_pieces() -> None:
    """What is known of 7 says nothing of 71."""
    pieces = KnownPieces()
    for number in (7, 71, 7, 7.0, 70, -7):
        raw = compact({"pad": LONG, "messages": [number] * 300})
        assert exact(pieces.plain_object(raw)) == exact(plain_object(raw))


def test_the_memory_keeps_to_its_room() -> None:
    pieces = KnownPieces(room=20_000)
    for number in range(300):
        pieces.plain_object(compact({"messages": [{"role": "user", "content": f"{number} {LONG}"}]}))
        kept = [*pieces._young.values(), *pieces._old.values()]
        assert sum(len(known.raw) for alike in kept for known in alike) <= 20_000
    assert len(kept) > 10
    pieces.plain_object(compact({"messages": [{"role": "user", "content": LONG * 20}]}))
    assert [*pieces._young.values(), *pieces._old.values()] == kept, "one that is too long drives no others out"


@pytest.mark.parametrize("seed", range(6))
def test_batches_are_the_same_with_and_without(seed: int, tmp_path: Path) -> None:
    found = lines(seed, 200)
    plan = plan_for("log", compact({"messages": [{"role": "user", "content": "x"}]}), whole=True)
    known = KnownPieces()
    before = []
    for start in range(0, len(found), 20):
        batch = LineBatch(b"\n".join(found[start : start + 20]), start + 1)
        with_memory = parse_batch(batch, plan, known=known)
        before.append((with_memory, copy.deepcopy(with_memory.records)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parsing.KnownPieces, "plain_object", lambda self, raw: None)
            alone = parse_batch(batch, plan)
        assert exact(with_memory) == exact(alone)
    assert all(exact(parsed.records) == exact(records) for parsed, records in before), "nobody changed a shared one"
    assert len(read_bytes(tmp_path, b"\n".join(found))[0]) == sum(len(parsed.records) for parsed, _ in before)
