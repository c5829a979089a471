"""The engines' own numbers through the command line: rows that ran on real engines and their classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prefixscope.cli.main import main
from tests.cases import case, logged, write_models
from tests.engines.commanded import (
    LLAMA,
    MAMBA,
    ONLY_SLIDING,
    SLIDING,
    TWO_BLOCKS,
    analyzed,
    asked,
    cached,
    siblings,
)
from tests.shared import SHARED, needs_shared

V32 = ("--engine", "vllm@0.32")


def fresh(number: int, tokens: int) -> list[int]:
    """A prompt that shares nothing with those of other numbers."""
    return list(range(100_000 * number, 100_000 * number + tokens))


# -- vLLM's KVCacheManager, block 16 ----------------------------------------------------------------------------------


def test_1_resend(tmp_path: Path) -> None:
    lengths = [15, 16, 17, 31, 32, 33, 48, 49, 64]
    rows = [asked(fresh(n, tokens)) for n, tokens in enumerate(lengths, 1) for _ in range(2)]
    assert cached(tmp_path, rows, *V32)[1::2] == [0, 0, 16, 16, 16, 32, 32, 48, 48]


def test_2_and_3_in_one_step(tmp_path: Path) -> None:
    rows = [asked(range(64), timestamp=1_795_000_000) for _ in range(2)]
    report, found = analyzed(tmp_path, rows, *V32)
    assert [row["expected_cached_tokens"] for row in found] == [0, 48]
    assert [row["loss_in_flight"] for row in found] == [0, 0]
    report, found = analyzed(tmp_path, rows, *V32, "--max-batched-tokens", "40")
    assert [row["cached_tokens"] for row in found] == [0, 48]
    assert [row["expected_cached_tokens"] for row in found] == [0, 32]
    assert report["totals"]["losses"]["in_flight"] == 16
    (rung,) = [rung for rung in report["pools"][0]["ladder"] if rung["rung"] == "in_flight"]
    assert "steps of 40 tokens" in rung["why"]


def test_4_and_5_extension_and_divergence(tmp_path: Path) -> None:
    assert cached(tmp_path, [asked(range(50)), asked(range(80))], *V32) == [0, 48]
    assert cached(tmp_path, [asked(range(80)), asked([*range(40), *range(900, 940)])], *V32) == [0, 32]


def test_6_salts(tmp_path: Path) -> None:
    rows = [asked(range(64), **({"cache_salt": salt} if salt else {})) for salt in ("A", "B", None, "A")]
    assert cached(tmp_path, rows, *V32) == [0, 0, 0, 48]


def test_7_adapters(tmp_path: Path) -> None:
    models = tmp_path / "models.toml"
    models.write_text(
        '[models.first]\nbase = "m"\nadapter = { name = "ad1", version = "/p/1" }\n'
        '[models.again]\nbase = "m"\nadapter = { name = "ad1", version = "/p/1" }\n'
        '[models.elsewhere]\nbase = "m"\nadapter = { name = "ad1", version = "/p/2" }\n'
    )
    rows = [{**asked(range(64)), "model": name} for name in ("first", "again", "elsewhere", "m")]
    assert cached(tmp_path, rows, *V32, "--models", str(models)) == [0, 48, 0, 0]


def test_8_prompt_logprobs(tmp_path: Path) -> None:
    rows = [asked(range(64)), asked(range(64), prompt_logprobs=1), asked(range(64))]
    assert cached(tmp_path, rows, *V32) == [0, 0, 48]


def test_9_next_turn(tmp_path: Path) -> None:
    rows = []
    for number, generated in enumerate((11, 12, 13, 28, 29), 1):
        prompt, output = fresh(number, 20), list(range(50_000, 50_000 + generated))
        rows += [asked(prompt, output), asked([*prompt, *output, *range(70_000, 70_010)])]
    assert cached(tmp_path, rows, *V32)[1::2] == [16, 16, 32, 32, 48]


def test_10_eagle(tmp_path: Path) -> None:
    lengths = [31, 32, 33, 48, 49, 64, 65]
    rows = [asked(fresh(n, tokens)) for n, tokens in enumerate(lengths, 1) for _ in range(2)]
    eagle = (*V32, "--speculative", "eagle")
    assert cached(tmp_path, rows, *eagle)[1::2] == [0, 0, 16, 16, 32, 32, 48]
    assert cached(tmp_path, [asked(range(64)), asked(range(100))], *eagle) == [0, 48]


def family() -> list[dict[str, Any]]:
    """X (208 tokens), X again, X and 64 more, three siblings that share 160 tokens with it."""
    first, *others = siblings(160, 4)
    return [asked(prompt) for prompt in (first, first, [*first, *range(900, 964)], *others)]


@pytest.mark.parametrize(
    ("retention", "expected"),
    [
        ("dense", [0, 192, 208, 160, 160, 160]),  # row 14
        ("0", [0, 192, 192, 0, 160, 160]),  # row 15
        ("64", [0, 192, 192, 128, 160, 160]),  # row 16
    ],
)
def test_14_to_16_sliding_window(retention: str, expected: list[int], tmp_path: Path) -> None:
    assert cached(tmp_path, family(), *V32, "--retention", retention, config=SLIDING) == expected


def test_14_and_15_are_the_defaults_of_their_versions(tmp_path: Path) -> None:
    assert cached(tmp_path, family(), "--engine", "vllm@0.28", config=SLIDING)[3] == 160
    assert cached(tmp_path, family(), "--engine", "vllm@0.29", config=SLIDING)[3] == 0


def test_17_aligned_prompt(tmp_path: Path) -> None:
    rows = [asked(range(192)), asked(range(192)), asked([*range(192), *range(900, 940)])]
    assert cached(tmp_path, rows, *V32, config=SLIDING) == [0, 176, 176]


def test_18_only_sliding_layers(tmp_path: Path) -> None:
    first, *others = siblings(160, 3)
    rows = [asked(prompt) for prompt in (first, first, *others)]
    assert cached(tmp_path, rows, *V32, "--retention", "0", config=ONLY_SLIDING) == [0, 192, 0, 0]
    assert cached(tmp_path, rows[:3], *V32, "--retention", "dense", config=ONLY_SLIDING) == [0, 192, 160]


def test_19_groups_with_different_blocks(tmp_path: Path) -> None:
    rows = [asked(range(200)), asked(range(200)), asked([*range(200), *range(900, 960)])]
    report, found = analyzed(tmp_path, rows, *V32, config=TWO_BLOCKS)
    assert [row["cached_tokens"] for row in found] == [0, 192, 192]
    assert report["pools"][0]["engine"]["match_unit"] == 32


@pytest.mark.parametrize(
    ("retention", "expected"), [("dense", [0, 192, 208, 0, 160, 160]), ("0", [0, 192, 192, 0, 160, 160])]
)
def test_20_and_21_recurrent_layers(retention: str, expected: list[int], tmp_path: Path) -> None:
    assert cached(tmp_path, family(), *V32, "--retention", retention, config=MAMBA) == expected


@pytest.mark.parametrize("config", [SLIDING, MAMBA])
def test_22_next_turn_of_models_with_states(config: dict[str, Any], tmp_path: Path) -> None:
    prompt, output = list(range(200)), list(range(500, 540))
    rows = [asked(prompt, output), asked([*prompt, *output, *range(900, 930)])]
    assert cached(tmp_path, rows, *V32, "--retention", "dense", config=config) == [0, 224]
    assert cached(tmp_path, rows, *V32, "--retention", "0", config=config) == [0, 192]


# -- vLLM 0.32 on a CPU, seen running ---------------------------------------------------------------------------------

CPU = (*V32, "--platform", "cpu")


def test_llama_on_a_cpu(tmp_path: Path) -> None:
    together = [asked(range(300), timestamp=1_795_000_000) for _ in range(2)]
    later = [asked(range(300), timestamp=1_795_000_009)]
    report, rows = analyzed(tmp_path, [*together, *later], *CPU, config=LLAMA)
    assert [row["expected_cached_tokens"] for row in rows] == [0, 256, 256]
    assert report["pools"][0]["engine"]["block_size"] == 128
    turn, answer = fresh(1, 200), list(range(50_000, 50_008))
    assert cached(tmp_path, [asked(turn, answer), asked([*turn, *answer, *range(70_000, 70_060)])], *CPU) == [0, 128]
    assert cached(tmp_path, [asked(range(384))] * 2, *CPU) == [0, 256]
    assert cached(tmp_path, [asked(range(384)), asked(range(384), prompt_logprobs=1)], *CPU) == [0, 0]
    budget = [asked(range(600), timestamp=1_795_000_000)] * 2
    _, rows = analyzed(tmp_path, budget, *CPU, "--max-batched-tokens", "512")
    assert [row["expected_cached_tokens"] for row in rows] == [0, 512]


@pytest.mark.parametrize(("retention", "expected"), [("0", [0, 416, 0, 320, 320]), ("dense", [0, 416, 320, 320, 320])])
def test_gemma_on_a_cpu(retention: str, expected: list[int], tmp_path: Path) -> None:
    gemma = {**SLIDING, "sliding_window": 64}
    options = (*CPU, "--block-size", "32", "--retention", retention)
    first, *others = siblings(320, 4, own=100)
    rows = [asked(prompt) for prompt in (first, first, *others)]
    assert cached(tmp_path, rows, *options, config=gemma) == expected
    one = asked(range(300), range(500, 508))
    two = asked([*range(300), *range(500, 508), *range(600, 650)], range(700, 708))
    three = asked([*two["prompt_token_ids"], *two["output_token_ids"], *range(800, 850)])
    assert cached(tmp_path, [one, two, three], *options, config=gemma) == [0, 288, 352]


@needs_shared
def test_measured_match_units(tmp_path: Path) -> None:
    rows = [row for row in json.loads((SHARED / "vectors/match_unit_measurements.json").read_text()) if row["measured"]]
    assert len(rows) == 13
    for row in rows:
        earlier = row.get("earlier_prompt_tokens", row["prompt_tokens"])
        options = ["--match-unit", str(row["unit"]), *(["--speculative", "mtp"] if row["eagle"] else [])]
        found = cached(tmp_path, [asked(range(earlier)), asked(range(row["prompt_tokens"]))], *V32, *options)
        assert found[1] == row["cached"], row


# -- overlapping requests ---------------------------------------------------------------------------------------------


def test_a_finished_sharer_of_80_and_a_running_one_of_120(tmp_path: Path) -> None:
    prompt = list(range(200))
    rows = [
        asked([*prompt[:80], *range(900, 950)], timestamp=1_795_000_000, finished_at=1_795_000_001),
        asked([*prompt[:120], *range(700, 750)], timestamp=1_795_000_010, finished_at=1_795_000_099),
        asked(prompt, timestamp=1_795_000_020, finished_at=1_795_000_030),
    ]
    for options, expected in (
        (("--engine", "vllm", "--block-size", "8"), 120),
        (("--engine", "llama-cpp"), 80),
        (("--engine", "sglang"), 80),  # its prefill may have ended, but no first token is logged
    ):
        report, found = analyzed(tmp_path, rows, *options)
        assert (found[2]["cached_tokens"], found[2]["expected_cached_tokens"]) == (120, expected), options
        assert report["totals"]["cached_tokens"] >= report["totals"]["expected_cached_tokens"]
        assert sum(value or 0 for value in report["totals"]["losses"].values()) == (
            report["totals"]["reusable_tokens"] - report["totals"]["expected_cached_tokens"]
        )


def test_without_ends_the_rung_is_null_and_says_why(tmp_path: Path) -> None:
    rows = [asked(range(64), timestamp=1_795_000_000 + n) for n in range(3)]
    report, found = analyzed(tmp_path, rows, "--engine", "sglang")
    (rung,) = [rung for rung in report["pools"][0]["ladder"] if rung["rung"] == "in_flight"]
    assert rung["cached_tokens"] is None and "3 requests without first_token_at or finished_at" in rung["why"]
    assert report["totals"]["losses"]["in_flight"] is None and found[1]["loss_in_flight"] is None
    report, found = analyzed(tmp_path, rows, "--engine", "sglang", "--service-time", "90s")
    assert [row["expected_cached_tokens"] for row in found] == [0, 0, 0]
    report, found = analyzed(tmp_path, rows, "--engine", "sglang", "--service-time", "800ms")
    assert [row["expected_cached_tokens"] for row in found] == [0, 63, 63]


def test_requests_without_a_time_are_not_simulated(tmp_path: Path) -> None:
    report, _ = analyzed(tmp_path, [asked(range(64)), asked(range(64))], *V32)
    (rung,) = [rung for rung in report["pools"][0]["ladder"] if rung["rung"] == "in_flight"]
    assert rung["cached_tokens"] is None and "without a time" in rung["why"]


def test_memory_never_keeps_more_than_overlap_left(tmp_path: Path) -> None:
    rows = [
        asked([*range(400), n], timestamp=1_795_000_000 + n, finished_at=1_795_000_002 + n) for n in range(1000, 1030)
    ]
    _, free = analyzed(tmp_path, rows, "--engine", "sglang", "--block-size", "16")
    report, found = analyzed(tmp_path, rows, "--engine", "sglang", "--block-size", "16", "--capacity", "20blocks")
    for alone, small in zip(free, found, strict=True):
        assert small["loss_capacity"] >= 0
        assert small["expected_cached_tokens"] <= alone["expected_cached_tokens"] <= alone["cached_tokens"]
    (rung,) = [rung for rung in report["pools"][0]["ladder"] if rung["rung"] == "capacity"]
    assert "overlap" in rung["why"]


# -- small situations with known answers ------------------------------------------------------------------------------


def of_case(folder: Path, found: dict[str, Any], *options: str) -> list[dict[str, Any]]:
    models = write_models(folder, found["setup"])
    given = [] if models is None else ["--models", str(models), "--render", "plain"]
    if models is not None and "adapters" in found["setup"]:
        given = ["--models", str(models)]
    return analyzed(folder, [logged(row) for row in found["requests"]], *options, *given)[1]


@needs_shared
@pytest.mark.parametrize(
    ("number", "options", "key"),
    [
        (2, ("--engine", "vllm"), "cached_tokens"),
        (3, ("--engine", "sglang"), "cached_tokens"),
        (3, ("--engine", "sglang", "--block-size", "16"), "cached_tokens_page_16"),
        (4, ("--engine", "vllm", "--match-unit", "4096"), "cached_tokens"),
        (5, ("--engine", "vllm@0.32", "--speculative", "eagle"), "cached_tokens"),
        (5, ("--engine", "vllm@0.32"), "cached_tokens_without_eagle"),
        (23, ("--engine", "vllm"), "cached_tokens"),
        (25, ("--engine", "vllm"), "cached_tokens"),
        (26, ("--engine", "vllm"), "cached_tokens"),
        (31, ("--engine", "vllm"), "cached_tokens_per_api_request"),
        (34, ("--engine", "vllm"), "cached_tokens"),
        (51, ("--engine", "vllm"), "cached_tokens_vllm"),
        (51, ("--engine", "sglang"), "cached_tokens_sglang_page_1"),
    ],
)
def test_cases(number: int, options: tuple[str, ...], key: str, tmp_path: Path) -> None:
    found = case(number)
    assert [row["cached_tokens"] for row in of_case(tmp_path, found, *options)] == found["expect"][key]


@needs_shared
def test_case_1_and_its_finding(tmp_path: Path) -> None:
    found = case(1)
    for size, expected in found["expect"]["cached_tokens_by_block_size"].items():
        rows = of_case(tmp_path, {**found, "setup": {}}, "--engine", "vllm", "--block-size", size)
        assert [row["cached_tokens"] for row in rows] == expected
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["pools"][0]["largest_block_size_with_reuse"] == 240
    (finding,) = report["findings"]
    assert (finding["match_unit"], finding["least_tokens"]) == (784, 784)
    assert (finding["short_requests"], finding["sharing_requests"], finding["lost_tokens"]) == (2, 2, 480)
    assert finding["shared_lengths"] == {"p10": 240, "p25": 240, "p50": 240, "p75": 240, "p90": 240, "p100": 240}
    gains = {unit["block_size"]: (unit["cached_tokens"], unit["offered"]) for unit in finding["smaller_units"]}
    assert gains[16] == (480, True) and gains[128] == (256, True) and gains[256] == (0, True) and gains[8][1] is False


@needs_shared
def test_case_5_with_lookahead_hashes(tmp_path: Path) -> None:
    rows = of_case(tmp_path, case(5), "--engine", "vllm@0.33", "--speculative", "eagle")
    assert [row["cached_tokens"] for row in rows] == [0, 96, 16]


@needs_shared
def test_case_35_same_instant(tmp_path: Path) -> None:
    expected = case(35)["expect"]
    for engine, key in (("vllm", "cached_tokens_vllm_full_attention"), ("llama-cpp", None), ("sglang", None)):
        rows = of_case(tmp_path, case(35), "--engine", engine)
        found = [row["expected_cached_tokens"] for row in rows]
        assert found == (expected[key] if key else expected["cached_tokens_if_reuse_only_after_finish"])
    rows = of_case(tmp_path, case(35), "--engine", "vllm")
    assert [row["cached_tokens"] for row in rows] == expected["cached_tokens_serial"]


# -- options act where they act ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--slots", "2"), "--slots acts on llama-cpp only, and the engine is vllm"),
        (("--engine", "sglang", "--retention", "0"), "--retention acts on vllm, vllm-ascend only"),
        (("--lifetime", "5m"), "--lifetime acts on openai"),
        (("--engine", "openai", "--lifetime", "soon"), "--lifetime soon: write a duration"),
        (("--retention", "some"), "--retention some: write dense, 0 or a number of tokens"),
        (("--service-time", "x"), "--service-time x: write a duration"),
        (("--platform", "ascend"), "for Ascend: --engine vllm-ascend"),
        (("--engine", "vllm", "--attention-backend", "nope"), "--attention-backend nope: not known for vllm"),
        (("--engine", "vllm", "--platform", "cpu", "--block-size", "16"), "accepts multiples of 32 only"),
    ],
)
def test_misplaced_options_are_one_sentence(
    options: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(asked(range(64))) + "\n")
    assert main(["analyze", str(log), *options]) in (1, 2)
    assert said in capsys.readouterr().err


def test_options_act(tmp_path: Path) -> None:
    rows = [asked(range(100)), asked(range(100))]
    assert cached(tmp_path, rows, "--engine", "vllm", "--attention-backend", "flashmla") == [0, 64]
    assert cached(tmp_path, rows, "--engine", "sglang", "--attention-backend", "trtllm_mha") == [0, 64]
    assert cached(tmp_path, rows, "--engine", "sglang", "--platform", "ascend") == [0, 0]
    assert cached(tmp_path, rows, "--engine", "tensorrt-llm") == [0, 99]
    assert cached(tmp_path, rows, "--engine", "tensorrt-llm", "--no-partial-reuse") == [0, 96]
    assert cached(tmp_path, rows, "--engine", "vllm", "--context-parallel", "4") == [0, 64]
    one, two, three = (asked(fresh(n, 100)) for n in (1, 2, 3))
    assert cached(tmp_path, [one, two, three, one], "--engine", "llama-cpp", "--slots", "2")[3] == 0
    assert cached(tmp_path, [one, two, three, one], "--engine", "llama-cpp", "--slots", "3")[3] == 99
    answered = [asked(range(100), range(500, 540)), asked([*range(100), *range(500, 540), 9])]
    assert cached(tmp_path, answered, "--engine", "sglang", "--strip-thinking") == [0, 100]
    apart = [asked(range(2000), timestamp=1_795_000_000 + seconds) for seconds in (0, 400, 1500)]
    assert cached(tmp_path, apart, "--engine", "openai", "--lifetime", "10m") == [0, 1920, 0]


def test_what_a_hybrid_models_blocks_depend_on(tmp_path: Path) -> None:
    hybrid = {**MAMBA, "linear_num_value_heads": 8, "linear_value_head_dim": 64, "linear_key_head_dim": 64}
    sizes = {}
    for options in ((), ("--tensor-parallel", "2"), ("--kv-dtype", "fp8"), ("--speculative-tokens", "4")):
        report, _ = analyzed(tmp_path, [asked(range(64))] * 2, *V32, *options, config=hybrid)
        engine = report["pools"][0]["engine"]
        assert engine["block_size"] == engine["match_unit"]
        sizes[options] = engine["block_size"]
    # state: (2 * 64 + 512) * 3 conv and 8 * 64 * 64 matrix numbers of 2 bytes; a token: 2 * 2 * 16 numbers
    state, token = ((2 * 64 + 512) * 3 + 8 * 64 * 64) * 2, 2 * 2 * 16 * 2
    assert sizes[()] == 16 * -(-state // (16 * token))
    assert sizes[("--kv-dtype", "fp8")] == 16 * -(-state // (16 * token // 2))
    assert sizes[("--speculative-tokens", "4")] > sizes[()]
    assert sizes[("--tensor-parallel", "2")] == 16 * -(-(((128 + 512) // 2 * 3 + 4 * 64 * 64) * 2) // (16 * token // 2))


def test_an_index_carries_the_model_and_its_settings(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    analyzed(tmp_path, family(), *V32, config=SLIDING)
    models = tmp_path / "models.toml"
    models.write_text(f'[models.m]\npath = "{folder}"\nengine = "vllm@0.32"\nretention = 64\n')
    direct, rows = analyzed(tmp_path, family(), "--models", str(models))
    assert [row["cached_tokens"] for row in rows] == [0, 192, 192, 128, 160, 160]
    index = tmp_path / "log.parquet"
    assert main(["index", str(tmp_path / "log.jsonl"), "--models", str(models), "-o", str(index), "-q"]) == 0
    models.unlink()
    (folder / "config.json").unlink()
    stored, again = analyzed(tmp_path, [], log=index)
    assert again == rows
    assert stored["pools"][0]["engine"] == direct["pools"][0]["engine"]
    assert stored["totals"] == direct["totals"]


def test_settings_of_a_models_file_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, models = tmp_path / "log.jsonl", tmp_path / "models.toml"
    log.write_text(json.dumps(asked(range(64))) + "\n")
    for line, said in (
        ('retention = "all"', 'retention of [models.m] must be "dense" or a number of tokens'),
        ("partial_reuse = 1", "partial_reuse of [models.m] must be true or false"),
        ("slots = 0", "slots of [models.m] must be a whole number of at least 1"),
        ('platform = "tpu"', "--platform tpu: choose from nvidia"),
    ):
        models.write_text(f"[models.m]\n{line}\n")
        assert main(["analyze", str(log), "--models", str(models)]) in (1, 2)
        assert said in capsys.readouterr().err


def test_a_config_that_can_not_be_read_is_doubted_aloud(tmp_path: Path) -> None:
    odd = {**SLIDING, "sliding_window": "wide"}
    report, rows = analyzed(tmp_path, [asked(range(64))] * 2, *V32, config=odd)
    assert [row["cached_tokens"] for row in rows] == [0, 48]
    assert any("tells no KV groups" in sentence for sentence in report["pools"][0]["engine"]["assumed"])


# -- side by side -----------------------------------------------------------------------------------------------------

SUPPORT_CHAT = Path(__file__).resolve().parents[2] / "sample_logs" / "support-chat.jsonl"


def test_engines_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = SUPPORT_CHAT.parent
    names = ("vllm", "vllm-ascend", "sglang")
    engines = [argument for name in names for argument in ("--engine", name)]
    report, rows = analyzed(tmp_path, [], *engines, "--models", str(sample / "models.toml"), log=SUPPORT_CHAT)
    found = {entry["pools"][0]["engine"]["name"]: entry for entry in report["engines"]}
    assert list(found) == list(names)
    assert [found[name]["pools"][0]["engine"]["match_unit"] for name in names] == [16, 128, 1]
    cached_by = [found[name]["totals"]["cached_tokens"] for name in names]
    assert cached_by[1] < cached_by[0] < cached_by[2]
    assert len({found[name]["totals"]["reusable_tokens"] for name in names}) == 1
    for name in names:
        (alone, _) = analyzed(tmp_path, [], "--engine", name, "--models", str(sample / "models.toml"), log=SUPPORT_CHAT)
        if name != "sglang":  # whose own reading of the bodies comes with it when it stands alone
            assert alone["totals"] == found[name]["totals"]
    assert sum(row["cached_tokens"] for row in rows) == cached_by[0]
    capsys.readouterr()
    assert main(["analyze", str(SUPPORT_CHAT), "--models", str(sample / "models.toml"), *engines, "-q"]) == 0
    shown = capsys.readouterr().out
    assert "prompts are rendered as vllm does" in " ".join(shown.split())
    assert "assumed: vLLM Ascend 0.23, block 128" in shown and "assumed: SGLang 0.5.23, block 1" in shown


def test_block_sizes_that_are_not_offered_are_no_advice(tmp_path: Path) -> None:
    rows = [asked([*range(60), *range(1000 * n, 1000 * n + 100)]) for n in range(1, 20)]
    report, _ = analyzed(tmp_path, rows, "--engine", "vllm-ascend")
    (finding,) = report["findings"]
    assert finding["offered"] == [128] and "offer none of these sizes" in finding["sentences"][2]
    report, _ = analyzed(tmp_path, rows, "--engine", "vllm", "--block-size", "128")
    assert "--block-size 16 would give" in report["findings"][0]["sentences"][2]
    sizes = {row["block_size"]: row["accepted"] for row in report["pools"][0]["block_sizes"]}
    assert sizes[16] is True and sizes[8] is False


def test_counters_are_compared_with_the_same_look_ups(tmp_path: Path) -> None:
    """Seen on vLLM 0.32: n = 3 on 100 fresh tokens counts 300 queries and 192 hits; prompt_logprobs count nothing."""
    before, after = tmp_path / "before.prom", tmp_path / "after.prom"
    before.write_text("vllm:prefix_cache_queries_total 1000\nvllm:prefix_cache_hits_total 16\n")
    after.write_text("vllm:prefix_cache_queries_total 1300\nvllm:prefix_cache_hits_total 208\n")
    rows = [asked(range(100), n=3), asked(range(5000, 5100), prompt_logprobs=0)]
    report, _ = analyzed(tmp_path, rows, *V32, "--measured", f"{before},{after}")
    measured = report["measured"]
    assert (measured["prompt_tokens"], measured["predicted_prompt_tokens"]) == (300, 300)
    assert (measured["cached_tokens"], measured["predicted_cached_tokens"]) == (192, 192)
    assert measured["verdict"] == "agrees"
