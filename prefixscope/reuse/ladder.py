"""The ladder of one pool: what is still cached after each restriction, and what the restriction took."""

from __future__ import annotations

from collections.abc import Mapping

from prefixscope.engines.profile import EngineProfile
from prefixscope.results import Rung, Totals, rate

__all__ = ["ladder_of"]


def ladder_of(totals: Totals, profile: EngineProfile, simulated: Mapping[str, str] | None = None) -> tuple[Rung, ...]:
    """One rung per restriction, from `reusable` down; a rung that was not simulated is None, never 0.

    `simulated` says of rungs below the engine's rule how they were simulated.
    """
    losses = totals.losses
    why = {
        "last_token": "a fully shared prompt still computes its last token",
        "block_rounding": (
            "matches to the token" if profile.partial_reuse else f"only full units of {profile.match_unit} tokens match"
        ),
        "engine_rule": _engine_rule(profile),
        "in_flight": "not simulated",
        "routing": "not simulated",
        "capacity": "not simulated",
        **(simulated or {}),
    }
    left = totals.reusable_tokens
    rungs = [Rung("reusable", left, rate(left, totals.prompt_tokens), None, "token granular, nothing forgotten")]
    for name, reason in why.items():
        lost = getattr(losses, name)
        if lost is None:
            rungs.append(Rung(name, None, None, None, reason))
        else:
            left -= lost
            rungs.append(Rung(name, left, rate(left, totals.prompt_tokens), lost, reason))
    assert left == totals.expected_cached_tokens
    return tuple(rungs)


def _engine_rule(profile: EngineProfile) -> str:
    if profile.drop_units:
        return f"speculative decoding gives up the last {profile.drop_units} matched unit(s)"
    if profile.lookahead_tokens:
        return f"a block matches only with the {profile.lookahead_tokens} token(s) after it"
    if not profile.stores_output:
        return "generated tokens are not kept"
    return "states not kept, requests that may not read the cache"
