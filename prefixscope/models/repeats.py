"""Prompts that come again are rendered and encoded once: what is byte-identical gives the same text and ids.

Chats are equal if everything their template is given is, told apart by type as well as by value (1, 1.0 and true are
three things) and in order. A prompt whose template asked for the time is never kept.
"""

from __future__ import annotations

import marshal
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import xxhash

from prefixscope.records import Conversation

__all__ = ["PromptText", "Repeats", "canonical"]

ROOM = 4 << 20
"""Characters of the texts that are kept; with conversations and ids three to nine times as many bytes."""

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
    """The prompts seen last, as many as there is room for.

    Almost every prompt is new, so conversations are first told apart by what is cheap to look at, and byte for byte
    only where that is equal.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._known: OrderedDict[Hashable, list[_Kept]] = OrderedDict()
        self._asked: tuple[Conversation | str, tuple[Hashable, ...], Hashable] | None = None
        self.found = 0

    def get(self, conversation: Conversation | str, *settings: Hashable) -> PromptText | None:
        """The prompt of an equal conversation (or text) under equal settings, if it is still kept."""
        key = (_at_a_glance(conversation), settings)
        self._asked = conversation, settings, key
        alike = self._known.get(key)
        if alike is None:
            return None
        exact = canonical(conversation)
        for kept in alike:
            if exact is not None and kept.canonical == exact:
                self._known.move_to_end(key)
                self.found += 1
                return kept.prompt
        return None

    def put(self, conversation: Conversation | str, prompt: PromptText, *settings: Hashable) -> None:
        """Keeps a prompt that `get` did not find, and drops those not seen for longest where it needs their room."""
        asked = self._asked
        if asked is not None and asked[0] is conversation and asked[1] == settings:
            key = asked[2]
        else:
            key = (_at_a_glance(conversation), settings)
        self._known.setdefault(key, []).append(_Kept(conversation, prompt))
        self._known.move_to_end(key)
        self._room -= len(prompt.text)
        while self._room < 0:
            _, gone = self._known.popitem(last=False)
            self._room += sum(len(kept.prompt.text) for kept in gone)


class _Kept:
    def __init__(self, conversation: Conversation | str, prompt: PromptText) -> None:
        self._conversation = conversation
        self.prompt = prompt

    @cached_property
    def canonical(self) -> bytes | None:
        return canonical(self._conversation)


def _at_a_glance(conversation: Conversation | str) -> Hashable:
    """Something that equal conversations have in common and different ones seldom."""
    if isinstance(conversation, str):
        return len(conversation), conversation[:32], conversation[-32:]
    contents = [message.get("content") for message in conversation.messages]
    texts = [content if isinstance(content, str) else "" for content in contents]
    lengths = tuple(map(len, texts))
    tools = -1 if conversation.tools is None else len(conversation.tools)
    return lengths, tools, texts[-1][:32] if texts else "", texts[-1][-32:] if texts else ""


def canonical(conversation: Conversation | str) -> bytes | None:
    """A digest of everything a template is given, by type, value and order; None for what is not plain data.

    >>> one, two = (Conversation(({"role": "user", "content": n},)) for n in (1, True))
    >>> canonical(one) == canonical(one), canonical(one) == canonical(two)
    (True, False)
    """
    given: Any = conversation
    if isinstance(conversation, Conversation):
        given = (
            conversation.messages,
            conversation.tools,
            conversation.documents,
            dict(conversation.options),
            conversation.add_generation_prompt,
            conversation.continue_final_message,
        )
    try:
        return xxhash.xxh3_128_digest(marshal.dumps(given, _CANONICAL))
    except ValueError:
        return None
