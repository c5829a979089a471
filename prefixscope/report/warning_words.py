"""The meaning of every warning: what is wrong, what that does to the result, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["WARNING_WORDS", "WarningWords"]


@dataclass(frozen=True, slots=True)
class WarningWords:
    """What is wrong, what that does to the result, and what to do (empty where there is nothing to do)."""

    what: str
    effect: str
    advice: str = ""


_LINES: Mapping[str, WarningWords] = {
    "several_objects_on_one_line": WarningWords(
        "a line holds several JSON objects", "each was read as a row of its own; order and counts are right"
    ),
    "duplicate_key": WarningWords("a JSON object has the same key twice", "the last one counts, as in most servers"),
    "byte_order_mark": WarningWords("a line starts with a byte order mark", "it was dropped; nothing else changes"),
    "lone_surrogate": WarningWords(
        "a string holds half of a surrogate pair, which has no UTF-8 form",
        "it was replaced by U+FFFD, so token counts there may differ from your engine's",
    ),
    "lone_surrogates_replaced": WarningWords(
        "a prompt holds half of a surrogate pair, which has no UTF-8 form",
        "it was replaced by U+FFFD, so token counts there may differ from your engine's",
    ),
    "not_a_number": WarningWords("a JSON number is NaN or infinite", "it was read as Python reads it"),
    "file_named_twice": WarningWords(
        "a file is named twice",
        "its requests count twice, so all of the second reading looks like reuse",
        "name it once",
    ),
    "subagent_without_requests": WarningWords(
        "a session names a subagent without requests", "its work is missing from the log and from the counts"
    ),
}

_TIMES: Mapping[str, WarningWords] = {
    "missing_time": WarningWords(
        "requests carry no time", "each takes the time of the one before it and stays in file order"
    ),
    "unreadable_time": WarningWords(
        "a time can't be read", "the request takes the time of the one before it and stays in file order"
    ),
    "time_without_zone": WarningWords("times name no time zone", "they were read as UTC; order and spans are right"),
    "mixed_clocks": WarningWords(
        "some times count from the start of the log and some are dates",
        "the order between the two kinds is not known, and reuse across them may be wrong",
        "analyze them apart",
    ),
    "mixed_clocks_between_files": WarningWords(
        "some files count time from their start and some give dates",
        "the order between the files is not known, and reuse across them may be wrong",
        "analyze them apart",
    ),
    "template_prints_date": WarningWords(
        "the chat template prints the date", "each prompt was rendered with its own request's time"
    ),
    "template_prints_fixed_date": WarningWords(
        "the chat template prints the date, and requests carry no time",
        "one fixed date was used, so breaks at midnight are not seen",
        "log a timestamp",
    ),
}

_PROMPTS: Mapping[str, WarningWords] = {
    "unrenderable": WarningWords(
        "the chat template refused a prompt", "these requests were left out, as a server would have refused them"
    ),
    "fast_tokenizer_dropped": WarningWords(
        "a fast tokenizer gave other ids than the reference",
        "the reference encoded everything of that model, so the ids are right; it took longer",
    ),
    "quick_template_dropped": WarningWords(
        "the quick form of a chat template gave another text than jinja2 itself",
        "jinja2 rendered these prompts, so their text is right; it took longer",
    ),
    "several_templates": WarningWords(
        "a model was used with several chat templates", "prompts before and after a change may break where they differ"
    ),
    "request_chat_template_ignored": WarningWords(
        "requests bring a chat template of their own",
        "it was not used, as engines ignore it unless told to trust it; if yours does, these prompts differ",
    ),
    "media_counted": WarningWords(
        "prompts hold images, audio or video",
        "each stands at its placeholder, and its tokens are counted as the model's processor or the logged usage says",
    ),
    "media_counted_together": WarningWords(
        "prompts hold several images, audio or video whose tokens are known only as a sum",
        "token counts are right; reuse behind the first of them is a lower bound",
        "the model's own preprocessor file beside its tokenizer tells the sizes of single images",
    ),
    "media_length_unknown": WarningWords(
        "prompts hold images, audio or video whose number of tokens is not known",
        "each counts as one token, so token counts are too low and reuse is a lower bound",
        "log usage, or keep the model's own preprocessor file beside its tokenizer",
    ),
    "media_not_counted": WarningWords(
        "prompts hold images, audio or video, and the template does not tell where they stand",
        "their tokens are not counted, so token counts are too low; such requests share only with those "
        "of the same media in the same order, so reuse is a lower bound",
    ),
    "media_embeddings": WarningWords(
        "prompts are given as embeddings",
        "each shares only with an equal one, as a whole, so reuse is a lower bound",
    ),
    "media_by_url": WarningWords(
        "images, audio or video are logged by address only",
        "equal addresses are taken for equal content, and different ones for different content",
    ),
    "media_without_content": WarningWords(
        "the content of images, audio or video is not in the log (redacted or cut off)",
        "nothing from there on is counted as shared, so reuse is a lower bound",
        "log a hash of the content as the part's uuid",
    ),
    "null_content_printed": WarningWords(
        "a message without content (null) is printed as the word None by this template",
        "a server that drops null or makes it empty renders another prompt, and other tokens are shared",
        "choose the rendering of your server (--render vllm, sglang or transformers)",
    ),
    "hash_ids_beyond_input": WarningWords(
        "a row has more hash ids than its input length needs", "the ids behind the input were taken as its output"
    ),
    "hash_ids_end_early": WarningWords(
        "a row has fewer hash ids than its input length needs",
        "the rest of the prompt matches nothing, so reuse is a lower bound",
    ),
    "lower_bound": WarningWords(
        "the log's hashes are coarser than the engine's match unit, or no divisor of it",
        "cached tokens are a lower bound",
    ),
}

_ANSWERS: Mapping[str, WarningWords] = {
    "invalid_output_token_ids": WarningWords(
        "output token ids are no token ids", "they were dropped; the answer's text or length is used instead"
    ),
    "bad_output_token_ids": WarningWords(
        "output token ids are out of range", "they were dropped; the answer occupies memory but matches nothing"
    ),
    "invalid_output_tokens": WarningWords(
        "a count of output tokens is no number of tokens",
        "it was dropped; the answer's length comes from elsewhere or is unknown",
    ),
    "output_split_over_choices": WarningWords(
        "requests ask for several answers, and usage counts them together",
        "each answer is taken to be as long as their mean",
    ),
    "event_stream_response": WarningWords(
        "a response is logged as a raw event stream", "it was not read; what it would say of the answer is unknown"
    ),
    "unreadable_response": WarningWords("a response can't be read", "what it would say of the answer is unknown"),
    "invalid_usage": WarningWords(
        "usage holds something that is no count of tokens", "it was dropped; these requests carry no measurement"
    ),
    "cached_exceeds_prompt": WarningWords(
        "usage says that more tokens were cached than the prompt has",
        "it was dropped; these requests carry no measurement",
    ),
    "usage_covers_several_prompts": WarningWords(
        "one call held several prompts, and its usage counts them together",
        "it was dropped; these prompts carry no measurement",
    ),
}

WARNING_WORDS: Mapping[str, WarningWords] = {**_LINES, **_TIMES, **_PROMPTS, **_ANSWERS}
"""What each reason means."""
