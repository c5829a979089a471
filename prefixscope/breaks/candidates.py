"""Which earlier request a row is compared with: a few look-ups by key, never all pairs.

The session's previous request comes first; sessions are those of the log, else a conversation is continued by the
request whose messages begin with all of its messages. Without either, requests with the same tools, a similar system
prompt, the same pair of messages, or just before in time are candidates, and the one whose text agrees most behind
the difference is taken.
"""

from __future__ import annotations

from collections.abc import Callable

from prefixscope.breaks.bodies import NOTHING, BodyStore
from prefixscope.breaks.conversations import Conversations
from prefixscope.breaks.effort import Effort
from prefixscope.breaks.heads import Heads
from prefixscope.breaks.keys import Keys
from prefixscope.breaks.sessions import UNTOLD, Sessions

__all__ = ["UNTOLD", "Candidates"]


class Candidates:
    """Rows seen so far, by key. Rows come in time order; `tokens_of` gives a row's prompt."""

    def __init__(self, store: BodyStore, effort: Effort, tokens_of: Callable[[int], bytes]) -> None:
        self._heads = Heads(store, effort, tokens_of)
        self._sessions = Sessions(self._heads, effort)
        self._conversations = Conversations(store, effort)
        self.conversation = self._conversations.rows_of
        self.is_forgotten = self._sessions.is_forgotten

    def previous(self, keys: Keys) -> int | None:
        """The request before: in the logged session (UNTOLD where no step is left to tell the thread of it), else the
        one that the row's messages continue."""
        if keys.session != NOTHING:
            return self._sessions.previous(keys)
        return self._conversations.continued(keys)

    def others(self, keys: Keys) -> list[int]:
        """Rows that may have the same text behind a difference, latest first."""
        return sorted(self._heads.rows_like(keys) | set(self.conversation(keys)), reverse=True)

    def add(self, keys: Keys) -> None:
        """Makes a row known to those after it."""
        self._sessions.add(keys)
        self._heads.add(keys)
        self._conversations.add(keys)
