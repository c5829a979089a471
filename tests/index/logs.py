"""Random logs for property tests: chats that grow, branch, resend and differ early, over a tiny alphabet."""

from __future__ import annotations

import random

from tests.index.oracle import Request


def random_log(
    seed: int, *, rows: int = 40, alphabet: int = 3, namespaces: int = 2, longest: int = 40
) -> list[Request]:
    """A seeded log; small alphabets make long shared prefixes and every kind of split likely."""
    rng = random.Random(seed)

    def fresh(length: int) -> tuple[int, ...]:
        return tuple(rng.randrange(alphabet) for _ in range(length))

    log: list[Request] = []
    for _ in range(rows):
        namespace = rng.randrange(namespaces)
        kind = rng.random()
        if log and kind < 0.75:
            base = rng.choice(log)
            keep = base.prompt + base.output if kind < 0.4 else base.prompt
            keep = keep[: rng.randint(1, len(keep))] if kind < 0.6 else keep
            prompt = keep + fresh(rng.randrange(0, 8))
            namespace = base.namespace if rng.random() < 0.9 else namespace
        else:
            prompt = fresh(rng.randint(1, longest))
        log.append(Request(namespace, prompt[: 4 * longest], fresh(rng.choice((0, 0, 1, 2, 7)))))
    return log
