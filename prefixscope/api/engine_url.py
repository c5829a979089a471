"""`--engine-url`: asks a running engine what it is. It reads pages of that one host, sends nothing, follows nothing."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from prefixscope.engines.running import Answers, RunningEngine, running_engine
from prefixscope.errors import EndpointError, OptionError

__all__ = ["ask", "ask_once"]

TIMEOUT_S = 10.0
MOST_BYTES = 32 << 20
PAGES = ("metrics", "version", "v1/models", "get_server_info", "props")


class _StayHere(HTTPRedirectHandler):
    """Redirects are answers like any other: another host is never spoken to."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def ask(url: str) -> RunningEngine:
    """What stands behind the address. EndpointError where nothing answers, or no page tells of an engine."""
    root = _root(url)
    opener = build_opener(_StayHere, ProxyHandler({}))
    pages: dict[str, str | None] = {}
    for page in PAGES:
        try:
            with opener.open(Request(f"{root}/{page}"), timeout=TIMEOUT_S) as answer:
                pages[page] = answer.read(MOST_BYTES).decode("utf-8", "replace")
        except HTTPError:
            pages[page] = None  # this engine has no such page
        except (URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise EndpointError(f"--engine-url {root}: {page} can't be read ({reason})") from None
    running = running_engine(
        root,
        Answers(
            models=_json(pages["v1/models"]),
            metrics=pages["metrics"],
            version=_json(pages["version"]),
            server_info=_json(pages["get_server_info"]),
            props=_json(pages["props"]),
        ),
    )
    if running.engine is None and not running.models:
        raise EndpointError(f"--engine-url {root}: nothing there tells of an engine (asked: {', '.join(PAGES)})")
    return running


ask_once = lru_cache(maxsize=8)(ask)
"""The same, asked once per run: the pools of a report are told the same."""


def _root(url: str) -> str:
    parts = urlsplit(url if "//" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OptionError(f"--engine-url {url}: write http://HOST:PORT")
    if parts.username is not None or parts.password is not None or parts.query:
        raise OptionError("--engine-url: no password, key or query in the address")
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/").removesuffix("/v1")


def _json(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None
