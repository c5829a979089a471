"""The client that talks to one endpoint and to nobody else, and measures what it does.

No proxy and no password file is read from the environment, TLS is verified, redirects to another host are refused,
the API key appears in no message. Times are seconds of `time.perf_counter`.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx

from prefixscope.errors import EndpointError
from prefixscope.records import Json
from prefixscope.replay.answers import (
    BrokenError,
    NotSentError,
    RefusedError,
    data_lines,
    decoded,
    message_of,
    retry_after,
)
from prefixscope.replay.calls import Call
from prefixscope.replay.connection import Address, ClientLimits, Outcome, State
from prefixscope.replay.measurement import ReadingBuilder

__all__ = ["Client"]

RETRIED = (429, 503)
FATAL = (401, 403, 404, 407)
REDIRECTS = 3


@dataclass(slots=True)
class _Attempt:
    sent_s: float = 0.0
    accepted_s: float | None = None
    first_token_s: float | None = None
    token_s: list[tuple[float, int]] = field(default_factory=list)
    client_s: float = 0.0
    builder: ReadingBuilder = field(default_factory=ReadingBuilder)
    ended: bool = False


class Client:
    """One endpoint behind one transport. `api_key` goes into the Authorization header and nowhere else."""

    def __init__(
        self,
        address: Address,
        transport: httpx.AsyncBaseTransport,
        limits: ClientLimits,
        api_key: str | None = None,
        seed: int = 0,
    ) -> None:
        self.address, self.limits = address, limits
        self._key = api_key
        headers = {"user-agent": "prefixscope"} | ({"authorization": f"Bearer {api_key}"} if api_key else {})
        timeout = httpx.Timeout(limits.first_token_s, connect=limits.connect_s)
        self._http = httpx.AsyncClient(transport=transport, headers=headers, timeout=timeout, trust_env=False)
        self._random = random.Random(seed)
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._next_s = 0.0

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.aclose()

    async def get(self, url: str) -> tuple[int, str]:
        """Status and text of a page of the endpoint; EndpointError when it can't be reached."""
        return await self._control("GET", url, None)

    async def post(self, url: str, body: Json = None) -> tuple[int, str]:
        """As `get`, with a JSON body."""
        return await self._control("POST", url, body)

    async def _control(self, method: str, url: str, body: Json) -> tuple[int, str]:
        try:
            async with asyncio.timeout(self.limits.connect_s + 60):
                response = await self._send(method, url, None if body is None else json.dumps(body).encode())
                try:
                    await response.aread()
                finally:
                    await response.aclose()
                return response.status_code, response.text
        except (httpx.HTTPError, TimeoutError) as error:
            raise EndpointError(f"{url}: no answer ({self._said(error)})") from error

    async def _send(self, method: str, url: str, content: bytes | None) -> httpx.Response:
        """Sends and follows redirects within the same host only."""
        headers = {} if content is None else {"content-type": "application/json"}
        for _ in range(REDIRECTS):
            request = self._http.build_request(method, url, content=content, headers=headers)
            response = await self._http.send(request, stream=True)
            if not response.is_redirect:
                return response
            await response.aclose()
            target = response.next_request.url if response.next_request else httpx.URL(url)
            here = httpx.URL(url)
            if (target.scheme, target.host, target.port) != (here.scheme, here.host, here.port):
                raise EndpointError(
                    f"{url} redirects to {target.host}: prompts go to the named endpoint only, name that host"
                )
            url = str(target)
        raise EndpointError(f"{url}: more than {REDIRECTS} redirects")

    async def generate(self, call: Call) -> Outcome:
        """Sends one call until it is answered, refused for good, or broken; retries only what never reached prefill."""
        for attempt in range(1, self.limits.attempts + 1):
            async with self._slots:
                await self._pace()
                state = _Attempt(sent_s=time.perf_counter())
                try:
                    await self._attempt(call, state)
                    return self._outcome(state, attempt, "done" if state.ended else "cut", None)
                except NotSentError as error:
                    wait, reason, cause = error.wait_s, str(error), error.__cause__
                except RefusedError as error:
                    return self._outcome(state, attempt, "refused", str(error))
                except (httpx.HTTPError, TimeoutError, BrokenError) as error:
                    seen = state.first_token_s is not None
                    return self._outcome(state, attempt, "cut" if seen else "unknown", self._said(error))
            if attempt < self.limits.attempts:
                await asyncio.sleep(self._backoff(attempt, wait))
        if isinstance(cause, httpx.HTTPError):
            raise EndpointError(f"{self.address.root} can't be reached ({reason}, {attempt} times)")
        return self._outcome(state, attempt, "refused", f"{reason}, {attempt} times")

    async def _pace(self) -> None:
        if self.limits.rate is None:
            return
        now = time.perf_counter()
        due = max(now, self._next_s)
        self._next_s = due + 1 / self.limits.rate
        await asyncio.sleep(due - now)

    def _backoff(self, attempt: int, asked_s: float | None) -> float:
        if asked_s is not None:
            return min(asked_s, self.limits.longest_backoff_s)
        longest = min(self.limits.backoff_s * 2.0 ** (attempt - 1), self.limits.longest_backoff_s)
        return longest * (0.5 + self._random.random() / 2)

    async def _attempt(self, call: Call, state: _Attempt) -> None:
        begun = time.perf_counter()
        content = json.dumps(call.body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        state.sent_s = time.perf_counter()
        state.client_s += state.sent_s - begun
        try:
            async with asyncio.timeout(self.limits.first_token_s):
                response = await self._send("POST", self.address.api + call.path, content)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotSentError(self._said(error)) from error
        state.accepted_s = time.perf_counter()
        try:
            await self._judge(response)
            await self._read(response, state)
        finally:
            await response.aclose()

    async def _judge(self, response: httpx.Response) -> None:
        status = response.status_code
        if status == 200:
            return
        await response.aread()
        message = self._clean(message_of(response.text))
        if status in RETRIED:
            raise NotSentError(f"HTTP {status}", retry_after(response.headers))
        if status in FATAL:
            raise EndpointError(f"{response.request.url}: HTTP {status} {message}".rstrip())
        if status < 500:
            raise RefusedError(f"HTTP {status} {message}".rstrip())
        raise BrokenError(f"HTTP {status} {message}".rstrip())

    async def _read(self, response: httpx.Response, state: _Attempt) -> None:
        if "text/event-stream" not in response.headers.get("content-type", ""):
            async with asyncio.timeout(self.limits.first_token_s):
                state.builder.add(decoded(await response.aread()))
            state.ended = True
            return
        lines = data_lines(response)
        while True:
            patience = self.limits.first_token_s if state.first_token_s is None else self.limits.stall_s
            async with asyncio.timeout(patience):
                data = await anext(lines, None)
            arrived = time.perf_counter()
            if data is None or data == "[DONE]":
                state.ended = state.ended or data is not None or state.builder.finish_reason is not None
                return
            chunk = decoded(data)
            if isinstance(chunk, Mapping) and chunk.get("error"):
                raise BrokenError(self._clean(message_of(data)))
            brought = state.builder.add(chunk)
            if brought:
                state.first_token_s = state.first_token_s or arrived
                state.token_s.append((arrived, brought))
            state.client_s += time.perf_counter() - arrived

    def _outcome(self, state: _Attempt, attempts: int, kind: State, error: str | None) -> Outcome:
        if kind == "cut" and error is None:
            error = "the stream ended before the answer was complete"
        return Outcome(
            state=kind,
            error=error,
            attempts=attempts,
            sent_s=state.sent_s,
            accepted_s=state.accepted_s,
            first_token_s=state.first_token_s,
            finished_s=time.perf_counter(),
            token_s=tuple(state.token_s),
            client_s=state.client_s,
            reading=state.builder.reading(),
        )

    def _said(self, error: BaseException) -> str:
        text = str(error) or {"TimeoutError": "timed out"}.get(type(error).__name__, "")
        return self._clean(f"{type(error).__name__}: {text}" if text else type(error).__name__)

    def _clean(self, text: str) -> str:
        """No key in any message, whatever the server echoes."""
        return text.replace(self._key, "***") if self._key else text
