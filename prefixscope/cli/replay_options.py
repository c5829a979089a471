"""The options of `replay`, each defined once."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

SENDING = "What is sent"
CLIENT = "How it is sent"
RESULT = "Result"

Endpoint = Annotated[
    str,
    typer.Option(
        "--endpoint",
        metavar="URL",
        help="The engine's OpenAI-compatible address, such as http://gpu-7:8000/v1. Prompts go nowhere else.",
        show_default=False,
    ),
]
Sample = Annotated[
    int,
    typer.Option(
        "--sample", metavar="N", min=1, help="Requests to send, in whole prefix families.", rich_help_panel=SENDING
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Chooses the sample.", rich_help_panel=SENDING)]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show what would be sent, and send nothing.", rich_help_panel=SENDING),
]
Served = Annotated[
    list[str] | None,
    typer.Option(
        "--served",
        metavar="NAME=SERVED",
        help="The endpoint's name for a model of the log; *=SERVED for all others. Repeatable.",
        rich_help_panel=SENDING,
    ),
]
Phases = Annotated[
    str,
    typer.Option(
        "--phases",
        metavar="A,B",
        help="Of cold, serial, warm, load, switch (adapters and salts), answers (reuse of generated tokens).",
        rich_help_panel=SENDING,
    ),
]
Concurrencies = Annotated[
    list[int] | None,
    typer.Option(
        "--concurrency",
        metavar="N",
        min=1,
        help="Phase load: so many requests at a time (8 where no load is given). Repeatable.",
        rich_help_panel=SENDING,
    ),
]
Rates = Annotated[
    list[float] | None,
    typer.Option(
        "--rate", metavar="N", help="Phase load: so many requests per second. Repeatable.", rich_help_panel=SENDING
    ),
]
SpeedUps = Annotated[
    list[float] | None,
    typer.Option(
        "--speed-up",
        metavar="X",
        help="Phase load: the log's own timing, X times faster. Repeatable.",
        rich_help_panel=SENDING,
    ),
]
SwitchModels = Annotated[
    list[str] | None,
    typer.Option(
        "--switch-model",
        metavar="SERVED",
        help="Phase switch: a further model or adapter of the endpoint. Repeatable.",
        rich_help_panel=SENDING,
    ),
]
SendAs = Annotated[
    Literal["ids", "body"] | None,
    typer.Option(
        "--send-as",
        metavar="ids|body",
        help="Send token ids, or the logged body unchanged. Default: ids where the endpoint takes them.",
        rich_help_panel=SENDING,
    ),
]
MaxOutputTokens = Annotated[
    int,
    typer.Option(
        "--max-output-tokens",
        metavar="N",
        min=1,
        help="Tokens generated per request at most; a logged shorter answer limits it further.",
        rich_help_panel=SENDING,
    ),
]
AnswerTokens = Annotated[
    int,
    typer.Option(
        "--answer-tokens", metavar="N", min=1, help="Phase answers: tokens of each answer.", rich_help_panel=SENDING
    ),
]
Isolation = Annotated[
    str,
    typer.Option(
        "--isolation",
        metavar="METHOD",
        help="How a cold start is made: auto, reset, salt, extra_key, first_block (changes the prompt) or none.",
        rich_help_panel=CLIENT,
    ),
]
UsableBlocks = Annotated[
    int | None,
    typer.Option(
        "--usable-blocks",
        metavar="N",
        min=1,
        help="KV blocks of the engine, where it does not tell (vLLM: num_gpu_blocks minus one).",
        rich_help_panel=CLIENT,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="SECONDS", min=0.1, help="Longest wait for the next token of an answer.",
        rich_help_panel=CLIENT,
    ),
]  # fmt: skip
CallRate = Annotated[
    float | None,
    typer.Option(
        "--call-rate", metavar="N", min=0.001, help="Calls per second at most, in every phase.", rich_help_panel=CLIENT
    ),
]
KeyVariable = Annotated[
    str | None,
    typer.Option(
        "--api-key-variable",
        metavar="NAME",
        help="The environment variable that holds the API key; it is never printed or stored.",
        rich_help_panel=CLIENT,
    ),
]
CaFile = Annotated[
    str | None,
    typer.Option(
        "--ca-file", metavar="FILE", help="Certificates to trust beside the system's.", rich_help_panel=CLIENT
    ),
]
RunFile = Annotated[
    str | None,
    typer.Option(
        "--run-file",
        metavar="FILE",
        help="Keeps every call as it is measured, so that an interrupted run loses nothing.",
        rich_help_panel=CLIENT,
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run of --run-file.", rich_help_panel=CLIENT)]
Validate = Annotated[
    bool,
    typer.Option(
        "--validate",
        help="Exit 3 unless every serial prediction is exact, and under load 99 % of them with differences of at most "
        "0.3 % of prompt tokens.",
        rich_help_panel=RESULT,
    ),
]
LatencyFile = Annotated[
    str | None,
    typer.Option(
        "--latency-file",
        metavar="FILE",
        help="Write the fitted time to the first token as JSON.",
        rich_help_panel=RESULT,
    ),
]
