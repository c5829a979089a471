"""`explain`, `lint` and the template doctor on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prefixscope.cli.main import main
from tests.cases import BYTES_MODEL, case, write_log, write_models
from tests.shared import needs_shared

pytestmark = needs_shared


def arguments(folder: Path, number: int, *more: str) -> list[str]:
    found = case(number)
    path = write_log(folder / "log.jsonl", [{"request_id": f"r{n}", **row} for n, row in enumerate(found["requests"])])
    models = write_models(folder, found["setup"])
    return [str(path), *(["--models", str(models), "--render", "plain"] if models else []), *more]


def test_the_most_expensive_fault_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *arguments(tmp_path, 7)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("assumed: vLLM")
    assert lines[1].startswith("1. a clock in the system prompt")
    assert any("the clock is taken out: cached" in line for line in lines[:12])
    text = "\n".join(lines)
    assert "20:37:|19. You are" in text and "overlap" in text


def test_json_holds_the_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *arguments(tmp_path, 11, "--json", "-", "--what-if", "none")]) == 0
    document = json.loads(capsys.readouterr().out)
    (fault,) = document["breaks"]
    assert (fault["cause"], fault["part"], fault["requests"]) == ("tools_reordered", "tool", 1)
    assert fault["example"]["first_different_token"] == 61 and fault["remedy"]
    assert document["causes"] == {"branched": 1, "first_seen": 1, "tools_reordered": 1}
    assert document["what_if"] == []


def test_rows_carry_the_break_columns(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    assert main(["analyze", *arguments(tmp_path, 7, "--requests", str(rows), "--quiet")]) == 0
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    names = ("break_cause", "break_candidate_row", "break_part", "first_different_token", "below_unit")
    assert [[row[name] for name in names] for row in found] == [
        ["first_seen", None, None, None, False],
        ["timestamp", 0, "system", 41, False],
        ["timestamp", 0, "system", 38, False],
    ]


def test_analyze_says_what_to_change_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "report.json"
    assert main(["analyze", *arguments(tmp_path, 7, "--json", str(document))]) == 0
    assert "what to change first" in capsys.readouterr().out
    assert json.loads(document.read_text())["breaks"][0]["cause"] == "timestamp"


def test_the_story_of_one_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *arguments(tmp_path, 7, "--request", "r1")]) == 0
    text = capsys.readouterr().out
    assert "shares 41 of its 226 prompt tokens with r0" in text
    assert "It breaks in the system prompt at token 41" in text
    assert main(["explain", *arguments(tmp_path, 7, "--request", "row:0")]) == 0
    assert "first_seen" in capsys.readouterr().out
    assert main(["explain", *arguments(tmp_path, 7, "--request", "nobody")]) == 2


def test_hidden_text_is_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more in ((), ("--request", "r1"), ("--json", "-")):
        assert main(["explain", *arguments(tmp_path, 7, "--hide-text", *more)]) == 0
        assert "You are" not in capsys.readouterr().out


def test_lint_fails_on_what_it_is_told_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", *arguments(tmp_path, 7)]) == 3
    assert main(["lint", *arguments(tmp_path, 7, "--fail-on", "timestamp,date")]) == 3
    assert "found timestamp in 2 requests" in capsys.readouterr().err
    assert main(["lint", *arguments(tmp_path, 7, "--fail-on", "tools_reordered")]) == 0
    assert main(["lint", *arguments(tmp_path, 56)]) == 0
    assert main(["lint", *arguments(tmp_path, 7, "--fail-on", "clock")]) == 2


def test_lint_annotates_for_github(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    main(["lint", *arguments(tmp_path, 7)])
    assert "::error" not in capsys.readouterr().out
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert main(["lint", *arguments(tmp_path, 7)]) == 3
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("::error")]
    assert "log.jsonl,line=2," in line and "a clock in the system prompt" in line


def test_an_index_is_explained_without_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = str(tmp_path / "index.parquet")
    assert main(["index", *arguments(tmp_path, 7), "-o", index]) == 0
    capsys.readouterr()
    assert main(["explain", index]) == 0
    text = capsys.readouterr().out
    assert "1. a clock in the system prompt" in text and "computed from the log itself" in text
    assert main(["explain", index, "--what-if", "timestamp"]) == 1
    assert main(["lint", index]) == 1
    assert "an index holds none" in capsys.readouterr().err


def test_the_doctor_names_the_first_differing_character(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "date.jinja").write_text(case(9)["setup"]["chat_template"])
    models = tmp_path / "models.toml"
    models.write_text(f'[models.m]\npath = "{BYTES_MODEL}"\nchat_template = "{tmp_path / "date.jinja"}"\n')
    assert main(["models", "m", "--models", str(models), "--template-doctor", "--json", "-"]) == 0
    (examined,) = json.loads(capsys.readouterr().out)["templates"]
    probes = {probe["probe"]: probe for probe in examined["probes"]}
    assert probes["date"]["verdict"] == "breaks"
    # the date stands behind 112 characters, as in the case; the day's second digit differs
    assert probes["date"]["first_different_character"] == 112
    assert probes["trimming (user)"]["verdict"] == "note"
    assert main(["models", "m", "--models", str(models), "--template-doctor"]) == 0
    assert "prints the date" in capsys.readouterr().out
