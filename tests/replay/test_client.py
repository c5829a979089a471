"""The client: what it sends where, how it waits, what it makes of broken answers."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from prefixscope.errors import EndpointError, OptionError
from prefixscope.replay.calls import Call, Scope, build_call
from prefixscope.replay.client import Client
from prefixscope.replay.connection import Address, ClientLimits, Outcome
from prefixscope.replay.mock import HalfStreamEndpoint, MockEndpoint, SlowEndpoint
from prefixscope.replay.transport import network_transport
from tests.replay.workload import QUICK, URL, item_of

KEY = "sk-very-secret"
CALL = build_call(item_of(0, list(range(40))), Scope(), engine="vllm", send_as="ids", output_tokens=3)


def asked(transport: httpx.AsyncBaseTransport, call: Call = CALL, limits: ClientLimits = QUICK) -> Outcome:
    async def ask() -> Outcome:
        client = Client(Address.of(URL), transport, limits, KEY)
        try:
            return await client.generate(call)
        finally:
            await client.close()

    return asyncio.run(ask())


def answering(*responses: httpx.Response | Exception) -> httpx.MockTransport:
    """Gives the responses in turn, the last one for ever."""
    waiting = list(responses)

    def answer(request: httpx.Request) -> httpx.Response:
        response = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if isinstance(response, Exception):
            raise response
        return response

    return httpx.MockTransport(answer)


def stream_of(*events: dict[str, Any] | str) -> httpx.Response:
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    text = "".join(f"data: {line}\n\n" for line in lines)
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=text)


GOOD = (
    {"choices": [{"text": "a", "finish_reason": "length"}]},
    {"choices": [], "usage": {"prompt_tokens": 4}},
    "[DONE]",
)


class TestAddress:
    @pytest.mark.parametrize("url", ["http://h:1/v1", "http://h:1", "h:1/v1/", "http://h:1/v1/"])
    def test_v1_is_optional(self, url: str) -> None:
        assert Address.of(url) == Address("http://h:1", "http://h:1/v1")

    @pytest.mark.parametrize("url", ["http://user:secret@h/v1", "https://h/v1?key=secret", "ftp://h", "http://", ""])
    def test_secrets_and_nonsense_are_refused_without_repeating_them(self, url: str) -> None:
        with pytest.raises(OptionError) as caught:
            Address.of(url)
        assert "secret" not in str(caught.value)


class TestAnswers:
    def test_a_stream_gives_times_tokens_and_usage(self) -> None:
        outcome = asked(MockEndpoint(16, seconds_per_call=0.02))
        assert outcome.state == "done" and outcome.attempts == 1 and outcome.error is None
        assert outcome.first_token_s is not None and 0.02 <= outcome.first_token_s - outcome.sent_s < 1
        assert len(outcome.token_s) == 3 and outcome.client_s > 0
        reading = outcome.reading
        assert (reading.prompt_tokens, reading.cached_tokens, reading.output_tokens) == (40, 0, 3)
        assert reading.prompt_ids == tuple(range(40)) and len(reading.output_ids or ()) == 3

    def test_half_a_stream_is_cut_and_its_numbers_are_unknown(self) -> None:
        outcome = asked(HalfStreamEndpoint(every=1))
        assert outcome.state == "cut" and outcome.first_token_s is not None
        assert outcome.reading.cached_tokens is None and "before the answer was complete" in (outcome.error or "")

    def test_an_error_inside_the_stream_is_no_answer(self) -> None:
        outcome = asked(answering(stream_of({"error": {"message": f"out of memory, {KEY}"}})))
        assert outcome.state == "unknown" and outcome.error == "BrokenError: out of memory, ***"

    def test_an_answer_that_was_not_streamed_is_read_whole(self) -> None:
        body = {"choices": [{"text": "x", "finish_reason": "stop"}], "usage": {"prompt_tokens": 4}}
        outcome = asked(answering(httpx.Response(200, json=body)))
        assert outcome.state == "done" and outcome.first_token_s is None and outcome.reading.prompt_tokens == 4

    def test_a_stream_of_something_else_is_broken(self) -> None:
        assert asked(answering(stream_of("<html>"))).state == "unknown"

    def test_the_connection_breaking_while_reading_is_unknown_before_a_token(self) -> None:
        outcome = asked(answering(httpx.ReadError("reset by peer")))
        assert outcome.state == "unknown" and outcome.attempts == 1


class TestPatience:
    def test_busy_answers_are_tried_again(self) -> None:
        busy = [httpx.Response(503, headers={"retry-after": "0"}), httpx.Response(429), httpx.ConnectError("refused")]
        outcome = asked(answering(*busy, stream_of(*GOOD)))
        assert outcome.state == "done" and outcome.attempts == 4

    def test_the_server_says_how_long_to_wait(self) -> None:
        limits = ClientLimits(backoff_s=0.0, longest_backoff_s=0.3)
        begun = time.perf_counter()
        outcome = asked(answering(httpx.Response(429, headers={"retry-after": "60"}), stream_of(*GOOD)), limits=limits)
        assert 0.3 <= time.perf_counter() - begun < 5 and outcome.attempts == 2

    def test_always_busy_ends_as_refused(self) -> None:
        limits = ClientLimits(attempts=3, backoff_s=0.001)
        outcome = asked(answering(httpx.Response(503)), limits=limits)
        assert outcome.state == "refused" and outcome.error == "HTTP 503, 3 times"

    def test_an_endpoint_that_is_not_there_ends_the_run(self) -> None:
        with pytest.raises(EndpointError, match=r"engine.test:8000 can't be reached .*refused, 2 times"):
            asked(answering(httpx.ConnectError("refused")), limits=ClientLimits(attempts=2, backoff_s=0.001))

    def test_no_answer_in_time_is_unknown_and_not_tried_again(self) -> None:
        limits = ClientLimits(first_token_s=0.05)
        outcome = asked(SlowEndpoint(5), limits=limits)
        assert outcome.state == "unknown" and outcome.attempts == 1 and outcome.error == "TimeoutError: timed out"

    def test_a_prompt_the_server_does_not_want_is_refused(self) -> None:
        outcome = asked(answering(httpx.Response(400, json={"error": {"message": "too long"}})))
        assert outcome.state == "refused" and outcome.error == "HTTP 400 too long"

    def test_rate_and_concurrency_are_limited(self) -> None:
        together = most = 0

        class Counting(MockEndpoint):
            async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
                nonlocal together, most
                together += 1
                most = max(most, together)
                await asyncio.sleep(0.01)
                together -= 1
                return await super().handle_async_request(request)

        async def ask() -> float:
            client = Client(Address.of(URL), Counting(16), ClientLimits(rate=50, concurrency=2))
            begun = time.perf_counter()
            await asyncio.gather(*(client.generate(CALL) for _ in range(10)))
            await client.close()
            return time.perf_counter() - begun

        assert asyncio.run(ask()) >= 9 / 50
        assert most <= 2


class TestSecrecy:
    @pytest.mark.parametrize("status", [401, 403])
    def test_the_key_is_in_the_header_and_in_no_message(self, status: int) -> None:
        seen: list[str] = []

        def refuse(request: httpx.Request) -> httpx.Response:
            seen.append(request.headers["authorization"])
            return httpx.Response(status, json={"error": {"message": f"wrong key {request.headers['authorization']}"}})

        with pytest.raises(EndpointError) as caught:
            asked(httpx.MockTransport(refuse))
        assert seen == [f"Bearer {KEY}"]
        assert KEY not in str(caught.value) and "wrong key Bearer ***" in str(caught.value)

    def test_redirects_to_another_host_are_refused_and_get_no_prompt(self) -> None:
        hosts: list[str] = []

        def redirect(request: httpx.Request) -> httpx.Response:
            hosts.append(request.url.host)
            return httpx.Response(307, headers={"location": "http://elsewhere.test/v1/completions"})

        with pytest.raises(EndpointError, match=r"redirects to elsewhere\.test"):
            asked(httpx.MockTransport(redirect))
        assert hosts == ["engine.test"]

    @pytest.mark.parametrize(
        "target", ["https://engine.test:8000/v1/completions", "http://engine.test:9/v1/completions"]
    )
    def test_another_scheme_or_port_is_another_host(self, target: str) -> None:
        with pytest.raises(EndpointError, match="redirects to"):
            asked(answering(httpx.Response(307, headers={"location": target})))

    def test_redirects_within_the_host_are_followed(self) -> None:
        def redirect(request: httpx.Request) -> httpx.Response:
            if request.url.path == "/v1/completions":
                return httpx.Response(307, headers={"location": "/real/completions"})
            assert json.loads(request.content)["prompt"] == list(range(40))
            return stream_of(*GOOD)

        assert asked(httpx.MockTransport(redirect)).state == "done"

    def test_the_real_transport_verifies_certificates(self) -> None:
        transport = network_transport()
        context = transport._pool._ssl_context
        assert context is not None and context.verify_mode == ssl.CERT_REQUIRED and context.check_hostname

    def test_an_authority_file_that_is_none_is_said(self, tmp_path: Any) -> None:
        with pytest.raises(OptionError, match="--ca-file"):
            network_transport(str(tmp_path / "absent.pem"))


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class TestRealSocket:
    def serve(self, handler: Handler, monkeypatch: pytest.MonkeyPatch) -> Outcome:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")

        async def talk() -> Outcome:
            server = await asyncio.start_server(handler, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            client = Client(Address.of(f"http://127.0.0.1:{port}"), network_transport(), QUICK, KEY)
            try:
                return await client.generate(CALL)
            finally:
                await client.close()
                server.close()

        return asyncio.run(talk())

    def test_no_proxy_and_times_of_a_real_stream(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            for event in GOOD:
                await asyncio.sleep(0.03)
                data = event if isinstance(event, str) else json.dumps(event)
                writer.write(f"data: {data}\n\n".encode())
                await writer.drain()
            writer.close()

        outcome = self.serve(stream, monkeypatch)
        assert outcome.state == "done" and outcome.first_token_s is not None
        assert 0.03 <= outcome.first_token_s - outcome.sent_s <= outcome.finished_s - outcome.sent_s - 0.03

    def test_a_connection_that_dies_in_the_stream_is_cut(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            event = b'data: {"choices": [{"text": "a"}]}\n\n'
            writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)
            writer.close()

        outcome = self.serve(die, monkeypatch)
        assert outcome.state == "cut" and "RemoteProtocolError" in (outcome.error or "")
