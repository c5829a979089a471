"""Finds where each prompt departs from what it could be expected to share, and proves why.

`note` is called while reading, once per row that goes into the tree, and keeps the body. `find` is called when the
tree stands and goes through the rows in time order: lengths decide most of them; the others are compared with one
earlier request, and the ordered detectors of `causes` name the cause.
"""

from __future__ import annotations

from collections.abc import Callable

import xxhash

from prefixscope.breaks.bodies import DEFAULT_BUDGET, BodyPieces, BodyStore
from prefixscope.breaks.candidates import Candidates, Keys
from prefixscope.breaks.causes import NO_FAULTS, UNPROVEN, prove
from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.cost import agreed_behind, almost_hit, example
from prefixscope.breaks.detectors.messages import multimodal_content
from prefixscope.breaks.found import Found
from prefixscope.breaks.kept import by_length, is_branch, old_turns_return, same_application, went_on
from prefixscope.breaks.media import first_other_medium
from prefixscope.breaks.ranking import MOST_CANDIDATES, RELATED, best_of
from prefixscope.breaks.rows import Rows
from prefixscope.breaks.sides import Texts
from prefixscope.breaks.table import BreakExample, Breaks
from prefixscope.breaks.verdict import Verdict, VerdictColumns
from prefixscope.index.builder import BuiltLineage
from prefixscope.index.lineage import UNKNOWN

__all__ = ["BreakFinder"]

_MOST_NEWER = 3
KINDS = ("chat", "text", "tokens", "hashes")


class BreakFinder:
    """One run over one log."""

    def __init__(self, budget: int = DEFAULT_BUDGET) -> None:
        self.store = BodyStore(budget)
        self._kinds = bytearray()

    def note(self, kind: str, pieces: BodyPieces) -> None:
        """Keeps what the comparison will need of a request: its kind and its body."""
        self.store.add_pieces(pieces)
        self._kinds.append(KINDS.index(kind))

    def find(self, built: BuiltLineage, texts: Texts, progress: Callable[[int], None] = lambda _: None) -> Breaks:
        """Every row's class or cause, in time order."""
        run = _Run(self, built, texts)
        for row in range(len(built.lineage)):
            run.take(row)
            if row % 500 == 499:
                progress(row + 1)
        return run.finish()

    def kind(self, number: int) -> str:
        """What the prompt of a body was made of."""
        return KINDS[self._kinds[number]]


