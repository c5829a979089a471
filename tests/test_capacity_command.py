"""`capacity`, and the capacity part of `analyze`, from files through the command line: numbers known beforehand."""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

from prefixscope import api
from prefixscope.capacity.policies import OPTIMUM, POLICIES
from prefixscope.capacity.pool import simulate_pool
from prefixscope.cli.main import app, main
from prefixscope.engines import EngineOptions, resolve
from tests.capacity.logs import Request, chat_log, lineage_of, random_log
from tests.cases import BYTES_MODEL, case, write_log
from tests.shared import SHARED, needs_shared

SAMPLES = Path(__file__).resolve().parents[1] / "sample_logs"
Run = Callable[..., Any]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the program; gives its JSON document, or (exit code, stdout, stderr) with `raw`."""

    def run_here(*arguments: object, raw: bool = False) -> Any:
        words = list(map(str, arguments))
        code = main(words if raw else [*words, "--json", "-", "--quiet"])
        out, err = capsys.readouterr()
        if raw:
            return code, out, err
        assert code == 0, err
        return json.loads(out)

    return run_here


def rows_of(log: list[Request], **more: Any) -> list[dict[str, Any]]:
    """Requests as native rows, a second apart."""
    made = []
    for number, request in enumerate(log):
        row: dict[str, Any] = {
            "request_id": f"r{number}",
            "timestamp": 1_700_000_000 + number,
            "model": f"m{request.pool}",
            "prompt_token_ids": list(request.prompt),
            "output_token_ids": list(request.output),
            **{name: value[number] for name, value in more.items()},
        }
        if request.namespace:
            row["cache_salt"] = f"salt{request.namespace}"
        if not request.reads:
            row["prompt_logprobs"] = 1
        made.append(row)
    return made


def request_rows(run: Run, path: Path, *arguments: object) -> list[dict[str, Any]]:
    code, out, err = run("analyze", path, "--requests", "-", "--quiet", *arguments, raw=True)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


@needs_shared
def test_case_36_a_burst_evicts_the_hot_prefix(tmp_path: Path, run: Run) -> None:
    found = case(36)
    path = write_log(tmp_path / "log.jsonl", found["requests"])
    block = found["setup"]["block_size"]
    for capacity, expected in found["expect"]["cached_tokens_by_capacity_blocks"].items():
        asked = [] if capacity == "infinite" else ["--capacity", f"{capacity}blocks"]
        rows = request_rows(run, path, "--block-size", block, *asked)
        assert [row["expected_cached_tokens"] for row in rows] == expected
        assert [row["loss_capacity"] is None for row in rows] == [not asked] * len(rows)
    older = request_rows(run, path, "--block-size", block, "--engine", "vllm@0.26", "--capacity", "9blocks")
    expected = found["expect"]["capacity_9_if_unhashed_tail_blocks_queue_like_others"]
    assert [row["expected_cached_tokens"] for row in older] == expected


@needs_shared
def test_case_06_a_coarser_tier_adds_nothing_and_never_less(tmp_path: Path, run: Run) -> None:
    found = case(6)
    path = write_log(tmp_path / "log.jsonl", found["requests"])
    chunk = found["setup"]["external_tier"]["chunk_size"]
    tiers = ("--tier", "hbm=1Mblocks", "--tier", "dram=1Mblocks", "--tier-chunk", chunk)
    (pool,) = run("capacity", path, "--block-size", found["setup"]["block_size"], *tiers)["pools"]
    own, outside = pool["capacity"]["tiers"]
    assert own["gain_tokens"] == sum(found["expect"]["gpu_cached_tokens"])
    assert outside["found_tokens"] == sum(found["expect"]["external_hit_tokens"])
    assert outside["gain_tokens"] == sum(found["expect"]["external_gain_tokens"]) == 0


@needs_shared
def test_case_38_on_one_replica_and_as_logged_on_two(tmp_path: Path, run: Run) -> None:
    found = case(38)
    block = found["setup"]["block_size"]
    expected = found["expect"]["cached_tokens_by_policy"]
    path = write_log(tmp_path / "one.jsonl", found["requests"])
    rows = request_rows(run, path, "--block-size", block, "--capacity", "1000blocks")
    assert [row["expected_cached_tokens"] for row in rows] == expected["single"]
    spread = [{**request, "replica": "ab"[n % 2]} for n, request in enumerate(found["requests"])]
    path = write_log(tmp_path / "two.jsonl", spread)
    rows = request_rows(run, path, "--block-size", block)
    assert [row["cached_tokens"] for row in rows] == expected["single"]
    assert [row["expected_cached_tokens"] for row in rows] == expected["round_robin"]
    assert sum(row["loss_routing"] for row in rows) == found["expect"]["lost_to_routing_round_robin"]
    totals = run("analyze", path, "--block-size", block, "--capacity", "3blocks")["totals"]
    assert totals["losses"]["routing"] == 96 and totals["losses"]["capacity"] > 0


@needs_shared
def test_known_values_of_a_public_trace(run: Run) -> None:
    trace = SHARED / "traces" / "mooncake_synthetic.jsonl"
    sizes = {1_000: (0.0857, 0.0841), 10_000: (0.4318, 0.4239), 30_000: (0.6356, 0.6242), 50_000: (0.6512, None)}
    asked = [word for size in sizes for word in ("--capacity", f"{size}blocks")]
    document = run("capacity", trace, *asked)
    assert document["schema"] == "prefixscope.report/1" and document["command"] == "capacity"
    section = document["pools"][0]["capacity"]
    points = {point["blocks"]: point for point in section["points"]}
    for size, (of_tokens, of_blocks) in sizes.items():
        assert round(points[size]["token_hit_rate"], 4) == of_tokens and points[size]["asked"]
        assert of_blocks is None or round(points[size]["block_hit_rate"], 4) == of_blocks
    assert (section["model"], section["infinite_cached_tokens"]) == ("lru", 39_852_661)
    curve = section["curve"]
    at = np.array(curve["blocks"])
    assert curve["unit_blocks"] == 1 and curve["cached_tokens"][-1] == 39_852_661
    for size in sizes:  # the curve is all there: a straight line between corners
        assert np.interp(size, at, curve["cached_tokens"]) == pytest.approx(points[size]["cached_tokens"], abs=0.5)
    totals = run("analyze", trace, "--capacity", "10000blocks")["totals"]
    assert round(totals["expected_token_hit_rate"], 4) == 0.4318 and totals["cached_tokens"] == 39_852_661


def check_sums(analysis: api.Analysis) -> None:
    """Losses add up per request, in every pool and in total; groups add up to the totals."""
    rows, report = analysis.rows, analysis.reports[0]
    for row in range(len(rows["row"])):
        losses = [rows[f"loss_{rung}"][row] or 0 for rung in LOSSES]
        assert rows["reusable_tokens"][row] - sum(losses) == rows["expected_cached_tokens"][row]
        assert min(losses) >= 0
    assert report.totals.expected_cached_tokens == sum(rows["expected_cached_tokens"])
    assert report.totals.losses.capacity == sum(rows["loss_capacity"])
    for by in ("model", "namespace"):
        mine = [group for group in report.groups if group.by == by]
        assert sum(group.expected_cached_tokens for group in mine) == report.totals.expected_cached_tokens
    for pool in report.pools:
        assert pool.ladder[-1].cached_tokens == pool.totals.expected_cached_tokens
        assert pool.capacity is not None
        point = next(point for point in pool.capacity.points if point.asked)
        if pool.totals.losses.routing is None:
            assert point.cached_tokens == pool.totals.expected_cached_tokens


LOSSES = ("last_token", "block_rounding", "engine_rule", "in_flight", "routing", "capacity")


def analysis_of(path: Path, capacity: int, **engine: Any) -> api.Analysis:
    return api.analyze(
        api.AnalyzeOptions(
            api.LogOptions((str(path),)),
            api.EngineChoice(**engine),
            memory=api.MemoryOptions((f"{capacity}blocks",)),
        ),
        lambda *_: None,
    )


@pytest.mark.parametrize("seed", range(10))
def test_the_rung_is_the_pool_simulation_of_every_row(seed: int, tmp_path: Path) -> None:
    """On chats without resends of whole prompts the engine curve gives just what the engine's block pool gives."""
    log = chat_log(random.Random(seed), 60, sessions=5, resends=0.0)
    path = write_log(tmp_path / "log.jsonl", rows_of(log))
    lineage = lineage_of(log)
    for version in ("0.33", "0.26"):
        profile = resolve(f"vllm@{version}", EngineOptions(block_size=4))
        for capacity in (60, 90, 150, 400):
            analysis = analysis_of(path, capacity, names=(f"vllm@{version}",), block_size=4)
            run = simulate_pool(lineage, profile, capacity)
            assert run.refused == 0
            assert analysis.rows["expected_cached_tokens"] == run.cached_tokens.tolist()
            check_sums(analysis)


