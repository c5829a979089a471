"""Situations of the same kinds with other names, formats and clients: cause, what it is compared with, first token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2
import pytest

from prefixscope.breaks.causes import NO_FAULTS
from tests.breaks.further import Further, all_further
from tests.breaks.further_kinds import all_kinds
from tests.breaks.further_mixed import all_mixed
from tests.breaks.told import of_requests
from tests.shared import needs_shared

pytestmark = needs_shared
FURTHER = [*all_further(), *all_mixed(), *all_kinds()]


def rendered(template: str, request: dict[str, Any]) -> bytes:
    """The prompt as bytes, one token each, by jinja2 alone."""
    if "prompt" in request:
        return str(request["prompt"]).encode()
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    options = {"add_generation_prompt": True, "tools": None, "reasoning_effort": None}
    fields = {**options, **request, **request.get("chat_template_kwargs", {})}
    if not fields.get("tools"):
        fields["tools"] = None
    return environment.from_string(template).render(**fields).encode()


@pytest.mark.parametrize("further", FURTHER, ids=[f"{n}-{one[1]}-{one[0][:40]}" for n, one in enumerate(FURTHER)])
def test_the_last_request_is_explained(further: Further, tmp_path: Path) -> None:
    title, cause, candidate, template, requests = further
    rows = of_requests(tmp_path, requests, template)
    last = rows[-1]
    assert (last.cause, last.candidate) == (cause, candidate), rows
    if not title.startswith("two variants"):
        assert all(row.cause in NO_FAULTS or cause == row.cause for row in rows[:-1]), rows
    plain = template is not None and "strftime_now" not in template and "continue_final_message" not in requests[0]
    if candidate is not None and plain and cause != "multimodal_content" and "response" not in requests[candidate]:
        assert template is not None
        new, old = (rendered(template, request) for request in (requests[-1], requests[candidate]))
        common = next((n for n, (a, b) in enumerate(zip(new, old, strict=False)) if a != b), min(len(new), len(old)))
        assert last.first == common
