"""What of a row leads to earlier rows it may be compared with: numbers that are at hand, read from no text."""

from __future__ import annotations

from typing import NamedTuple

from prefixscope.breaks.bodies import NOTHING, BodyStore

__all__ = ["Keys", "keys_of"]


class Keys(NamedTuple):
    """A row's namespace and session, the node of its messages, its tools, its first message and its first turn.

    NOTHING where there is none; `node` is 0 where the prompt is not made of messages, and `has_tokens` tells whether
    it is then one of text or token ids.
    """

    row: int
    namespace: int
    session: int
    node: int
    tools: int
    head: int
    first_turn: int
    has_tokens: bool


def keys_of(store: BodyStore, number: int, row: int, namespace: int, session: int, kind: str) -> Keys:
    """The keys of a row with body `number`."""
    if kind != "chat":
        return Keys(row, namespace, session, 0, NOTHING, NOTHING, NOTHING, kind in ("text", "tokens"))
    node = store.node[number]
    return Keys(
        row, namespace, session, node, store.tools(number), store.first_message(node), store.first_turn(node), False
    )