def textbook(log: list[Request], block: int, capacity: int) -> list[int]:
    """Cached tokens per row in a least-recent cache of whole blocks of prompts, shared by a pool."""
    stacks: dict[int, list[tuple[Any, ...]]] = {}
    cached = []
    for request in log:
        stack = stacks.setdefault(request.pool, [])
        kept = len(request.prompt) // block
        keys = [(request.namespace, request.prompt[: (place + 1) * block]) for place in range(kept)]
        hit = 0
        while hit < min(len(keys), (len(request.prompt) - 1) // block) and keys[hit] in stack[:capacity]:
            hit += 1
        cached.append(hit * block if request.reads else 0)
        stacks[request.pool] = keys + [key for key in stack if key not in keys]
    return cached


@pytest.mark.parametrize("seed", range(12))
def test_several_pools_each_with_its_own_memory(seed: int, tmp_path: Path) -> None:
    """Aligned prompts without answers: no partly filled and no duplicate block, so every LRU is the textbook's."""
    rng = random.Random(seed)
    base = random_log(rng, 50, namespaces=4, pools=2, non_readers=0.0)
    log = [
        Request((*r.prompt[: len(r.prompt) // 4 * 4], *range(1000 * n, 1000 * n + 4)), (), r.namespace, r.pool)
        for n, r in enumerate(base, 1)
    ]
    path = write_log(tmp_path / "log.jsonl", rows_of(log))
    longest = max(len(r.prompt) for r in log) // 4
    for capacity in (longest, longest + 9, 3 * longest):
        analysis = analysis_of(path, capacity, block_size=4)
        assert analysis.rows["expected_cached_tokens"] == textbook(log, 4, capacity)
        assert len(analysis.reports[0].pools) == 2
        check_sums(analysis)


def test_rows_that_only_warm_fill_the_memory_and_do_not_count(tmp_path: Path, run: Run) -> None:
    log = chat_log(random.Random(4), 80, sessions=6)
    path = write_log(tmp_path / "log.jsonl", rows_of(log))
    asked = ("--block-size", 4, "--capacity", "90blocks")
    everything = request_rows(run, path, *asked)
    counted = request_rows(run, path, *asked, "--warmup", "50%")
    assert counted == everything[40:]
    document = run("capacity", path, *asked, "--warmup", "50%", "--tier", "a=90blocks", "--tier", "b=1Mblocks")
    (pool,) = document["pools"]
    section = pool["capacity"]
    point = next(point for point in section["points"] if point["asked"])
    expected = sum(row["expected_cached_tokens"] for row in counted)
    assert point["cached_tokens"] == expected == pool["totals"]["expected_cached_tokens"]
    assert section["tiers"][0]["gain_tokens"] == expected
    assert sum(tier["gain_tokens"] for tier in section["tiers"]) == section["infinite_cached_tokens"]
    lost = section["infinite_cached_tokens"] - expected
    assert section["evictions"]["lost_tokens"] == lost == sum(row["tokens"] for row in section["evictions"]["rows"])


def test_an_index_gives_the_capacity_of_its_log(tmp_path: Path, run: Run) -> None:
    index = tmp_path / "chat.parquet"
    models = ("--models", SAMPLES / "models.toml")
    run("index", SAMPLES / "support-chat.jsonl", *models, "-o", index)
    more = ("--capacity", "256MiB", "--capacity", "300blocks", "--ttl", "90s", "--policy", "lru", "--tier", "a=1GiB")
    direct = run("capacity", SAMPLES / "support-chat.jsonl", *models, *more)
    again = run("capacity", index, *models, *more)
    assert direct["pools"] == again["pools"]
    # The index carries the model's configuration, so that bytes need nothing else.
    assert run("capacity", index, *more)["pools"] == direct["pools"]


def test_bytes_and_blocks_of_the_sample_model(run: Run) -> None:
    log, models = SAMPLES / "support-chat.jsonl", ("--models", SAMPLES / "models.toml")
    config = json.loads((SAMPLES / "model" / "config.json").read_text())
    token = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"] * 2
    (pool,) = run("capacity", log, *models, "--capacity", "1GiB", "--capacity", "4000tok")["pools"]
    section = pool["capacity"]
    assert section["block_bytes"] == 16 * token
    assert [size["blocks"] for size in section["asked"]] == [2**30 // (16 * token), 250]
    for point in section["points"]:
        assert point["bytes"] == point["blocks"] * 16 * token
    by_blocks = run("capacity", log, *models, "--capacity", f"{2**30 // (16 * token)}blocks")["pools"][0]["capacity"]
    first, same = (
        next(point for point in one["points"] if point["asked"] and point["blocks"] > 250)
        for one in (section, by_blocks)
    )
    assert first == same
    half = run("capacity", log, *models, "--capacity", "1GiB", "--kv-dtype", "fp8")["pools"][0]["capacity"]
    assert half["block_bytes"] == 8 * token
    ranks = 4 * config["num_key_value_heads"]
    copied = run("capacity", log, *models, "--capacity", "1GiB", "--tensor-parallel", ranks)["pools"][0]["capacity"]
    assert copied["block_bytes"] == 4 * 16 * token


def test_what_to_pick_rests_on_the_curve(run: Run) -> None:
    log, models = SAMPLES / "support-chat.jsonl", ("--models", SAMPLES / "models.toml")
    section = run("capacity", log, *models, "--capacity", "256MiB")["pools"][0]["capacity"]
    picked, points = section["recommended"], {point["blocks"]: point for point in section["points"]}
    for share in picked["shares"]:
        assert points[share["blocks"]]["cached_tokens"] == share["cached_tokens"]
        assert share["cached_tokens"] >= share["share"] * section["infinite_cached_tokens"]
    assert picked["cache_blocks"] == picked["shares"][0]["blocks"]
    assert picked["total_blocks"] == picked["cache_blocks"] + picked["running_blocks"]
    assert picked["bytes"] == picked["total_blocks"] * section["block_bytes"]
    more = run("capacity", log, *models, "--capacity", "1280MiB")["pools"][0]["capacity"]
    at = {tuple(size["text"] for size in one["asked"]): one["points"] for one in (section, more)}
    cached = [next(p["cached_tokens"] for p in points if p["asked"]) for points in at.values()]
    assert picked["gib_buys_tokens"] == pytest.approx(cached[1] - cached[0], rel=0.01)
    assert section["block_size_choice"]["block_size"] == 32
    alone = run("capacity", log, *models, "--concurrency", 3)["pools"][0]["capacity"]["recommended"]
    assert alone["running_blocks"] % 3 == 0 and "3 requests of the p95 size" in alone["running_source"]


def test_policies_at_the_sizes_asked_for(tmp_path: Path, run: Run) -> None:
    path = write_log(tmp_path / "log.jsonl", rows_of(chat_log(random.Random(6), 60, sessions=6)))
    asked = ("--block-size", 4, "--capacity", "80blocks", "--capacity", "120blocks", "--policy", "all")
    section = run("capacity", path, *asked)["pools"][0]["capacity"]
    rows = {(row["policy"], row["blocks"]): row["cached_tokens"] for row in section["policies"]}
    assert set(rows) == {(name, size) for name in (*POLICIES, OPTIMUM) for size in (80, 120)}
    for size in (80, 120):
        assert rows[OPTIMUM, size] == max(rows[name, size] for name in (*POLICIES, OPTIMUM))
    assert "knows the future" in section["optimum_of"]
    alone = run("capacity", path, "--block-size", 4, "--policy", "lru")["pools"][0]["capacity"]
    sizes = {row["blocks"] for row in alone["policies"]}
    assert sizes == {alone["recommended"]["cache_blocks"]}
    assert {row["policy"] for row in alone["policies"]} == {"lru", OPTIMUM}


def test_policies_on_a_log_that_is_too_long_are_refused(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["prefixscope.api.capacity"], "MOST_POLICY_BLOCKS", 1000)
    path = write_log(tmp_path / "log.jsonl", rows_of(chat_log(random.Random(6), 60)))
    code, out, err = run("capacity", path, "--block-size", 4, "--policy", "all", raw=True)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(r"--policy: 10 policies .* would look at [\d,]+ blocks .* more than 1,000; give fewer", err)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--capacity", "40GiB"), "--capacity 40GiB: how many bytes a token of .* --model .*=FOLDER or --models FILE"),
        (("--tier", "hbm=40GiB"), "--tier hbm=40GiB: how many bytes a token of .* --model .*=FOLDER"),
        (("--capacity", "40"), "--capacity 40: not a size"),
        (("--capacity", "3tok"), "--capacity 3tok: less than one block of 16 tokens"),
        (("--tier", "dram"), "--tier dram: not NAME=SIZE"),
        (("--ttl", "soon"), "--ttl soon: write"),
        (("--policy", "mru"), "--policy mru: unknown"),
        (("--kv-dtype", "int3"), "--kv-dtype int3: unknown"),
    ],
)
def test_wrong_options_are_one_sentence(arguments: tuple[str, ...], sentence: str, tmp_path: Path, run: Run) -> None:
    path = write_log(tmp_path / "log.jsonl", rows_of(chat_log(random.Random(1), 10)))
    code, out, err = run("capacity", path, *arguments, raw=True)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(sentence, err), err


@needs_shared
def test_a_config_that_is_not_understood_leaves_bytes_unknown(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (BYTES_MODEL / name).exists():
            (folder / name).write_bytes((BYTES_MODEL / name).read_bytes())
    (folder / "config.json").write_text(json.dumps({"model_type": "something-new", "num_hidden_layers": 4}))
    path = write_log(tmp_path / "log.jsonl", rows_of(chat_log(random.Random(1), 20)))
    section = run("capacity", path, "--model", f"m0={folder}")["pools"][0]["capacity"]
    assert section["block_bytes"] is None and "something-new" in section["block_bytes_why"]
    code, _, err = run("capacity", path, "--model", f"m0={folder}", "--capacity", "1GiB", raw=True)
    assert code == 2 and "something-new" in err


def test_the_report_for_people(run: Run) -> None:
    log, models = SAMPLES / "support-chat.jsonl", ("--models", SAMPLES / "models.toml")
    code, out, err = run("capacity", log, *models, "--capacity", "256MiB", "--ttl", "2m", raw=True)
    assert (code, err) == (0, "")
    for words in ("reuse at every size of memory", "--capacity 256MiB", "95 % of the reuse", "what to pick", "--ttl",
                  "working set", "who evicts whom at 113 blocks", "block size 32: the largest of"):  # fmt: skip
        assert words in out, words
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = run("analyze", log, *models, "--capacity", "256MiB", raw=True)
    assert code == 0 and "- capacity (256MiB = 113 blocks)" in out and "95 % of the infinite reuse" in out
    code, out, _ = run("analyze", log, *models, raw=True)
    assert "capacity (finite memory): not simulated (--capacity)" in out and "95 % of the infinite reuse" in out


def test_nothing_reused_is_said(tmp_path: Path, run: Run) -> None:
    log = [Request(tuple(range(1000 * n, 1000 * n + 50))) for n in range(5)]
    path = write_log(tmp_path / "log.jsonl", rows_of(log))
    code, out, err = run("capacity", path, "--capacity", "10blocks", "--policy", "all", raw=True)
    assert (code, err) == (0, "") and "Nothing is reused at any size." in out


def test_engines_whose_memory_is_another_say_that_the_curve_is_approximate(run: Run) -> None:
    log, models = SAMPLES / "support-chat.jsonl", ("--models", SAMPLES / "models.toml")
    for engine in ("sglang", "tensorrt-llm", "llama-cpp", "openai"):
        pool = run("analyze", log, *models, "--engine", engine, "--capacity", "9000tok")["pools"][0]
        assert pool["capacity"]["approximation"].startswith("approximate: ")
        assert "approximate: " in pool["ladder"][-1]["why"]
    pool = run("analyze", log, *models, "--capacity", "9000tok")["pools"][0]
    assert pool["capacity"]["approximation"] is None and "562 blocks of 16 tokens" in pool["ladder"][-1]["why"]


def test_the_help_names_the_policies_that_exist() -> None:
    commands: dict[str, Any] = getattr(get_command(app), "commands", {})
    option = next(parameter for parameter in commands["capacity"].params if parameter.name == "policy")
    assert set(re.findall(r"[a-z0-9]+", option.help.split(": ")[1])) == {*POLICIES, OPTIMUM}
