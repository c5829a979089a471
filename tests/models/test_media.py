"""Media in prompts: how an item is known again, where it stands, its number of tokens; never too much reuse."""

from __future__ import annotations

import base64
import json
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from prefixscope import api
from prefixscope.models.media import media_items
from prefixscope.models.media_sizes import image_tokens, is_cut_off, size_of, smart_resize
from prefixscope.models.media_tokens import Placeholders, expand, first_by_url, without_media
from prefixscope.records import Source
from tests.cases import BYTES_MODEL
from tests.models.media_oracle import Image, Prompt, cached_tokens, prompt_tokens
from tests.shared import SHARED, needs_shared

TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{{ p.text or '<|image_pad|>' }}{% endfor %}{% endif %}{% endfor %}"
)
QWEN = {"model_type": "qwen3_vl", "num_hidden_layers": 2}
PROCESSOR = {"patch_size": 16, "merge_size": 2, "size": {"shortest_edge": 1024, "longest_edge": 16777216}}


def png(width: int, height: int, shade: int = 0) -> bytes:
    """A grey picture of one shade."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes([shade]) * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def part(content: bytes | str, uuid: str | None = None) -> dict[str, Any]:
    url = content if isinstance(content, str) else "data:image/png;base64," + base64.b64encode(content).decode()
    given = {} if uuid is None else {"uuid": uuid}
    return {"type": "image_url", "image_url": {"url": url}, **given}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def model_folder(folder: Path, *, processor: bool = True) -> Path:
    """The byte tokenizer as a Qwen vision model, with the template above; a models file that names it."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (BYTES_MODEL / name).is_file():
            (folder / name).write_bytes((BYTES_MODEL / name).read_bytes())
    (folder / "config.json").write_text(json.dumps(QWEN))
    if processor:
        (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    (folder / "template.jinja").write_text(TEMPLATE)
    models = folder / "models.toml"
    models.write_text(f'[models."*"]\npath = "{folder}"\nchat_template = "{folder / "template.jinja"}"\n')
    return models


def analyze(folder: Path, models: Path, rows: list[dict[str, Any]], **choice: Any) -> api.Analysis:
    log = folder / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = api.LogOptions((str(log),), models_file=str(models), render="plain")
    return api.analyze(api.AnalyzeOptions(options, api.EngineChoice(("vllm",), **choice)), lambda *_: None)


def reasons(analysis: api.Analysis) -> set[str]:
    return {warning.reason for warning in analysis.reports[0].input.warnings}


class Traffic:
    """Random conversations with pictures, as bodies and as the engine sees them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        sizes = [(64, 64), (96, 64), (128, 160), (64, 224)]
        self.pictures = [png(*sizes[shade % 4], shade) for shade in range(6)]

    def seen(self, picture: bytes) -> Image:
        size = size_of(picture)
        assert size is not None
        return Image(str(self.pictures.index(picture)), size[0] * size[1] // 1024)

    def conversation(self) -> tuple[list[dict[str, Any]], Prompt]:
        draw = self.random
        content: list[dict[str, Any]] = []
        prompt: list[bytes | Image] = [b"[user]"]
        for _ in range(draw.randint(1, 5)):
            if draw.random() < 0.5:
                picture = draw.choice(self.pictures)
                content.append(part(picture))
                prompt.append(self.seen(picture))
            else:
                words = draw.choice(["What is this? ", "Look at both, please: ", "x", "and now " * 6])
                content.append(text(words))
                prompt.append(words.encode())
        return [{"role": "user", "content": content}], prompt


@needs_shared
@pytest.mark.parametrize("block", [1, 4, 16])
def test_reuse_is_that_of_the_engine_where_sizes_are_known(block: int, tmp_path: Path) -> None:
    traffic = Traffic(block)
    made = [traffic.conversation() for _ in range(150)]
    rows = [{"messages": messages} for messages, _ in made]
    analysis = analyze(tmp_path, model_folder(tmp_path), rows, block_size=block)
    assert analysis.rows["prompt_tokens"] == [prompt_tokens(prompt) for _, prompt in made]
    expected = cached_tokens([prompt for _, prompt in made], block)
    assert analysis.rows["cached_tokens"] == expected and sum(expected) > 1000
    # A call whose messages are texts only is no media call and adds nothing.
    assert "media_counted" in reasons(analysis)
    assert not reasons(analysis) & {"media_length_unknown", "media_not_counted", "media_counted_together"}


@needs_shared
@pytest.mark.parametrize("with_usage", [True, False])
def test_reuse_is_never_more_than_the_engines_where_sizes_are_unknown(with_usage: bool, tmp_path: Path) -> None:
    traffic = Traffic(7)
    made = [traffic.conversation() for _ in range(200)]
    rows = [
        {"messages": messages} | ({"usage": {"prompt_tokens": prompt_tokens(prompt)}} if with_usage else {})
        for messages, prompt in made
    ]
    analysis = analyze(tmp_path, model_folder(tmp_path, processor=False), rows, block_size=4)
    found = analysis.rows["cached_tokens"]
    expected = cached_tokens([prompt for _, prompt in made], 4)
    assert all(mine <= theirs for mine, theirs in zip(found, expected, strict=True)) and sum(found) > 100
    lengths = [prompt_tokens(prompt) for _, prompt in made]
    if with_usage:
        assert analysis.rows["prompt_tokens"] == lengths
        assert {"media_counted", "media_counted_together"} <= reasons(analysis)
    else:
        assert all(mine <= theirs for mine, theirs in zip(analysis.rows["prompt_tokens"], lengths, strict=True))
        assert "media_length_unknown" in reasons(analysis)


@needs_shared
def test_text_before_a_picture_is_shared_and_text_behind_needs_the_same_one(tmp_path: Path) -> None:
    def ask(*parts: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": list(parts)}]}

    models = model_folder(tmp_path)
    first, other = png(64, 64, 1), png(64, 64, 2)
    before, behind = text("b" * 26), text("q" * 40)  # [user] and 26 letters are two blocks of 16, a picture 4 tokens
    rows = [
        ask(before, part(first), behind),
        ask(before, part(first), behind),
        ask(before, part(other), behind),
        ask(before, part(first, uuid="u"), behind),
        ask(before, part(other, uuid="u"), behind),
        ask(before, text("no picture")),
    ]
    analysis = analyze(tmp_path, models, rows)
    assert analysis.rows["prompt_tokens"][:5] == [76] * 5
    assert analysis.rows["reusable_tokens"] == [0, 76, 32, 32, 76, 32]
    assert analysis.rows["cached_tokens"] == [0, 64, 32, 32, 64, 32]
    # SGLang knows pictures by their content and reads no uuid.
    settings = api.AnalyzeOptions(
        api.LogOptions((str(tmp_path / "log.jsonl"),), models_file=str(models), render="sglang"),
        api.EngineChoice(("sglang",)),
    )
    assert api.analyze(settings, lambda *_: None).rows["reusable_tokens"] == [0, 76, 32, 76, 76, 32]


@needs_shared
def test_addresses_give_two_bounds_and_missing_content_shares_nothing(tmp_path: Path) -> None:
    def ask(url: str) -> dict[str, Any]:
        content = [text("b" * 26), part(url), text("q" * 40)]
        return {"messages": [{"role": "user", "content": content}], "usage": {"prompt_tokens": 172}}

    address, hidden = "https://img.example/a.png", "data:image/png;base64,[REDACTED]"
    cut = "data:image/png;base64," + base64.b64encode(png(64, 64)[:-6] + b"xx").decode()
    rows = [ask(url) for url in (address, address, hidden, hidden, cut, cut)]
    analysis = analyze(tmp_path, model_folder(tmp_path), rows)
    assert analysis.rows["prompt_tokens"] == [172] * 6
    assert analysis.rows["reusable_tokens"] == [0, 172, 32, 32, 32, 32]
    (bounds,) = [one.facts for one in analysis.reports[0].input.warnings if one.reason == "media_by_url"]
    assert bounds["count"] == 2
    assert (bounds["reusable_tokens"], bounds["reusable_tokens_if_contents_changed"]) == (300, 32 * 5)
    assert "media_without_content" in reasons(analysis)


@needs_shared
def test_where_the_template_shows_no_place_other_media_are_kept_apart(tmp_path: Path) -> None:
    models = model_folder(tmp_path)
    (tmp_path / "template.jinja").write_text(TEMPLATE.replace("<|image_pad|>", "(a picture)"))
    rows = [
        {"messages": [{"role": "user", "content": [part(png(64, 64, shade)), text("q" * 60)]}]} for shade in (1, 1, 2)
    ]
    analysis = analyze(tmp_path, models, rows)
    assert [cached > 0 for cached in analysis.rows["cached_tokens"]] == [False, True, False]
    assert "media_not_counted" in reasons(analysis)


@needs_shared
def test_a_placeholder_written_by_a_user_is_not_taken_for_a_picture(tmp_path: Path) -> None:
    content = [text("what does <|image_pad|> mean?"), part(png(64, 64)), text("q" * 60)]
    analysis = analyze(tmp_path, model_folder(tmp_path), [{"messages": [{"role": "user", "content": content}]}] * 2)
    assert "media_not_counted" in reasons(analysis)
    assert analysis.rows["prompt_tokens"][0] == 6 + 29 + 13 + 60


@needs_shared
def test_workers_and_index_give_the_same(tmp_path: Path) -> None:
    traffic = Traffic(11)
    rows = [{"messages": traffic.conversation()[0]} for _ in range(40)]
    models = model_folder(tmp_path)
    direct = analyze(tmp_path, models, rows)
    log = api.LogOptions((str(tmp_path / "log.jsonl"),), models_file=str(models), render="plain", workers=2)
    spread = api.analyze(api.AnalyzeOptions(log), lambda *_: None)
    assert spread.rows["cached_tokens"] == direct.rows["cached_tokens"]
    with open(tmp_path / "log.parquet", "wb") as file:
        api.write_index(log, api.EngineChoice(), file, lambda *_: None)
    stored = api.analyze(api.AnalyzeOptions(api.LogOptions((str(tmp_path / "log.parquet"),))), lambda *_: None)
    assert stored.rows["cached_tokens"] == direct.rows["cached_tokens"]


@needs_shared
def test_the_shared_sample() -> None:
    lines = (SHARED / "formats" / "openai_chat_multimodal.jsonl").read_text().splitlines()
    found = [media_items(json.loads(line), Source("f", n), by_uuid=True) for n, line in enumerate(lines)]
    assert [[(item.modality, item.known_by, item.size) for item in items] for items in found] == [
        [("image", "uuid", (1, 1))],
        [("image", "url", None)],
        [("image", "nothing", None)],
        [("audio", "content", None), ("video", "url", None)],
    ]


# (width, height, factor, least, most pixels) -> size; made by transformers 5.19.0, qwen2_vl: smart_resize
RESIZED = [
    ((1957, 4862, 28, 3136, 12845056), (1960, 4872)),
    ((4466, 1076, 28, 3136, 12845056), (4480, 1064)),
    ((3038, 4955, 28, 3136, 12845056), (2800, 4564)),
    ((3891, 5133, 28, 3136, 12845056), (3108, 4116)),
    ((10, 1900, 28, 3136, 12845056), (28, 784)),
    ((1, 1, 28, 3136, 12845056), (56, 56)),
    ((42, 70, 28, 3136, 12845056), (56, 56)),
    ((4766, 544, 32, 65536, 16777216), (4768, 544)),
    ((4969, 115, 32, 65536, 16777216), (4960, 128)),
    ((10, 1900, 32, 65536, 16777216), (32, 3552)),
    ((42, 70, 32, 65536, 16777216), (224, 352)),
    ((1578, 5882, 28, 200704, 1003520), (504, 1932)),
    ((3261, 5243, 28, 200704, 1003520), (784, 1260)),
    ((10, 1900, 28, 200704, 1003520), (56, 6188)),
    ((1920, 1080, 28, 200704, 1003520), (1316, 728)),
]


@pytest.mark.parametrize(("asked", "size"), RESIZED)
def test_pictures_are_resized_as_by_the_models_own_processor(asked: Any, size: tuple[int, int]) -> None:
    assert smart_resize(*asked) == size


def test_tokens_of_a_picture() -> None:
    qwen2 = {"patch_size": 14, "merge_size": 2, "min_pixels": 3136, "max_pixels": 12845056}
    assert image_tokens({"model_type": "qwen2_vl"}, qwen2, (1920, 1080)) == 69 * 39
    assert image_tokens({"model_type": "qwen2_vl"}, qwen2, None) is None
    assert image_tokens({"model_type": "qwen2_vl"}, None, (1920, 1080)) is None
    assert image_tokens({"model_type": "qwen2_vl"}, qwen2, (10, 4000)) is None  # the processor refuses it
    llava = {"model_type": "llava", "vision_config": {"image_size": 336, "patch_size": 14}}
    assert image_tokens(llava, None, None) == 576
    assert image_tokens({**llava, "vision_feature_select_strategy": "full"}, None, None) == 577
    assert image_tokens({"model_type": "gemma3"}, qwen2, (64, 64)) is None
    assert image_tokens({"model_type": "qwen2_vl"}, {"patch_size": "x", "merge_size": 2}, (64, 64)) is None


def jpeg(width: int, height: int) -> bytes:
    head = b"\xff\xe0\x00\x04ab" + b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", height, width) + b"\x03" + bytes(9)
    return b"\xff\xd8" + head + b"\xff\xd9"


@pytest.mark.parametrize(
    ("content", "size"),
    [
        (png(70, 42), (70, 42)),
        (jpeg(640, 480), (640, 480)),
        (b"RIFF\x1e\0\0\0WEBPVP8X" + bytes(8) + (99).to_bytes(3, "little") + (49).to_bytes(3, "little"), (100, 50)),
        (b"BM" + bytes(16) + struct.pack("<ii", 12, -7), (12, 7)),
        (b"\x89PNG\r\n\x1a\n", None),
        (b"\xff\xd8\xff", None),
        (b"%PDF", None),
        (b"", None),
    ],
)
def test_sizes_from_the_first_bytes(content: bytes, size: tuple[int, int] | None) -> None:
    assert size_of(content) == size


def test_cut_off_pictures_are_seen() -> None:
    for whole in (png(70, 42), jpeg(640, 480)):
        assert not is_cut_off(whole)
        assert is_cut_off(whole[: -13 if whole[:1] == b"\x89" else -2])


def test_items_go_back_to_their_placeholders() -> None:
    places = Placeholders({"image_token_id": 500}, lambda _: None, lambda words: words.encode("utf-32-le"))
    ids = b"".join(number.to_bytes(4, "little") for number in (1, 500, 2, 500, 3))
    items = media_items(
        {"messages": [{"content": [part("https://x.example/a.png"), part(png(64, 64))]}]}, Source("f", 1), by_uuid=True
    )
    found = places.find(ids, "", items)
    assert found == [(1, 1), (3, 1)]
    grown = expand(ids, found, items, [3, 4], None)
    assert len(grown.ids) // 4 == 3 + 3 + 4 and grown.known == "model"
    assert without_media(grown.ids, places.ids_of) == [1, 500, 2, 500, 3]
    assert first_by_url(grown.ids) == 1
    assert expand(ids, found, items, [3, None], 3 + 3 + 9).known == "usage"
    assert len(expand(ids, found, items, [3, 4], 3 + 20).ids) // 4 == 23  # the engine's own count decides
    assert places.find(ids[4:8], "", items) is None


def test_prompts_given_as_embeddings(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"model": "m", "prompt_embeds": payload, "usage": {"prompt_tokens": 40}} for payload in ("AAAA", "AAAA", "BBBB")
    ]
    rows += [{"model": "m", "prompt_embeds": "AAAA"}, {"model": "m", "prompt_token_ids": list(range(40))}]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    analysis = api.analyze(api.AnalyzeOptions(api.LogOptions((str(log),))), lambda *_: None)
    assert analysis.rows["prompt_tokens"] == [40] * 4
    assert analysis.rows["cached_tokens"] == [0, 32, 0, 0]
    (skip,) = analysis.reports[0].input.skipped
    assert (skip.line, skip.reason) == (4, "embeddings_without_length")
    assert "media_embeddings" in reasons(analysis)
