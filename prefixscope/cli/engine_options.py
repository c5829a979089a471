"""The options that describe an engine's set-up, each defined once. They act on some engines only, and say on which."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from prefixscope.cli.options import ENGINE

EngineUrl = Annotated[
    str | None,
    typer.Option(
        "--engine-url",
        metavar="URL",
        help="A running engine that is asked for its name, version, block size and number of blocks; nothing is sent.",
        rich_help_panel=ENGINE,
    ),
]
Platform = Annotated[
    Literal["nvidia", "rocm", "ascend", "cpu"] | None,
    typer.Option(
        "--platform",
        metavar="nvidia|rocm|ascend|cpu",
        help="What the engine runs on, which decides its block size. Default: nvidia (vllm-ascend: ascend).",
        rich_help_panel=ENGINE,
        show_default=False,
    ),
]
AttentionBackend = Annotated[
    str | None,
    typer.Option(
        "--attention-backend",
        metavar="NAME",
        help="Attention backend as vLLM or SGLang names it (flashmla, trtllm_mha, ...): it decides the block size.",
        rich_help_panel=ENGINE,
    ),
]
Retention = Annotated[
    str | None,
    typer.Option(
        "--retention",
        metavar="dense|0|N",
        help="vLLM: which states of sliding-window and recurrent layers are kept: all, only where a prompt can be "
        "resumed, or also one per N tokens. Default: the version's.",
        rich_help_panel=ENGINE,
    ),
]
SpeculativeTokens = Annotated[
    int | None,
    typer.Option(
        "--speculative-tokens",
        metavar="N",
        min=1,
        max=1024,
        help="vLLM: tokens drafted per step; they enlarge the recurrent states, and so the blocks, of hybrid models.",
        rich_help_panel=ENGINE,
    ),
]
Lookahead = Annotated[
    int | None,
    typer.Option(
        "--lookahead",
        metavar="N",
        min=1,
        max=1024,
        help="vLLM 0.33 and later: tokens that a multi-module MTP drafts at once. Default: 1.",
        rich_help_panel=ENGINE,
    ),
]
MaxBatchedTokens = Annotated[
    int | None,
    typer.Option(
        "--max-batched-tokens",
        metavar="N",
        min=1,
        help="vLLM: tokens of prefill per step; longer prompts are scheduled, and can be found, chunk by chunk.",
        rich_help_panel=ENGINE,
    ),
]
ContextParallel = Annotated[
    int | None,
    typer.Option(
        "--context-parallel",
        metavar="N",
        min=1,
        max=1024,
        help="vLLM: ranks that share each block's tokens (decode context parallelism); they enlarge the block.",
        rich_help_panel=ENGINE,
    ),
]
PartialReuse = Annotated[
    bool | None,
    typer.Option(
        "--partial-reuse/--no-partial-reuse",
        help="TensorRT-LLM: whether a partly matching block is copied. Default: yes.",
        rich_help_panel=ENGINE,
        show_default=False,
    ),
]
StripThinking = Annotated[
    bool | None,
    typer.Option(
        "--strip-thinking",
        help="SGLang started with --strip-thinking-cache: outputs of requests that reasoned are not kept.",
        rich_help_panel=ENGINE,
        show_default=False,
    ),
]
Slots = Annotated[
    int | None,
    typer.Option(
        "--slots",
        metavar="N",
        min=1,
        max=1 << 20,
        help="llama.cpp: number of slots (-np), with nothing kept outside them.",
        rich_help_panel=ENGINE,
    ),
]
Lifetime = Annotated[
    str | None,
    typer.Option(
        "--lifetime",
        metavar="DURATION",
        help="Hosted APIs: how long a prefix is kept after its last use. Default: as documented.",
        rich_help_panel=ENGINE,
    ),
]
ServiceTime = Annotated[
    str | None,
    typer.Option(
        "--service-time",
        metavar="DURATION",
        help="From start to end of requests whose end is not logged, to tell which of them overlap.",
        rich_help_panel=ENGINE,
    ),
]
