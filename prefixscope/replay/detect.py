"""Asks an endpoint what it is, and picks the profile whose rules it follows."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from prefixscope.engines import resolve
from prefixscope.engines.profile import EngineOptions, EngineProfile
from prefixscope.errors import EndpointError, OptionError
from prefixscope.records import Json
from prefixscope.replay.calls import tokenize_body
from prefixscope.replay.client import Client
from prefixscope.replay.compare import check_prompt
from prefixscope.replay.endpoint import Answers, facts_of
from prefixscope.replay.item import ReplayItem, ids_of
from prefixscope.replay.results import EndpointFacts
from prefixscope.replay.runfile import PromptCheck

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
    for page in ("version", "get_server_info", "props"):
        page_status, page_text = await client.get(f"{root}/{page}")
        pages[page] = _json(page_text) if page_status == 200 else None
    return facts_of(
        api,
        Answers(
            models=models,
            metrics=metrics if metrics_status == 200 else None,
            version=pages["version"],
            server_info=pages["get_server_info"],
            props=pages["props"],
        ),
    )


def _json(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return None


def profile_of(
    facts: EndpointFacts, engine: str | None, options: EngineOptions
) -> tuple[EngineProfile, tuple[str, ...]]:
    """The profile of what the user named, else of what the endpoint says it is; sentences for what is assumed."""
    assumed = []
    spec = engine
    if spec is None:
        if facts.engine is None:
            raise OptionError(f"{facts.url} does not tell which engine it is: name it with --engine NAME@VERSION")
        spec = facts.engine
    if "@" not in spec and facts.version is not None and spec == facts.engine:
        spec = f"{spec}@{facts.version}"
    if options.block_size is None:
        options = dataclasses.replace(options, block_size=facts.block_size)
    try:
        profile = resolve(spec, options)
    except OptionError:
        if engine is not None or "@" not in spec:
            raise
        profile = resolve(spec.partition("@")[0], options)
        assumed.append(f"no rules are known for {spec}: those of {profile.name} {profile.version} are used")
    if options.block_size is None:
        assumed.append(f"block size {profile.block_size} (not read from the endpoint)")
    return profile, (*assumed, *profile.assumed)


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
