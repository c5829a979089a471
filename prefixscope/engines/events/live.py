"""Live KV events over ZMQ: a subscriber that notices lost messages and asks the replay socket for them.

A publisher sends [topic, 8-byte big-endian sequence number, msgpack]. Its replay socket (ROUTER) answers an empty
frame and a first number with all buffered messages from there on, and ends with number -1.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from prefixscope.engines.events.decode import batch_from_frames
from prefixscope.engines.events.history import publisher_restarted
from prefixscope.engines.events.records import EventBatch
from prefixscope.errors import EndpointError, OptionError

__all__ = ["FrameSource", "ZmqSubscription", "follow", "is_endpoint", "replay_frames"]

END_OF_REPLAY = -1


def is_endpoint(text: str) -> bool:
    """Whether a command-line argument names a publisher rather than a file.

    >>> is_endpoint("tcp://10.0.0.3:5557"), is_endpoint("events.jsonl")
    (True, False)
    """
    return re.match(r"(tcp|ipc|inproc)://", text) is not None


class FrameSource(Protocol):
    """Where messages come from."""

    def receive(self, timeout_s: float) -> Sequence[bytes] | None:
        """The next message's frames, None if none came in time."""


def _zmq() -> Any:
    try:
        import zmq
    except ImportError as error:
        raise OptionError("live events need pyzmq (pip install 'prefixscope[events]')") from error
    return zmq


def _connected(kind: str, endpoint: str) -> Any:
    zmq = _zmq()
    socket = zmq.Context.instance().socket(getattr(zmq, kind))
    socket.setsockopt(zmq.LINGER, 0)
    try:
        socket.connect(endpoint.replace("://*:", "://127.0.0.1:"))
    except zmq.ZMQError as error:
        socket.close()
        raise EndpointError(f"can't connect to {endpoint}: {error}") from error
    return socket


class ZmqSubscription:
    """A SUB socket on a publisher's endpoint; use as a context manager."""

    def __init__(self, endpoint: str, topic: str = "") -> None:
        self._socket = _connected("SUB", endpoint)
        self._socket.setsockopt(_zmq().SUBSCRIBE, topic.encode("utf-8"))

    def __enter__(self) -> ZmqSubscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def receive(self, timeout_s: float) -> Sequence[bytes] | None:
        """The next message's frames, None if none came in time."""
        if not self._socket.poll(int(timeout_s * 1000)):
            return None
        frames: Sequence[bytes] = self._socket.recv_multipart()
        return frames

    def close(self) -> None:
        """Leaves the publisher."""
        self._socket.close()


def replay_frames(endpoint: str, start: int, timeout_s: float = 5.0) -> list[Sequence[bytes]]:
    """All messages the publisher still has from number `start` on. Raises EndpointError when it does not answer."""
    zmq = _zmq()
    socket = _connected("DEALER", endpoint)
    try:
        socket.send_multipart([b"", start.to_bytes(8, "big")])
        found: list[Sequence[bytes]] = []
        while True:
            if not socket.poll(int(timeout_s * 1000), zmq.POLLIN):
                raise EndpointError(f"the replay socket {endpoint} did not answer within {timeout_s:g} s")
            frames = socket.recv_multipart()
            if len(frames) < 2 or len(frames[-2]) != 8:
                raise EndpointError(f"{endpoint} does not answer like a KV event replay socket")
            if int.from_bytes(frames[-2], "big", signed=True) == END_OF_REPLAY:
                return found
            # behind the empty delimiter: topic (not in older versions), number, payload
            found.append(frames[1:] if len(frames) > 3 else [b"", *frames[-2:]])
    finally:
        socket.close()


def follow(
    source: FrameSource,
    replay: Callable[[int], Iterable[Sequence[bytes]]] | None = None,
    *,
    idle_s: float | None = None,
    batches: int | None = None,
    tick_s: float = 0.2,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[EventBatch]:
    """Batches of one publisher in order, each once, lost ones fetched again where `replay` can.

    With `replay` it begins with everything the publisher still has. What can't be fetched stays a gap in the sequence
    numbers, which `cache_history` reports. Ends after `batches` batches or `idle_s` seconds without a message; with
    neither it goes on until the caller stops.
    """
    expected: int | None = None
    last_ns: int | None = None
    given = 0
    pending: list[EventBatch] = [] if replay is None else [batch_from_frames(frames) for frames in replay(0)]
    last_heard = clock()
    while batches is None or given < batches:
        if not pending:
            frames = source.receive(tick_s)
            if frames is None:
                if idle_s is not None and clock() - last_heard >= idle_s:
                    return
                continue
            last_heard = clock()
            pending = _with_lost(batch_from_frames(frames), expected, replay)
        batch = pending.pop(0)
        sequence = batch.sequence
        assert sequence is not None  # every message carries one
        if expected is not None and sequence < expected and not publisher_restarted(batch, last_ns):
            continue
        expected, last_ns = sequence + 1, batch.time_ns
        given += 1
        yield batch


def _with_lost(
    batch: EventBatch, expected: int | None, replay: Callable[[int], Iterable[Sequence[bytes]]] | None
) -> list[EventBatch]:
    """A received batch behind the ones lost before it."""
    sequence = batch.sequence
    if replay is None or sequence is None or expected is None or sequence <= expected:
        return [batch]
    lost = [found for found in map(batch_from_frames, replay(expected)) if (found.sequence or 0) < sequence]
    return [*lost, batch]
