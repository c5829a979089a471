"""How numbers are written: token counts, shares, bytes, durations and instants. One place, so that all reports agree.

A share never loses what matters: a part that is not nothing is never "0.0 %", and one that is not everything is never
"100.0 %". What is unknown is written as unknown.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

__all__ = ["bytes_", "count", "duration", "instant", "of", "percent", "plural", "points", "share", "span", "tokens"]

UNKNOWN = "unknown"
_SECOND = 1_000_000_000


def count(number: int | None) -> str:
    """The exact number with separators.

    >>> count(48210), count(-1234), count(None)
    ('48,210', '-1,234', 'unknown')
    """
    return UNKNOWN if number is None else f"{number:,}"


def tokens(number: int | None) -> str:
    """A token count: exact below 10,000, above with one decimal in k, M, G, T (thousands, not 1024s).

    >>> tokens(9999), tokens(10000), tokens(408_123_456), tokens(999_960), tokens(-72_200_000)
    ('9,999', '10.0 k', '408.1 M', '1.0 M', '-72.2 M')
    """
    if number is None or abs(number) < 10_000:
        return count(number)
    scaled = float(number)
    for suffix in ("k", "M", "G", "T"):
        scaled /= 1000
        if abs(round(scaled, 1)) < 1000 or suffix == "T":
            return f"{scaled:,.1f} {suffix}"
    raise AssertionError(number)


def share(fraction: float | None) -> str:
    """A fraction as a percentage with one decimal.

    >>> share(0.714), share(0.0), share(0.0001), share(1.0), share(0.99999), share(None)
    ('71.4 %', '0.0 %', '<0.1 %', '100.0 %', '>99.9 %', 'unknown')
    """
    if fraction is None or not math.isfinite(fraction):
        return UNKNOWN
    if 0 < fraction < 0.0005:
        return "<0.1 %"
    if -0.0005 < fraction < 0:
        return ">-0.1 %"
    if 0.9995 <= fraction < 1:
        return ">99.9 %"
    return f"{fraction * 100:.1f} %"


def percent(part: int | None, whole: int | None) -> str:
    """part of whole as a percentage; unknown where either is unknown or the whole is nothing.

    >>> percent(9216, 11520), percent(0, 0)
    ('80.0 %', 'unknown')
    """
    return share(None if part is None or not whole else part / whole)


def of(part: int | None, whole: int | None, what: str) -> str:
    """Numerator and denominator with what they count, the company of every rate.

    >>> of(291_300_000, 408_100_000, "prompt tokens")
    '291.3 M of 408.1 M prompt tokens'
    """
    return f"{tokens(part)} of {tokens(whole)} {what}"


def points(difference: float | None) -> str:
    """A difference of two shares, in percentage points, always signed.

    >>> points(0.129), points(-0.004)
    ('+12.9 points', '-0.4 points')
    """
    return UNKNOWN if difference is None else f"{difference * 100:+.1f} points"


def plural(number: int, noun: str, many: str | None = None) -> str:
    """A counted noun.

    >>> plural(1, "request"), plural(48210, "request"), plural(2, "replica on each host", "replicas on each host")
    ('1 request', '48,210 requests', '2 replicas on each host')
    """
    return f"{count(number)} {noun if number == 1 else many or noun + 's'}"


def bytes_(number: int | None) -> str:
    """A size in bytes, KiB, MiB, GiB, TiB (1024s, as KV memory is bought).

    >>> bytes_(131072), bytes_(42949672960), bytes_(1023)
    ('128.0 KiB', '40.0 GiB', '1,023 B')
    """
    if number is None or abs(number) < 1024:
        return UNKNOWN if number is None else f"{number:,} B"
    scaled = float(number)
    for suffix in ("KiB", "MiB", "GiB", "TiB"):
        scaled /= 1024
        if abs(round(scaled, 1)) < 1024 or suffix == "TiB":
            return f"{scaled:,.1f} {suffix}"
    raise AssertionError(number)


def duration(seconds: float | None) -> str:
    """A length of time in the two largest units that matter.

    >>> duration(0.0231), duration(3.04), duration(185), duration(7260), duration(200_000), duration(59.96)
    ('23 ms', '3.0 s', '3 min 5 s', '2 h 1 min', '2 d 7 h', '1 min 0 s')
    """
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 0:
        return "-" + duration(-seconds)
    if 0 < seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.0005 else "<1 ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for name, size, smaller, smaller_size in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // smaller_size} {smaller}"
    raise AssertionError(seconds)


def instant(time_ns: int) -> str:
    """An instant in ISO 8601, UTC, exact to the nanosecond, without trailing zeros.

    >>> instant(1_763_424_000_000_000_000), instant(1_763_424_000_250_000_001), instant(-1)
    ('2025-11-18T00:00:00Z', '2025-11-18T00:00:00.250000001Z', '1969-12-31T23:59:59.999999999Z')
    """
    seconds, nanoseconds = divmod(time_ns, _SECOND)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    return f"{text}{fraction}Z"


def span(first_ns: int | None, last_ns: int | None, *, relative: bool = False) -> str:
    """From when to when, UTC, to the minute where that tells the two apart, else to the second.

    >>> span(1_763_424_000_000_000_000, 1_763_510_399_000_000_000)
    '2025-11-18 00:00 to 23:59 UTC'
    >>> span(0, 3_600_000_000_000, relative=True)
    '1 h 0 min on a clock of its own (no date)'
    """
    if first_ns is None or last_ns is None:
        return "times unknown"
    if relative:
        return f"{duration((last_ns - first_ns) / _SECOND)} on a clock of its own (no date)"
    first, last = (datetime.fromtimestamp(value // _SECOND, UTC) for value in (first_ns, last_ns))
    clock = "%H:%M" if last_ns - first_ns >= 120 * _SECOND else "%H:%M:%S"
    if first.date() == last.date():
        return f"{first:%Y-%m-%d} {first:{clock}} to {last:{clock}} UTC"
    return f"{first:%Y-%m-%d} {first:{clock}} to {last:%Y-%m-%d} {last:{clock}} UTC"