class _Run(Rows):
    def __init__(self, finder: BreakFinder, built: BuiltLineage, texts: Texts) -> None:
        super().__init__(built, finder.store, finder.kind, texts)
        self.candidates = Candidates(finder.store)
        self.columns = VerdictColumns()
        self.examples: dict[int, BreakExample] = {}
        self.inferred = 0
        self.not_compared = 0

    # -- rows -----------------------------------------------------------------------------------------------------

    def take(self, row: int) -> None:
        number, kind = self.order[row], self.kind(row)
        tokens = self.tokens(row)[: 4 * self.prompt[row]] if kind in ("text", "tokens") else None
        keys = self.candidates.keys_of(number, self.scopes[row], self.sessions[row], kind, tokens)
        verdict = self._verdict(row, keys, kind)
        self.columns.append(verdict)
        self.candidates.add(row, keys)

    def _verdict(self, row: int, keys: Keys, kind: str) -> Verdict:
        separated = self._separated(row)
        if separated is not None:
            return separated
        if kind == "hashes" or self.unit[row] != 1:
            return self._by_hashes(row)
        previous = self.candidates.previous(keys)
        if previous is not None and previous[1]:
            return self._against_previous(row, previous[0])
        changed = self._in_changed_conversation(row, keys, None if previous is None else previous[0])
        if changed is not None:
            return changed
        if previous is not None:
            self.inferred += 1
            return self._against_previous(row, previous[0])
        return self._against_best(row, keys)

    def _in_changed_conversation(self, row: int, keys: Keys, previous: int | None) -> Verdict | None:
        """Without a logged session: a fault against a later request of the same conversation than `previous`, the last
        one whose messages this one's begin with. A change in the history hides those in between from it."""
        least = -1 if previous is None else previous
        newer = [other for other in self.candidates.conversation(keys) if other > least][:_MOST_NEWER]
        parent = self.parents[row]
        if previous is not None and parent > previous and self.shared[row] > self.prompt[previous] + RELATED:
            newer.append(parent)
        for other in newer:
            kept = self._kept_whole(row, other)
            if kept is not None:
                return kept
            verdict = self._compared(row, other, session=False, comes_back=True)
            if verdict.cause not in NO_FAULTS:
                return verdict
        return None

    def _separated(self, row: int) -> Verdict | None:
        shared = min(self.shared[row], self.prompt[row])
        if self.separation is not None:
            found = self.separation.of(row, shared, self.prompt[row])
            if found is not None:
                return Verdict(found.cause, found.candidate, found.shared, lost=found.shared - shared)
        if not self.built.lineage.reads_cache[row] and shared:
            return Verdict("prompt_logprobs", self.parents[row], shared, lost=shared)
        return None

    def _by_hashes(self, row: int) -> Verdict:
        """Without text: what lengths tell, and the rest is a branch, for ids of hashes never agree again."""
        shared, parent = self.shared[row], self.parents[row]
        if parent < 0:
            return Verdict("first_seen")
        kept = by_length(shared, self.prompt[row], self.prompt[parent], self.prompt[parent])
        return Verdict(kept or "branched", parent, min(shared, self.prompt[row]))

    def _against_previous(self, row: int, previous: int) -> Verdict:
        kept = self._kept_whole(row, previous)
        if kept is not None:
            return kept
        parent = self.parents[row]
        if parent not in (UNKNOWN, previous):
            # the session went back, or runs in several threads: an earlier prompt of it may be kept as a whole
            kept = self._kept_whole(row, parent, same_session_as=previous)
            if kept is not None:
                return kept
        return self._compared(row, previous)

    def _against_best(self, row: int, keys: Keys) -> Verdict:
        parent = self.parents[row]
        if parent >= 0:
            kept = self._kept_whole(row, parent)
            if kept is not None:
                return kept
            comparison = self.comparison(row, parent)
            if comparison is None:
                return self._uncompared(parent)
            if self.shared[row] >= min(RELATED, self.prompt[row] // 4 + 1) and is_branch(comparison):
                return Verdict("branched", parent, comparison.first)
        best = self._best(row, keys)
        if best is None:
            return Verdict("first_seen")
        return self._compared(row, best, session=False)

    def _kept_whole(self, row: int, other: int, same_session_as: int | None = None) -> Verdict | None:
        """rewound or append_only against one earlier row, by lengths alone."""
        if same_session_as is not None:
            sessions = self.sessions
            same = sessions[other] != UNKNOWN and sessions[other] == sessions[row]
            if not same and self.shared[row] < self.prompt[row]:
                return None
        first = min(self.first(row, other), self.prompt[row])
        known = self.built.tree.depth[self.built.ends[other].leaf]
        kept = by_length(first, self.prompt[row], self.prompt[other], known)
        if kept is None:
            return None
        return self._by_media(row, other) or Verdict(kept, other, first)

    def _by_media(self, row: int, other: int) -> Verdict | None:
        """Equal tokens may stand for other images: the first that differs is where the prompts part."""
        if not (self.with_media[row] or self.with_media[other]) or self.namespaces[row] == self.namespaces[other]:
            return None
        comparison = self.comparison(row, other)
        if comparison is None:
            return self._uncompared(other)
        first = first_other_medium(comparison)
        if first is None:
            return None
        comparison = Comparison(comparison.new, comparison.old, first, self.store, self.texts)
        found = multimodal_content(comparison)
        return None if found is None else self._fault(row, other, comparison, found)

    # -- candidates -----------------------------------------------------------------------------------------------

    def _best(self, row: int, keys: Keys) -> int | None:
        """The earlier row to compare with, among those that the keys lead to and the one that shares most."""
        others = self.candidates.others(keys)
        parent = self.parents[row]
        if parent >= 0 and parent not in others:
            others = sorted((*others[: MOST_CANDIDATES - 1], parent), reverse=True)
        return best_of(self.tokens(row)[: 4 * self.prompt[row]], others, self.tokens)

    # -- comparing ------------------------------------------------------------------------------------------------

    def _uncompared(self, other: int) -> Verdict:
        self.not_compared += 1
        return Verdict("not_compared", other)

    def _compared(self, row: int, other: int, session: bool = True, comes_back: bool = False) -> Verdict:
        """The verdict against one row. `comes_back`: a cause that is not proven by a normal form needs the old
        conversation to go on behind the difference."""
        comparison = self.comparison(row, other)
        if comparison is None:
            return self._uncompared(other)
        if self.with_media[row] and self.with_media[other]:
            by_media = self._by_media(row, other)
            if by_media is not None:
                return by_media
        if went_on(comparison):
            return Verdict("append_only", other, comparison.first)
        if is_branch(comparison):
            return Verdict("branched", other, comparison.first)
        if _went_back(comparison):
            return Verdict("rewound", other, comparison.first)
        found = prove(comparison)
        if not session and not same_application(comparison, found.cause):
            return Verdict("first_seen")
        if comes_back and found.cause in UNPROVEN and not old_turns_return(comparison):
            return Verdict("branched", other, comparison.first)
        if found.cause == "content_changed" and _answer_is_approximate(comparison):
            return Verdict("append_only", other, comparison.first)
        return self._fault(row, other, comparison, found)

    def _fault(self, row: int, other: int, comparison: Comparison, found: Found) -> Verdict:
        agreed = agreed_behind(comparison, found)
        shared = min(self.reused[row], self.prompt[row])
        lost = max(0, min(comparison.first + agreed, self.prompt[row]) - shared)
        moved = almost_hit(comparison)
        place = found.place
        hashed = xxhash.xxh3_64_intdigest(f"{found.cause}\n{place.kind}\n{place.role}\n{found.key}".encode()) >> 1
        if hashed not in self.examples:
            self.examples[hashed] = example(row, other, comparison, found, agreed)
        return Verdict(found.cause, other, comparison.first, str(place), found.detail, hashed, lost, moved)

    def finish(self) -> Breaks:
        columns = self.columns.done()
        lineage = self.built.lineage
        together = lineage.shared_tokens if self.separation is None else self.separation.within_base
        return Breaks(columns, together, self.examples, self.inferred, self.not_compared)


def _went_back(comparison: Comparison) -> bool:
    """All messages of the new prompt begin the old one, and only its generation prompt is not there."""
    if comparison.bodies is None:
        return False
    new, old = comparison.bodies
    return (
        comparison.equal_messages == len(new.messages) < len(old.messages)
        and comparison.tools is None
        and comparison.place.kind == "generation"
    )


def _answer_is_approximate(comparison: Comparison) -> bool:
    """The difference lies in an answer whose ids were made from its text: nothing is proven by it."""
    return comparison.place.kind == "output" and comparison.old.output != "ids"
