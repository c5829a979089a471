"""`prefixscope hashes` from a log to JSON lines: known values of the engines' own functions, and what is refused."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import xxhash
from typer.main import get_command

from prefixscope.cli.main import app, main
from prefixscope.engines.hashes import ALGORITHMS
from tests.cases import case
from tests.engines.test_hashes import vllm_vectors
from tests.shared import SHARED, needs_shared

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_logs"


def write(path: Path, *requests: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps({"model": "m", **request}) + "\n" for request in requests), encoding="utf-8")
    return str(path)


@pytest.fixture
def rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command over these requests; gives the rows."""

    def run(requests: list[dict[str, Any]], *options: str) -> list[dict[str, Any]]:
        code = main(["hashes", write(tmp_path / "log.jsonl", *requests), *options, "--quiet"])
        out, err = capsys.readouterr()
        assert (code, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]

    return run


def ids(*tokens: int, **fields: Any) -> dict[str, Any]:
    return {"prompt_token_ids": list(tokens), **fields}


FIRST = ids(*range(16))


@needs_shared
@pytest.mark.parametrize(("function", "seed", "known"), vllm_vectors())
def test_vllm_vectors(rows: Any, function: str, seed: str | None, known: dict[str, str]) -> None:
    options = ["--algorithm", f"vllm-{function}", "--adapter-path", "ad1=/p/ad1"]
    options += [] if seed is None else ["--hash-seed", seed]
    asked = [ids(*range(32)), FIRST | {"cache_salt": "tenant-a"}, FIRST | {"model": "ad1"}]
    plain, salted, adapted = rows(asked, *options)
    assert plain["hashes"] == [known["b0[0..15]"], known["b1[16..31]"]]
    assert plain["integers"][0] == int(known["int64"])
    assert plain["root_hash"] == salted["root_hash"] == known["NONE"]
    assert salted["hashes"] == [known["salt tenant-a"]]
    assert (adapted["hashes"], adapted["adapter"], plain["adapter"]) == ([known["lora"]], "ad1", None)
    (short,) = rows([ids(1, 2, 3, 4)], *options, "--block-size", "4")
    assert short["hashes"] == [known["[1,2,3,4]"]]


def test_vllm_key_styles_of_older_versions_and_look_ahead(rows: Any) -> None:
    salted = FIRST | {"cache_salt": "tenant-a"}
    options = ["--engine", "vllm@0.30", "--hash-seed", "0", "--adapter-path", "ad1=/not/hashed"]
    bare, adapted = rows([salted, FIRST | {"model": "ad1"}], *options)
    assert bare["hashes"] == ["046116fc4175dd01b2fff9db2de10380bee626af1ec9bbf18827ac6dad30dd86"]
    assert adapted["hashes"] == ["6804a4da584f1cfc536589c1ee004f7dc51676d471c228bd0547e53ca07c2ac5"]
    (ahead,) = rows([ids(*range(17))], "--speculative", "eagle")
    assert ahead["hashes"] == ["c693822db2654e476b8e689d24fa440ee866d211499a72b6549399eabf168912"]
    (dropped,) = rows([ids(*range(17))], "--speculative", "eagle", "--engine", "vllm@0.32")
    assert dropped["hashes"] == rows([FIRST])[0]["hashes"], "before 0.33 the draft model changes no hash"


@needs_shared
def test_sglang_vectors(rows: Any) -> None:
    known = re.findall(r"'([0-9a-f]{64})'", (SHARED / "vectors" / "sglang_page_hashes.txt").read_text())
    events, storage = ["--engine", "sglang"], ["--algorithm", "sglang-storage"]
    four = ["--block-size", "4"]
    (plain,) = rows([ids(*range(1, 9))], *events, *four)
    (single,) = rows([ids(1, 2, 3)], *storage)
    (pairs,) = rows([ids(1, 2, 3, 4, 5)], *events, *four, "--speculative", "eagle")
    one_to_four = ids(1, 2, 3, 4)
    salted, keyed = rows(
        [one_to_four | {"cache_salt": "tenant-a"}, one_to_four | {"extra_key": "ek1"}], *storage, *four
    )
    (published,) = rows([one_to_four | {"cache_salt": "tenant-a"}], *events, *four)
    computed = [row["hashes"] for row in (plain, single, pairs, salted, keyed, published)]
    assert [key for keys in computed for key in keys] == known
    assert plain["algorithm"] == "sglang-events" and single["block_size"] == 1
    assert plain["integers"] == [-3488128144981237669, 5674439469042975057]
    assert published["integers"] == [3718046898735569995]
    assert {row["root_hash"] for row in (plain, salted, keyed, published)} == {None}, "a root would tell of the salt"


