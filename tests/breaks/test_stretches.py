"""Where hashed stretches stand, against plain search; tables that are too small make slots collide."""

from __future__ import annotations

import random

import numpy as np
import pytest

import prefixscope.breaks.stretches as stretches
from prefixscope.breaks.stretches import ANCHOR, hashed_stretches, occurrences, occurs


@pytest.mark.parametrize("seed", range(40))
def test_places_under_many_collisions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "_SPARSE", -3)
    rng = random.Random(seed)
    asked, held = (
        np.array([rng.randrange(40) << 57 | rng.randrange(3) for _ in range(rng.randrange(60))], np.uint64)
        for _ in range(2)
    )
    found = occurrences(asked, held)
    for place, value in enumerate(asked.tolist()):
        expected = [at for at, other in enumerate(held.tolist()) if other == value]
        assert (found.first[place], found.last[place]) == ((expected[0], expected[-1]) if expected else (-1, -1))
    assert occurs(asked, held).tolist() == [value in set(held.tolist()) for value in asked.tolist()]


@pytest.mark.parametrize("seed", range(10))
def test_equal_stretches_have_equal_hashes(seed: int) -> None:
    rng = random.Random(seed)
    values = [rng.randrange(3) for _ in range(400)]
    hashes = hashed_stretches(np.array(values, "<u4").tobytes()).tolist()
    by_stretch: dict[tuple[int, ...], set[int]] = {}
    for place in range(len(values) - ANCHOR + 1):
        by_stretch.setdefault(tuple(values[place : place + ANCHOR]), set()).add(hashes[place])
    assert all(len(found) == 1 for found in by_stretch.values())
    assert len({one for found in by_stretch.values() for one in found}) == len(by_stretch)
    assert len(hashed_stretches(b"aaaa" * (ANCHOR - 1))) == 0
