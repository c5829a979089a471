"""Causes, compared-with and first differing token of the small situations with known answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prefixscope import api
from prefixscope.breaks.causes import NO_FAULTS
from tests.cases import case, run
from tests.shared import needs_shared

pytestmark = needs_shared


def told(analysis: api.Analysis) -> list[tuple[Any, ...]]:
    rows = analysis.rows
    return list(
        zip(rows["break_cause"], rows["break_candidate_row"], rows["first_different_token"], strict=True)
    )


@pytest.mark.parametrize("number", [7, 9, 11, 12, 14, 16, 18, 19, 21, 22, 23, 29, 56, 58])
def test_breaks_of_a_case(number: int, tmp_path: Path) -> None:
    found = case(number)
    rows = told(run(tmp_path, found))
    expected = {
        one["request"]: (one["cause"], one["compared_with"], one["first_different_token"])
        for one in found["expect"]["breaks"]
    }
    assert {row: rows[row] for row in expected} == expected
    others = {row: cause for row, (cause, *_) in enumerate(rows) if row not in expected}
    assert set(others.values()) <= set(NO_FAULTS), others
    if "classification" in found["expect"]:
        assert [cause for cause, *_ in rows] == found["expect"]["classification"]