def test_dynamo_vectors(rows: Any) -> None:
    local, four = ["--algorithm", "dynamo-local"], ["--block-size", "4"]
    (chained,) = rows([ids(*range(1, 13))], "--engine", "dynamo-router", *four)
    assert chained["algorithm"] == "dynamo-sequence"
    assert chained["integers"] == [14643705804678351452, 4945711292740353085, 12583592247330656132]
    one_to_four = ids(1, 2, 3, 4)
    asked = [
        ids(*range(1, 9)),
        one_to_four | {"model": "ad1"},
        one_to_four | {"extra_key": "tenant-a"},
        one_to_four | {"extra_key": "tenant-a", "model": "ad1"},
    ]
    assert [row["integers"] for row in rows(asked, *local, *four, "--adapter-path", "ad1=any")] == [
        [14643705804678351452, 16777012769546811212],
        [4033386159037673140],
        [5738685477468498325],
        [12185791866570771175],
    ]
    for tokens, size, known in (
        (range(32), 16, [15310707395893867146, 15292316782987903195]),
        (range(64), 64, [3480597578098033343]),
        (range(100, 196), 32, [10204902774064577522, 7680375310753687118, 10193090015057440293]),
    ):
        (row,) = rows([ids(*tokens)], *local, "--block-size", str(size))
        assert row["integers"] == known
    (eagle,) = rows([ids(1, 2, 3, 4, 5)], *local, *four, "--speculative", "eagle")
    assert eagle["integers"] == [1914873892905420881]


def test_our_own_keys_follow_their_definition(rows: Any) -> None:
    def text(value: str) -> bytes:
        return struct.pack("<I", len(value)) + value.encode()

    space = ("m", "", "", "salt=s")
    parent = xxhash.xxh3_128_digest(b"prefixscope/1\0" + struct.pack("<I", 4) + b"".join(map(text, space)))
    known = []
    for start in (0, 4):
        parent = xxhash.xxh3_128_digest(parent + struct.pack("<4I", *range(start, start + 4)))
        known.append(parent.hex())
    salted, plain = rows(
        [ids(*range(9), cache_salt="s"), ids(*range(9))], "--algorithm", "prefixscope", "--block-size", "4"
    )
    assert (salted["hashes"], salted["root_hash"], salted["integers"]) == (known, None, None)
    assert plain["root_hash"] is not None and plain["hashes"] != known


@needs_shared
def test_case_55_two_processes_and_shuffled_files_give_the_same_bytes(tmp_path: Path) -> None:
    request = case(55)["requests"][0]
    first = write(tmp_path / "a.jsonl", request, request | {"cache_salt": "s", "extra_key": "e"})
    second = write(tmp_path / "b.jsonl", request | {"model": "other"}, ids(*range(99)))
    made = set()
    for seed, files in (("0", [first, second]), ("1", [second, first]), ("random", [second, first])):
        for algorithm in ("prefixscope", "vllm-sha256", "sglang-storage", "dynamo-sequence"):
            command = [sys.executable, "-m", "prefixscope", "hashes", *files, "--algorithm", algorithm]
            command += ["--block-size", str(case(55)["setup"]["block_size"]), "--quiet"]
            environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
            done = subprocess.run(command, env=environment, capture_output=True, check=True)
            made.add((algorithm, b"\n".join(sorted(done.stdout.splitlines()))))
    assert len(made) == 4, "one set of bytes for each algorithm"
    assert all(len(lines.splitlines()) == 4 for _, lines in made)


def test_a_row_says_where_it_comes_from_and_what_was_hashed(rows: Any, tmp_path: Path) -> None:
    asked = [
        ids(*range(30), request_id="r1", output_token_ids=list(range(30, 40)), model="chat"),
        ids(*range(30), request_id=None, usage={"prompt_tokens": 30, "completion_tokens": 10}),
    ]
    row, unnamed = rows(asked)
    assert list(row) == [
        "request_id", "file", "line", "model", "adapter", "prompt_tokens", "tokens", "outputs", "algorithm",
        "block_size", "root_hash", "hashes", "integers",
    ]  # fmt: skip
    assert (row["request_id"], row["file"], row["line"]) == ("r1", str(tmp_path / "log.jsonl"), 1)
    assert (row["model"], row["prompt_tokens"], row["tokens"], row["outputs"]) == ("chat", 30, 30, None)
    assert len(row["hashes"]) == 1, "cut to the prompt"
    assert (unnamed["request_id"], unnamed["line"]) == (None, 2)
    known, length = rows(asked, "--with-outputs")
    assert (known["tokens"], known["outputs"], len(known["hashes"])) == (39, "ids", 2)
    assert known["hashes"][0] == row["hashes"][0]
    assert (length["tokens"], length["outputs"]) == (30, "length")


