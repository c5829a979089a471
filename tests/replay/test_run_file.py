"""Nothing measured is lost: run files, resuming, Ctrl-C; and the plan that is shown before anything is sent."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import random
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from prefixscope.errors import OptionError
from prefixscope.replay.connection import ClientLimits
from prefixscope.replay.mock import MockEndpoint
from prefixscope.replay.options import ReplayOptions, plan_of
from prefixscope.replay.phases import Load
from prefixscope.replay.run import replay, replay_async
from tests.replay.workload import QUICK, URL, families, item_of, run

EVERYTHING = ("cold", "serial", "warm", "load", "switch", "answers")


class TestRunFile:
    def test_a_finished_run_is_not_sent_again(self, tmp_path: Path) -> None:
        path = str(tmp_path / "run.jsonl")
        first = run(families(20), MockEndpoint(16), phases=EVERYTHING, run_file=path, max_output_tokens=3)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        endpoint = MockEndpoint(16)
        again = run(families(20), endpoint, phases=EVERYTHING, run_file=path, resume=True, max_output_tokens=3)
        assert len(endpoint.bodies) < 10  # controls only
        assert again.phases == first.phases and again.requests == first.requests
        assert again.outputs == first.outputs

    def test_no_prompt_and_no_key_is_in_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "run.jsonl"
        items = [item_of(row, list(range(7000, 7100))) for row in range(3)]
        run(items, MockEndpoint(16), run_file=str(path), api_key="sk-secret")
        text = path.read_text()
        assert "7001" not in text and "secret" not in text
        assert all(json.loads(line) for line in text.splitlines())

    def test_other_settings_or_another_sample_are_refused(self, tmp_path: Path) -> None:
        path = str(tmp_path / "run.jsonl")
        run(families(5), MockEndpoint(16), run_file=path)
        with pytest.raises(OptionError, match="exists; --resume"):
            run(families(5), MockEndpoint(16), run_file=path)
        with pytest.raises(OptionError, match="that run had sample"):
            run(families(6), MockEndpoint(16), run_file=path, resume=True)
        with pytest.raises(OptionError, match="max_output_tokens = 1, this one has 2"):
            run(families(5), MockEndpoint(16), run_file=path, resume=True, max_output_tokens=2)

    def test_a_run_killed_at_any_byte_goes_on(self, tmp_path: Path) -> None:
        path = tmp_path / "run.jsonl"
        items = families(12)
        whole = run(items, MockEndpoint(16), phases=("cold", "serial", "warm"), run_file=str(path), max_output_tokens=2)
        data = path.read_bytes()
        chance = random.Random(5)
        for cut in sorted(chance.randrange(data.index(b"\n") + 1, len(data)) for _ in range(12)):
            path.write_bytes(data[:cut])
            report = run(
                items, MockEndpoint(16), phases=("cold", "serial", "warm"), run_file=str(path), resume=True,
                max_output_tokens=2,
            )  # fmt: skip
            assert [phase.comparison for phase in report.phases] == [phase.comparison for phase in whole.phases]
            assert report.gate == ()

    def test_cancelling_gives_a_report_and_resuming_the_rest(self, tmp_path: Path) -> None:
        path = str(tmp_path / "run.jsonl")
        items = families(60)
        options = ReplayOptions(URL, phases=("cold", "serial"), run_file=path, limits=QUICK)

        async def cancelled() -> Any:
            task = asyncio.create_task(replay_async(items, options, transport=MockEndpoint(16, seconds_per_call=0.005)))
            await asyncio.sleep(0.25)
            task.cancel()
            return await task

        report = asyncio.run(cancelled())
        assert report.interrupted and report.phases[0].phase == "cold" and not report.phases[0].finished
        seen = report.phases[0].comparison
        assert 5 < seen.exact == seen.requests < 60
        endpoint = MockEndpoint(16)
        rest = replay(items, dataclasses.replace(options, resume=True), transport=endpoint)
        assert not rest.interrupted and rest.gate == ()
        assert [phase.comparison.exact for phase in rest.phases] == [60, 60]
        assert len(endpoint.bodies) == (60 - seen.requests) + 60 + 5 + 1

    def test_ctrl_c_writes_what_was_measured(self, tmp_path: Path) -> None:
        path = tmp_path / "run.jsonl"
        script = f"""
            from prefixscope.replay.mock import MockEndpoint
            from prefixscope.replay.options import ReplayOptions
            from prefixscope.replay.run import replay
            from tests.replay.workload import families
            options = ReplayOptions("http://h/v1", phases=("serial",), run_file={str(path)!r})
            endpoint = MockEndpoint(16, seconds_per_call=0.02)
            report = replay(families(2000), options, transport=endpoint, progress=lambda *_: print("going", flush=True))
            print(report.interrupted, report.phases[0].comparison.exact)
        """
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(10):
            assert process.stdout.readline() == "going\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        interrupted, exact = out.splitlines()[-1].split()
        assert process.returncode == 0 and interrupted == "True" and err == ""
        calls = [line for line in path.read_text().splitlines() if line.startswith('{"call"')]
        assert int(exact) == len(calls) >= 8


class TestPlan:
    def test_it_names_what_is_sent_without_sending(self) -> None:
        items = families(10)
        tokens = sum(item.prompt_tokens for item in items)
        plan = plan_of(items, ReplayOptions(URL, phases=EVERYTHING, max_output_tokens=4))
        assert [phase.phase for phase in plan.phases] == [
            "cold",
            "serial",
            "warm",
            "concurrency 8",
            "switch",
            "answers",
        ]
        assert plan.phases[0].calls == 10 and plan.phases[0].prompt_tokens == tokens
        assert plan.calls == 4 * 10 + 6 * 3 + 2 * 8
        assert plan.prompt_tokens > 4 * tokens and plan.endpoint == "http://engine.test:8000"

    def test_it_is_an_upper_bound_of_what_is_sent(self) -> None:
        items = families(10)
        endpoint = MockEndpoint(16)
        report = run(items, endpoint, phases=EVERYTHING, max_output_tokens=4)
        assert len(report.requests) == report.plan.calls
        assert sum(row.prompt_tokens for row in report.requests) <= report.plan.prompt_tokens
        assert sum(row.output_tokens or 0 for row in report.requests) <= report.plan.output_tokens

    @pytest.mark.parametrize(
        "options",
        [
            {"limits": ClientLimits(concurrency=4)},
            {"phases": ()},
            {"phases": ("hot",)},
            {"phases": ("warm",)},
            {"max_output_tokens": 0},
            {"answer_tokens": 0},
        ],
    )
    def test_options_without_sense_are_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(OptionError):
            ReplayOptions(URL, **options)

    def test_the_key_is_not_in_the_options_text(self) -> None:
        assert "sk-secret" not in repr(ReplayOptions(URL, api_key="sk-secret"))

    def test_log_timing_needs_times(self) -> None:
        items = [dataclasses.replace(item, time_ns=None) for item in families(3)]
        with pytest.raises(OptionError, match="without a time"):
            run(items, MockEndpoint(16), phases=("load",), loads=(Load("log_timing", 2),))
