"""Which chain an engine makes of a request: algorithm, block size, options; from what user and models file say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from prefixscope.engines import EngineOptions, resolve
from prefixscope.engines.hashes import (
    ALGORITHMS,
    ChainOptions,
    KeyIdentity,
    assumptions,
    block_chain,
    default_algorithm,
)
from prefixscope.engines.profile import EngineProfile, Speculative
from prefixscope.errors import OptionError
from prefixscope.models.table import ModelEntry

__all__ = ["HashOptions", "KeyPlan", "plan_for"]

_VLLM = ("vllm", "vllm-ascend")
_ENGINE_OF = {"sglang": "sglang", "dynamo": "dynamo-router", "tensorrt": "tensorrt-llm", "lmcache": "lmcache"}


@dataclass(frozen=True, slots=True)
class HashOptions:
    """What the user said about an engine's hashes; None is not said.

    `engine` is NAME[@VERSION], `seed` the engine's PYTHONHASHSEED. `adapter_paths` and `adapter_ids` are by the
    adapter's name; a name in one of them is an adapter also where only the request's model says it.
    """

    engine: str | None = None
    algorithm: str | None = None
    block_size: int | None = None
    speculative: Speculative = "none"
    seed: str | None = None
    adapter_paths: Mapping[str, str] = field(default_factory=dict)
    adapter_ids: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.algorithm is not None and self.algorithm not in ALGORITHMS:
            raise OptionError(f"--algorithm {self.algorithm}: there is none; known are {', '.join(ALGORITHMS)}")

    @property
    def engine_spec(self) -> str:
        """The engine where no model's entry names another: the one said, else the one of the algorithm, else vLLM.

        >>> HashOptions(algorithm="dynamo-local").engine_spec, HashOptions(algorithm="prefixscope").engine_spec
        ('dynamo-router', 'vllm')
        """
        family = (self.algorithm or "vllm").partition("-")[0]
        return self.engine or _ENGINE_OF.get(family, "vllm")

    def names_adapter(self, name: str | None) -> bool:
        """Whether the user gave an adapter of this name a path or a number."""
        return name is not None and (name in self.adapter_paths or name in self.adapter_ids)


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """How the chains of one model's requests are made; `assumed` are sentences for the user."""

    engine: str
    algorithm: str
    block_size: int
    options: ChainOptions
    assumed: tuple[str, ...]

    def with_block_size(self, block_size: int) -> KeyPlan:
        """The same plan for blocks of another size."""
        return replace(self, block_size=block_size)


def plan_for(entry: ModelEntry | None, asked: HashOptions, *, exact: bool = True) -> KeyPlan:
    """The plan for a model's requests: the command line's word, then the models file's, then the default.

    Raises OptionError for an unknown version, and with `exact` where the engine draws its seed at random.
    """
    said_engine = None if entry is None else entry.engine
    spec = asked.engine or said_engine or asked.engine_spec
    own = entry is not None and (asked.engine is None or asked.engine == said_engine)
    speculative = asked.speculative
    if speculative == "none" and own and entry is not None and entry.speculative in ("eagle", "mtp"):
        speculative = "eagle" if entry.speculative == "eagle" else "mtp"
    said_size = asked.block_size or (entry.block_size if own and entry is not None else None)
    profile = resolve(spec, EngineOptions(block_size=said_size, speculative=speculative))
    algorithm = asked.algorithm or default_algorithm(profile.name)
    options = _chain_options(profile, algorithm, asked.seed, versioned="@" in spec)
    if exact:
        _refuse_random_seed(algorithm, options)
    return KeyPlan(spec, algorithm, profile.block_size, options, _assumed(profile, algorithm, options, said_size))


def _chain_options(profile: EngineProfile, algorithm: str, seed: str | None, *, versioned: bool) -> ChainOptions:
    version = profile.version if profile.name in _VLLM and (versioned or profile.name != "vllm") else None
    return ChainOptions(
        version=version,
        seed=seed,
        lookahead=profile.lookahead_tokens if algorithm.startswith("vllm-") and profile.name in _VLLM else 0,
        eagle=profile.speculative != "none" and algorithm.startswith(("sglang-", "dynamo-")),
    )


def _refuse_random_seed(algorithm: str, options: ChainOptions) -> None:
    try:
        block_chain(algorithm, bytes(4), 1, KeyIdentity(), replace(options, lookahead=0))
    except OptionError as error:
        hint = " (--hash-seed)" if "PYTHONHASHSEED" in str(error) else ""
        raise OptionError(f"{error}{hint}") from None


def _assumed(profile: EngineProfile, algorithm: str, options: ChainOptions, said_size: int | None) -> tuple[str, ...]:
    """What of the engine's own assumptions bears on keys (its blocks and version, not its match rule), and ours."""
    said = list(assumptions(algorithm, options))
    if said_size is None:
        tokens = "1 token" if profile.block_size == 1 else f"{profile.block_size} tokens"
        said.append(f"assumed: blocks of {tokens}; --block-size says another size")
    said += [sentence for sentence in profile.assumed if "block size" in sentence or "version read" in sentence]
    return tuple(said)
