"""Capacities and tiers as users write them, and what they are in blocks, tokens and bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from prefixscope.errors import OptionError

__all__ = ["Capacity", "Tier", "parse_capacity", "parse_tier"]

_SCALE = {
    "": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(|k|K|M|G|T|Ki|Mi|Gi|Ti)(blocks?|B|tok|tokens?)")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(|k|K|M|G|T|Ki|Mi|Gi|Ti)B/s")
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)")
_SECONDS = {"ns": Decimal("1e-9"), "us": Decimal("1e-6"), "µs": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1)}


@dataclass(frozen=True, slots=True)
class Capacity:
    """A size of the cache, per replica: usable blocks, bytes, or tokens. `text` is what the user wrote."""

    text: str
    amount: int
    unit: Literal["blocks", "bytes", "tokens"]

    def blocks(self, block_size: int, block_bytes: int | None = None) -> int:
        """Whole blocks that fit; OptionError where bytes were given and a block's bytes are not known.

        >>> parse_capacity("40GiB").blocks(16, 2 * 2**20), parse_capacity("2Mtok").blocks(16)
        (20480, 125000)
        """
        if self.unit == "blocks":
            return self.amount
        if self.unit == "tokens":
            return self.amount // block_size
        if not block_bytes:
            raise OptionError(
                f"{self.text}: the bytes of a block are not known (the model's config.json tells them); "
                "give blocks or tokens instead"
            )
        return self.amount // block_bytes


def parse_capacity(text: str, option: str = "--capacity") -> Capacity:
    """`20000blocks`, `40GiB`, `2Mtok`; Gi = 2^30, M = 10^6. OptionError names what is accepted.

    >>> parse_capacity("1.5GiB").amount, parse_capacity("20kblocks").amount
    (1610612736, 20000)
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise OptionError(f"{option} {text}: not a size (20000blocks, 40GiB or 2Mtok; Gi = 2^30, M = 10^6)")
    number, scale, unit = match.groups()
    amount = int(Decimal(number) * _SCALE[scale])
    if unit == "B":
        return Capacity(text, amount, "bytes")
    return Capacity(text, amount, "tokens" if unit.startswith("tok") else "blocks")


@dataclass(frozen=True, slots=True)
class Tier:
    """One level of memory. `bytes_per_s` and `latency_s` are the cost of fetching from it; None: not said."""

    name: str
    capacity: Capacity
    bytes_per_s: float | None = None
    latency_s: float = 0.0

    def fetch_seconds(self, size: int) -> float | None:
        """Seconds to fetch `size` bytes, None where the bandwidth is not known."""
        return None if self.bytes_per_s is None else self.latency_s + size / self.bytes_per_s


def parse_tier(text: str) -> Tier:
    """`NAME=SIZE`, then `@BANDWIDTH` and `+LATENCY` where known.

    >>> tier = parse_tier("dram=200GiB@25GB/s+20us")
    >>> tier.name, tier.capacity.amount == 200 * 2**30, tier.bytes_per_s, tier.latency_s
    ('dram', True, 25000000000.0, 2e-05)
    """
    name, equals, rest = text.strip().partition("=")
    size, at, cost = rest.partition("@")
    bandwidth, plus, latency = cost.partition("+")
    if not equals or not name or (at and not _RATE.fullmatch(bandwidth)) or (plus and not _TIME.fullmatch(latency)):
        raise OptionError(f"--tier {text}: not NAME=SIZE[@BANDWIDTH[+LATENCY]], such as dram=200GiB@25GB/s+20us")
    capacity = parse_capacity(size, f"--tier {name}:")
    if not at:
        return Tier(name, capacity)
    number, scale = _groups(_RATE, bandwidth)
    rate = Decimal(number) * _SCALE[scale]
    if not rate:
        raise OptionError(f"--tier {text}: the bandwidth is zero")
    seconds = Decimal(0)
    if plus:
        number, scale = _groups(_TIME, latency)
        seconds = Decimal(number) * _SECONDS[scale]
    return Tier(name, capacity, float(rate), float(seconds))


def _groups(pattern: re.Pattern[str], text: str) -> tuple[str, str]:
    match = pattern.fullmatch(text)
    assert match is not None
    return match.group(1), match.group(2)
