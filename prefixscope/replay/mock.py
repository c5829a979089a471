"""Mock endpoints that are part of the product: an OpenAI-compatible face before a small engine, no socket needed.

`MockEndpoint` is honest. The others each do one thing wrong: lie about cached tokens, answer slowly, fail some calls,
or send half a stream. All are httpx transports, so the real client is used in front of them.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import httpx

from prefixscope.replay.mock_engine import MockEngine, Running

__all__ = ["FailingEndpoint", "HalfStreamEndpoint", "LyingEndpoint", "MockEndpoint", "SlowEndpoint", "render_bytes"]

VOCABULARY = 2048
MODELS = ("mock",)


def render_bytes(body: Mapping[str, Any]) -> list[int]:
    """The mock's own chat template and tokenizer: one token per byte of role, colon, text, line end.

    >>> bytes(render_bytes({"messages": [{"role": "user", "content": "hi"}]}))
    b'user:hi\\nassistant:'
    """
    tools = "".join(f"tool:{json.dumps(tool)}\n" for tool in body.get("tools") or ())
    turns = "".join(f"{turn['role']}:{turn.get('content') or ''}\n" for turn in body["messages"])
    return list(f"{tools}{turns}assistant:".encode())


class _Chunks(httpx.AsyncByteStream):
    def __init__(self, events: AsyncIterator[bytes]) -> None:
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for event in self._events:
            yield event

    async def aclose(self) -> None:
        await self._events.aclose()  # type: ignore[attr-defined]


class MockEndpoint(httpx.AsyncBaseTransport):
    """A vLLM-like server: /v1/models, /v1/completions, /v1/chat/completions, /tokenize, /metrics, /version, reset.

    `usable_blocks` leaves out the null block (None: endless, and not told in the metrics). `resets`: the reset
    endpoint exists. `salts`: `cache_salt` separates. `details`: usage tells cached tokens. `ids`: prompts may be token
    ids. `seconds_per_token` of uncached prefill and `seconds_per_call` make the time to first token.
    """

    def __init__(
        self,
        block_size: int = 16,
        usable_blocks: int | None = None,
        *,
        models: tuple[str, ...] = MODELS,
        resets: bool = True,
        salts: bool = True,
        details: bool = True,
        ids: bool = True,
        seconds_per_token: float = 0.0,
        seconds_per_call: float = 0.0,
    ) -> None:
        self.engine = MockEngine(block_size, usable_blocks)
        self.models, self.resets, self.salts, self.details, self.ids = models, resets, salts, details, ids
        self.seconds_per_token, self.seconds_per_call = seconds_per_token, seconds_per_call
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.bodies: list[dict[str, Any]] = []
        self.requests: list[httpx.Request] = []
        self._freed = asyncio.Condition()

    def reported(self, cached: int, prompt: int) -> int | None:
        """What usage tells as cached tokens."""
        return cached if self.details else None

    def counted(self, cached: int, prompt: int) -> int:
        """What the hit counter grows by."""
        return cached

    def fault(self) -> httpx.Response | None:
        """An answer given instead of generating, or None; may raise httpx errors."""
        return None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        path = request.url.path
        if request.method == "GET":
            return self._read(path)
        if path == "/reset_prefix_cache":
            return httpx.Response(200, json={"success": self.engine.reset()}) if self.resets else httpx.Response(404)
        body = json.loads(await request.aread())
        if path == "/tokenize":
            tokens = render_bytes(body) if "messages" in body else list(body["prompt"].encode())
            return httpx.Response(200, json={"count": len(tokens), "tokens": tokens})
        if path in ("/v1/completions", "/v1/chat/completions"):
            return self.fault() or await self._generate(body, chat=path.endswith("chat/completions"))
        return httpx.Response(404)

    def _read(self, path: str) -> httpx.Response:
        if path == "/v1/models":
            rows = [{"id": name, "object": "model", "owned_by": "vllm"} for name in self.models]
            return httpx.Response(200, json={"object": "list", "data": rows})
        if path == "/version":
            return httpx.Response(200, json={"version": "0.32.0"})
        if path == "/metrics":
            return httpx.Response(200, text="\n".join(self._metrics()) + "\n")
        return httpx.Response(404)

    def _metrics(self) -> Iterator[str]:
        blocks = "None" if self.engine.usable_blocks is None else self.engine.usable_blocks + 1
        facts = f'block_size="{self.engine.block_size}",enable_prefix_caching="True",num_gpu_blocks="{blocks}"'
        yield f"vllm:cache_config_info{{{facts}}} 1.0"
        yield f'vllm:prefix_cache_queries_total{{engine="0"}} {float(self.prompt_tokens)}'
        yield f'vllm:prefix_cache_hits_total{{engine="0"}} {float(self.cached_tokens)}'

    async def _generate(self, body: dict[str, Any], *, chat: bool) -> httpx.Response:
        self.bodies.append(body)
        if body.get("model") not in self.models:
            return httpx.Response(404, json={"error": {"message": f"The model {body.get('model')!r} does not exist."}})
        if chat:
            prompt = render_bytes(body)
        elif isinstance(body["prompt"], str):
            prompt = list(body["prompt"].encode())
        elif self.ids:
            prompt = body["prompt"]
        else:
            return httpx.Response(400, json={"error": {"message": "prompt must be a string"}})
        namespace = (body["model"], body.get("cache_salt") if self.salts else None)
        running = await self._admitted(namespace, prompt)
        cached = running.cached_tokens
        self.prompt_tokens += len(prompt)
        self.cached_tokens += self.counted(cached, len(prompt))
        return httpx.Response(
            200,
            headers={"content-type": "text/event-stream"},
            stream=_Chunks(self._events(body, running, len(prompt), chat)),
        )

    async def _admitted(self, namespace: object, prompt: list[int]) -> Running:
        async with self._freed:
            running = self.engine.admit(namespace, prompt)
            while running is None:
                await self._freed.wait()
                running = self.engine.admit(namespace, prompt)
        return running

    async def _events(self, body: dict[str, Any], running: Running, prompt: int, chat: bool) -> AsyncIterator[bytes]:
        cached = running.cached_tokens
        try:
            await asyncio.sleep(self.seconds_per_call + self.seconds_per_token * (prompt - cached))
            made, token = 0, 0
            for made in range(1, body["max_tokens"] + 1):
                if made > 1:
                    self.engine.append(running, token)
                token = self._next_token(running.tokens)
                yield self._event(self._choice(token, running.tokens[:prompt], made, body, chat))
            details = self.reported(cached, prompt)
            usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": made, "prompt_tokens_details": None}
            if details is not None:
                usage["prompt_tokens_details"] = {"cached_tokens": details}
            yield self._event({"choices": [], "usage": usage})
            yield b"data: [DONE]\n\n"
        finally:
            self.engine.release(running)
            async with self._freed:
                self._freed.notify_all()

    def _choice(self, token: int, prompt: list[int], made: int, body: Mapping[str, Any], chat: bool) -> dict[str, Any]:
        text = chr(97 + token % 26)
        choice: dict[str, Any] = {
            "index": 0,
            "finish_reason": "length" if made == body["max_tokens"] else None,
            "token_ids": [token],
        }
        choice.update({"delta": {"content": text}} if chat else {"text": text})
        first = {"prompt_token_ids": prompt} if made == 1 else {}
        if chat:
            return {"choices": [choice], **first}
        return {"choices": [{**choice, **first}]}

    def _next_token(self, tokens: list[int]) -> int:
        """Greedy decoding: the same context gives the same token, cached or not."""
        return random.Random(hash(tuple(tokens))).randrange(VOCABULARY)

    @staticmethod
    def _event(data: Mapping[str, Any]) -> bytes:
        return b"data: " + json.dumps(data).encode() + b"\n\n"


class LyingEndpoint(MockEndpoint):
    """Serves honestly and tells `lie(cached, prompt)`; the counters tell the truth unless `counters_lie`."""

    def __init__(
        self, lie: Callable[[int, int], int], block_size: int = 16, *, counters_lie: bool = False, **options: Any
    ) -> None:
        super().__init__(block_size, **options)
        self._lie, self._counters_lie = lie, counters_lie

    def reported(self, cached: int, prompt: int) -> int | None:
        """The lie."""
        return self._lie(cached, prompt)

    def counted(self, cached: int, prompt: int) -> int:
        """The truth, or the lie as well."""
        return self._lie(cached, prompt) if self._counters_lie else cached


class SlowEndpoint(MockEndpoint):
    """Needs `seconds` before the first token of every answer."""

    def __init__(self, seconds: float, block_size: int = 16, **options: Any) -> None:
        super().__init__(block_size, seconds_per_call=seconds, **options)


class FailingEndpoint(MockEndpoint):
    """Fails `share` of the calls, in turn with 503, 429, 500 and a refused connection; none reaches the cache."""

    def __init__(self, share: float = 0.2, block_size: int = 16, *, seed: int = 0, **options: Any) -> None:
        super().__init__(block_size, **options)
        self._share, self._random, self.failed = share, random.Random(seed), 0

    def fault(self) -> httpx.Response | None:
        """One of the four, or None."""
        if self._random.random() >= self._share:
            return None
        self.failed += 1
        kind = self.failed % 4
        if kind == 0:
            raise httpx.ConnectError("connection refused")
        if kind == 1:
            return httpx.Response(503, headers={"retry-after": "0"})
        if kind == 2:
            return httpx.Response(429, headers={"retry-after": "0"})
        return httpx.Response(500, json={"error": {"message": "internal error"}})


class HalfStreamEndpoint(MockEndpoint):
    """Ends every `every`-th stream after its first event, without usage, finish reason or [DONE]."""

    def __init__(self, every: int = 3, block_size: int = 16, **options: Any) -> None:
        super().__init__(block_size, **options)
        self._every, self._streams = every, 0

    async def _events(self, body: dict[str, Any], running: Running, prompt: int, chat: bool) -> AsyncIterator[bytes]:
        self._streams += 1
        cut = self._streams % self._every == 0
        async for event in super()._events({**body, "max_tokens": body["max_tokens"] + cut}, running, prompt, chat):
            yield event
            if cut:
                return
