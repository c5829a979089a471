"""Causes, compared-with and first differing token of the small situations with known answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prefixscope.breaks.causes import NO_FAULTS
from tests.breaks.told import Told, ingested, told
from tests.cases import case, write_log, write_models
from tests.shared import needs_shared

pytestmark = needs_shared


def rows_of(folder: Path, found: dict[str, Any], render: str = "plain") -> list[Told]:
    models = write_models(folder, found["setup"])
    path = write_log(folder / "log.jsonl", found["requests"])
    return told(ingested(path, models=models, render=render if "chat_template" in found["setup"] else None))


@pytest.mark.parametrize("number", [7, 9, 11, 12, 14, 16, 18, 19, 21, 22, 23, 29, 56, 58])
def test_breaks_of_a_case(number: int, tmp_path: Path) -> None:
    found = case(number)
    rows = rows_of(tmp_path, found)
    expected = {
        one["request"]: (one["cause"], one["compared_with"], one["first_different_token"])
        for one in found["expect"]["breaks"]
    }
    assert {row: (rows[row].cause, rows[row].candidate, rows[row].first) for row in expected} == expected
    others = {number: row.cause for number, row in enumerate(rows) if number not in expected}
    assert set(others.values()) <= set(NO_FAULTS), others
    if "classification" in found["expect"]:
        assert [row.cause for row in rows] == found["expect"]["classification"]


@pytest.mark.parametrize(
    ("number", "causes", "candidates"),
    [
        (25, ["first_seen", "rewound", "cache_salt", "cache_salt"], [None, 0, 1, 2]),
        (26, ["first_seen", "adapter", "rewound", "adapter", "rewound"], [None, 0, 1, 2, 0]),
        (27, ["first_seen", "model", "rewound", "rewound"], [None, 0, 0, 1]),
        (34, ["first_seen", "prompt_logprobs", "rewound"], [None, 0, 1]),
        (
            36,
            ["first_seen", "rewound", "first_seen", "first_seen", "first_seen", "rewound"],
            [None, 0] + [None] * 3 + [1],
        ),
        (38, ["first_seen", "append_only", "append_only", "append_only"], [None, 0, 1, 2]),
        (1, ["first_seen", "branched", "branched"], [None, 0, 1]),
    ],
)
def test_what_the_engine_separates_and_prompts_that_kept_all(
    number: int, causes: list[str], candidates: list[int | None], tmp_path: Path
) -> None:
    rows = rows_of(tmp_path, case(number))
    assert [row.cause for row in rows] == causes
    assert [row.candidate for row in rows] == candidates


def test_14_an_id_that_the_template_does_not_print_is_no_break(tmp_path: Path) -> None:
    quiet = {**case(14), "setup": case(11)["setup"]}
    assert [row.cause for row in rows_of(tmp_path, quiet)] == ["first_seen", "append_only"]


def test_22_no_break_where_the_server_makes_null_empty(tmp_path: Path) -> None:
    for render in ("transformers", "vllm", "sglang"):
        folder = tmp_path / render
        folder.mkdir()
        assert [row.cause for row in rows_of(folder, case(22), render)] == ["first_seen", "rewound"]


def test_29_parts_joined_by_the_server(tmp_path: Path) -> None:
    found = case(29)
    found["setup"]["chat_template"] = found["setup"]["chat_template"].replace(
        "{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}",
        "{{ m.content }}",
    )
    rows = rows_of(tmp_path, found, "vllm")
    assert [row.cause for row in rows] == ["first_seen", "rewound", "content_format"]
    assert rows[2].first == found["expect"]["under_vllm_string_format"]["request_2_first_different_token_vs_0"]


def test_49_odd_messages_are_compared_or_left_out(tmp_path: Path) -> None:
    assert all(row.cause for row in rows_of(tmp_path, case(49)))
