"""Each cause in at least three situations of its kind, and controls without alarm."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from prefixscope.breaks.causes import FAULTS, NO_FAULTS, SEPARATIONS
from tests.breaks.situations import Situation, all_situations
from tests.breaks.told import of_requests
from tests.shared import needs_shared

pytestmark = needs_shared
SITUATIONS = all_situations()


@pytest.mark.parametrize("situation", SITUATIONS, ids=[f"{n}-{one[0]}" for n, one in enumerate(SITUATIONS)])
def test_the_last_request_is_explained(situation: Situation, tmp_path: Path) -> None:
    cause, template, requests = situation
    rows = of_requests(tmp_path, requests, template)
    assert rows[-1].cause == cause, rows
    assert all(row.cause in NO_FAULTS for row in rows[:1])
    if cause not in ("first_seen",):
        assert rows[-1].candidate == len(rows) - 2


def test_every_cause_has_three_situations() -> None:
    counted = Counter(cause for cause, *_ in SITUATIONS)
    assert all(counted[cause] >= 3 for cause in (*FAULTS, *SEPARATIONS)), counted
