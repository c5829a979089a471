"""Requests as an engine keys them: one after another, each with its prompt, what separates it, and its chain.

The second consumer of prompts beside the lineage. Nothing is kept, so memory does not grow with the log. Token ids come
from the reference tokenizer alone: the fast one may be found wrong in the middle of a log, when hashes have left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from prefixscope.engines.hashes import BlockChain, KeyIdentity, block_chain, root_of
from prefixscope.errors import GateFailed, InputError, OptionError
from prefixscope.ingest.key_plan import HashOptions, KeyPlan, plan_for
from prefixscope.ingest.pipeline import IngestOptions, nothing_left, prompt_rules
from prefixscope.logs import FORMATS, LogFile, expand, is_index, read_logs
from prefixscope.logs.rows import EXCLUSIONS, Fault
from prefixscope.models.prompt import PromptMaker
from prefixscope.models.table import ModelEntry, unresolved_error
from prefixscope.models.template import Unrenderable
from prefixscope.records import LoggedRequest, Prompt
from prefixscope.results import InputReport, Skip, Warned
from prefixscope.results.hashes import HashedRequest

__all__ = ["HashReading", "KeyedPrompt", "KeyedReading"]

_REPORT_EVERY = 500
_PlanKey = tuple[str | None, int | None, str | None]


@dataclass(frozen=True, slots=True)
class KeyedPrompt:
    """A request with all that its keys are made of."""

    request: LoggedRequest
    prompt: Prompt
    identity: KeyIdentity
    plan: KeyPlan

    @property
    def prompt_tokens(self) -> bytes:
        """The prompt's token ids without those of the answer."""
        return self.prompt.tokens[: 4 * self.prompt.prompt_tokens]

    def chain(self, tokens: bytes) -> BlockChain:
        """The chain of these tokens under this request's identity. OptionError, with file and line, where unknown."""
        plan = self.plan
        try:
            return block_chain(plan.algorithm, tokens, plan.block_size, self.identity, plan.options)
        except OptionError as error:
            source, name = self.request.source, self.identity.adapter_name
            options = {"give the path": "--adapter-path NAME=PATH", "give the number": "--adapter-id NAME=NUMBER"}
            missing = [] if name is None else [option for words, option in options.items() if words in str(error)]
            hint = f" ({missing[0].replace('NAME', str(name))})" if missing else ""
            raise OptionError(f"{source.file}:{source.line}: {error}{hint}") from None


