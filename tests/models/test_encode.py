"""Encoders: the self-check that drops a fast engine, surrogates, and the choice of engine."""

from __future__ import annotations

import random

import pytest

from prefixscope.models.encode import (
    ALWAYS_CHECKED,
    CheckedEncoder,
    EncoderDisagreement,
    encoder_for,
    ids_to_bytes,
    without_surrogates,
)
from prefixscope.models.loaded_tokenizer import LoadedTokenizer, TokenizerFacts


class Bytes:
    """One id per UTF-8 byte; `wrong_at` are texts it gets wrong, `refuses` those it can't do."""

    def __init__(self, name: str, wrong_at: str = "", refuses: str = "") -> None:
        self.name, self.wrong_at, self.refuses, self.calls = name, wrong_at, refuses, 0

    def encode(self, text: str, add_special_tokens: bool) -> bytes:
        self.calls += 1
        if self.refuses and self.refuses in text:
            raise ValueError("no")
        ids = [*([1] if add_special_tokens else []), *text.encode()]
        return ids_to_bytes(ids[:-1] if self.wrong_at and self.wrong_at in text else ids)


def test_the_first_texts_and_a_sample_are_compared() -> None:
    fast, judge = Bytes("fast"), Bytes("judge")
    encoder = CheckedEncoder(fast, judge)
    for number in range(20_000):
        assert encoder.encode(f"text {number}", False) == ids_to_bytes(list(f"text {number}".encode()))
    assert encoder.checked + encoder.unchecked == 20_000 == fast.calls
    assert judge.calls == encoder.checked
    assert ALWAYS_CHECKED + 5 <= encoder.checked <= ALWAYS_CHECKED + 60
    assert encoder.name == "fast" and not encoder.disagreed


def test_an_early_difference_is_repaired_quietly() -> None:
    encoder = CheckedEncoder(Bytes("fast", wrong_at="bad"), Bytes("judge"))
    assert encoder.encode("good", True) == ids_to_bytes([1, *b"good"])
    assert encoder.encode("bad", False) == ids_to_bytes(list(b"bad"))
    assert encoder.disagreed and encoder.name == "judge (fast gave other ids and was dropped)"


def test_a_late_difference_asks_to_start_over_once() -> None:
    encoder = CheckedEncoder(Bytes("fast", wrong_at="bad"), Bytes("judge"))
    random_numbers = random.Random(3)
    with pytest.raises(EncoderDisagreement):
        for number in range(20_000):
            encoder.encode(f"{'bad' if number > 200 else ''} {random_numbers.random()}", False)
    assert encoder.encode("bad", False) == ids_to_bytes(list(b"bad"))


def test_a_refusal_is_a_difference() -> None:
    encoder = CheckedEncoder(Bytes("fast", refuses="odd"), Bytes("judge"))
    assert encoder.encode("odd", False) == ids_to_bytes(list(b"odd"))
    assert encoder.disagreed


def test_the_same_texts_are_sampled_whatever_came_before() -> None:
    def sampled(first: int) -> set[int]:
        judge = Bytes("judge")
        encoder = CheckedEncoder(Bytes("fast"), judge)
        for number in range(ALWAYS_CHECKED):
            encoder.encode(f"warm {first} {number}", False)
        chosen = set()
        for number in range(20_000):
            before = judge.calls
            encoder.encode(f"text {number}", False)
            if judge.calls > before:
                chosen.add(number)
        return chosen

    assert sampled(1) == sampled(2) != set()


def test_lone_surrogates() -> None:
    assert without_surrogates("plain 🙂") == ("plain 🙂", 0)
    assert without_surrogates("\udc00a\ud83d") == ("\ufffda\ufffd", 2)


def test_a_tokenizer_without_rust_backend_serves_itself() -> None:
    class Slow:
        def encode(self, text: str, add_special_tokens: bool) -> list[int]:
            return [9] * add_special_tokens + [len(text)]

    facts = TokenizerFacts("Slow", 1, {}, {}, None, None)
    encoder = encoder_for(LoadedTokenizer(facts, None, None, Slow()))
    assert encoder.name == "transformers Slow"
    assert encoder.encode("abc", True) == ids_to_bytes([9, 3])
