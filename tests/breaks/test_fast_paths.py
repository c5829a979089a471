"""What the break finder does fast, against slow and obvious versions on random input."""

from __future__ import annotations

import math
import random
import re

import numpy as np
import pytest
import xxhash

import prefixscope.breaks.volatile as volatile
from prefixscope.breaks.agreement import (
    Gap,
    anything_moved,
    common_suffix,
    moved_agreement,
    moved_agreements,
    moved_between,
    walk,
)
from prefixscope.breaks.forms import canonical
from prefixscope.breaks.nearest import agree_close_by, find_tokens, none_nearer
from prefixscope.breaks.passages import reordered_passages, segments
from prefixscope.breaks.runs import equal_ahead, equal_behind, first_difference
from prefixscope.breaks.sketches import TextSketches, token_sketches
from prefixscope.breaks.stretches import ANCHOR
from tests.breaks import slow


def pair(seed: int) -> tuple[bytes, bytes]:
    """Two sequences of which one was made of the other: stretches exchanged, added, dropped, moved and doubled."""
    rng = random.Random(seed)
    letters = rng.choice([2, 3, 20, 300, 5000])
    old = [rng.randrange(letters) for _ in range(rng.choice([5, 30, 200, 700]))]
    new = old[:]
    for _ in range(rng.randrange(30)):
        at, length = rng.randrange(len(new) + 1), rng.choice([1, 2, 5, 30, 100])
        match rng.randrange(5):
            case 0:
                new[at : at + length] = [rng.randrange(letters) for _ in range(length)]
            case 1:
                new[at:at] = [rng.randrange(letters) for _ in range(length)]
            case 2:
                del new[at : at + length]
            case 3:
                moved = new[at : at + length]
                del new[at : at + length]
                new[len(new) // 2 : len(new) // 2] = moved
            case _:
                new[at:at] = old[:length]
    if rng.random() < 0.1:
        new = [rng.randrange(letters) for _ in old]
    return np.array(new, "<u4").tobytes(), np.array(old, "<u4").tobytes()


@pytest.mark.parametrize("seed", range(150))
def test_walks_and_agreement(seed: int) -> None:
    new, old = pair(seed)
    first = first_difference(new, old)
    assert first == slow.common_prefix(new, old, 0, 0)
    for start in (first, 0):
        assert walk(new, old, start) == slow.walk(new, old, start)
        assert moved_agreement(new, old, start) == slow.moved_agreement(new, old, start)
    ends = [first, (first + len(new) // 4) // 2, len(new) // 4]
    assert moved_agreements(new, old, first, ends) == [slow.moved_agreement(new[: 4 * end], old, first) for end in ends]
    gaps = walk(new, old, first).gaps
    assert moved_between(new, old, gaps) == slow.moved_agreement(joined(new, gaps, True), joined(old, gaps, False), 0)
    assert common_suffix(new, old, 2, 1) == slow.common_suffix(new, old, 2, 1)
    others = [(pair(seed + number)[1], 0) for number in range(3)]
    assert anything_moved(new, others) == any(slow.moved_agreement(new, other, 0) for other, _ in others)


def joined(tokens: bytes, gaps: tuple[Gap, ...], new: bool) -> bytes:
    return b"".join(
        tokens[4 * gap.new_start : 4 * gap.new_end] if new else tokens[4 * gap.old_start : 4 * gap.old_end]
        for gap in gaps
    )


def test_where_nothing_nearer_agrees_the_known_place_is_the_nearest() -> None:
    """Ends that are known from elsewhere, against looking for the nearest ones; most short differences are decided."""
    decided = looked = 0
    for seed in range(4000):
        rng = random.Random(seed)
        letters = rng.choice([2, 3, 5, 30, 3000])
        behind = [rng.randrange(letters) for _ in range(rng.randrange(ANCHOR, 60))]
        if rng.random() < 0.3:
            behind = (behind[: rng.randrange(1, 9)] * 60)[:60]
        sides = []
        for _ in range(2):
            gap = [rng.randrange(letters) for _ in range(rng.randrange(60))]
            if gap and rng.random() < 0.4:  # an agreement inside, or some of the text behind, before its place
                gap[rng.randrange(len(gap)) :] = behind[: rng.randrange(len(behind))]
            sides.append(np.array([7, 7, *gap, *behind], "<u4").tobytes())
        new, old = sides
        start = min(equal_ahead(new, 0, old, 0), len(new) // 4 - len(behind), len(old) // 4 - len(behind))
        a, b = len(new) // 4 - len(behind), len(old) // 4 - len(behind)
        back = equal_behind(new, a, old, b, start, start)
        ends = a - back, b - back
        looked += letters == 3000
        if none_nearer(new, old, start, start, *ends):
            decided += letters == 3000
            assert agree_close_by(new, old, start, start) in (ends, None)
    assert decided > looked // 3


def test_a_piece_is_found_at_whole_tokens_only() -> None:
    tokens = np.array([0x01000000, 0x00000100, 1, 2, 3, 1, 2], "<u4").tobytes()
    piece = np.array([1, 2], "<u4").tobytes()
    assert find_tokens(tokens, piece, 0, len(tokens)) == 2
    assert find_tokens(tokens, piece, 3, len(tokens)) == 5
    assert find_tokens(tokens, piece, 3, len(tokens) - 4) == -1


PIECES = (
    "May", "Mon", "Monday", "March ", "3 ", "12:30", "12:30:05.123", "2026-03-01", "T", "Z", " UTC", "+02:00",
    "AM", "an", "1774864800", " pm", "an hour ago", "one second ago", "two ", " ", "\n", ",", "at ", "on ",
    "20260301", "id: ", "x", "20260301T101010Z", "3f2a77c0-9d3e-4b1a-8c55-0a1b2c3d4e5f", "deadbeef-", "_", "7",
    "٣", "2026年3月1日", "30.03.2026", "03/30/26", "st", "of ", "word", "Thu", "Decade", "\ud800", "é", "a",
    "Segunda-Feira ", "mardi ", "2 août 2026", "MÄRZ", "juilſet", "3 de maio de 2026", "12 Uhr", "14h30",
    "10.0.0.1:80", "2026년 3월 1일", "-", "xMay 3 2026 10:30", "x" * 45,
)  # fmt: skip


def drawn(rng: random.Random, most: int) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, most)))


@pytest.mark.parametrize("seed", range(40))
def test_clocks_and_ids_are_found_as_by_trying_every_place(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        text = drawn(rng, 25)
        at = rng.randrange(len(text) + 1)
        floor = max(0, at - rng.randrange(60))
        found, expected = volatile._match(text, at, floor), tried_everywhere(text, at, floor)
        assert (found and (found.span(), found.lastgroup)) == (expected and (expected.span(), expected.lastgroup)), text
        assert [match.span() for match in volatile._matches(text, 0, len(text), len(text))] == [
            match.span() for match in volatile.whole().finditer(text)
        ]
        other = text[:at] + drawn(rng, 9) + text[at:]
        start, other_start = rng.randrange(len(text) + 1), rng.randrange(len(other) + 1)
        same = volatile.common_chars(text, other, start, other_start)
        assert text[start : start + same] == other[other_start : other_start + same]
        assert text[start + same : start + same + 1] != other[other_start + same : other_start + same + 1] or (
            start + same == len(text) or other_start + same == len(other)
        )


def tried_everywhere(text: str, at: int, floor: int) -> object:
    for match in volatile.whole().finditer(text, floor, at + volatile._AFTER):
        if match.start() <= at <= match.end() and (at < match.end() or text[at - 1].isalnum()):
            return match
        if match.start() > at:
            return None
    return None


PASSAGES = (
    "[doc 1] ", "(2)", "[3]", "<document index=1>", "</document>", "Document 3: ", "Source 2. ", "reſult 4:",
    "RESULT #5)", "chunk", "İ", " context 3 - ", "Rye is baked on Tuesdays.", "Orders close at six!", "Spelt? ",
    "\n\n", "\n", "\n \n", "a", "1. ", "2. ", "- ", "id=3 ", "ref", "\r\n", " ", "é", "The shop opens.",
    "Numbers 12 and 13.", "[", "]", '["', '"]', '", "', "', '", '{"id": "x", "text": "Rye"}', ", ", '"', "\\", "\\\"",
    "\n]", '[{"a": 1}, {"a": 2}]', '"k": "v", ',
)  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_passages_and_their_order(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        parts = ["".join(rng.choice(PASSAGES) for _ in range(rng.randrange(1, 5))) for _ in range(rng.randrange(1, 7))]
        others = rng.sample(parts, len(parts)) if rng.random() < 0.7 else parts[:]
        if rng.random() < 0.3:
            others[rng.randrange(len(others))] += rng.choice(PASSAGES)
        new, old = "".join(parts), "".join(others)
        assert list(segments(new)) == list(slow.segments(new))
        assert reordered_passages(new, old) == slow.reordered(new, old)


def test_canonical_forms_keep_apart_what_is_not_equal() -> None:
    values = [
        None, math.nan, 0, 0.0, -0.0, 1, 1.0, True, "1", "null", [], {}, [None], [math.nan], {"a": None},
        {"a": math.nan}, {"a": 1, "b": 2}, 10**30, "\ud800", {"b": "\ud800", "a": 1}, math.inf, [1, 2], [2, 1],
    ]  # fmt: skip
    assert len({canonical(value) for value in values}) == len(values)
    assert canonical({"a": 1, "b": {"y": 1, "x": "\ud800"}}) == canonical({"b": {"x": "\ud800", "y": 1}, "a": 1})
    assert canonical({"a": 10**30, "b": None}) == canonical({"b": None, "a": 10**30})


@pytest.mark.parametrize("seed", range(20))
def test_sketches_are_minima_over_all_sentences_and_stretches(seed: int) -> None:
    rng = random.Random(seed)
    pieces = ["abcdefgh", " ", "  ", "a long sentence of words", ".", "\n", "é", "!", "another sentence, also long"]
    sketches = TextSketches()
    for _ in range(50):
        text = "".join(rng.choice(pieces) for _ in range(rng.randrange(12)))
        sentences = [piece.strip() for piece in re.split(r"[\n.!?;]+", text)]
        long = [piece for piece in sentences if len(piece) >= 16] or [text.strip() or "-"]
        hashes = [xxhash.xxh3_64_intdigest(piece.encode()) for piece in long]
        assert sketches.of(text) == (min(hashes), min(value ^ 0x5555555555555555 for value in hashes))
    values = [rng.randrange(50_000) for _ in range(60)]
    hashes = []
    for start in range(len(values) - 8):
        value = 0
        for token in values[start : start + 8]:
            value = (value ^ token) * 0x9E3779B97F4A7C15 % (1 << 64)
        hashes.append(value ^ value >> 29)
    expected = min(hashes), min(value ^ 0x5555555555555555 for value in hashes)
    assert token_sketches(np.array(values, "<u4").tobytes()) == expected
