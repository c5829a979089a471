"""What a chat template is told when it asks for the time: the request's own time, never the day of the analysis."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["FIXED_DATE", "RequestClock"]

FIXED_DATE = datetime(2026, 1, 1, tzinfo=UTC)
"""The stated date that a template is told when the log has no time for the request."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RequestClock:
    """`strftime_now` of one request, in UTC; `asked` tells whether the template wanted to know.

    >>> clock = RequestClock(0)
    >>> clock.strftime_now("%d %b %Y"), clock.asked
    ('01 Jan 1970', True)
    """

    __slots__ = ("_time_ns", "asked")

    def __init__(self, time_ns: int | None) -> None:
        self.asked = False
        self._time_ns = time_ns

    def strftime_now(self, pattern: str) -> str:
        self.asked = True
        time_ns = self._time_ns
        # engines print datetime.now() without a zone; their zone is not in any log, so it is UTC here
        moment = FIXED_DATE if time_ns is None else _EPOCH + timedelta(microseconds=time_ns // 1000)
        return moment.replace(tzinfo=None).strftime(pattern)
