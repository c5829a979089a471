"""Faults planted into real conversations under real templates: a few of each; `tests.breaks.measure` does many."""

from __future__ import annotations

import pytest

from prefixscope.breaks.causes import FAULTS
from tests.breaks.measure import SEED, outcome
from tests.breaks.planting import PLANS
from tests.real_tokenizers import or_skip, templates, tokenizer_folder
from tests.shared import needs_shared

pytestmark = [needs_shared, pytest.mark.real_tokenizers]
FEW = 6


@pytest.mark.parametrize("number", range(len(PLANS)), ids=lambda n: f"{PLANS[n].cause}-{PLANS[n].log.name[:3]}")
def test_planted_faults_are_named(number: int) -> None:
    plan = PLANS[number]
    or_skip(tokenizer_folder, plan.tokenizer)
    or_skip(templates)
    said = outcome(plan, SEED + 100 + number, FEW)
    assert said.total() >= FEW and set(said) == {plan.cause}, said


def test_every_cause_of_a_prompt_is_planted() -> None:
    assert {plan.cause for plan in PLANS} == set(FAULTS)
