"""The commands over a stand-in for the API: options in, files and streams out, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from prefixscope import __version__, api
from prefixscope.cli.main import main
from prefixscope.errors import GateFailed, InputError, ModelError, OptionError
from prefixscope.results import BlocksReport
from tests.report import samples


@dataclass
class Calls:
    """What the commands asked of the API."""

    options: list[Any]
    reports: tuple[Any, ...]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made = Calls([], (samples.analyze_report(),))

    def analyze(options: api.AnalyzeOptions, progress: api.Progress) -> api.Analysis:
        progress("reading", 1, None)
        made.options.append(options)
        return api.Analysis(made.reports, {"row": [0, 1], "request_id": ["a", "b"], "time": [1, 2]})

    def blocks(options: api.AnalyzeOptions, progress: api.Progress) -> BlocksReport:
        made.options.append(options)
        return BlocksReport(samples.input_report(), samples.analyze_report().pools)

    monkeypatch.setattr(api, "analyze", analyze)
    monkeypatch.setattr(api, "blocks", blocks)
    return made


def fail_with(error: BaseException) -> Callable[..., Any]:
    def analyze(*_: object) -> Any:
        raise error

    return analyze


def test_every_option_reaches_the_api(calls: Calls) -> None:
    code = main([
        "analyze", "a.jsonl", "native:b.jsonl", "--format", "mooncake", "--model", "m=x", "--model", "n=y", "--models",
        "m.toml", "--render", "plain", "--namespace-by", "tenant", "--warmup", "50%", "--since", "2026-01-01",
        "--until", "2026-02-01", "--cold-start", "--limit", "7", "--strict", "--engine", "vllm@0.32", "--engine",
        "sglang", "--block-size", "32", "--match-unit", "64", "--speculative", "eagle", "--measured", "a.prom,b.prom",
        "--hide-text",
    ])  # fmt: skip
    assert code == 0
    (options,) = calls.options
    assert options == api.AnalyzeOptions(
        log=api.LogOptions(
            logs=("a.jsonl", "native:b.jsonl"), format="mooncake", models=("m=x", "n=y"), models_file="m.toml",
            render="plain", namespace_by="tenant", warmup="50%", since="2026-01-01", until="2026-02-01",
            cold_start=True, limit=7, strict=True,
        ),
        engine=api.EngineChoice(("vllm@0.32", "sglang"), 32, 64, "eagle"),
        measured=("a.prom", "b.prom"),
        hide_text=True,
    )  # fmt: skip


def test_the_defaults_are_those_of_the_api(calls: Calls) -> None:
    main(["analyze", "a.jsonl"])
    assert calls.options == [api.AnalyzeOptions(api.LogOptions(("a.jsonl",)))]


def test_the_report_goes_to_stdout(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "a.jsonl"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("assumed: vLLM 0.33, block 16; not read from your engine\n")
    assert err == ""
    assert "\x1b" not in out
    assert not any(line.endswith(" ") for line in out.splitlines())


def test_json_on_stdout_is_json_and_nothing_else(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "a.jsonl", "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["command"] == "analyze"
    assert "prefixscope: warning: A line starts with a byte order mark" in err
    assert main(["analyze", "a.jsonl", "--json", "-", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_files_are_written_and_told(calls: Calls, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report, rows = tmp_path / "r.json", tmp_path / "r.parquet"
    assert main(["analyze", "a.jsonl", "--json", str(report), "--requests", str(rows)]) == 0
    out = capsys.readouterr().out
    assert out.endswith(f"Wrote {report}\nWrote {rows}\n")
    assert json.loads(report.read_bytes())["schema"] == "prefixscope.report/1"
    assert pq.read_table(rows)["request_id"].to_pylist() == ["a", "b"]


def test_existing_files_stop_a_run_before_the_work(
    calls: Calls, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "r.json"
    target.write_text("mine")
    assert main(["analyze", "a.jsonl", "--json", str(target)]) == 1
    assert calls.options == []
    assert capsys.readouterr().err == f"prefixscope: --json {target}: the file exists; --force overwrites it\n"
    assert main(["analyze", "a.jsonl", "--json", str(target), "--force"]) == 0
    assert target.read_text() != "mine"


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (InputError("is empty", file="a.jsonl"), 1, "a.jsonl: is empty"),
        (ModelError("no tokenizer for m"), 1, "no tokenizer for m"),
        (OptionError("--engine x: unknown"), 2, "--engine x: unknown"),
        (GateFailed("--strict: a.jsonl:3: invalid_json"), 3, "--strict: a.jsonl:3: invalid_json"),
        (InputError("odd\x1b[31m\nname", file="\udcff"), 1, "\\udcff: odd␛[31m↵name"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 1, "out of memory; --limit N reads fewer requests"),
    ],
)
def test_errors_are_one_sentence_and_leave_no_file(
    error: BaseException,
    code: int,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(api, "analyze", fail_with(error))
    assert main(["analyze", "a.jsonl", "--json", str(tmp_path / "r.json")]) == code
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"prefixscope: {sentence}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "analyze", fail_with(ZeroDivisionError("bug")))
    with pytest.raises(ZeroDivisionError):
        main(["analyze", "a.jsonl"])


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["analyse"], "No such command 'analyse'"),
        (["analyze"], "LOG"),
        (["analyze", "a", "--nonsense"], "--nonsense"),
        (["analyze", "a", "--block-size", "x"], "--block-size"),
        (["analyze", "a", "--block-size", "0"], "--block-size"),
        (["analyze", "a", "--limit", "0"], "--limit"),
        (["analyze", "a", "--render", "llama"], "--render"),
        (["analyze", "a", "--speculative", "x"], "--speculative"),
        (["analyze", "a", "--fail-under", "150"], "--fail-under 150: not a percentage"),
        (["analyze", "a", "--fail-under", "nan"], "--fail-under nan: not a percentage"),
        (["analyze", "a", "--measured", "one.prom"], "--measured one.prom: give two files"),
        (["analyze", "a", "--requests", "rows.csv"], "must end in .jsonl or .parquet"),
        (["analyze", "a", "--json", "-", "--requests", "-"], "--json and --requests both write to -"),
        (["analyze", "a", "--json", "x.jsonl", "--requests", "./x.jsonl"], "both write to"),
        (["blocks", "a", "--block-sizes", "16,,32"], "--block-sizes 16,,32: not a list"),
        (["blocks", "a", "--block-sizes", "0"], "not a list"),
        (["index", "a"], "--output"),
    ],
)
def test_usage_errors(
    arguments: list[str], part: str, calls: Calls, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("prefixscope: ")
    assert part in err
    assert err.count("\n") == 1
    assert calls.options == []
    assert list(tmp_path.iterdir()) == []


def test_fail_under(calls: Calls, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["analyze", "a", "--fail-under", "62.9"]) == 0
    assert main(["analyze", "a", "--fail-under", "63.1%", "--json", str(tmp_path / "r.json")]) == 3
    out, err = capsys.readouterr()
    sentence = "--fail-under 63.1: vLLM 0.33 is expected to reuse 63.0 % (257.1 M of 408.1 M prompt tokens)"
    assert err == f"prefixscope: {sentence}\n"
    assert "where the reuse goes" in out, "the report is shown and written all the same"
    assert (tmp_path / "r.json").exists()


def test_fail_under_looks_at_every_engine(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    calls.reports = (samples.sglang_report(), samples.analyze_report())
    assert main(["analyze", "a", "--fail-under", "70"]) == 3
    assert "vLLM 0.33 is expected" in capsys.readouterr().err


def test_an_unknown_share_passes_no_gate(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    calls.reports = (samples.empty_report(),)
    assert main(["analyze", "a", "--fail-under", "0"]) == 3
    assert "unknown" in capsys.readouterr().err


def test_blocks(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["blocks", "a.jsonl", "--block-sizes", "16, 32,16", "--json", "-"]) == 0
    assert calls.options[0].block_sizes == (16, 32)
    assert json.loads(capsys.readouterr().out)["command"] == "blocks"
    assert main(["blocks", "a.jsonl"]) == 0
    assert "Some reuse is left up to a size of 1,842 tokens (a limit, no advice)." in capsys.readouterr().out


@dataclass(frozen=True)
class Facts:
    """What a model command may tell."""

    name: str
    tokenizer: str | None
    kv_bytes_per_token: int
    adapters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Form:
    """What a format tells of itself."""

    name: str
    description: str
    how: str
    has_text: bool = True
    has_time: bool = False
    has_cached_tokens: bool = True


def test_models(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked = []

    def model_facts(names: tuple[str, ...], options: api.LogOptions) -> tuple[Facts, ...]:
        asked.append((names, options))
        return (Facts("m[red]", "tokenizer\x1b", 131072, ("a", "b")), Facts("n", None, 5)) if names else ()

    monkeypatch.setattr(api, "model_facts", model_facts, raising=False)
    assert main(["models", "m", "dir", "--model", "m=x", "--models", "t.toml"]) == 0
    assert asked == [(("m", "dir"), api.LogOptions((), models=("m=x",), models_file="t.toml"))]
    out = capsys.readouterr().out
    assert "m[red]\n" in out
    assert "tokenizer␛" in out
    assert "128.0 KiB" in out
    assert "a, b" in out
    assert main(["models", "m", "--json", "-"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["command"] == "models"
    assert made["models"][1] == {"name": "n", "tokenizer": None, "kv_bytes_per_token": 5, "adapters": []}
    assert main(["models"]) == 0
    assert "No model is named" in capsys.readouterr().out


def test_formats(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    forms = (Form("native", "our own", "write it"), Form("envelope", "a gateway's", "switch [x] on"))
    monkeypatch.setattr(api, "formats", lambda: forms, raising=False)
    assert main(["formats"]) == 0
    out = capsys.readouterr().out
    assert "cached tokens, text" in out
    assert "switch [x] on" not in out
    assert main(["formats", "--how", "envelope"]) == 0
    assert "switch [x] on" in capsys.readouterr().out
    assert main(["formats", "--how", "nothing"]) == 2
    assert capsys.readouterr().err == "prefixscope: --how nothing: no such format (known: native, envelope)\n"
    assert main(["formats", "--json", "-"]) == 0
    assert [form["name"] for form in json.loads(capsys.readouterr().out)["formats"]] == ["native", "envelope"]


def test_index(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "i.parquet"
    summary = api.IndexSummary(12, 2, ("base",), 100, 50, samples.input_report())

    def write_index(options: Any, engine: Any, handle: Any, progress: Any) -> api.IndexSummary:
        handle.write(b"index")
        return summary

    monkeypatch.setattr(api, "write_index", write_index)
    assert main(["index", "a.jsonl", "-o", str(target)]) == 0
    assert target.read_bytes() == b"index"
    out = " ".join(capsys.readouterr().out.split())
    assert f"Wrote {target}: 12 rows, 1 pool, 2 namespaces; it holds no text" in out
    assert "140 never reached prefill" in out
    assert main(["index", "a.jsonl", "-o", str(target)]) == 1
    assert "--force overwrites it" in capsys.readouterr().err
    assert main(["index", "a.jsonl", "-o", str(target), "--force", "--json", "-"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["index"] == {
        "file": str(target), "rows": 12, "namespaces": 2, "pools": ["base"], "prompt_tokens": 100, "unique_tokens": 50
    }  # fmt: skip
    assert main(["index", "a.jsonl", "-o", "-", "-q"]) == 0
    assert capsys.readouterr().out == "index"


def test_width_follows_columns(
    calls: Calls, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "130")
    main(["analyze", "a.jsonl"])
    assert "the rule of block_rounding" in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "nonsense")
    main(["analyze", "a.jsonl"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_skips_lists_places(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    main(["analyze", "a.jsonl"])
    assert "--skips lists" in capsys.readouterr().out
    main(["analyze", "a.jsonl", "--skips"])
    assert "support.jsonl:90" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"prefixscope {__version__}\n"


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "analyze" in capsys.readouterr().out
