"""The break finder's way through a log: what each row is compared with, and its class or cause."""

from __future__ import annotations

from collections.abc import Callable

from prefixscope.breaks.bodies import BodyStore
from prefixscope.breaks.candidates import UNTOLD, Candidates
from prefixscope.breaks.causes import NO_FAULTS, UNPROVEN, prove
from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.cost import agreed_behind, almost_hit, example
from prefixscope.breaks.detectors.messages import multimodal_content
from prefixscope.breaks.effort import Effort
from prefixscope.breaks.found import Found, fault_id
from prefixscope.breaks.kept import (
    answer_is_approximate,
    by_length,
    is_branch,
    old_turns_return,
    rewritten_when_answered,
    went_back,
    went_on,
)
from prefixscope.breaks.keys import Keys, keys_of
from prefixscope.breaks.media import first_other_medium
from prefixscope.breaks.ranking import MOST_CANDIDATES, RELATED, best_of
from prefixscope.breaks.recent_rows import RecentRows
from prefixscope.breaks.recurring import Recurring
from prefixscope.breaks.sides import Texts
from prefixscope.breaks.table import BreakExample, Breaks
from prefixscope.breaks.threads import another_sample, other_thread, same_application, summed_up
from prefixscope.breaks.verdict import Verdict, VerdictColumns
from prefixscope.index.builder import BuiltLineage
from prefixscope.index.lineage import UNKNOWN

__all__ = ["Run"]

_MOST_NEWER = 3


