"""Derives every stored block's hash again and names what differs where it does not fit.

A block's hash needs its parent's whole digest. It is known where the parent's hash was derived before, where events
carry whole digests, or where one of the given chains contains the parent; else the block can't be checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from prefixscope.engines.events.recipes import (
    Alternatives,
    HashSettings,
    Ingredient,
    Recipe,
    StoredBlock,
    blocks_of,
    other_recipes,
    stated_recipe,
)
from prefixscope.engines.events.records import BlockStored, EventBatch, EventHash
from prefixscope.errors import OptionError

__all__ = ["BlockCheck", "Difference", "KnownBlock", "Rederivation", "rederive"]

Outcome = Literal["equal", "different", "unexplained", "parent_unknown", "no_tokens"]

SEARCHES = 50
"""Failed searches after which blocks that do not fit are only counted: each tries some hundred recipes."""


@dataclass(frozen=True, slots=True)
class KnownBlock:
    """A block of a chain computed from a log: its digest, its tokens, and whose it is."""

    digest: bytes
    tokens: bytes
    owner: str


@dataclass(frozen=True, slots=True)
class Difference:
    """The first ingredient in which the engine's hash differs from the stated settings, and all that had to change."""

    ingredient: Ingredient
    changed: tuple[Ingredient, ...]
    statement: str


@dataclass(frozen=True, slots=True)
class BlockCheck:
    """What came of one stored block. `batch` counts from 0; `derived` is our digest, None where none could be made."""

    batch: int
    hash: EventHash
    outcome: Outcome
    derived: bytes | None = None
    difference: Difference | None = None


@dataclass(frozen=True, slots=True)
class Rederivation:
    """All checks in order; `differences` counts blocks per distinct difference, in order of appearance.

    `uncomputable` is why the stated settings give no hash at all (a random seed, a missing path), None if they do.
    """

    checks: tuple[BlockCheck, ...]
    differences: tuple[tuple[Difference, int], ...]
    digests: Mapping[EventHash, bytes]
    uncomputable: str | None

    @property
    def counts(self) -> dict[Outcome, int]:
        """Blocks per outcome; outcomes that did not occur are 0."""
        counted = Counter(check.outcome for check in self.checks)
        names: tuple[Outcome, ...] = ("equal", "different", "unexplained", "parent_unknown", "no_tokens")
        return {name: counted[name] for name in names}


@dataclass(slots=True)
class _Checker:
    settings: HashSettings
    alternatives: Alternatives
    known: Mapping[EventHash, KnownBlock]
    digests: dict[EventHash, bytes] = field(default_factory=dict)
    found: dict[Recipe, Difference] = field(default_factory=dict)
    failed_searches: int = 0
    uncomputable: str | None = None

    def check(self, batch: int, block: StoredBlock) -> BlockCheck:
        parent = None
        if block.parent is not None:
            parent = self._digest(block.parent)
            if parent is None:
                return BlockCheck(batch, block.hash, "parent_unknown")
        stated = stated_recipe(self.settings, block)
        derived = self._try(stated, block, parent)
        if derived is not None and stated.fits(block, derived):
            self.digests[block.hash] = derived
            return BlockCheck(batch, block.hash, "equal", derived)
        return self._explained(batch, block, parent, stated, derived)

    def _explained(
        self, batch: int, block: StoredBlock, parent: bytes | None, stated: Recipe, derived: bytes | None
    ) -> BlockCheck:
        for recipe, difference in self.found.items():
            digest = self._try(recipe, block, parent)
            if digest is not None and recipe.fits(block, digest):
                self.digests[block.hash] = digest
                return BlockCheck(batch, block.hash, "different", derived, difference)
        if self.failed_searches < SEARCHES:
            for changed, recipe in other_recipes(block, stated, self.alternatives, parent):
                digest = self._try(recipe, block, parent)
                if digest is not None and recipe.fits(block, digest):
                    difference = Difference(changed[0], changed, _statement(changed, stated, recipe, block))
                    self.found[recipe] = difference
                    self.digests[block.hash] = digest
                    return BlockCheck(batch, block.hash, "different", derived, difference)
            self.failed_searches += 1
        ours = self.known.get(block.hash)
        if ours is not None and ours.tokens != block.tokens:
            place = _first_difference(ours.tokens, block.tokens)
            statement = (
                f"the hash is that of {ours.owner} in the log, but the tokens published with it differ from "
                f"token {place} of the block on"
            )
            return BlockCheck(batch, block.hash, "different", derived, Difference("tokens", ("tokens",), statement))
        return BlockCheck(batch, block.hash, "unexplained", derived)

    def _digest(self, value: EventHash) -> bytes | None:
        if isinstance(value, bytes):
            return value
        digest = self.digests.get(value)
        if digest is None and value in self.known:
            digest = self.known[value].digest
        return digest

    def _try(self, recipe: Recipe, block: StoredBlock, parent: bytes | None) -> bytes | None:
        try:
            return recipe.derive(block, parent)
        except OptionError as error:
            if self.uncomputable is None and recipe == stated_recipe(self.settings, block):
                self.uncomputable = str(error)
            return None


