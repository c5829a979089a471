"""Which requests may not read the prefix cache. They fill it like any other."""

from __future__ import annotations

from collections.abc import Mapping

from prefixscope.records import Json

__all__ = ["reads_cache"]

_TOKEN_POOLING = ("token_embed", "token_classify", "plugin")


def reads_cache(body: Mapping[str, Json]) -> bool:
    """False for requests that want something of every prompt token, or say that they won't read.

    vLLM 0.32.0, vllm/sampling_params.py: `prompt_logprobs` (0 counts) or `prompt_logprob_token_ids` are set; `echo`
    sets the former from `top_logprobs` (chat, default 0) or `logprobs` (completions). vllm/pooling_params.py: tasks
    that pool every token, and plugins. `skip_reading_prefix_cache` decides where it is given. SGLang 0.5.23,
    schedule_batch.py: log-probabilities from a token of the prompt on end the match there, which is counted as
    no match at all; `positional_embed_overrides` as well.

    >>> reads_cache({"prompt_logprobs": 0}), reads_cache({"task": "embed"}), reads_cache({"logprobs": True})
    (False, True, True)
    """
    skip = body.get("skip_reading_prefix_cache")
    if isinstance(skip, bool):
        return not skip
    if body.get("prompt_logprobs") is not None or body.get("prompt_logprob_token_ids") is not None:
        return False
    if body.get("task") in _TOKEN_POOLING or body.get("positional_embed_overrides") is not None:
        return False
    first = body.get("logprob_start_len")
    if body.get("return_logprob") is True and isinstance(first, int) and first >= 0:
        return False
    if not body.get("echo"):
        return True
    return "messages" not in body and body.get("logprobs") is None
