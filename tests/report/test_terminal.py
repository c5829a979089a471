"""The terminal report: order, honesty about what was not simulated, and user data that stays data."""

from __future__ import annotations

import dataclasses
import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from prefixscope.report.terminal import Look, analyze_report, blocks_report
from prefixscope.results import AnalyzeReport, BlocksReport, Losses, Prefix, Skip, Warned
from tests.report import samples


def shown(*reports: AnalyzeReport, width: int = 80, **look: object) -> str:
    return printed(analyze_report(reports, Look(width=width, **look)), width)  # type: ignore[arg-type]


def printed(renderable: object, width: int = 80, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    console = Console(file=stream, width=width, markup=False, highlight=False, emoji=False, no_color=True)
    console.print(renderable)
    stream.flush()
    return "\n".join(line.rstrip() for line in raw.getvalue().decode(encoding).splitlines())


def test_first_line_says_what_was_assumed_and_not_read() -> None:
    assert shown(samples.analyze_report()).splitlines()[0] == "assumed: vLLM 0.33, block 16; not read from your engine"


def test_first_line_of_a_hash_trace_names_no_engine() -> None:
    engine = dataclasses.replace(samples.VLLM, name="trace", version="", block_size=512, match_unit=512)
    report = samples.analyze_report()
    pool = dataclasses.replace(report.pools[0], engine=engine)
    text = shown(dataclasses.replace(report, pools=(pool,)))
    assert text.splitlines()[0] == "assumed: hashes as logged, block = one id = 512 tokens; no engine's rules"
    assert "vLLM" not in text


def test_first_line_when_the_engine_was_asked() -> None:
    report = samples.analyze_report()
    engine = dataclasses.replace(samples.VLLM, source="http://gpu-7:8000", match_unit=64, speculative="eagle")
    text = shown(dataclasses.replace(report, pools=(dataclasses.replace(report.pools[0], engine=engine),)))
    line = " ".join(text.splitlines()[:2])
    assert line == "read from http://gpu-7:8000: vLLM 0.33, block 16, match unit 64, speculative decoding: eagle"


def test_headline_has_numerator_and_denominator() -> None:
    text = " ".join(shown(samples.analyze_report()).split())
    assert "71.4 % of your prefill is work already done 291.3 M of 408.1 M prompt tokens" in text
    assert "vLLM 0.33, in units of 16 tokens, can reuse 63.0 % (257.1 M) if nothing is forgotten" in text


def test_never_a_bare_hit_rate_nor_a_promise() -> None:
    everything = samples.analyze_report(measured=samples.MEASURED, unexplained_tokens=72_200_000)
    for text in (shown(everything), shown(samples.two_pools()), shown(everything, samples.sglang_report())):
        assert not re.search(r"hit rate|speed|faster|times as fast", text, re.IGNORECASE)


def test_every_percentage_has_its_denominator_in_reach() -> None:
    """A section with percentages names what they are shares of, in its title, a heading or the line itself."""
    text = shown(samples.two_pools())
    for part in re.split(r"\n\s*\n", text):
        if "%" in part:
            assert re.search(r"prompt|blocks|tokens", part), part


def test_rungs_that_were_not_simulated_are_no_zeros() -> None:
    text = shown(samples.analyze_report())
    for name in ("in flight", "routing", "capacity"):
        line = next(line for line in text.splitlines() if f"- {name}" in line)
        assert line.endswith("not simulated")
        assert not re.search(r"\d", line)


def test_an_option_is_named_only_where_it_exists() -> None:
    assert "--capacity" not in shown(samples.analyze_report())
    text = shown(samples.analyze_report(), options=frozenset({"--capacity"}))
    assert "capacity (finite memory): not simulated (--capacity)" in text
    assert "--replicas" not in text
    assert "--skips lists them" not in text
    assert "--skips lists" in shown(samples.analyze_report(), options=frozenset({"--skips"}))


def test_simulated_rungs_show_what_is_kept() -> None:
    losses = Losses(0, 34_200_000, 0, in_flight=29_900_000, capacity=29_300_000)
    sums = samples.totals(408_100_000, 291_300_000, losses, simulated=59_200_000)
    text = shown(samples.analyze_report(totals=sums, pools=(samples.pool(sums),)))
    flat = " ".join(text.split())
    assert "with what was simulated it keeps 48.5 % (197.9 M)" in flat
    assert re.search(r"- in flight \(overlapping requests\)\s+29\.9 M\s+7\.3 %", text)
    assert re.search(r"expected\s+210\.2 M\s+█", text), "the bar of what is expected to be left"


def test_unexplained_has_the_denominator_of_the_measured_rows() -> None:
    text = shown(samples.analyze_report(measured=samples.MEASURED, unexplained_tokens=72_200_000))
    ladder_line = next(line for line in text.splitlines() if "- unexplained" in line)
    assert ladder_line.endswith("see below"), "31,002 rows are not all rows: no share of all prompt tokens"
    assert re.search(r"unexplained\s+72\.2 M\s+24\.9 %", text)
    assert "17,208 requests without a usable measurement are left out" in " ".join(text.split())


def test_nothing_measured_nothing_said() -> None:
    text = shown(samples.analyze_report())
    assert "easured" not in text
    assert "unexplained" not in text


def test_reports_whole_log_second_half_and_first_seen() -> None:
    text = shown(samples.analyze_report())
    assert re.search(r"of prompt tokens\s+63\.0 %\s+257\.1 M of 408\.1 M prompt tokens", text)
    assert re.search(r"second half alone\s+66\.0 %", text)
    assert re.search(r"first seen\s+28\.6 %", text)
    assert "prompts only" not in text


def test_reuse_without_answers_is_told_where_it_differs() -> None:
    report = samples.analyze_report()
    sums = dataclasses.replace(report.totals, reusable_prompt_only_tokens=250_000_000)
    text = shown(dataclasses.replace(report, totals=sums, pools=(samples.pool(sums),)))
    assert re.search(r"ideal, prompts only\s+61\.3 %", text)


def test_warnings_come_last_before_the_closing_line() -> None:
    lines = [line for line in shown(samples.analyze_report()).splitlines() if line]
    assert lines[-1].startswith("How it was counted: docs/definitions.md")
    place = lines.index("  warnings")
    assert all("--" not in line for line in lines[:1])
    assert lines[place + 1].startswith("  - ")
    titles = ("where the reuse goes", "block sizes", "top prefixes", "by model")
    assert all(place > max(i for i, line in enumerate(lines) if title in line) for title in titles)


def test_many_places_make_one_warning() -> None:
    places = tuple(Warned("duplicate_key", {"file": "a", "line": line, "key": "id"}) for line in range(1, 21))
    rest = Warned("duplicate_key", {"file": "a", "line": None, "count": 100})
    text = " ".join(shown(samples.analyze_report(input=samples.input_report(warnings=(*places, rest)))).split())
    assert text.count("same key twice") == 1
    assert "(120 times, first at a:1)" in text


HOSTILE = "[red]x[/red] \x1b[31mred\x1b[0m \r\n\t\u202ereversed :smile: \x07\x9b\ud800"


def test_user_data_is_shown_and_never_obeyed() -> None:
    report = samples.analyze_report(
        input=samples.input_report(
            files=(HOSTILE,),
            skipped=(Skip(HOSTILE, 1, "strange\x1b[2Jreason"),),
            warnings=(Warned("odd\x1bname", {HOSTILE: HOSTILE}), Warned("other", {"message": HOSTILE})),
        ),
        groups=(samples.group("model", HOSTILE, 10, 5, 4), samples.group("model", None, 10, 5, 4)),
        prefixes=(Prefix(10, 2, 10, "n", HOSTILE), Prefix(9, 2, 9, HOSTILE, None)),
    )
    pool = dataclasses.replace(
        report.pools[0],
        pool=HOSTILE,
        engine=dataclasses.replace(samples.VLLM, name=HOSTILE, assumed=(HOSTILE,), source="x://" + HOSTILE),
    )
    text = shown(dataclasses.replace(report, pools=(pool,)), skips=True, width=200)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", text)
    assert "[red]x[/red]" in text
    assert "␛[31mred" in text
    assert ":smile:" in text
    assert "\\u202ereversed" in text
    assert "(not logged)" in text


def test_skips_are_listed_on_demand_only() -> None:
    assert "support.jsonl:90" not in shown(samples.analyze_report())
    assert re.search(r"support\.jsonl:90\s+26\s+not valid JSON", shown(samples.analyze_report(), skips=True))


def test_the_account_of_rows_adds_up() -> None:
    assert "48,210 requests of 48,377 rows (left out: 140 never reached" in " ".join(
        shown(samples.analyze_report()).split()
    )


def long_names() -> AnalyzeReport:
    name = "organisation/" + "very-long-model-name-" * 12
    report = samples.two_pools()
    return dataclasses.replace(
        report,
        input=samples.input_report(files=(name, name), skipped=(Skip(name, 1, name),), warnings=(Warned(name, {}),)),
        pools=tuple(dataclasses.replace(pool, pool=name + str(n)) for n, pool in enumerate(report.pools)),
        groups=tuple(dataclasses.replace(group, name=name) for group in report.groups),
        prefixes=(Prefix(5, 2, 5, name, name), Prefix(5, 2, 5, "n", "世界" * 80)),
    )


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for reports in (
        [samples.analyze_report(measured=samples.MEASURED, unexplained_tokens=1)],
        [samples.two_pools()],
        [samples.analyze_report(), samples.sglang_report()],
        [long_names()],
    ):
        text = shown(*reports, width=width)
        assert max(cell_len(line) for line in text.splitlines()) <= width


def test_wide_terminals_get_the_reasons() -> None:
    assert "the rule of block_rounding" in shown(samples.analyze_report(), width=130)
    assert "the rule of block_rounding" not in shown(samples.analyze_report(), width=80)


def test_several_engines_are_compared_first() -> None:
    text = shown(samples.analyze_report(), samples.sglang_report())
    assert text.index("engines side by side") < text.index("== vLLM 0.33 ==") < text.index("== SGLang 0.5.23 ==")
    assert re.search(r"SGLang 0\.5\.23\s+1\s+291\.2 M\s+71\.4 %", text)
    assert "2 models in 1 pool" in " ".join(text.split())
    assert text.splitlines()[:2] == [
        "assumed: vLLM 0.33, block 16; not read from your engine",
        "assumed: SGLang 0.5.23, block 1; not read from your engine",
    ]


def test_several_pools_are_never_mixed() -> None:
    text = shown(samples.two_pools())
    assert re.search(r"Qwen/Qwen3-8B\s+16\s+300\.0 M\s+66\.7 %\s+63\.3 %", text)
    assert re.search(r"meta/llama\s+1\s+108\.1 M\s+84\.5 %\s+62\.1 %", text)
    assert "(meta/llama)" in text.splitlines()[1]


def test_one_model_makes_no_table_of_models() -> None:
    report = samples.analyze_report()
    only = tuple(group for group in report.groups if group.name != "support-en")
    assert "by model" not in shown(dataclasses.replace(report, groups=only))


def test_many_members_are_cut_and_summed() -> None:
    groups = tuple(samples.group("tenant", f"s{n}", 1000 + n, 500, 400) for n in range(20))
    text = shown(samples.analyze_report(groups=groups))
    assert "and 12 more with 12.1 k prompt tokens together" in text


def test_groups_that_tell_nothing_new_are_left_out() -> None:
    report = samples.analyze_report()
    again = tuple(dataclasses.replace(group, by="adapter", name=f"a {group.name}") for group in report.groups[:2])
    sessions = tuple(dataclasses.replace(group, by="session", requests=7) for group in report.groups[:2])
    text = shown(dataclasses.replace(report, groups=(*report.groups, *again, *sessions)))
    assert "by model" in text
    assert "by adapter" not in text
    assert "by session" not in text


def test_prefixes_name_their_namespace_where_there_is_room() -> None:
    prefixes = (Prefix(10, 2, 10, "base · a", "same text"), Prefix(10, 2, 10, "base · b", "same text"))
    assert "base · b" in shown(samples.analyze_report(prefixes=prefixes), width=130)
    assert "base · b" not in shown(samples.analyze_report(prefixes=prefixes), width=80)
    bare = tuple(dataclasses.replace(prefix, preview=None) for prefix in prefixes)
    assert "base · b" in shown(samples.analyze_report(prefixes=bare), width=80)


def test_counted_requests_are_told_where_some_only_warm() -> None:
    report = samples.analyze_report(input=samples.input_report(requests_analyzed=50_000))
    assert "Counted 48,210 requests; the other 1,790 only warm the cache" in " ".join(shown(report).split())
    assert "Counted" not in shown(samples.analyze_report())


def test_nothing_analyzed_is_a_sentence() -> None:
    text = shown(samples.empty_report())
    assert "nothing can be said about reuse" in text
    assert "%" not in text


def test_blocks_shows_every_size_and_analyze_the_offered_ones() -> None:
    report = samples.analyze_report()
    sweep = printed(blocks_report(BlocksReport(report.input, report.pools), Look()))
    assert re.search(r"^\s+2  ", sweep, re.MULTILINE)
    assert re.search(r"^\s+16  .*in use", sweep, re.MULTILINE)
    assert not re.search(r"^\s+2  ", shown(report), re.MULTILINE)
    assert "Some reuse is left up to a size of 1,842 tokens (a limit, no advice)." in sweep


def test_no_reuse_at_all_is_said() -> None:
    report = samples.analyze_report()
    pool = dataclasses.replace(report.pools[0], largest_block_size_with_reuse=None)
    assert "No block size has any reuse." in shown(dataclasses.replace(report, pools=(pool,)))


def test_bars_without_unicode() -> None:
    report = analyze_report([samples.analyze_report(input=samples.input_report(warnings=()), prefixes=())], Look())
    text = printed(report, encoding="ascii")
    assert "####" in text


def test_sessions_in_words() -> None:
    sessions = {
        "count": 3,
        "requests_with_session": 12,
        "requests_without_session": 2,
        "median_requests": 3.5,
        "largest_requests": 6,
        "reusable_from_own_session_tokens": 75,
        "reusable_from_others_tokens": 25,
    }
    text = " ".join(shown(samples.analyze_report(sessions=sessions)).split())
    assert "3 sessions with 12 requests (median 3.5, largest 6); 75.0 % of the 100 reusable tokens" in text
    assert "2 requests without a session" in text
    assert "sessions" not in shown(samples.analyze_report(sessions={"count": 0}))
