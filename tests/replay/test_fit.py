"""The latency fit: finds what made the points, refuses noise, and says how far it may be off."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from prefixscope.errors import FormatError, InputError
from prefixscope.replay.fit import LatencyPoint, NoFitError, fit_latency, read_latency, worth_of

A, B, C = 0.012, 1.5e-4, 2.0e-8


def points(count: int, noise: float, seed: int = 0, c: float = C, pauses: int = 0) -> list[LatencyPoint]:
    chance = random.Random(seed)
    made = []
    for at in range(count):
        prompt = chance.randrange(50, 8000)
        uncached = chance.randrange(16, prompt + 1)
        seconds = A + B * uncached + c * uncached * prompt + chance.gauss(0, noise) + (2.0 if at < pauses else 0.0)
        made.append(LatencyPoint(uncached, prompt, seconds))
    return made


def test_exact_points_give_back_what_made_them() -> None:
    model = fit_latency(points(40, 0), "test")
    assert (model.a, model.b, model.c) == (pytest.approx(A), pytest.approx(B), pytest.approx(C))
    assert model.r2 == pytest.approx(1) and model.residual_worst_s < 1e-9
    assert model.seconds(1000, 2000) == pytest.approx(A + B * 1000 + C * 1000 * 2000)
    assert model.covers(model.most_uncached, model.longest_prompt) and not model.covers(model.most_uncached + 1, 9000)


def test_pauses_of_the_machine_are_left_out_and_counted() -> None:
    model = fit_latency(points(100, 0.002, pauses=4), "test")
    assert model.outliers == 4 and model.b == pytest.approx(B, rel=0.1)


def test_a_term_that_is_not_there_is_zero() -> None:
    assert (
        fit_latency(points(200, 0.001, c=0.0), "test").c == 0 or fit_latency(points(200, 0.001, c=0.0), "x").c < C / 20
    )


def test_the_range_of_the_worth_holds_what_is_true() -> None:
    """95 % ranges of 100 fits: at least 85 hold the true saving."""
    rows = [(1000, 512), (4000, 3968), (700, 0)]
    truth = sum(B * cached + C * cached * prompt for prompt, cached in rows)
    held = 0
    for seed in range(100):
        worth = worth_of(rows, fit_latency(points(60, 0.05, seed), "test"))
        assert worth.low_s is not None and worth.high_s is not None and worth.saved_s is not None
        assert worth.low_s <= worth.saved_s <= worth.high_s
        held += worth.low_s <= truth <= worth.high_s
    assert held >= 85


def test_rows_outside_the_measured_lengths_are_counted() -> None:
    worth = worth_of([(1000, 100), (99_000, 100)], fit_latency(points(40, 0), "test"))
    assert worth.outside_range == 1 and worth.requests == 2 and worth.cached_tokens == 200


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (points(5, 0), "too few"),
        ([LatencyPoint(100, 100, 0.1)] * 50, "too few"),
        ([LatencyPoint(1000 + at, 2000, 0.1 + at / 1e4) for at in range(50)], "too narrow"),
        (
            [
                LatencyPoint(p.uncached_tokens, p.prompt_tokens, random.Random(p.seconds).random())
                for p in points(50, 0)
            ],
            "R2",
        ),
        ([LatencyPoint(p.uncached_tokens, p.prompt_tokens, 9 - p.seconds) for p in points(50, 0)], "does not follow"),
    ],
)
def test_noise_is_refused_with_a_sentence(bad: list[LatencyPoint], word: str) -> None:
    with pytest.raises(NoFitError, match=word) as caught:
        fit_latency(bad, "test")
    worth = worth_of([(100, 50)], None, str(caught.value))
    assert worth.saved_s is None and worth.why == str(caught.value) and worth.cached_tokens == 50


def test_the_file_comes_back_as_it_was(tmp_path: Path) -> None:
    model = fit_latency(points(40, 0.01), "test")
    path = tmp_path / "latency.json"
    path.write_text(model.to_json())
    assert read_latency(str(path)) == model


@pytest.mark.parametrize(
    "change", [{"schema": "prefixscope.latency/9"}, {"a": None}, {"covariance": [[1]]}, {"zzz": 1}]
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    values = json.loads(fit_latency(points(40, 0.01), "test").to_json())
    path = tmp_path / "latency.json"
    path.write_text(json.dumps({**values, **change}))
    with pytest.raises(FormatError):
        read_latency(str(path))


@pytest.mark.parametrize("text", ["", "[]", "{}", "\x00"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "latency.json"
    path.write_text(text)
    with pytest.raises(FormatError):
        read_latency(str(path))
    with pytest.raises(InputError):
        read_latency(str(tmp_path / "absent.json"))
