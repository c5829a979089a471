"""Gaps and agreement against slow, obvious versions on random token sequences."""

from __future__ import annotations

import random

import numpy as np
import pytest

from prefixscope.breaks.agreement import ANCHOR, common_suffix, first_difference, moved_agreement, walk


def tokens(values: list[int]) -> bytes:
    return np.array(values, "<u4").tobytes()


def drawn(rng: random.Random, length: int, letters: int = 40) -> list[int]:
    return [rng.randrange(letters) for _ in range(length)]


@pytest.mark.parametrize("seed", range(60))
def test_gaps_and_agreement_make_up_both_sides(seed: int) -> None:
    rng = random.Random(seed)
    old = drawn(rng, 400, 5000)
    new = old[:]
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(new))
        new[at : at + rng.randrange(6)] = drawn(rng, rng.randrange(6), 5000)
    first = first_difference(tokens(new), tokens(old))
    assert first == next((n for n, (a, b) in enumerate(zip(new, old, strict=False)) if a != b), min(len(new), len(old)))
    walked = walk(tokens(new), tokens(old), first)
    at, other = first, first
    for gap in walked.gaps:
        assert (gap.new_start, gap.old_start) == (at, other)
        assert new[gap.new_end : gap.new_end + gap.agrees] == old[gap.old_end : gap.old_end + gap.agrees]
        at, other = gap.new_end + gap.agrees, gap.old_end + gap.agrees
    if walked.complete and walked.gaps:
        assert at == len(new) or other == len(old)


@pytest.mark.parametrize("seed", range(20))
def test_one_exchanged_stretch_is_one_gap(seed: int) -> None:
    rng = random.Random(seed)
    old = drawn(rng, 300, 5000)
    at, length = rng.randrange(250), rng.randrange(1, 20)
    new = [*old[:at], *(value + 10_000 for value in drawn(rng, rng.randrange(1, 20))), *old[at + length :]]
    walked = walk(tokens(new), tokens(old), first_difference(tokens(new), tokens(old)))
    assert len(walked.gaps) == 1 and walked.gaps[0].agrees == len(old) - at - length


@pytest.mark.parametrize("seed", range(40))
def test_moved_agreement_counts_covered_tokens(seed: int) -> None:
    rng = random.Random(seed)
    pieces = [drawn(rng, rng.randrange(5, 200), 3) for _ in range(6)]
    new = [value for piece in rng.sample(pieces, 6) for value in piece]
    old = [value for piece in pieces for value in piece]
    held = {tuple(old[n : n + ANCHOR]) for n in range(len(old) - ANCHOR + 1)}
    covered = set()
    for n in range(len(new) - ANCHOR + 1):
        if tuple(new[n : n + ANCHOR]) in held:
            covered.update(range(n, n + ANCHOR))
    assert moved_agreement(tokens(new), tokens(old), 0) == len(covered)


@pytest.mark.parametrize("seed", range(20))
def test_common_suffix(seed: int) -> None:
    rng = random.Random(seed)
    tail = drawn(rng, rng.randrange(8), 2)
    new, old = drawn(rng, 9, 2) + tail, drawn(rng, 12, 2) + tail
    same = 0
    while same < min(len(new) - 1, len(old) - 2) and new[-1 - same] == old[-1 - same]:
        same += 1
    assert common_suffix(tokens(new), tokens(old), 1, 2) == same