def test_real_text_is_hashed_as_its_token_ids(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--models", str(SAMPLES / "models.toml"), "--algorithm", "prefixscope", "--limit", "6"]
    assert main(["hashes", str(SAMPLES / "support-chat.jsonl"), *options]) == 0
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == 6 and all(len(row["hashes"]) == row["prompt_tokens"] // 16 for row in rows)
    by_adapter: dict[str, set[str]] = {}
    for row in rows:
        by_adapter.setdefault(row["adapter"], set()).add(row["hashes"][0])
    assert all(len(first) == 1 for first in by_adapter.values()), "one system prompt, one first block each"
    assert err.splitlines()[0] == "prefixscope: hashed 6 requests"
    assert "assumed: blocks of 16 tokens" in err


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["hashes", *arguments])
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("prefixscope: ") and err.count("\n") == 1
    return code, err.strip()


def test_what_can_not_be_exact_is_refused_in_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", FIRST, FIRST | {"model": "ad1", "adapter": "ad1"})
    code, said = refusal(capsys, log, "--algorithm", "vllm-xxhash_cbor")
    assert code == 2 and "at random" in said and said.endswith("(--hash-seed)")
    assert refusal(capsys, "nowhere.jsonl", "--engine", "vllm@0.27")[0] == 2, "told before the log is opened"
    code, said = refusal(capsys, "-o", str(tmp_path / "keys.jsonl"), log)
    assert code == 2 and f"{log}:2: " in said and said.endswith("(--adapter-path ad1=PATH)")
    assert not (tmp_path / "keys.jsonl").exists(), "half a file is no file"
    code, said = refusal(capsys, str(SAMPLES / "hash-trace.jsonl"))
    assert code == 1 and "hash-trace.jsonl:1: holds hash ids" in said
    index = str(tmp_path / "index.parquet")
    assert main(["index", log, "-o", index, "-q"]) == 0
    capsys.readouterr()
    code, said = refusal(capsys, index)
    assert code == 1 and "is an index, which holds no tokens" in said
    code, said = refusal(capsys, log, "--algorithm", "md5")
    assert code == 2 and "known are vllm-sha256" in said
    assert refusal(capsys, log, "--adapter-path", "ad1")[1].endswith("write NAME=PATH")
    assert "twice" in refusal(capsys, log, "--adapter-path", "a=1", "--adapter-path", "a=2")[1]
    assert "not a number" in refusal(capsys, log, "--adapter-id", "a=x")[1]
    lengths = tmp_path / "lengths.jsonl"
    lengths.write_text('{"timestamp": 1, "input_length": 512, "output_length": 3}\n' * 3)
    assert refusal(capsys, str(lengths))[0] == 1


def test_text_without_its_tokenizer_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", {"messages": [{"role": "user", "content": "hi"}]})
    code, said = refusal(capsys, log)
    assert code == 1 and "--model m=FOLDER_OR_HUB_ID" in said


def test_images_are_left_out_and_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    parts = [{"type": "text", "text": "What is this? " * 30}, picture]
    chat = {"messages": [{"role": "user", "content": parts}]}
    log = write(tmp_path / "log.jsonl", chat, FIRST)
    model = ["--model", f"m={SAMPLES / 'model'}"]
    assert main(["hashes", log, *model, "--skips"]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["line"] for line in out.splitlines()] == [2]
    assert f"left out: {log}:1: 1 with images, audio or video, whose tokens are not known" in err
    assert main(["hashes", log, *model, "--algorithm", "prefixscope", "-q"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2, "our own keys are of the tokens we count"


def test_salts_are_never_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    secret = "do-not-tell"
    log = write(tmp_path / "log.jsonl", FIRST | {"cache_salt": secret, "extra_key": secret + "2"})
    for algorithm in ALGORITHMS:
        main(["hashes", log, "--algorithm", algorithm, "--hash-seed", "0", "--skips"])
        out, err = capsys.readouterr()
        assert secret not in out + err


def test_files_and_streams(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", FIRST | {"request_id": "\ud800x"}, {"prompt_token_ids": "1 2"}, FIRST)
    keys = tmp_path / "keys.jsonl"
    assert main(["hashes", log, "-o", str(keys)]) == 0
    out, err = capsys.readouterr()
    assert out == "" and "left out 1: " in err
    assert len(keys.read_text().splitlines()) == 2
    assert main(["hashes", log, "-o", str(keys)]) == 1
    assert "--force overwrites it" in capsys.readouterr().err
    assert main(["hashes", log, "--strict"]) == 3


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        log = write(tmp_path / f"{count}.jsonl", *(ids(*range(n, n + 2000)) for n in range(count)))
        code = (
            "import sys; from prefixscope.cli.main import main; "
            f"code = main(['hashes', {log!r}, '-o', '/dev/null', '-q', '--algorithm', 'prefixscope']); "
            "print(*(line for line in open('/proc/self/status') if line.startswith('VmHWM'))); sys.exit(code)"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        return int(done.stdout.split()[1])

    small, large = peak(1500), peak(6000)  # 15 and 60 MB of log, in batches of 4 MB
    assert large - small < 20_000, "kilobytes"


def test_the_help_names_the_algorithms_that_exist() -> None:
    commands: dict[str, Any] = getattr(get_command(app), "commands", {})
    for command in ("hashes", "events"):
        option = next(parameter for parameter in commands[command].params if parameter.name == "algorithm")
        listed = re.search(r"The chain: (.*?)\. ", option.help)
        assert listed is not None
        assert listed[1].split(", ") == list(ALGORITHMS)
