"""The same sums by model, namespace, tenant, session, replica, wherever there is more than one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from prefixscope.report.numbers import count, percent, plural, share, tokens
from prefixscope.report.terminal.layout import plain_table, section, user_text
from prefixscope.report.text import visible
from prefixscope.report.words import GROUPS
from prefixscope.results import Group

__all__ = ["group_tables", "sessions_part"]

_MOST = 8


def group_tables(groups: Sequence[Group], engine: str) -> Iterator[RenderableType]:
    """One table per kind of group with more than one member, the largest first; `engine` says whose share it is.

    Sessions have a part of their own. A kind that divides the requests as one before it did tells nothing new.
    """
    kinds: dict[str, list[Group]] = {}
    for group in groups:
        kinds.setdefault(group.by, []).append(group)
    told = []
    for by, members in kinds.items():
        division = sorted((group.requests, group.prompt_tokens, group.reusable_tokens) for group in members)
        if len(members) > 1 and by != "session" and division not in told:
            told.append(division)
            yield _table(by, sorted(members, key=lambda group: (-group.prompt_tokens, group.name or "")), engine)


def sessions_part(sessions: Mapping[str, Any]) -> RenderableType | None:
    """How requests group into sessions, and how much reuse stays within one; None where the log names no sessions."""
    number = sessions.get("count")
    if not number:
        return None
    said = [f"{plural(number, 'session')} with {plural(sessions.get('requests_with_session') or 0, 'request')}"]
    if sessions.get("median_requests") is not None:
        said.append(f"median {sessions['median_requests']:g}, largest {count(sessions.get('largest_requests'))}")
    sentences = [" (".join(said) + (")" if len(said) > 1 else "")]
    own, others = sessions.get("reusable_from_own_session_tokens"), sessions.get("reusable_from_others_tokens")
    if own is not None and others is not None:
        whole = f"{tokens(own + others)} reusable tokens of these requests"
        sentences.append(f"{percent(own, own + others)} of the {whole} come from their own session")
    if sessions.get("requests_without_session"):
        sentences.append(f"{plural(sessions['requests_without_session'], 'request')} without a session")
    return section("sessions", Text("; ".join(sentences)))


def _table(by: str, members: list[Group], engine: str) -> RenderableType:
    table = plain_table(
        (GROUPS.get(by, visible(by)).split(" (")[0], "text"),
        ("requests", "right"),
        ("prompt", "right"),
        ("ideal", "right"),
        ("engine", "right"),
    )
    for group in members[:_MOST]:
        table.add_row(
            user_text(group.name),
            count(group.requests),
            tokens(group.prompt_tokens),
            percent(group.reusable_tokens, group.prompt_tokens),
            share(group.token_hit_rate),
        )
    rest = members[_MOST:]
    more: list[RenderableType] = []
    if rest:
        prompt = sum(group.prompt_tokens for group in rest)
        more.append(Text(f"and {count(len(rest))} more with {tokens(prompt)} prompt tokens together", style="dim"))
    return section(f"by {by} (shares are of the line's own prompt tokens{engine})", table, *more)
