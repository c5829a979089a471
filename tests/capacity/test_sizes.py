"""Sizes and tiers as users write them."""

from __future__ import annotations

import pytest

from prefixscope.capacity.sizes import parse_capacity, parse_tier
from prefixscope.errors import OptionError


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("20000blocks", 20000, "blocks"),
        ("1block", 1, "blocks"),
        ("3Mblocks", 3_000_000, "blocks"),
        ("40GiB", 40 * 2**30, "bytes"),
        ("40GB", 40 * 10**9, "bytes"),
        ("0.5TiB", 2**39, "bytes"),
        ("2Mtok", 2_000_000, "tokens"),
        ("512tokens", 512, "tokens"),
        ("0blocks", 0, "blocks"),
    ],
)
def test_capacities(text: str, amount: int, unit: str) -> None:
    capacity = parse_capacity(text)
    assert (capacity.amount, capacity.unit, capacity.text) == (amount, unit, text)


@pytest.mark.parametrize("text", ["", "40", "40G", "GiB", "-1blocks", "2 M", "1e3blocks", "40gib"])
def test_what_is_no_size_is_named(text: str) -> None:
    with pytest.raises(OptionError, match=r"--capacity .*20000blocks, 40GiB or 2Mtok"):
        parse_capacity(text)


def test_sizes_become_whole_blocks() -> None:
    assert parse_capacity("33tok").blocks(16) == 2
    assert parse_capacity("7blocks").blocks(16) == 7
    assert parse_capacity("1GiB").blocks(16, 3 * 2**20) == 341
    with pytest.raises(OptionError, match="1GiB: the bytes of a block are not known"):
        parse_capacity("1GiB").blocks(16)


def test_tiers() -> None:
    ssd = parse_tier("ssd=2TiB@3GB/s")
    assert (ssd.name, ssd.capacity.amount, ssd.bytes_per_s, ssd.latency_s) == ("ssd", 2**41, 3e9, 0.0)
    assert ssd.fetch_seconds(6 * 10**9) == 2.0
    hbm = parse_tier("hbm=40GiB")
    assert hbm.bytes_per_s is None and hbm.fetch_seconds(1) is None
    assert parse_tier("net=9blocks@1.5GiB/s+2ms").latency_s == 0.002


@pytest.mark.parametrize("text", ["4GiB", "=4GiB", "a=4GiB@3", "a=4GiB@3GB/s+20", "a=4GiB@3GB/s+", "a=4GiB@0GB/s"])
def test_what_is_no_tier_is_named(text: str) -> None:
    with pytest.raises(OptionError, match="--tier"):
        parse_tier(text)
