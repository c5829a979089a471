"""How `lint` ends: whether GitHub is told, and what is said where it fails."""

from __future__ import annotations

import os
from collections.abc import Sequence

from prefixscope.results.breaks import Fault

__all__ = ["failing_sentence", "shown_on_github"]


def shown_on_github(wanted: str) -> bool:
    """Whether `--annotations` asks for workflow commands, by itself or because GitHub Actions runs this."""
    return wanted == "github" or (wanted == "auto" and os.environ.get("GITHUB_ACTIONS") == "true")


def failing_sentence(failing: Sequence[Fault]) -> str:
    """The causes that were found, and in how many requests."""
    named = list(dict.fromkeys(fault.cause for fault in failing))
    requests = sum(fault.requests for fault in failing)
    return f"--fail-on: found {', '.join(named)} in {requests:,} request{'s' if requests != 1 else ''}"
