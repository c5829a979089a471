"""Where KV events come from: a recording (JSON lines, plain or compressed), or a live publisher."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO

import orjson

from prefixscope.engines.events import (
    EventBatch,
    ZmqSubscription,
    batch_to_line,
    batches_from_lines,
    follow,
    is_endpoint,
    replay_frames,
)
from prefixscope.errors import EndpointError, InputError, OptionError
from prefixscope.logs.compression import BrokenStreamError, decompressed
from prefixscope.logs.source import raw_chunks

__all__ = ["EventSource", "EventsOptions", "recorded"]


@dataclass(frozen=True, slots=True)
class EventsOptions:
    """Which events: a file, `-`, or an endpoint, and how long to listen to one.

    Listening ends after `batches` batches, after `idle_s` seconds without one, or when `stop` says so. `at_ns` is a
    time of the publisher's clock to tell the held blocks of.
    """

    source: str
    replay_endpoint: str | None = None
    topic: str = ""
    idle_s: float | None = None
    batches: int | None = None
    at_ns: int | None = None
    stop: Callable[[], bool] | None = None

    @property
    def is_live(self) -> bool:
        """Whether the source is a publisher rather than a file."""
        return is_endpoint(self.source)

    def __post_init__(self) -> None:
        if self.is_live:
            if self.replay_endpoint is not None and not is_endpoint(self.replay_endpoint):
                raise OptionError(f"--replay-endpoint {self.replay_endpoint}: not an endpoint such as tcp://HOST:PORT")
            return
        given = {"--replay-endpoint": self.replay_endpoint, "--topic": self.topic or None, "--idle": self.idle_s}
        for option, value in given.items():
            if value is not None:
                raise OptionError(f"{option} is for a live endpoint (tcp://HOST:PORT); {self.source} is a file")


class _Stopped(Exception):  # noqa: N818 - a signal to end listening, not an error
    """The user has heard enough."""


class EventSource:
    """Iterating gives the batches once, in order. `cut_line` is the line of a recording that ends unfinished."""

    def __init__(self, options: EventsOptions) -> None:
        self._options = options
        self.cut_line: int | None = None

    def __iter__(self) -> Iterator[EventBatch]:
        return self._live() if self._options.is_live else islice(self._recording(), self._options.batches)

    def _recording(self) -> Iterator[EventBatch]:
        path = self._options.source
        try:
            yield from batches_from_lines(self._whole_lines(decompressed(raw_chunks(path))), path)
        except BrokenStreamError as error:
            raise InputError(f"can't be unpacked to its end ({error.reason})", file=path) from None

    def _whole_lines(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The lines; a last one that was cut off in the middle of its JSON is left out and noted."""
        held, number = b"", 0
        for chunk in chunks:
            *lines, held = (held + chunk).split(b"\n")
            number += len(lines)
            yield from lines
        if held:
            try:
                orjson.loads(held)
            except orjson.JSONDecodeError:
                if number:
                    self.cut_line = number + 1
                    return
            yield held

    def _live(self) -> Iterator[EventBatch]:
        options = self._options
        replay = None
        if options.replay_endpoint is not None:
            endpoint = options.replay_endpoint

            def replay(start: int) -> list[Sequence[bytes]]:
                return replay_frames(endpoint, start)

        heard = 0
        with ZmqSubscription(options.source, options.topic) as subscription:
            listening = follow(
                _Stoppable(subscription, options.stop), replay, idle_s=options.idle_s, batches=options.batches
            )
            try:
                for batch in listening:
                    heard += 1
                    yield batch
            except _Stopped:
                pass
        if not heard:
            raise EndpointError(
                f"no KV event came from {options.source}; does the engine publish there, and was it used? "
                "(vLLM: --kv-events-config, with a * in its endpoint)"
            )


@dataclass(frozen=True, slots=True)
class _Stoppable:
    """A subscription that ends when the user wants it."""

    subscription: ZmqSubscription
    stop: Callable[[], bool] | None

    def receive(self, timeout_s: float) -> Sequence[bytes] | None:
        if self.stop is not None and self.stop():
            raise _Stopped
        return self.subscription.receive(timeout_s)


def recorded(batches: Iterable[EventBatch], file: IO[bytes]) -> Iterator[EventBatch]:
    """The batches as they come, each written as a line first."""
    for batch in batches:
        file.write(batch_to_line(batch))
        yield batch
