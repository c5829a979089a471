"""SGLang: a radix tree compared token by token, in pages."""

from __future__ import annotations

from prefixscope.engines.profile import EngineOptions, EngineProfile
from prefixscope.engines.rules import bigram_pages, full_units
from prefixscope.engines.versions import parse_version

__all__ = ["sglang"]

DEFAULT_VERSION = "0.5.23"


def sglang(version: str | None, options: EngineOptions) -> EngineProfile:
    """SGLang's profile: page size 1 unless the backend wants more; prefixes are found when their prefill has ended."""
    parse_version("sglang", version or DEFAULT_VERSION, "0.5")
    page = options.block_size or 1
    eagle = options.speculative != "none"
    return EngineProfile(
        name="sglang",
        version=version or DEFAULT_VERSION,
        block_size=page,
        match_unit=options.match_unit or page,
        rule=bigram_pages if eagle else full_units,
        stores_output=not options.strip_thinking,
        visible="prefill_end",
        unhashed_first=False,
        eviction="leaf-lru",
        speculative=options.speculative,
    )