class Run(RecentRows):
    """The rows of one log in time order. `kind` tells what the prompt of a body was made of."""

    def __init__(self, built: BuiltLineage, store: BodyStore, kind: Callable[[int], str], texts: Texts) -> None:
        super().__init__(built, store, kind, texts)
        self.effort = Effort()
        self.candidates = Candidates(store, self.effort, self._prompt_tokens)
        self.columns = VerdictColumns()
        self.examples: dict[int, BreakExample] = {}
        self.inferred = 0
        self.not_compared = 0
        self.recurring = Recurring()

    # -- rows -----------------------------------------------------------------------------------------------------

    def take(self, row: int) -> None:
        """The class or cause of the next row."""
        number, kind = self.order[row], self.kind(row)
        keys = keys_of(self.store, number, row, self.scopes[row], self.sessions[row], kind)
        self.effort.row(self.prompt[row])
        self.columns.append(self._verdict(row, keys, kind))
        self.candidates.add(keys)

    def _verdict(self, row: int, keys: Keys, kind: str) -> Verdict:
        separated = self._separated(row)
        if separated is not None:
            return separated
        if kind == "hashes" or self.unit[row] != 1:
            return self._by_hashes(row)
        previous = self.candidates.previous(keys)
        if previous == UNTOLD:
            return self._by_lengths(row, self.parents[row])
        if previous is not None and keys.session != UNKNOWN:
            return self._against_previous(row, previous)
        if previous is None and self.candidates.is_forgotten(keys):
            return self._uncompared(UNKNOWN)
        if not self.effort.is_left:
            return self._by_lengths(row, self.parents[row] if previous is None else previous)
        changed = self._in_changed_conversation(row, keys, previous)
        if changed is not None:
            return changed
        if previous is not None:
            self.inferred += 1
            return self._against_previous(row, previous)
        return self._against_best(row, keys)

    def _by_lengths(self, row: int, other: int) -> Verdict:
        """What lengths tell where no step is left to read anything."""
        kept = None if other < 0 else self._kept_whole(row, other)
        return kept or self._uncompared(other)

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
            verdict = self._again(row, other) or self._compared(row, other, session=False, comes_back=True)
            # what goes on from `previous` whole has its head: one that another request has is another variant
            if verdict.cause in NO_FAULTS or (previous is not None and verdict.cause == "system_variant"):
                continue
            if verdict.cause not in UNPROVEN or not self._is_nearer(row, verdict.first):
                return verdict
        return None

    def _is_nearer(self, row: int, first: int) -> bool:
        """Whether the row that shares most has the same first turn or is kept whole, and shares more than `first`: what
        has another head is then the same questions asked elsewhere."""
        parent = self.parents[row]
        if parent < 0 or self.shared[row] <= first + RELATED:
            return False
        one, other = (self.store.first_turn(self.store.node[self.order[number]]) for number in (row, parent))
        return one == other or self._kept_whole(row, parent) is not None

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
            if kept is not None and self.goes_on(row, previous, parent):
                verdict = self._compared(row, previous)
                return kept if verdict.cause in NO_FAULTS else verdict
            if kept is not None:
                return kept
        return self._again(row, previous) or self._compared(row, previous)

    def _against_best(self, row: int, keys: Keys) -> Verdict:
        parent = self.parents[row]
        if parent >= 0:
            kept = self._kept_whole(row, parent)
            if kept is not None:
                return kept
            comparison = self.comparison(row, parent) if self.effort.is_left else None
            if comparison is None:
                return self._uncompared(parent)
            self.effort.looked_at(2 * self.prompt[row])
            if went_on(comparison):
                return Verdict("append_only", parent, comparison.first)
            related = self.shared[row] >= min(RELATED, self.prompt[row] // 4 + 1)
            if related and not self._is_recurring(row, comparison) and is_branch(comparison):
                return Verdict("branched", parent, comparison.first)
        best = self._best(row, keys)
        self.effort.searched(self.prompt[row])
        if best is None:
            return Verdict("first_seen")
        return self._compared(row, best, session=False)

    def _is_recurring(self, row: int, comparison: Comparison) -> bool:
        """Whether the difference is at the place of a known fault in the head of a chat, so no branch."""
        place = self.recurring.place_of(comparison, self.scopes[row])
        return comparison.bodies is not None and self.recurring.is_known(place)

    def _kept_whole(self, row: int, other: int, same_session_as: int | None = None) -> Verdict | None:
        """rewound or append_only against one earlier row, by lengths alone."""
        if same_session_as is not None:
            sessions = self.sessions
            same = sessions[other] != UNKNOWN and sessions[other] == sessions[row]
            if not same and self.shared[row] < self.prompt[row]:
                return None
        first = min(self.first(row, other), self.prompt[row])
        known = self.built.tree.depth[self.leaves[other]]
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
        return best_of(self._prompt_tokens(row), others, self.tokens)

    def _prompt_tokens(self, row: int) -> bytes:
        return self.tokens(row)[: 4 * self.prompt[row]]

    # -- comparing ------------------------------------------------------------------------------------------------

    def _uncompared(self, other: int) -> Verdict:
        self.not_compared += 1
        return Verdict("not_compared", other)

    def _compared(self, row: int, other: int, session: bool = True, comes_back: bool = False) -> Verdict:
        """The verdict against one row. `comes_back`: a cause that is not proven by a normal form needs the old
        conversation to go on behind the difference."""
        comparison = self.comparison(row, other) if self.effort.is_left else None
        if comparison is None:
            return self._uncompared(other)
        if self.with_media[row] and self.with_media[other]:
            by_media = self._by_media(row, other)
            if by_media is not None:
                return by_media
        if went_on(comparison):
            return Verdict("append_only", other, comparison.first)
        place = self.recurring.place_of(comparison, self.scopes[row])
        if comparison.bodies is not None or not is_branch(comparison):
            known = self.recurring.taken_over(place)
            if known is not None:
                self._charge(comparison)
                return self._fault(row, other, comparison, known)
        verdict, found = self._proven(row, other, comparison, session=session, comes_back=comes_back)
        self.recurring.learn(place, found)
        self._charge(comparison)
        return verdict

    def _charge(self, comparison: Comparison) -> None:
        tokens = (len(comparison.new.tokens) + len(comparison.old.tokens)) // 4
        self.effort.compared(tokens, len(comparison.walk.gaps))

    def _proven(
        self, row: int, other: int, comparison: Comparison, *, session: bool, comes_back: bool
    ) -> tuple[Verdict, Found | None]:
        """The verdict by reading both sides, and the fault if it is one."""
        if is_branch(comparison) and not (session and (summed_up(comparison) or rewritten_when_answered(comparison))):
            return Verdict("branched", other, comparison.first), None
        if went_back(comparison):
            return Verdict("rewound", other, comparison.first), None
        found = prove(comparison)
        if other_thread(comparison, found.cause):
            return Verdict("first_seen"), None
        if not session and found.cause == "content_changed" and another_sample(comparison):
            return Verdict("branched", other, comparison.first), None
        if not session and not same_application(comparison, found.cause):
            return Verdict("first_seen"), None
        if comes_back and found.cause in UNPROVEN and not old_turns_return(comparison):
            return Verdict("branched", other, comparison.first), None
        if found.cause == "content_changed" and answer_is_approximate(comparison):
            return Verdict("append_only", other, comparison.first), None
        return self._fault(row, other, comparison, found), found

    def _again(self, row: int, other: int) -> Verdict | None:
        """A known fault by its tokens alone; None where both sides have to be read."""
        if not self.effort.may_take_over:
            return None
        number, earlier = self.order[row], self.order[other]
        tools, options = self.store.tools(number), self.store.options(number)
        if (tools, options) != (self.store.tools(earlier), self.store.options(earlier)):
            return None
        if self.with_media[row] or self.with_media[other] or self.kind(row) != self.kind(other):
            return None
        if self.kind(row) != "chat":
            tools = options = UNKNOWN
        again = self.recurring.again(
            self.scopes[row], tools, options, self._prompt_tokens(row), self.tokens(other),
            self.prompt[other], lambda tokens: self.texts.decode(row, tokens),
        )  # fmt: skip
        if again is None:
            self.effort.looked_for_known()
            return None
        self.effort.taken_over(self.prompt[row])
        found, first = again.found, again.first
        lost = max(0, min(first + again.agreed, self.prompt[row]) - min(self.reused[row], self.prompt[row]))
        moved = again.agreed + again.moved
        return Verdict(found.cause, other, first, str(found.place), found.detail, fault_id(found), lost, moved)

    def _fault(self, row: int, other: int, comparison: Comparison, found: Found) -> Verdict:
        agreed = agreed_behind(comparison, found)
        shared = min(self.reused[row], self.prompt[row])
        lost = max(0, min(comparison.first + agreed, self.prompt[row]) - shared)
        moved = almost_hit(comparison)
        hashed = fault_id(found)
        if hashed not in self.examples:
            self.examples[hashed] = example(row, other, comparison, found, agreed)
        return Verdict(found.cause, other, comparison.first, str(found.place), found.detail, hashed, lost, moved)

    def finish(self) -> Breaks:
        """What was found for all rows."""
        columns = self.columns.done()
        lineage = self.built.lineage
        together = lineage.shared_tokens if self.separation is None else self.separation.within_base
        return Breaks(columns, together, self.examples, self.inferred, self.not_compared)
