"""Every option, defined once: its name, its type, its help. Commands pick from here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from prefixscope.errors import OptionError
from prefixscope.records import LARGEST_BLOCK

if TYPE_CHECKING:
    from prefixscope.api import EngineChoice, LogOptions

Speculative = Literal["none", "eagle", "mtp"]

READING = "Reading the log"
ENGINE = "Engine"
COUNTING = "What is counted"
OUTPUT = "Output"
GATES = "Gates"

Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG",
        help="Log files, quoted globs, - for stdin, or an index written by `prefixscope index`. "
        "FORMAT:PATH forces a format for one path.",
        show_default=False,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Format of all logs; `prefixscope formats` lists the names. Default: detected.",
        rich_help_panel=READING,
    ),
]
Model = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME=DIR_OR_HUB_ID",
        help="Where the tokenizer and chat template of a model name in the log are found. Repeatable.",
        rich_help_panel=READING,
    ),
]
Models = Annotated[
    str | None,
    typer.Option(
        "--models",
        metavar="FILE.toml",
        help="A file that maps model names to bases, folders, adapters and templates.",
        rich_help_panel=READING,
    ),
]
Render = Annotated[
    Literal["plain", "transformers", "vllm", "sglang"] | None,
    typer.Option(
        "--render",
        metavar="plain|transformers|vllm|sglang",
        help="Whose reading of the request body comes before the chat template. Default: the engine's own.",
        rich_help_panel=READING,
        show_default=False,
    ),
]
NamespaceBy = Annotated[
    str | None,
    typer.Option(
        "--namespace-by",
        metavar="FIELD",
        help="A field of the log whose values share nothing with each other.",
        rich_help_panel=READING,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, help="Read only the first N requests.", rich_help_panel=READING),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Fail (exit 3) at the first broken row, naming it, instead of counting it.",
        rich_help_panel=GATES,
    ),
]
Engine = Annotated[
    list[str] | None,
    typer.Option(
        "--engine",
        metavar="NAME[@VERSION]",
        help="Whose rules apply: vllm, vllm-ascend, sglang, tensorrt-llm, dynamo-router, lmcache, llama-cpp, openai, "
        "anthropic, deepseek, gemini, qwen, trace. Repeatable: `analyze` gives one report each, others take the first. "
        "Default: vllm; trace for logs of hashes.",
        rich_help_panel=ENGINE,
    ),
]
BlockSize = Annotated[
    int | None,
    typer.Option(
        "--block-size",
        metavar="N",
        min=1,
        max=LARGEST_BLOCK,
        help="Tokens per KV block (page). Default: the engine's.",
        rich_help_panel=ENGINE,
    ),
]
MatchUnit = Annotated[
    int | None,
    typer.Option(
        "--match-unit",
        metavar="N",
        min=1,
        max=LARGEST_BLOCK,
        help="Tokens per unit of a match, where it is not the block size (hybrid models).",
        rich_help_panel=ENGINE,
    ),
]
SpeculativeDecoding = Annotated[
    Speculative,
    typer.Option(
        "--speculative",
        metavar="none|eagle|mtp",
        help="Speculative decoding, which changes what matches.",
        rich_help_panel=ENGINE,
    ),
]
Warmup = Annotated[
    str,
    typer.Option(
        "--warmup",
        metavar="0|50%|DURATION",
        help="The start of the log that warms the cache and is not counted.",
        rich_help_panel=COUNTING,
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Count requests from this time on; earlier ones warm the cache.",
        rich_help_panel=COUNTING,
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Count requests before this time.", rich_help_panel=COUNTING),
]
ColdStart = Annotated[
    bool,
    typer.Option(
        "--cold-start",
        help="With --since: begin with an empty cache, as if nothing came before.",
        rich_help_panel=COUNTING,
    ),
]
MeasuredBy = Annotated[
    str | None,
    typer.Option(
        "--measured",
        metavar="BEFORE.prom,AFTER.prom",
        help="The engine's metrics scraped before and after this log, to compare with the prediction.",
        rich_help_panel=COUNTING,
    ),
]
BlockSizes = Annotated[
    str | None,
    typer.Option(
        "--block-sizes",
        metavar="16,32,64",
        help="The sizes to try. Default: powers of two from 1 to 4096.",
        rich_help_panel=COUNTING,
    ),
]
JsonFile = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE|-",
        help="Write the report as JSON; with - stdout is JSON and nothing else.",
        rich_help_panel=OUTPUT,
    ),
]
Requests = Annotated[
    str | None,
    typer.Option(
        "--requests",
        metavar="FILE.jsonl|.parquet",
        help="Write one row per request, in order of time (of the first engine).",
        rich_help_panel=OUTPUT,
    ),
]
IndexFile = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.parquet",
        help="The index to write. It holds no text.",
        rich_help_panel=OUTPUT,
        show_default=False,
    ),
]
ModelNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME|DIR",
        help="Names of --models or --model, or folders of models. Default: all names.",
        show_default=False,
    ),
]
How = Annotated[
    str | None,
    typer.Option("--how", metavar="NAME", help="How to switch on logging in this format.", rich_help_panel=READING),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.", rich_help_panel=OUTPUT)]
Skips = Annotated[
    bool, typer.Option("--skips", help="List every place where input was left out.", rich_help_panel=OUTPUT)
]
HideText = Annotated[bool, typer.Option("--hide-text", help="Show no text of any prompt.", rich_help_panel=OUTPUT)]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no warnings on stderr.", rich_help_panel=OUTPUT)
]
FailUnder = Annotated[
    str | None,
    typer.Option(
        "--fail-under",
        metavar="PERCENT",
        help="Fail (exit 3) when the expected cached share of prompt tokens is below this.",
        rich_help_panel=GATES,
    ),
]


def log_options(logs: list[str], **said: object) -> LogOptions:
    """The options of reading, as the API takes them."""
    from prefixscope.api import LogOptions

    model = said.pop("model", None)
    return LogOptions(logs=tuple(logs), models=tuple(model) if isinstance(model, list) else (), **said)  # type: ignore[arg-type]


def engine_choice(
    engine: list[str] | None,
    block_size: int | None = None,
    match_unit: int | None = None,
    speculative: Speculative = "none",
    **said: object,
) -> EngineChoice:
    """The engine options, as the API takes them; `said` are those of `engine_options`."""
    from prefixscope.api import EngineChoice

    return EngineChoice(tuple(engine or ()), block_size, match_unit, speculative, **said)  # type: ignore[arg-type]


def block_sizes_of(text: str | None) -> tuple[int, ...]:
    """`16,32,64` as numbers.

    >>> block_sizes_of("16, 32"), block_sizes_of(None)
    ((16, 32), ())
    """
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 8 for part in parts):
        raise OptionError(f"--block-sizes {text}: not a list of sizes in tokens such as 16,32,64")
    sizes = tuple(dict.fromkeys(int(part) for part in parts))
    if not 1 <= min(sizes) <= max(sizes) <= LARGEST_BLOCK:
        raise OptionError(f"--block-sizes {text}: not a list of sizes from 1 to {LARGEST_BLOCK} tokens")
    return sizes


def measured_of(text: str | None) -> tuple[str, str] | None:
    """The two metric files of `--measured`."""
    if text is None:
        return None
    before, comma, after = text.partition(",")
    if not (before and comma and after):
        raise OptionError(f"--measured {text}: give two files, scraped before and after: BEFORE.prom,AFTER.prom")
    return before, after


def percent_of(text: str | None) -> float | None:
    """`--fail-under` as a fraction of 1.

    >>> percent_of("55 %"), percent_of("0.5")
    (0.55, 0.005)
    """
    if text is None:
        return None
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise OptionError(f"--fail-under {text}: not a percentage between 0 and 100")
    return percent / 100
