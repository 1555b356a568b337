"""Messages of a conversation, for tests of the scripted models: any content, sound or not."""

from typing import Any


def user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: object) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}
