"""Time to first token as a function of what had to be computed, fitted to measured points; what reuse is worth.

    seconds = a + b * uncached tokens + c * uncached tokens * prompt tokens

`a` is the fixed cost of a request, `b` the cost of a token, `c` the attention of a token to its context. The file is
JSON (schema `prefixscope.latency/1`); it says where its points came from and which lengths they cover.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prefixscope.errors import FormatError, InputError
from prefixscope.results.worth import Worth

__all__ = ["LatencyModel", "LatencyPoint", "NoFitError", "fit_latency", "read_latency", "worth_of"]

SCHEMA = "prefixscope.latency/1"
FEWEST_POINTS = 12
FEWEST_LENGTHS = 4
NARROWEST_SPAN = 2.0
LOWEST_R2 = 0.5
SIGMAS = 1.96
OUTLIER_DISTANCES = 5
OUTLIER_SHARE = 0.05

Floats = npt.NDArray[np.float64]


class NoFitError(Exception):
    """The points do not carry a fit; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class LatencyPoint:
    """One measured request, served alone: tokens computed, prompt length, seconds to the first token."""

    uncached_tokens: int
    prompt_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """a in seconds, b in seconds per uncached token, c in seconds per (uncached token x prompt token).

    `covariance` is that of (a, b, c), so that sums of predictions get an honest range. `fewest_uncached` to
    `most_uncached` and `longest_prompt` are the lengths that were measured. Residuals are in seconds.
    `outliers` points (at most 5 %, more than 5 times the usual distance off a first fit) were left out.
    """

    a: float
    b: float
    c: float
    covariance: tuple[tuple[float, float, float], ...]
    points: int
    outliers: int
    fewest_uncached: int
    most_uncached: int
    longest_prompt: int
    residual_p50_s: float
    residual_p95_s: float
    residual_worst_s: float
    r2: float
    source: str

    def seconds(self, uncached_tokens: int, prompt_tokens: int) -> float:
        """Time to the first token of one request, served alone."""
        return self.a + self.b * uncached_tokens + self.c * uncached_tokens * prompt_tokens

    def covers(self, uncached_tokens: int, prompt_tokens: int) -> bool:
        """Whether such a request lies within the measured lengths."""
        return self.fewest_uncached <= uncached_tokens <= self.most_uncached and prompt_tokens <= self.longest_prompt

    def to_json(self) -> str:
        """The text of a latency file."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n"


def read_latency(path: str) -> LatencyModel:
    """Reads what `to_json` wrote; FormatError names what is wrong."""
    try:
        values: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        schema = values.pop("schema", None)
        if schema != SCHEMA:
            raise FormatError(f"schema {schema!r}, this version reads {SCHEMA}", file=path)
        covariance = tuple((float(x), float(y), float(z)) for x, y, z in values.pop("covariance"))
        model = LatencyModel(**values, covariance=covariance)
        numbers = (model.a, model.b, model.c, *(value for line in covariance for value in line))
        if len(covariance) != 3 or not all(math.isfinite(number) for number in numbers):
            raise FormatError("a latency file holds numbers only", file=path)
    except OSError as error:
        raise InputError(f"can't be read ({error.strerror})", file=path) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise FormatError("not a latency file (written by `prefixscope replay`)", file=path) from error
    return model


def fit_latency(points: Sequence[LatencyPoint], source: str) -> LatencyModel:
    """Least squares with non-negative b and c; NoFitError where the points carry no fit.

    >>> points = [LatencyPoint(n, n, 0.01 + n * 1e-4) for n in range(100, 2000, 100)]
    >>> model = fit_latency(points, "doctest")
    >>> round(model.a, 6), round(model.b, 9), model.c
    (0.01, 0.0001, 0.0)
    """
    _refuse_few(points)
    all_points, points = len(points), _without_outliers(points)
    uncached = np.array([point.uncached_tokens for point in points], float)
    prompts = np.array([point.prompt_tokens for point in points], float)
    seconds = np.array([point.seconds for point in points], float)
    columns = [np.ones_like(uncached), uncached, uncached * prompts]
    full, covariance = _coefficients(columns, seconds)
    residuals = seconds - np.column_stack(columns) @ full
    spread = float(((seconds - seconds.mean()) ** 2).sum())
    r2 = 1 - float((residuals**2).sum()) / spread if spread else 0.0
    if (full[1] <= 0 and full[2] <= 0) or r2 < LOWEST_R2:
        raise NoFitError(
            f"time to first token does not follow the number of uncached tokens here (R2 {r2:.2f} on {len(points)} "
            "points): no latency model is given; is the endpoint busy, or the prompts too short?"
        )
    off = np.sort(np.abs(residuals))
    return LatencyModel(
        a=float(full[0]),
        b=float(full[1]),
        c=float(full[2]),
        covariance=tuple((float(x), float(y), float(z)) for x, y, z in covariance),
        points=len(points),
        outliers=all_points - len(points),
        fewest_uncached=int(uncached.min()),
        most_uncached=int(uncached.max()),
        longest_prompt=int(prompts.max()),
        residual_p50_s=float(off[len(off) // 2]),
        residual_p95_s=float(off[len(off) * 95 // 100]),
        residual_worst_s=float(off[-1]),
        r2=r2,
        source=source,
    )


def _coefficients(columns: Sequence[Floats], seconds: Floats) -> tuple[Floats, Floats]:
    """(a, b, c) and their covariance, with zeros for a term that was left out."""
    chosen = _chosen(columns, seconds)
    theta, covariance = _least_squares([columns[at] for at in chosen], seconds)
    full, full_covariance = np.zeros(3), np.zeros((3, 3))
    full[list(chosen)] = theta
    full_covariance[np.ix_(chosen, chosen)] = covariance
    return full, full_covariance


def _refuse_few(points: Sequence[LatencyPoint]) -> None:
    lengths = {point.uncached_tokens for point in points}
    if len(points) < FEWEST_POINTS or len(lengths) < FEWEST_LENGTHS:
        raise NoFitError(
            f"{len(points)} measured points with {len(lengths)} different numbers of uncached tokens are too few for a "
            f"latency model ({FEWEST_POINTS} and {FEWEST_LENGTHS} are needed)"
        )
    if max(lengths) < NARROWEST_SPAN * max(min(lengths), 1):
        raise NoFitError(
            f"all points have between {min(lengths)} and {max(lengths)} uncached tokens: too narrow for a latency model"
        )


def _without_outliers(points: Sequence[LatencyPoint]) -> list[LatencyPoint]:
    """The points without those far off a fit through all: a pause of the machine makes a point arbitrarily late."""
    matrix = np.array([[1.0, point.uncached_tokens, point.uncached_tokens * point.prompt_tokens] for point in points])
    seconds = np.array([point.seconds for point in points])
    theta, _ = _least_squares(list(matrix.T), seconds)
    off = np.abs(seconds - matrix @ theta)
    far = OUTLIER_DISTANCES * max(float(np.median(off)), 1e-6)
    most = int(len(points) * OUTLIER_SHARE)
    dropped = {int(at) for at in np.argsort(off)[len(points) - most :] if off[at] > far}
    return [point for at, point in enumerate(points) if at not in dropped]


def _chosen(columns: Sequence[Floats], seconds: Floats) -> tuple[int, ...]:
    """All three terms where each costs time and c is told apart from zero; else without the one that does not."""
    theta, covariance = _least_squares(columns, seconds)
    if theta[1] < 0:
        return (0, 2)
    if theta[2] <= SIGMAS * math.sqrt(max(covariance[2, 2], 0.0)) or theta[2] < 0:
        return (0, 1)
    return (0, 1, 2)


def _least_squares(columns: Sequence[Floats], seconds: Floats) -> tuple[Floats, Floats]:
    """Coefficients and their covariance; columns are scaled first, they differ by seven orders of magnitude."""
    scale = np.array([max(float(np.abs(column).max()), 1e-300) for column in columns])
    matrix = np.column_stack(columns) / scale
    theta, *_ = np.linalg.lstsq(matrix, seconds, rcond=None)
    left = seconds - matrix @ theta
    freedom = max(len(seconds) - len(columns), 1)
    covariance = np.linalg.pinv(matrix.T @ matrix) * float(left @ left) / freedom
    return theta / scale, covariance / np.outer(scale, scale)


def worth_of(rows: Sequence[tuple[int, int]], model: LatencyModel | None, why: str = "") -> Worth:
    """Prefill seconds that reuse saves in (prompt tokens, cached tokens) rows, each served alone, with a 95 % range.

    It is a sum over requests of b*cached + c*cached*prompt: work not done. It is no promise of throughput.
    """
    cached_tokens = sum(cached for _, cached in rows)
    if model is None:
        return Worth(len(rows), cached_tokens, None, None, None, 0, why)
    direction = np.array([0.0, float(cached_tokens), float(sum(cached * prompt for prompt, cached in rows))])
    saved = float(direction @ np.array([model.a, model.b, model.c]))
    reach = SIGMAS * math.sqrt(max(float(direction @ np.array(model.covariance) @ direction), 0.0))
    outside = sum(not model.covers(prompt - cached, prompt) for prompt, cached in rows)
    return Worth(len(rows), cached_tokens, saved, saved - reach, saved + reach, outside, why)
