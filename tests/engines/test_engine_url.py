"""`--engine-url`: a running engine is asked what it is; one host, no redirects, clear words where none answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from prefixscope.api.engine_url import ask, ask_once
from prefixscope.cli.main import main
from prefixscope.engines.running import Answers, running_engine
from prefixscope.errors import EndpointError, OptionError
from tests.engines.commanded import analyzed, asked

VLLM_METRICS = (
    "# TYPE vllm:cache_config_info gauge\n"
    'vllm:cache_config_info{block_size="32",enable_prefix_caching="True",num_gpu_blocks="1001"} 1.0\n'
)
VLLM = {
    "/metrics": VLLM_METRICS,
    "/version": '{"version": "0.32.0+cpu"}',
    "/v1/models": '{"data": [{"id": "m", "owned_by": "vllm"}]}',
}


@contextmanager
def serving(pages: Mapping[str, str], status: int = 200) -> Iterator[tuple[str, list[str]]]:
    """A server with these pages; every other is 404. Gives its address and the paths that were asked."""
    asked_for: list[str] = []

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked_for.append(self.path)
            page = pages.get(self.path)
            if page is None:
                self.send_error(404)
                return
            self.send_response(status)
            if status == 302:
                self.send_header("Location", page)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    ask_once.cache_clear()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked_for
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_what_a_running_vllm_tells_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(VLLM) as (url, asked_for):
        report, rows = analyzed(tmp_path, [asked(range(100)), asked(range(100))], "--engine-url", f"{url}/v1")
        assert sorted(asked_for) == ["/get_server_info", "/metrics", "/props", "/v1/models", "/version"]
        assert main(["analyze", str(tmp_path / "log.jsonl"), "--engine-url", url, "-q"]) == 0
        shown = capsys.readouterr().out
    assert [row["cached_tokens"] for row in rows] == [0, 96]
    engine = report["pools"][0]["engine"]
    assert (engine["name"], engine["version"], engine["block_size"]) == ("vllm", "0.32.0+cpu", 32)
    assert engine["source"] == url
    # 1,001 blocks less the one that stands for nothing; they are the memory where --capacity says nothing else.
    assert report["pools"][0]["capacity"]["asked"][0]["blocks"] == 1000
    assert shown.splitlines()[0] == f"read from {url}: vLLM 0.32.0+cpu, block 32"


def test_a_cache_that_is_off_is_told(tmp_path: Path) -> None:
    pages = {**VLLM, "/metrics": VLLM_METRICS.replace('caching="True"', 'caching="False"')}
    with serving(pages) as (url, _):
        report, _ = analyzed(tmp_path, [asked(range(64))] * 2, "--engine-url", url)
    assert any("prefix caching is switched off" in sentence for sentence in report["pools"][0]["engine"]["assumed"])


def test_the_rules_of_its_version_apply(tmp_path: Path) -> None:
    with serving(VLLM) as (url, _):
        report, rows = analyzed(
            tmp_path, [asked(range(100))] * 2, "--engine-url", url, "--speculative", "eagle", "--capacity", "50blocks"
        )
    assert [row["cached_tokens"] for row in rows] == [0, 64]
    assert report["pools"][0]["capacity"]["asked"][0]["blocks"] == 50


def test_a_running_sglang_by_its_server_info(tmp_path: Path) -> None:
    info = json.dumps({"page_size": 64, "version": "0.5.23", "disable_radix_cache": True})
    with serving({"/get_server_info": info, "/v1/models": '{"data": [{"id": "m"}]}'}) as (url, _):
        report, rows = analyzed(tmp_path, [asked(range(100))] * 2, "--engine-url", url)
    engine = report["pools"][0]["engine"]
    assert (engine["name"], engine["version"], engine["match_unit"]) == ("sglang", "0.5.23", 64)
    assert [row["cached_tokens"] for row in rows] == [0, 64]
    assert any("switched off" in sentence for sentence in engine["assumed"])


def test_an_engine_that_does_not_say_its_name_is_named_by_the_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving({"/v1/models": '{"data": [{"id": "m"}]}'}) as (url, _):
        log = tmp_path / "log.jsonl"
        log.write_text(json.dumps(asked(range(64))) + "\n")
        assert main(["analyze", str(log), "--engine-url", url]) == 2
        assert "does not tell which engine it is: name it with --engine" in capsys.readouterr().err
        report, _ = analyzed(tmp_path, [asked(range(64))] * 2, "--engine-url", url, "--engine", "vllm-ascend")
    assert report["pools"][0]["engine"]["block_size"] == 128
    assert any("not read from the endpoint" in sentence for sentence in report["pools"][0]["engine"]["assumed"])


def test_redirects_are_not_followed() -> None:
    with serving({"/metrics": VLLM_METRICS}) as (other, asked_there):
        pages = {f"/{page}": f"{other}/metrics" for page in ("metrics", "version", "v1/models")}
        with serving(pages, status=302) as (url, _), pytest.raises(EndpointError, match="nothing there tells"):
            ask(url)
        assert asked_there == []


@pytest.mark.parametrize("address", ["ftp://host", "http://user:secret@host", "http://host?key=1", "http://"])
def test_addresses_are_checked(address: str) -> None:
    with pytest.raises(OptionError, match="--engine-url") as caught:
        ask(address)
    assert "secret" not in str(caught.value)


def test_nobody_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving({}) as (url, _):
        pass
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(asked(range(64))) + "\n")
    assert main(["analyze", str(log), "--engine-url", url]) == 1
    assert "metrics can't be read" in capsys.readouterr().err
    assert main(["analyze", str(log), "--engine-url", url, "--engine", "vllm", "--engine", "sglang"]) in (1, 2)


def test_several_data_parallel_ranks() -> None:
    metrics = "\n".join(
        f'vllm:cache_config_info{{block_size="16",engine="{rank}",num_gpu_blocks="101"}} 1.0' for rank in range(2)
    )
    found = running_engine("http://x", Answers(models=None, metrics=metrics))
    assert (found.usable_blocks, found.data_ranks, found.engine) == (200, 2, "vllm")
