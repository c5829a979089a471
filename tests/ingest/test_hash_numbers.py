"""Numbers of hash ids: one to one, whether they come in arrays or prompt by prompt."""

from __future__ import annotations

import random

import numpy as np
import pytest

from prefixscope.ingest import hash_numbers
from prefixscope.ingest.hash_numbers import HashNumbers
from prefixscope.models.hash_ids import HashRemap
from prefixscope.models.template import Unrenderable


def numbers_of(tokens: bytes) -> list[int]:
    return np.frombuffer(tokens, "<u4").tolist()


@pytest.mark.parametrize("seed", range(40))
def test_both_ways_give_an_id_the_same_number(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_numbers, "_TABLE_END", 200_000)
    draw = random.Random(seed)
    numbers = HashNumbers()
    seen: dict[object, int] = {}
    for _ in range(30):
        ids: list[object] = [draw.choice((draw.randrange(30), draw.randrange(250_000), 2**64 - draw.randrange(1, 9)))
                             for _ in range(draw.randrange(12))]  # fmt: skip
        if draw.random() < 0.5:
            got = numbers.of(np.array(ids, np.uint64)).tolist()
        else:
            if draw.random() < 0.5:
                ids += [draw.choice((-draw.randrange(1, 4), 2**70, "7", "x"))]
            got = numbers_of(numbers.tokens(ids))
        assert [seen.setdefault(one, number) for one, number in zip(ids, got, strict=True)] == got
        assert len(numbers) == len(seen)
    assert sorted(seen.values()) == list(range(len(seen)))


def test_small_ids_are_numbered_as_they_appear() -> None:
    ids = [random.Random(4).randrange(5000) for _ in range(20_000)]
    numbers, remap = HashNumbers(), HashRemap()
    for start in range(0, len(ids), 3000):
        part = ids[start : start + 3000]
        assert numbers.of(np.array(part, np.uint64)).tolist() == numbers_of(remap.tokens(part))


@pytest.mark.parametrize("begun", (False, True))
def test_what_is_no_id_is_refused(begun: bool) -> None:
    numbers = HashNumbers()
    if begun:
        numbers.of(np.array([1], np.uint64))
    for wrong in (True, 1.0, None, [1]):
        with pytest.raises(Unrenderable):
            numbers.tokens([1, wrong])
