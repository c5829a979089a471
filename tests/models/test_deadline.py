"""The limit on a template's CPU time, with a timer of its own for each and with one for all."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from prefixscope.models.deadline import DeadlineExceeded, cpu_deadline, standing_timer

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
OFF = (0.0, 0.0)


def burn(seconds: float) -> None:
    """Takes that much CPU time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def timer() -> tuple[float, float]:
    return signal.getitimer(signal.ITIMER_VIRTUAL)


def test_a_block_is_ended_after_its_limit() -> None:
    start = time.process_time()
    with pytest.raises(DeadlineExceeded, match=r"took more than 0\.1 s of CPU time"), cpu_deadline(0.1):
        burn(5)
    assert 0.09 < time.process_time() - start < 1
    assert timer() == OFF


def test_so_it_is_by_a_standing_timer_and_no_sooner() -> None:
    with standing_timer():
        for _ in range(3):
            burn(0.03)  # so that the blocks begin anywhere between two ticks
            start = time.process_time()
            with pytest.raises(DeadlineExceeded, match=r"took more than 0\.1 s of CPU time"), cpu_deadline(0.1):
                burn(5)
            assert 0.09 < time.process_time() - start < 1
        assert timer() != OFF
    assert timer() == OFF


def test_many_short_blocks_are_no_long_one() -> None:
    ended = 0
    with standing_timer():
        for _ in range(12):
            with cpu_deadline(0.1):
                burn(0.03)
                ended += 1
        burn(0.3)  # nor is what lies outside of them
    assert ended == 12


def test_the_limit_of_each_block_counts() -> None:
    with standing_timer():
        with cpu_deadline(10):
            pass
        with pytest.raises(DeadlineExceeded, match=r"0\.1 s"), cpu_deadline(0.1):
            burn(5)
        with cpu_deadline(10):
            burn(0.3)


def test_one_inside_another_changes_nothing() -> None:
    with standing_timer():
        with standing_timer():
            pass
        with pytest.raises(DeadlineExceeded), cpu_deadline(0.1):
            burn(5)
    assert timer() == OFF
    with cpu_deadline(5):
        assert timer() != OFF
    assert timer() == OFF


def test_other_threads_have_no_limit_and_touch_no_timer() -> None:
    seen = []

    def work() -> None:
        with standing_timer(), cpu_deadline(0.05):
            burn(0.2)
        seen.append(timer())

    with cpu_deadline(30):
        set_to = timer()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert OFF < seen[0] <= set_to