def _first_difference(ours: bytes, theirs: bytes) -> int:
    for at in range(0, min(len(ours), len(theirs)), 4):
        if ours[at : at + 4] != theirs[at : at + 4]:
            return at // 4
    return min(len(ours), len(theirs)) // 4


def _statement(changed: tuple[Ingredient, ...], stated: Recipe, found: Recipe, block: StoredBlock) -> str:
    """One sentence per changed ingredient: what fits, and what was stated."""
    parts = []
    for ingredient in changed:
        if ingredient == "seed":
            parts.append(f"seed: the engine ran with {_seed(found)}, not {_seed(stated)}")
        elif ingredient == "algorithm":
            parts.append(f"algorithm: the engine hashes with {found.algorithm}, not {stated.algorithm}")
        elif ingredient == "adapter":
            fits, said = _form(found.adapter, "path"), _form(stated.adapter, "path")
            parts.append(f"adapter: '{block.adapter_name}' enters the hash {fits}, not {said}")
        elif ingredient == "salt":
            parts.append(f"salt: it enters the hash {_form(found.salt, 'value')}, not {_form(stated.salt, 'value')}")
        else:
            parts.append(f"media: they enter the hash {found.media}, not {stated.media}")
    return "; ".join(parts)


def _seed(recipe: Recipe) -> str:
    if recipe.seed.seed is not None:
        return f"PYTHONHASHSEED={recipe.seed.seed}"
    return "no PYTHONHASHSEED"


def _form(pair: tuple[str, str | None], noun: str) -> str:
    form, value = pair
    if form == "absent":
        return "not at all"
    if form == "bare":
        return "bare (vLLM before 0.31)" + ("" if value is None else f" with another {noun}")
    if noun == "path":
        return "with its path unknown" if value is None else f"with the path {value}"
    return "tagged (vLLM 0.31 and newer)" + ("" if value is None else f" with another {noun}")


def rederive(
    batches: Iterable[EventBatch],
    settings: HashSettings,
    alternatives: Alternatives | None = None,
    known: Mapping[EventHash, KnownBlock] | None = None,
) -> Rederivation:
    """Checks every stored block; `known` maps event hashes of chains from a log to their blocks.

    Outcomes: `equal` to the stated settings; `different` in a named ingredient; `unexplained`: nothing tried fits;
    `parent_unknown`: the chain before it was not seen; `no_tokens`: the event does not say which tokens (lower tiers).
    """
    checker = _Checker(settings, alternatives or Alternatives(), known or {})
    checks: list[BlockCheck] = []
    for number, batch in enumerate(batches):
        for event in batch.events:
            if not isinstance(event, BlockStored):
                continue
            blocks = list(blocks_of(event))
            checks.extend(checker.check(number, block) for block in blocks)
            if not blocks:
                checks.extend(BlockCheck(number, value, "no_tokens") for value in event.hashes)
    counted = Counter(check.difference for check in checks if check.difference is not None)
    return Rederivation(tuple(checks), tuple(counted.items()), checker.digests, checker.uncomputable)
