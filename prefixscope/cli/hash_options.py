"""The options of `hashes` and `events`, defined once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from prefixscope.cli.options import COUNTING, ENGINE, OUTPUT, READING, Speculative
from prefixscope.errors import OptionError

if TYPE_CHECKING:
    from prefixscope.ingest import HashOptions

EVENTS = "Events"

Algorithm = Annotated[
    str | None,
    typer.Option(
        "--algorithm",
        metavar="NAME",
        help="The chain: vllm-sha256, vllm-sha256_cbor, vllm-xxhash, vllm-xxhash_cbor, sglang-storage, sglang-events, "
        "dynamo-local, dynamo-sequence, tensorrt-llm-v1, tensorrt-llm-v2, lmcache-sha256, lmcache-sha256_cbor, "
        "lmcache-xxhash, lmcache-xxhash_cbor, lmcache-blake3, prefixscope. Default: the engine's default.",
        rich_help_panel=ENGINE,
    ),
]
HashSeed = Annotated[
    str | None,
    typer.Option(
        "--hash-seed",
        metavar="S",
        help="The engine's PYTHONHASHSEED, as text. Default: it was not set.",
        rich_help_panel=ENGINE,
    ),
]
AdapterPath = Annotated[
    list[str] | None,
    typer.Option(
        "--adapter-path",
        metavar="NAME=PATH",
        help="The path of a LoRA adapter, letter by letter as the engine was told it (vLLM hashes it since 0.31). A "
        "request whose model has this name uses the adapter. Repeatable.",
        rich_help_panel=ENGINE,
    ),
]
AdapterId = Annotated[
    list[str] | None,
    typer.Option(
        "--adapter-id",
        metavar="NAME=NUMBER",
        help="The number of a LoRA adapter, for engines that hash it (vLLM 0.11, TensorRT-LLM). Repeatable.",
        rich_help_panel=ENGINE,
    ),
]
WithOutputs = Annotated[
    bool,
    typer.Option(
        "--with-outputs",
        help="Hash the known generated tokens behind each prompt too; those known as text only are approximate.",
        rich_help_panel=OUTPUT,
    ),
]
HashFile = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE|-",
        help="Where the JSON lines go; - is standard output.",
        rich_help_panel=OUTPUT,
        show_default=False,
    ),
]
EventSource = Annotated[
    str,
    typer.Argument(
        metavar="FILE|ENDPOINT",
        help="Recorded events (JSON lines, plain or compressed, - for stdin) or a live publisher such as "
        "tcp://HOST:5557.",
        show_default=False,
    ),
]
EventLogs = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="LOG",
        help="A log of requests whose blocks are followed through the events. Repeatable.",
        rich_help_panel=READING,
    ),
]
ReplayEndpoint = Annotated[
    str | None,
    typer.Option(
        "--replay-endpoint",
        metavar="ENDPOINT",
        help="The publisher's replay socket: begin with all it still has, and fetch lost messages.",
        rich_help_panel=EVENTS,
    ),
]
Topic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        metavar="PREFIX",
        help="Only messages whose topic begins so. Default: all.",
        rich_help_panel=EVENTS,
    ),
]
Idle = Annotated[
    float | None,
    typer.Option(
        "--idle",
        metavar="SECONDS",
        min=0,
        help="End after so many seconds without a message. Default: listen until Ctrl-C, which ends and reports.",
        rich_help_panel=EVENTS,
    ),
]
Batches = Annotated[
    int | None,
    typer.Option("--batches", metavar="N", min=1, help="End after N messages.", rich_help_panel=EVENTS),
]
Record = Annotated[
    str | None,
    typer.Option(
        "--record",
        metavar="FILE",
        help="Write every message as a JSON line that this command reads again; it holds token ids and salts.",
        rich_help_panel=OUTPUT,
    ),
]
AtTime = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="Tell what was held at this time of the publisher's clock (ISO 8601).",
        rich_help_panel=COUNTING,
    ),
]


def hash_options(
    engine: Sequence[str] | None,
    algorithm: str | None,
    block_size: int | None,
    seed: str | None,
    paths: Sequence[str] | None,
    ids: Sequence[str] | None,
    speculative: Speculative = "none",
) -> HashOptions:
    """What was said about the engine's hashes, as the API takes it."""
    from prefixscope.ingest import HashOptions

    return HashOptions(
        engine=engine[0] if engine else None,
        algorithm=algorithm,
        block_size=block_size,
        speculative=speculative,
        seed=seed,
        adapter_paths=_named("--adapter-path", paths, "NAME=PATH"),
        adapter_ids={name: _number(name, value) for name, value in _named("--adapter-id", ids, "NAME=NUMBER").items()},
    )


def _named(option: str, given: Sequence[str] | None, form: str) -> Mapping[str, str]:
    """The values by name; OptionError for another form and for a name given twice."""
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise OptionError(f"{option} {text}: write {form}")
        if name in found:
            raise OptionError(f"{option} {text}: '{name}' is given twice")
        found[name] = value
    return found


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise OptionError(f"--adapter-id {name}={text}: not a number")
    return int(text)
