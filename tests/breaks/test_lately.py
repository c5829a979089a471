"""Tables that forget: never more than twice their room, and never anything of the last `room` entries."""

from __future__ import annotations

import random

import pytest

from prefixscope.breaks.lately import Lately


@pytest.mark.parametrize("seed", range(20))
def test_against_a_list_of_what_was_used_last(seed: int) -> None:
    rng = random.Random(seed)
    room = rng.randrange(1, 9)
    table: Lately[int, int] = Lately(room)
    used: list[int] = []
    values: dict[int, int] = {}
    for step in range(300):
        key = rng.randrange(30)
        if rng.random() < 0.5:
            table.put(key, step)
            values[key] = step
        elif table.get(key) is None:
            # what is forgotten was not among those used last
            assert key not in dict.fromkeys(reversed(used[-room:])) or key not in values
            values.pop(key, None)
            continue
        else:
            assert table.get(key) == values[key]
        used = [other for other in used if other != key] + [key]
        assert len(table) <= 2 * room
    assert 0 < len(table) <= 2 * room
