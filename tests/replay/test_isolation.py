"""Cold starts: each way is proven before it is used, and where none works it is said."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from prefixscope.errors import EndpointError
from prefixscope.replay.item import ids_of
from prefixscope.replay.mock import LyingEndpoint, MockEndpoint
from tests.replay.workload import chats, families, item_of, phase_of, run
from tests.shared import SHARED, needs_shared


class IgnoringEndpoint(MockEndpoint):
    """Says that it reset, and did not."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/reset_prefix_cache":
            return httpx.Response(200, json={"success": False})
        return await super().handle_async_request(request)


class TestWays:
    @pytest.mark.parametrize(
        ("options", "method"),
        [
            ({}, "reset"),
            ({"resets": False}, "salt"),
            ({"resets": False, "salts": False}, "first_block"),
        ],
    )
    def test_the_first_that_works_is_taken_and_everything_is_exact(self, options: dict[str, Any], method: str) -> None:
        endpoint = MockEndpoint(16, **options)
        report = run(families(40), endpoint, phases=("serial", "warm", "cold"))
        assert report.isolation.method == method and report.isolation.proven
        assert report.isolation.changes_prompt == (method == "first_block")
        assert [reading.passed for reading in report.isolation.controls] == [True] * 4
        for phase in report.phases:
            assert phase.comparison.exact == 40, phase
        assert phase_of(report, "cold").comparison.measured_cached_tokens == 0
        assert phase_of(report, "warm").comparison.measured_cached_tokens > 0
        assert report.gate == ()
        assert (report.outputs is None) == (method == "first_block")

    def test_a_reset_that_does_not_happen_is_not_believed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("prefixscope.replay.isolation.RESET_PAUSE_S", 0.0)
        report = run(families(5), IgnoringEndpoint(16))
        assert report.isolation.method == "salt"
        assert "success" in report.isolation.tried[0]

    def test_messages_can_not_be_given_a_first_block(self) -> None:
        endpoint = MockEndpoint(16, resets=False, salts=False)
        report = run(chats(6), endpoint, send_as="body")
        assert report.isolation.method == "none" and not report.isolation.proven
        assert any("first_block" in tried for tried in report.isolation.tried)
        assert report.gate[0].startswith("no cold start could be proven")

    def test_validation_without_a_cold_start_is_refused_before_anything_of_the_log_is_sent(self) -> None:
        endpoint = MockEndpoint(16, resets=False, salts=False)
        items = chats(6)
        with pytest.raises(EndpointError, match="--validate needs a proven cold start"):
            run(items, endpoint, send_as="body", validate=True)
        assert not any("question" in json.dumps(body) for body in endpoint.bodies)

    def test_a_wish_for_one_way_is_kept(self) -> None:
        assert run(families(5), MockEndpoint(16), isolation="salt").isolation.method == "salt"
        assert run(families(5), MockEndpoint(16), isolation="none").isolation.method == "none"


class TestControls:
    def test_they_begin_like_no_prompt_of_the_sample(self) -> None:
        endpoint = MockEndpoint(16)
        items = families(30)
        run(items, endpoint)
        firsts = {ids_of(item.tokens)[0] for item in items}
        sent = [tuple(body["prompt"]) for body in endpoint.bodies]
        ours = {tuple(ids_of(item.tokens)) for item in items}
        controls = [prompt for prompt in sent if prompt not in ours]
        assert len(controls) >= 5 and not any(prompt[0] in firsts for prompt in controls)

    def test_the_control_of_a_phase_is_as_long_as_its_first_prompt(self) -> None:
        endpoint = MockEndpoint(16)
        items = [item_of(0, list(range(333))), item_of(1, list(range(333)))]
        run(items, endpoint)
        assert [len(body["prompt"]) for body in endpoint.bodies[-3:]] == [333, 333, 333]

    def test_a_constant_reading_is_seen_by_the_first_control(self) -> None:
        report = run(families(5), LyingEndpoint(lambda cached, prompt: 16, counters_lie=True))
        assert report.isolation.method == "none"
        assert "a prompt never sent before read 16 cached tokens where 0 was due" in report.isolation.tried[0]

    def test_an_endpoint_without_a_prefix_cache_is_seen_by_the_second(self) -> None:
        report = run(families(5), LyingEndpoint(lambda cached, prompt: 0, counters_lie=True))
        assert "the same prompt again read 0 cached tokens where more than 0 was due" in report.isolation.tried[0]


@needs_shared
@pytest.mark.parametrize("options", [{}, {"resets": False}, {"resets": False, "salts": False}])
def test_case_39_a_second_run_on_a_warm_server(options: dict[str, Any]) -> None:
    """Without isolation the second run reads the first one's blocks; with any way of isolation it reads nothing."""
    case = json.loads((SHARED / "cases" / "39-second-run-on-a-warm-server.json").read_text())
    items = [item_of(row, request["prompt_token_ids"]) for row, request in enumerate(case["requests"])]
    expect = case["expect"]

    def measured(endpoint: MockEndpoint, **settings: Any) -> list[int | None]:
        report = run(items, endpoint, **settings)
        assert [row.predicted_cached_tokens for row in report.requests] == expect["predicted_cached_tokens"]
        return [row.measured_cached_tokens for row in report.requests]

    warm = MockEndpoint(16, **options)
    assert measured(warm, isolation="none") == expect["measured_run_1"]
    assert measured(warm, isolation="none") == expect["measured_run_2_without_isolation"]
    isolated = MockEndpoint(16, **options)
    assert measured(isolated) == expect["measured_run_1"]
    assert measured(isolated) == expect["with_fresh_cache_salt_per_run"]
