"""Replays on a live vLLM 0.32: every serial prediction is its reading, under load nearly all, and nothing leaks."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from prefixscope.cli.main import main
from prefixscope.engines.wire import WIRES
from prefixscope.ingest import model_table
from prefixscope.logs import FORMATS, ReadOptions, expand, read_logs
from prefixscope.models.identity import IdentityRules, new_salt_key
from prefixscope.models.prompt import Made, PromptMaker, PromptRules
from prefixscope.replay.item import ReplayItem, SentRow, replay_item
from prefixscope.replay.options import ReplayOptions
from prefixscope.replay.phases import Load
from prefixscope.replay.predict import lineage_of
from prefixscope.replay.run import replay
from prefixscope.replay.sample import sample_of
from prefixscope.results.replay import ReplayReport
from tests.engine.serving import REPOSITORY, EngineConfiguration, RunningEngine
from tests.replay.workload import families, item_of, phase_of

SAMPLES = REPOSITORY / "sample_logs"
SERVED_AS = {"harbour-8b": "tiny", "harbour-8b-orders": "la", "harbour-8b-billing": "lb"}
LONGEST = 8000
BLOCK = 32

SMALL = EngineConfiguration(options=("--num-gpu-blocks-override", "33", "--max-model-len", "1024"))
LARGE = EngineConfiguration(with_adapters=True)


def run(engine: RunningEngine, items: list[ReplayItem], *phases: str, **options: Any) -> ReplayReport:
    return replay(items, ReplayOptions(f"{engine.url}/v1", phases=phases, **options))


def assert_exact(report: ReplayReport, *names: str) -> None:
    for name in names:
        phase = phase_of(report, name)
        different = [row for row in report.requests if row.phase == name and row.verdict != "exact"]
        assert phase.comparison.exact == phase.comparison.requests > 0, different[:3]
        assert phase.diagnosis == "agrees" and phase.finished


def logged(name: str, count: int) -> list[ReplayItem]:
    """A sample of a sample log in whole families, rendered by this tool."""
    rules = PromptRules(
        table=model_table((), str(SAMPLES / "models.toml")),
        identity=IdentityRules(new_salt_key()),
        wires=WIRES,
        rendering_of=lambda _: "vllm",
    )
    maker = PromptMaker(rules)
    items: list[ReplayItem] = []
    for row, request in enumerate(read_logs(expand([str(SAMPLES / name)], FORMATS), ReadOptions())):
        made = maker.make(request)
        if isinstance(made, Made):
            item = replay_item(row, request, made.prompt, SERVED_AS[request.model or ""])
            if item is not None and item.prompt_tokens < LONGEST:
                items.append(item)
    lineage = lineage_of(
        [SentRow((item.model,), item.tokens, item.prompt_tokens, item.prompt_tokens) for item in items]
    )
    return [items[row] for row in sample_of(lineage, count, BLOCK).rows]


@pytest.mark.parametrize("engine", [SMALL], ids=["32 blocks"], indirect=True, scope="module")
class TestSmallCache:
    def test_400_random_requests_are_exact_in_32_blocks(self, engine: RunningEngine) -> None:
        chance = random.Random(7)
        earlier: list[list[int]] = []
        for _ in range(400):
            base = (
                chance.choice(earlier[-12:])[: chance.randrange(32, 800)] if earlier and chance.random() < 0.75 else []
            )
            new = [chance.randrange(3, 2000) for _ in range(chance.randrange(1, 200))]
            earlier.append((base + new)[:950])
        items = [item_of(row, ids, "tiny", output_tokens=chance.randrange(1, 40)) for row, ids in enumerate(earlier)]
        report = run(engine, items, "serial", max_output_tokens=40)
        assert_exact(report, "serial")
        phase = phase_of(report, "serial")
        assert phase.cache == "32 blocks" and phase.comparison.requests == 400
        assert 0.2 < phase.comparison.measured_cached_tokens / phase.comparison.prompt_tokens < 0.8
        assert report.isolation.method == "reset" and report.gate == ()
        assert report.endpoint.engine == "vllm" and (report.endpoint.version or "").startswith("0.32")
        assert phase.counter_cached_tokens == phase.comparison.measured_cached_tokens

    def test_a_cold_run_after_a_warm_one_reads_nothing(self, engine: RunningEngine) -> None:
        items = [item_of(row, list(range(100 * row + 3, 100 * row + 90)), "tiny") for row in range(8)]
        for isolation in ("reset", "salt", "first_block"):
            report = run(engine, items, "cold", "serial", "warm", isolation=isolation)
            assert_exact(report, "cold", "serial", "warm")
            assert phase_of(report, "cold").comparison.measured_cached_tokens == 0
            serial = [row.measured_cached_tokens for row in report.requests if row.phase == "serial"]
            assert serial == [0] * 8 and report.gate == ()
            assert phase_of(report, "warm").comparison.measured_cached_tokens >= 8 * 64


@pytest.mark.parametrize("engine", [LARGE], ids=["adapters"], indirect=True, scope="module")
class TestLargeCache:
    @pytest.mark.parametrize("log", ["support-chat.jsonl", "agent-tools.jsonl.gz", "document-questions.jsonl.gz"])
    def test_sample_logs_from_their_messages(self, engine: RunningEngine, log: str) -> None:
        items = logged(log, 40)
        if not items:
            pytest.skip(f"every prompt of {log} is longer than {LONGEST} tokens")
        report = run(engine, items, "cold", "serial", "warm", "load", send_as="body", max_output_tokens=2)
        assert report.prompts.equal == len(items) and report.prompts.different == 0
        assert_exact(report, "cold", "serial", "warm")
        load = phase_of(report, "concurrency 8").comparison
        assert load.exact >= 0.99 * load.requests and (load.difference_share or 0) <= 0.003
        assert report.gate == ()
        assert report.outputs is not None and report.outputs.different == report.outputs.unknown == 0

    def test_logged_times_ten_times_faster(self, engine: RunningEngine) -> None:
        items = logged("support-chat.jsonl", 40)
        first = min(item.time_ns or 0 for item in items)
        squeezed = [dataclasses.replace(item, time_ns=((item.time_ns or 0) - first) // 200) for item in items]
        report = run(engine, squeezed, "load", loads=(Load("log_timing", 10),))
        phase = phase_of(report, "log timing x10")
        assert report.gate == () and phase.comparison.requests == len(items) and phase.lateness.count == len(items)

    def test_eight_at_once_on_a_log_with_much_reuse(self, engine: RunningEngine) -> None:
        report = run(engine, families(200, seed=11, model="tiny"), "load", max_output_tokens=8)
        seen = phase_of(report, "concurrency 8").comparison
        assert 0.3 < seen.measured_cached_tokens / seen.prompt_tokens < 0.8
        assert seen.exact >= 198 and report.gate == ()

    def test_adapters_and_salts_are_separate_and_answers_are_found(self, engine: RunningEngine) -> None:
        items = [item_of(row, list(range(200 * row + 3, 200 * row + 150)), "tiny") for row in range(8)]
        report = run(engine, items, "switch", "answers", switch_models=("la", "lb"))
        assert_exact(report, "switch", "answers")
        by_row: dict[int, list[int | None]] = {}
        for row in report.requests:
            if row.phase == "switch":
                by_row.setdefault(row.row, []).append(row.measured_cached_tokens)
        assert list(by_row.values()) == [[0] * 5 + [128] * 5] * 3
        second = [row.measured_cached_tokens for row in report.requests if row.phase == "answers"][1::2]
        assert second == [(147 + 47) // BLOCK * BLOCK] * 8

    def test_the_command_validates_a_log_with_adapters(
        self, engine: RunningEngine, capsys: pytest.CaptureFixture[str]
    ) -> None:
        served = [argument for pair in SERVED_AS.items() for argument in ("--served", "=".join(pair))]
        log = [str(SAMPLES / "support-chat.jsonl"), "--models", str(SAMPLES / "models.toml")]
        asked = ["--endpoint", f"{engine.url}/v1", "--sample", "40", "--concurrency", "4", "--validate", *served]
        assert main(["replay", *log, *asked]) == 0, capsys.readouterr()
        page = " ".join(capsys.readouterr().out.split())
        assert "serial 40 of 40" in page
        assert "40 of 40 prompts rendered alike" in page
        assert "control prompt" in page
