"""Width and height of images from their first bytes, and how many tokens an encoder makes of them.

Only arithmetic that a model's own files settle: the processor's limits stand in preprocessor_config.json. What they do
not tell is None, never a guess.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

from prefixscope.records import Json

__all__ = ["image_tokens", "is_cut_off", "size_of", "smart_resize"]

_QWEN = (
    "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen2_5_omni", "qwen3_omni_moe", "qwen3_5", "qwen3_5_moe",
)  # fmt: skip
_LONGEST_RATIO = 200


def size_of(content: bytes) -> tuple[int, int] | None:
    """(width, height) of a PNG, GIF, JPEG, WebP or BMP; None for anything else.

    >>> size_of(b"GIF89a" + (3).to_bytes(2, "little") + (2).to_bytes(2, "little"))
    (3, 2)
    """
    try:
        if content.startswith(b"\x89PNG\r\n\x1a\n"):
            width, height = struct.unpack(">II", content[16:24])
        elif content[:6] in (b"GIF87a", b"GIF89a"):
            width, height = struct.unpack("<HH", content[6:10])
        elif content.startswith(b"\xff\xd8"):
            return _jpeg_size(content)
        elif content[:4] == b"RIFF" and content[8:12] == b"WEBP":
            return _webp_size(content)
        elif content.startswith(b"BM"):
            width, height = struct.unpack("<ii", content[18:26])
            height = abs(height)
        else:
            return None
    except struct.error:
        return None
    return (width, height) if width > 0 and height > 0 else None


def is_cut_off(content: bytes) -> bool:
    """Whether an image ends before its end: a log that cuts payloads makes different images look alike."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return b"IEND" not in content[-16:]
    if content.startswith(b"\xff\xd8"):
        return b"\xff\xd9" not in content[-64:]
    if content[:4] == b"RIFF" and len(content) >= 8:
        return int(struct.unpack("<I", content[4:8])[0]) + 8 > len(content)
    return False


def _jpeg_size(content: bytes) -> tuple[int, int] | None:
    place = 2
    while place + 9 < len(content):
        if content[place] != 0xFF:
            return None
        marker = content[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", content[place + 5 : place + 9])
            return (width, height) if width and height else None
        if marker == 0xFF or 0xD0 <= marker <= 0xD9 or marker == 0x01:
            place += 1 if marker == 0xFF else 2
            continue
        place += 2 + int.from_bytes(content[place + 2 : place + 4], "big")
    return None


def _webp_size(content: bytes) -> tuple[int, int] | None:
    kind = content[12:16]
    if kind == b"VP8X" and len(content) >= 30:
        return int.from_bytes(content[24:27], "little") + 1, int.from_bytes(content[27:30], "little") + 1
    if kind == b"VP8L" and len(content) >= 25:
        bits = int.from_bytes(content[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and len(content) >= 30:
        width, height = struct.unpack("<HH", content[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return None


def image_tokens(
    config: Mapping[str, Json] | None, processor: Mapping[str, Json] | None, size: tuple[int, int] | None
) -> int | None:
    """Tokens in which the model sees an image of this size; None where its files do not settle that.

    Qwen's vision models: patches after `smart_resize`, merged (transformers: qwen2_vl/image_processing_qwen2_vl.py).
    LLaVA 1.5: the patches of one fixed size.
    """
    kind = None if config is None else config.get("model_type")
    try:
        if kind in _QWEN and processor is not None and size is not None:
            return _qwen_tokens(processor, *size)
        if kind == "llava" and config is not None:
            return _llava_tokens(config)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        return None
    return None


def _qwen_tokens(processor: Mapping[str, Json], width: int, height: int) -> int | None:
    patch, merge = int(processor["patch_size"]), int(processor["merge_size"])
    limits = processor.get("size") or {}
    least = processor.get("min_pixels") or limits.get("shortest_edge")
    most = processor.get("max_pixels") or limits.get("longest_edge")
    if not least or not most:
        return None
    resized = smart_resize(width, height, patch * merge, int(least), int(most))
    return None if resized is None else resized[0] * resized[1] // (patch * merge) ** 2


def smart_resize(width: int, height: int, factor: int, least: int, most: int) -> tuple[int, int] | None:
    """The size to which Qwen's processor brings an image: multiples of `factor`, between `least` and `most` pixels.

    >>> smart_resize(1920, 1080, 28, 3136, 12845056)
    (1932, 1092)
    """
    if max(width, height) / min(width, height) > _LONGEST_RATIO:
        return None
    new_width, new_height = round(width / factor) * factor, round(height / factor) * factor
    if new_width * new_height > most:
        beta = math.sqrt(height * width / most)
        new_width = max(factor, math.floor(width / beta / factor) * factor)
        new_height = max(factor, math.floor(height / beta / factor) * factor)
    elif new_width * new_height < least:
        beta = math.sqrt(least / (height * width))
        new_width = math.ceil(width * beta / factor) * factor
        new_height = math.ceil(height * beta / factor) * factor
    return new_width, new_height


def _llava_tokens(config: Mapping[str, Json]) -> int | None:
    vision = config["vision_config"]
    patches = (int(vision["image_size"]) // int(vision["patch_size"])) ** 2
    strategy = config.get("vision_feature_select_strategy", "default")
    return patches if strategy == "default" else patches + 1 if strategy == "full" else None
