"""What vLLM hands to its chat template for request bodies: run with a Python that has vLLM (0.32.0).

Reads JSON lines {"format": "string" | "openai", "body": {...}}, writes {"messages", "tools", "kwargs"} or {"error"}.
"""

import json
import os
import sys
from typing import Any


class TextModel:
    """The little that vLLM asks of a model's configuration for text requests."""

    enable_prompt_embeds = False
    is_multimodal_model = False

    def __getattr__(self, name: str) -> None:
        return None


def converted(body: dict[str, Any], content_format: str) -> dict[str, Any]:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.renderers.chat_utils import parse_chat_messages

    try:
        request = ChatCompletionRequest.model_validate(body)
        messages, _, _ = parse_chat_messages(request.messages, TextModel(), content_format=content_format)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    tools = None if request.tools is None else [tool.model_dump() for tool in request.tools]
    parameters = request.build_chat_params(None, "auto").with_defaults({"tools": tools, "tokenize": False})
    given = {
        name: value for name, value in parameters.chat_template_kwargs.items() if name not in ("tools", "tokenize")
    }
    return {"messages": messages, "tools": tools, "kwargs": given}


if __name__ == "__main__":
    os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(converted(asked["body"], asked["format"]), ensure_ascii=False), flush=True)
