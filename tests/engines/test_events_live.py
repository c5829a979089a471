"""The live edge: order, lost messages, repetition and restart with a fake source, and once over real sockets."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import msgpack
import pytest
import zmq

from prefixscope.engines.events import ZmqSubscription, cache_history, follow, is_endpoint, replay_frames
from prefixscope.errors import EndpointError


def message(sequence: int, at: float | None = None, value: int | None = None) -> list[bytes]:
    event = ["BlockStored", [sequence if value is None else value], None, [1], 1, None, "GPU"]
    return [b"", sequence.to_bytes(8, "big"), msgpack.packb([float(sequence) if at is None else at, [event], 0])]


class Recorded:
    """A source that gives prepared messages, then silence."""

    def __init__(self, *messages: Sequence[bytes]) -> None:
        self.messages = list(messages)

    def receive(self, timeout_s: float) -> Sequence[bytes] | None:
        return self.messages.pop(0) if self.messages else None


def numbers(batches: Iterator[object]) -> list[int | None]:
    return [batch.sequence for batch in batches]  # type: ignore[attr-defined]


def test_lost_messages_are_fetched_again_in_order() -> None:
    asked = []

    def replay(start: int) -> list[list[bytes]]:
        asked.append(start)
        return [message(number) for number in range(start, 9)] if start else [message(0), message(1)]

    source = Recorded(message(1), message(2), message(6), message(7))
    assert numbers(follow(source, replay, idle_s=0.0)) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert asked == [0, 3]


def test_what_can_not_be_fetched_stays_a_gap() -> None:
    batches = list(follow(Recorded(message(3), message(6)), idle_s=0.0))
    assert [batch.sequence for batch in batches] == [3, 6]
    assert [(gap.first_missing, gap.last_missing) for gap in cache_history(batches).gaps] == [(0, 2), (4, 5)]


def test_a_restarted_publisher_is_followed() -> None:
    source = Recorded(message(0), message(5, 5.0), message(1, 6.0, value=77), message(2, 7.0))
    batches = list(follow(source, idle_s=0.0))
    assert [batch.sequence for batch in batches] == [0, 5, 1, 2]
    history = cache_history(batches)
    assert history.restarts == 1
    assert [stay.hash for stay in history.held_at_end()] == [77, 2]


def test_it_ends_after_the_asked_number() -> None:
    assert numbers(follow(Recorded(*(message(number) for number in range(9))), batches=4)) == [0, 1, 2, 3]


class Publisher:
    """A PUB socket and a ROUTER that answers replay requests once per `answer`, in vLLM's form."""

    def __init__(self) -> None:
        self.context = zmq.Context()
        self.events = self.context.socket(zmq.PUB)
        self.replay = self.context.socket(zmq.ROUTER)
        self.events_endpoint = f"tcp://127.0.0.1:{self.events.bind_to_random_port('tcp://127.0.0.1')}"
        self.replay_endpoint = f"tcp://127.0.0.1:{self.replay.bind_to_random_port('tcp://127.0.0.1')}"

    def answer(self, upto: int, with_topic: bool) -> None:
        client, _, start = self.replay.recv_multipart()
        topic = [b""] if with_topic else []
        for number in range(int.from_bytes(start, "big"), upto):
            self.replay.send_multipart([client, b"", *topic, *message(number)[1:]])
        self.replay.send_multipart([client, b"", *topic, (-1).to_bytes(8, "big", signed=True), b""])

    def close(self) -> None:
        self.context.destroy(linger=0)


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    running = Publisher()
    yield running
    running.close()


@pytest.mark.parametrize("with_topic", [True, False])
def test_over_real_sockets(publisher: Publisher, with_topic: bool) -> None:
    with ZmqSubscription(publisher.events_endpoint) as subscription:
        for _ in range(100):  # a subscription takes a moment to reach the publisher
            publisher.events.send_multipart(message(3))
            if subscription.receive(0.1) is not None:
                break
        publisher.events.send_multipart(message(5))
        answers = threading.Thread(target=lambda: [publisher.answer(upto, with_topic) for upto in (4, 5)])
        answers.start()
        batches = follow(subscription, lambda start: replay_frames(publisher.replay_endpoint, start), batches=6)
        assert numbers(batches) == [0, 1, 2, 3, 4, 5]
        answers.join()


def test_a_silent_replay_socket_is_an_error(publisher: Publisher) -> None:
    with pytest.raises(EndpointError, match="did not answer"):
        replay_frames(publisher.replay_endpoint, 0, timeout_s=0.05)
    with pytest.raises(EndpointError, match="can't connect"):
        replay_frames("tcp://nowhere", 0)


def test_endpoints_and_files_are_told_apart() -> None:
    assert is_endpoint("ipc:///run/events") and is_endpoint("inproc://x")
    assert not is_endpoint("C:\\events.jsonl") and not is_endpoint("tcp.jsonl")
