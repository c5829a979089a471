"""What a replay is asked to do, and what it would send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import xxhash

from prefixscope.engines.profile import EngineOptions
from prefixscope.errors import OptionError
from prefixscope.replay.calls import SendAs
from prefixscope.replay.connection import Address, ClientLimits
from prefixscope.replay.item import ReplayItem
from prefixscope.replay.outputs import TOLERANCE
from prefixscope.replay.phases import ANSWER_PROMPTS, SWITCH_PROMPTS, Load, wanted_output
from prefixscope.results.replay import IsolationMethod, Plan, PlannedPhase

__all__ = ["PHASES", "ReplayOptions", "plan_of", "settings_of"]

PHASES = ("cold", "serial", "warm", "load", "switch", "answers")


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Everything `replay` takes besides the items.

    `engine` is NAME[@VERSION] (None: as the endpoint says); `engine_options` what the user said about it; block size
    and blocks are read from the endpoint unless said. `send_as` None: token ids where the endpoint takes them.
    `validate`: without a proven cold start nothing is sent.
    `switch_models` are further models or adapters of the endpoint for phase `switch`. `api_key` is shown nowhere.
    """

    endpoint: str
    engine: str | None = None
    engine_options: EngineOptions = field(default_factory=EngineOptions)
    usable_blocks: int | None = None
    phases: tuple[str, ...] = ("cold", "serial", "warm", "load")
    loads: tuple[Load, ...] = (Load("concurrency", 8),)
    switch_models: tuple[str, ...] = ()
    send_as: SendAs | None = None
    isolation: IsolationMethod | Literal["auto"] = "auto"
    max_output_tokens: int = 1
    answer_tokens: int = 48
    logprob_tolerance: float = TOLERANCE
    limits: ClientLimits = field(default_factory=ClientLimits)
    run_file: str | None = None
    resume: bool = False
    seed: int = 0
    ca_file: str | None = None
    validate: bool = False
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        unknown = [phase for phase in self.phases if phase not in PHASES]
        if unknown or not self.phases:
            raise OptionError(f"--phases {','.join(self.phases)}: known are {', '.join(PHASES)}")
        if "warm" in self.phases and "serial" not in self.phases:
            raise OptionError("--phases warm: the cache is warmed by serial, which must be run as well")
        most = self.limits.concurrency
        if any(load.kind == "concurrency" and load.amount > most for load in self.loads):
            raise OptionError(f"the client sends at most {most} calls at a time: a higher concurrency can't be kept")
        for name, value in (("--max-output-tokens", self.max_output_tokens), ("--answer-tokens", self.answer_tokens)):
            if value < 1:
                raise OptionError(f"{name} {value}: at least 1 token is generated per call")


def plan_of(items: Sequence[ReplayItem], options: ReplayOptions) -> Plan:
    """What a run would send at most, without asking anybody. Control prompts come on top (a few per phase)."""
    calls, prompt = len(items), sum(item.prompt_tokens for item in items)
    output = sum(wanted_output(item, options.max_output_tokens) for item in items)
    planned = []
    for phase in options.phases:
        if phase == "load":
            planned += [PlannedPhase(load.name, calls, prompt, output) for load in options.loads]
        elif phase == "switch":
            longest = sorted((item.prompt_tokens for item in items), reverse=True)[:SWITCH_PROMPTS]
            each = 2 * (len({item.model for item in items} | set(options.switch_models)) + 2)
            planned.append(PlannedPhase(phase, each * len(longest), each * sum(longest), each * len(longest)))
        elif phase == "answers":
            first = [item.prompt_tokens for item in items[:ANSWER_PROMPTS]]
            more = (options.answer_tokens + 1) * len(first)
            unit = options.engine_options.block_size or 16
            planned.append(PlannedPhase(phase, 2 * len(first), 2 * sum(first) + more + unit * len(first), more))
        else:
            planned.append(PlannedPhase(phase, calls, prompt, output))
    return Plan(
        endpoint=Address.of(options.endpoint).root,
        phases=tuple(planned),
        calls=sum(phase.calls for phase in planned),
        prompt_tokens=sum(phase.prompt_tokens for phase in planned),
        output_tokens=sum(phase.output_tokens for phase in planned),
    )


def settings_of(items: Sequence[ReplayItem], options: ReplayOptions) -> dict[str, Any]:
    """What must be equal for a run file to be continued; the sample stands in it as a fingerprint of its token ids."""
    sample = xxhash.xxh3_128()
    for item in items:
        sample.update(f"{item.row} {item.model} {item.prompt_tokens} ".encode())
        sample.update(item.tokens)
    return {
        "endpoint": Address.of(options.endpoint).root,
        "sample": sample.hexdigest(),
        "requests": len(items),
        "engine": options.engine,
        "block_size": options.engine_options.block_size,
        "usable_blocks": options.usable_blocks,
        "phases": list(options.phases),
        "loads": [load.name for load in options.loads],
        "switch_models": list(options.switch_models),
        "send_as": options.send_as,
        "isolation": options.isolation,
        "max_output_tokens": options.max_output_tokens,
        "answer_tokens": options.answer_tokens,
    }
