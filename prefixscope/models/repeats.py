"""Prompts that come again are rendered and encoded once: what is byte-identical gives the same text and ids.

The key of a chat is everything its template is given, told apart by type as well as by value (1, 1.0 and true are
three things) and in order. A prompt whose template asked for the time is never kept.
"""

from __future__ import annotations

import marshal
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import xxhash

from prefixscope.records import Conversation

__all__ = ["PromptText", "Repeats", "conversation_key"]

ROOM = 4 << 20
"""Characters of the texts that are kept; with their ids two to five times as many bytes."""

_CANONICAL = 2  # the newest form of marshal whose bytes depend on values alone, not on which objects are shared


@dataclass(slots=True)
class PromptText:
    """A prompt's text and, once it was encoded, its ids.

    `bare_tools` tells that it was rendered with bare functions for tools.
    """

    text: str
    replaced_surrogates: int = 0
    bare_tools: bool = False
    notes: tuple[str, ...] = ()
    ids: bytes | None = None


class Repeats:
    """The prompts seen last, by key, as many as there is room for. A key of None is never found."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._known: OrderedDict[Hashable, PromptText] = OrderedDict()
        self.found = 0

    def get(self, key: Hashable) -> PromptText | None:
        """The prompt with this key, if it is still kept."""
        known = self._known.get(key) if key is not None else None
        if known is not None:
            self._known.move_to_end(key)
            self.found += 1
        return known

    def put(self, key: Hashable, prompt: PromptText) -> None:
        """Keeps a prompt, and drops those not seen for longest where it needs their room."""
        if key is None or key in self._known:
            return
        self._known[key] = prompt
        self._room -= len(prompt.text)
        while self._room < 0:
            _, gone = self._known.popitem(last=False)
            self._room += len(gone.text)


def conversation_key(conversation: Conversation, *settings: Hashable) -> Hashable:
    """A key that two conversations share only if they are the same to every template; None where there is none.

    >>> one, two = (Conversation(({"role": "user", "content": n},)) for n in (1, True))
    >>> conversation_key(one) == conversation_key(one), conversation_key(one) == conversation_key(two)
    (True, False)
    """
    given: Any = (
        conversation.messages,
        conversation.tools,
        conversation.documents,
        dict(conversation.options),
        conversation.add_generation_prompt,
        conversation.continue_final_message,
    )
    try:
        return (*settings, xxhash.xxh3_128_digest(marshal.dumps(given, _CANONICAL)))
    except ValueError:  # something that is not plain data
        return None
