"""Measures the causes on real conversations with planted faults, and prints the tables of docs/breaks.md.

python -m tests.breaks.measure [FAULTS_PER_PLAN]
"""

from __future__ import annotations

import gzip
import json
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


def outcome(plan: Plan, seed: int, wanted: int, *, name_sessions: bool = True) -> Counter[str]:
    """What was said of the requests with a planted fault."""
    with tempfile.TemporaryDirectory() as folder:
        path, models, expected = planted_log(Path(folder), plan, seed, wanted, name_sessions=name_sessions)
        read = ingested(path, models=models, render=plan.render)
    ids = read.lineage.request_id.tolist()
    said = Counter(row.cause for name, row in zip(ids, told(read), strict=True) if name in expected)
    said["(not read)"] = len(expected) - said.total()
    return +said


def alarms(path: Path, model: str, *, name_sessions: bool) -> Counter[str]:
    """What is said of an unchanged log, with its session ids or without."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        with gzip.open(path, "rt", encoding="utf-8") as lines, log.open("w", encoding="utf-8") as out:
            for line in lines:
                row = json.loads(line)
                if not name_sessions:
                    del row["session_id"]
                out.write(json.dumps(row) + "\n")
        return Counter(row.cause for row in told(ingested(log, model=f"{model}={tokenizer_folder('qwen3')}")))


def main(wanted: int) -> None:
    matrix: dict[tuple[str, bool], Counter[str]] = defaultdict(Counter)
    for number, plan in enumerate(PLANS):
        for named in (True, False):
            matrix[plan.cause, named] += outcome(plan, SEED + number, wanted, name_sessions=named)
        print(plan.cause, dict(matrix[plan.cause, True]), dict(matrix[plan.cause, False]), file=sys.stderr, flush=True)
    print("| planted | requests | right | said instead | right without session ids | said instead |")
    print("|---|---:|---:|---|---:|---|")
    for cause in (cause for cause in FAULTS if (cause, True) in matrix):
        cells = [f"| `{cause}` | {matrix[cause, True].total()}"]
        for named in (True, False):
            said = matrix[cause, named]
            others = ", ".join(f"`{name}` {count}" for name, count in said.most_common() if name != cause)
            cells.append(f"{said[cause] / said.total():.1%} | {others or '-'}")
        print(" | ".join(cells) + " |")
    print("\n| unchanged log | sessions | requests | said |\n|---|---|---:|---|")
    for path, model in ((AGENT, "gpt-4o"), (CHAT, "chat-model")):
        for named in (True, False):
            said = alarms(path, model, name_sessions=named)
            assert not VOLATILE & said.keys(), said
            words = ", ".join(f"`{name}` {count}" for name, count in said.most_common())
            print(f"| {path.name} | {'logged' if named else 'inferred'} | {said.total()} | {words} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
