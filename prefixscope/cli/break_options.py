"""The options of `explain`, `lint` and the template doctor, defined once."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from prefixscope.cli.memory_options import MEMORY
from prefixscope.cli.options import COUNTING, GATES, OUTPUT
from prefixscope.errors import OptionError

__all__ = [
    "Annotations",
    "FailOn",
    "KvEvents",
    "Request",
    "ResetTimes",
    "TemplateDoctor",
    "TimeToLive",
    "WhatIf",
    "causes_of",
    "fail_on_of",
]

Request = Annotated[
    str | None,
    typer.Option(
        "--request",
        metavar="ID",
        help="Tell the story of one request: what it shared, where it broke, what took the rest. row:N names a row.",
        rich_help_panel=COUNTING,
    ),
]
WhatIf = Annotated[
    str | None,
    typer.Option(
        "--what-if",
        metavar="CAUSE[,CAUSE]|none",
        help="Compute the log again without these causes. Default: the three costliest; none skips it.",
        rich_help_panel=COUNTING,
    ),
]
TimeToLive = Annotated[
    str | None,
    typer.Option(
        "--ttl",
        metavar="DURATION",
        help="How long entries of the cache live after their last use, such as 5m, for engines without a lifetime of "
        "their own (hosted APIs: --lifetime). Names what had expired.",
        rich_help_panel=MEMORY,
    ),
]
ResetTimes = Annotated[
    list[str] | None,
    typer.Option(
        "--reset-at",
        metavar="TIME",
        help="When the cache was emptied (a reset, a restart). Repeatable. Without it, what the log measured tells.",
        rich_help_panel=MEMORY,
    ),
]
KvEvents = Annotated[
    str | None,
    typer.Option(
        "--kv-events",
        metavar="FILE",
        help="Recorded KV events (`prefixscope events --record`), which tell when the cache was emptied.",
        rich_help_panel=MEMORY,
    ),
]
FailOn = Annotated[
    str | None,
    typer.Option(
        "--fail-on",
        metavar="CAUSE[,CAUSE]|any",
        help="Fail (exit 3) when one of these causes is found. Default: any fault in a prompt.",
        rich_help_panel=GATES,
    ),
]
Annotations = Annotated[
    Literal["auto", "github", "none"],
    typer.Option(
        "--annotations",
        metavar="auto|github|none",
        help="Write workflow commands that GitHub shows beside the log. Default: when run by GitHub Actions.",
        rich_help_panel=OUTPUT,
    ),
]
TemplateDoctor = Annotated[
    bool,
    typer.Option(
        "--template-doctor",
        help="Probe the chat template for what breaks prefixes: dates, moved text, dropped reasoning, trimming.",
    ),
]


def causes_of(text: str | None) -> tuple[str, ...] | None:
    """`--what-if` as a list; None where nothing was said, empty for `none`.

    >>> causes_of("date, timestamp"), causes_of("none"), causes_of(None)
    (('date', 'timestamp'), (), None)
    """
    if text is None:
        return None
    if text.strip() == "none":
        return ()
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def fail_on_of(text: str | None) -> tuple[str, ...]:
    """`--fail-on` as causes; OptionError for a word that is no cause."""
    from prefixscope.breaks.causes import FAULTS, RUNG_CAUSES, SEPARATIONS

    known = (*SEPARATIONS, *FAULTS, *RUNG_CAUSES, "not_compared")
    if text is None or text.strip() == "any":
        return FAULTS
    causes = causes_of(text) or ()
    for cause in causes:
        if cause not in known:
            raise OptionError(f"--fail-on {cause}: no such cause; choose from {', '.join(known)}")
    if not causes:
        raise OptionError(f"--fail-on {text!r}: name causes, or any")
    return causes
