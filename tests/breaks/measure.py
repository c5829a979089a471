"""Measures the causes on real conversations with planted faults, and prints the tables of docs/breaks.md.

python -m tests.breaks.measure [FAULTS_PER_PLAN]
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from prefixscope.breaks.causes import FAULTS
from tests.breaks.planting import AGENT, CHAT, PLANS, Plan, planted_log
from tests.breaks.told import ingested, told
from tests.real_tokenizers import tokenizer_folder

VOLATILE = {"timestamp", "date", "volatile_id"}
SEED = 20261


def outcome(plan: Plan, seed: int, wanted: int) -> Counter[str]:
    """What was said of the requests with a planted fault."""
    with tempfile.TemporaryDirectory() as folder:
        path, models, expected = planted_log(Path(folder), plan, seed, wanted)
        read = ingested(path, models=models, render=plan.render)
    ids = read.lineage.request_id.tolist()
    said = Counter(row.cause for name, row in zip(ids, told(read), strict=True) if name in expected)
    said["(not read)"] = len(expected) - said.total()
    return +said


def alarms(path: Path, model: str) -> Counter[str]:
    """What is said of an unchanged log."""
    read = ingested(path, model=f"{model}={tokenizer_folder('qwen3')}")
    return Counter(row.cause for row in told(read))


def main(wanted: int) -> None:
    matrix: dict[str, Counter[str]] = defaultdict(Counter)
    for number, plan in enumerate(PLANS):
        matrix[plan.cause] += outcome(plan, SEED + number, wanted)
        print(plan.cause, dict(matrix[plan.cause]), file=sys.stderr, flush=True)
    print("| planted | requests | right | said instead |\n|---|---:|---:|---|")
    for cause in (cause for cause in FAULTS if cause in matrix):
        said = matrix[cause]
        others = ", ".join(f"`{name}` {count}" for name, count in said.most_common() if name != cause)
        print(f"| `{cause}` | {said.total()} | {said[cause] / said.total():.1%} | {others or '-'} |")
    print("\n| unchanged log | requests | said |\n|---|---:|---|")
    for path, model in ((AGENT, "gpt-4o"), (CHAT, "chat-model")):
        said = alarms(path, model)
        assert not VOLATILE & said.keys(), said
        print(
            f"| {path.name} | {said.total()} | {', '.join(f'`{name}` {count}' for name, count in said.most_common())} |"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