class KeyedReading:
    """Iterating gives every request that can be keyed, in the order of the files and their lines; once.

    Raises ModelError for a name without a tokenizer, GateFailed under `strict`, and InputError for an index, for rows
    of hash ids (which hold no tokens) and where nothing is left. `input` is the account, complete afterwards.
    """

    def __init__(
        self, logs: Sequence[str], options: IngestOptions, asked: HashOptions, progress: Callable[[int], None]
    ) -> None:
        self._options = options
        self._asked = asked
        self._progress = progress
        self._reading = read_logs(_no_index(expand(logs, FORMATS)), options.read)
        self._maker = PromptMaker(prompt_rules(options, fast_encoder=False))
        self._plans: dict[_PlanKey, KeyPlan] = {}
        self._warned: Counter[tuple[str, str | None]] = Counter()
        self._tier, self._given = 0, 0
        self._first_ns: int | None = None
        self._last_ns: int | None = None
        self._outputs: Counter[str] = Counter()
        entries = list(options.table.entries.values())
        plan_for(entries[0] if len(entries) == 1 else None, asked)  # what can't be exact is told before reading

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the keys rest on, as far as the plans made so far."""
        return tuple(dict.fromkeys(sentence for plan in self._plans.values() for sentence in plan.assumed))

    def __iter__(self) -> Iterator[KeyedPrompt]:
        for done, request in enumerate(self._reading, 1):
            keyed = self._keyed(request)
            if keyed is not None:
                self._count(keyed)
                yield keyed
            if done % _REPORT_EVERY == 0:
                self._progress(done)
        self._progress(self._reading.ledger.requests_read)
        if not self._given:
            raise InputError(nothing_left(self._reading.ledger))

    def _keyed(self, request: LoggedRequest) -> KeyedPrompt | None:
        source = request.source
        if request.kind == "hashes":
            raise InputError(
                "holds hash ids, which another program made; block hashes need the prompts or their token ids",
                file=source.file,
                line=source.line,
            )
        if request.kind == "lengths":
            self._leave_out(request, "lengths_only")
            return None
        made = self._maker.make(request)
        if isinstance(made, Unrenderable):
            self._refused(request, made)
            return None
        entry = self._options.table.resolve(request.model)
        plan = self._plan(entry)
        if any(note.startswith("media_") for note in made.notes) and plan.algorithm != "prefixscope":
            self._leave_out(request, "media_not_hashable")
            return None
        self._warned.update((note, None) for note in made.notes)
        identity = made.prompt.identity
        if identity.adapter is None and self._asked.names_adapter(request.model):
            identity = replace(identity, adapter=request.model)
        asked = self._asked
        keys = KeyIdentity.of(request, identity, adapter_paths=asked.adapter_paths, adapter_ids=asked.adapter_ids)
        return KeyedPrompt(request, made.prompt, keys, plan)

    def _plan(self, entry: ModelEntry | None) -> KeyPlan:
        key = (None, None, None) if entry is None else (entry.engine, entry.block_size, entry.speculative)
        if key not in self._plans:
            self._plans[key] = plan_for(entry, self._asked)
        return self._plans[key]

    def _refused(self, request: LoggedRequest, outcome: Unrenderable) -> None:
        if outcome.reason == "no_model":
            raise unresolved_error({request.model: 1})
        reason = "unrenderable" if outcome.reason in ("refused", "no_template") else outcome.reason
        if reason not in EXCLUSIONS:
            self._warned["unrenderable", outcome.message] += 1
            if self._options.read.strict:
                where = f"{request.source.file}:{request.source.line}"
                raise GateFailed(f"--strict: {where}: {reason}: {outcome.message}")
        self._leave_out(request, reason)

    def _leave_out(self, request: LoggedRequest, reason: str) -> None:
        self._reading.ledger.note(request.source.file, Fault(request.source.line, reason, "skip"))

    def _count(self, keyed: KeyedPrompt) -> None:
        request = keyed.request
        self._given += 1
        self._tier = max(self._tier, request.tier)
        self._outputs[keyed.prompt.output] += 1
        if request.time_ns is not None:
            self._first_ns = request.time_ns if self._first_ns is None else min(request.time_ns, self._first_ns)
            self._last_ns = request.time_ns if self._last_ns is None else max(request.time_ns, self._last_ns)

    @property
    def input(self) -> InputReport:
        """The account so far."""
        ledger = self._reading.ledger
        facts = [dict(warning) for warning in ledger.warnings]
        facts += [
            {"reason": reason, **({} if message is None else {"message": message}), "count": count}
            for (reason, message), count in sorted(self._warned.items(), key=str)
        ]
        return InputReport(
            files=tuple(ledger.formats),
            formats=tuple(ledger.formats.values()),
            tier=self._tier or None,
            requests_read=ledger.requests_read,
            requests_analyzed=self._given,
            skipped=tuple(Skip(skip.file, skip.line, skip.reason, skip.count) for skip in ledger.skipped),
            warnings=tuple(Warned(fact.pop("reason"), fact) for fact in facts),
            time_is_relative=ledger.time_is_relative,
            ties=0,
            first_time_ns=self._first_ns,
            last_time_ns=self._last_ns,
            outputs=dict(self._outputs),
        )


def _no_index(files: Sequence[LogFile]) -> Sequence[LogFile]:
    for file in files:
        if file.format is None and is_index(file.path):
            raise InputError("is an index, which holds no tokens to hash; name its log instead", file=file.path)
    return files


class HashReading:
    """Iterating gives the keys of every request of a log; `input` and `assumed` are complete afterwards."""

    def __init__(self, keyed: KeyedReading, *, with_outputs: bool) -> None:
        self._keyed = keyed
        self._with_outputs = with_outputs

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the keys rest on, as sentences."""
        return self._keyed.assumed

    @property
    def input(self) -> InputReport:
        """The account of the reading so far."""
        return self._keyed.input

    def __iter__(self) -> Iterator[HashedRequest]:
        return (hashed(keyed, with_outputs=self._with_outputs) for keyed in self._keyed)


def hashed(keyed: KeyedPrompt, *, with_outputs: bool) -> HashedRequest:
    """The keys of one request: of its prompt, and with outputs of the known generated tokens behind it."""
    request, prompt, plan = keyed.request, keyed.prompt, keyed.plan
    tokens = prompt.tokens if with_outputs else keyed.prompt_tokens
    chain = keyed.chain(tokens)
    root = root_of(plan.algorithm, plan.block_size, keyed.identity, plan.options)
    return HashedRequest(
        request_id=request.request_id,
        file=request.source.file,
        line=request.source.line,
        model=request.model,
        adapter=keyed.identity.adapter_name,
        prompt_tokens=prompt.prompt_tokens,
        tokens=len(tokens) // 4,
        outputs=prompt.output if with_outputs else None,
        algorithm=chain.algorithm,
        block_size=chain.block_size,
        root_hash=None if root is None else root.hex(),
        hashes=tuple(chain.hex),
        integers=chain.integers,
    )
