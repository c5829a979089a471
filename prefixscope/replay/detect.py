"""Asks an endpoint what it is, and picks the profile whose rules it follows."""

from __future__ import annotations

import json
from collections.abc import Sequence

from prefixscope.engines.profile import EngineOptions, EngineProfile
from prefixscope.engines.running import RunningEngine, profile_of_running
from prefixscope.errors import EndpointError
from prefixscope.records import Json
from prefixscope.replay.calls import tokenize_body
from prefixscope.replay.client import Client
from prefixscope.replay.compare import check_prompt
from prefixscope.replay.endpoint import Answers, facts_of
from prefixscope.replay.item import ReplayItem, ids_of
from prefixscope.replay.runfile import PromptCheck
from prefixscope.results.replay import EndpointFacts

__all__ = ["ask", "check_rendering", "profile_of"]


async def ask(client: Client) -> EndpointFacts:
    """Reads /v1/models (which must answer) and whatever else the endpoint shows of itself."""
    root, api = client.address.root, client.address.api
    status, text = await client.get(f"{api}/models")
    models = _json(text)
    if status != 200 or models is None:
        raise EndpointError(f"{api}/models: HTTP {status}, no list of models")
    metrics_status, metrics = await client.get(f"{root}/metrics")
    pages: dict[str, Json] = {}
    for page in ("version", "server_info", "get_server_info", "props"):
        page_status, page_text = await client.get(f"{root}/{page}")
        pages[page] = _json(page_text) if page_status == 200 else None
    return facts_of(
        api,
        Answers(
            models=models,
            metrics=metrics if metrics_status == 200 else None,
            version=pages["version"],
            server_info=_of_sglang(pages["server_info"], pages["get_server_info"]),
            props=pages["props"],
        ),
    )


def _of_sglang(*answers: Json) -> Json:
    """The page that is SGLang's (0.5.23 renamed it): vLLM's development mode has a /server_info with other contents."""
    return next((answer for answer in answers if isinstance(answer, dict) and "page_size" in answer), None)


def _json(text: str) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def profile_of(
    facts: EndpointFacts, engine: str | None, options: EngineOptions
) -> tuple[EngineProfile, tuple[str, ...]]:
    """The profile of what the user named, else of what the endpoint says it is; sentences for what is assumed."""
    running = RunningEngine(
        url=facts.url, engine=facts.engine, version=facts.version, models=facts.models, block_size=facts.block_size,
        usable_blocks=facts.usable_blocks, prefix_caching=facts.prefix_caching, data_ranks=1, pages=facts.sources,
    )  # fmt: skip
    return profile_of_running(running, engine, options)


async def check_rendering(client: Client, items: Sequence[ReplayItem]) -> list[tuple[int, PromptCheck | None]]:
    """Each item's ids against those the endpoint's /tokenize gives for the logged body; None where it gives none."""
    checks: list[tuple[int, PromptCheck | None]] = []
    for item in items:
        if item.kind == "tokens":
            continue
        status, text = await client.post(f"{client.address.root}/tokenize", tokenize_body(item))
        answer = _json(text) if status == 200 else None
        theirs = answer.get("tokens") if isinstance(answer, dict) else None
        checks.append((item.row, None if theirs is None else check_prompt(ids_of(item.tokens), theirs)))
    return checks
