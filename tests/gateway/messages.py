"""Requests and answers in Anthropic's dialect, for tests."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from outlast.gateway import sse

MODEL = "claude-sonnet-5"
USAGE = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 4,
    "cache_read_input_tokens": 2,
    "output_tokens": 1,
}


def user(*content: Any) -> dict[str, Any]:
    return {
        "role": "user",
        "content": content[0] if len(content) == 1 and isinstance(content[0], str) else list(content),
    }


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def tool_use(call: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


def tool_result(call: str, content: Any = "", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


def request(*messages: Mapping[str, Any], stream: bool = True, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 100, "stream": stream, "messages": list(messages), **more}


def event(kind: str, **fields: Any) -> bytes:
    return sse.frame(kind, msgspec.json.encode({"type": kind, **fields}))


def start(**more: Any) -> bytes:
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
    }
    message |= {"stop_reason": None, "stop_sequence": None, "usage": USAGE}
    return event("message_start", message={**message, **more})


def begin(index: int, block: Mapping[str, Any]) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def delta(index: int, kind: str, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **fields})


def stop(index: int) -> bytes:
    return event("content_block_stop", index=index)


def says(index: int, *pieces: str) -> list[bytes]:
    deltas = [delta(index, "text_delta", text=piece) for piece in pieces]
    return [begin(index, text("")), *deltas, stop(index)]


def thinks(index: int, *pieces: str, signature: str = "sig") -> list[bytes]:
    deltas = [delta(index, "thinking_delta", thinking=piece) for piece in pieces]
    sealed = delta(index, "signature_delta", signature=signature)
    return [begin(index, {"type": "thinking", "thinking": "", "signature": ""}), *deltas, sealed, stop(index)]


def calls(index: int, call: str, *pieces: str, name: str = "Bash") -> list[bytes]:
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [begin(index, tool_use(call, name)), *deltas, stop(index)]


def end(reason: str = "end_turn", output_tokens: int = 7, **more: Any) -> list[bytes]:
    ending = event(
        "message_delta",
        delta={"stop_reason": reason, "stop_sequence": None},
        usage={"output_tokens": output_tokens},
        **more,
    )
    return [ending, event("message_stop")]


def stream(*blocks: Iterable[bytes]) -> list[bytes]:
    return [start(), event("ping"), *(piece for block in blocks for piece in block)]


def read(frames: Sequence[bytes] | bytes) -> Mapping[str, Any]:
    """What a plain client makes of a stream; it knows nothing of the gateway's own reader."""
    raw = frames if isinstance(frames, bytes) else b"".join(frames)
    message: dict[str, Any] = {}
    inputs: dict[int, str] = {}
    for part in raw.decode().replace("\r\n", "\n").split("\n\n"):
        lines = [line[6:] for line in part.split("\n") if line.startswith("data: ")]
        if lines:
            _apply(message, inputs, msgspec.json.decode("\n".join(lines)))
    return message


def _apply(message: dict[str, Any], inputs: dict[int, str], said: dict[str, Any]) -> None:
    match said:
        case {"type": "message_start", "message": opened}:
            message.update(opened)
        case {"type": "content_block_start", "content_block": block}:
            message["content"] = [*message["content"], dict(block)]
        case {"type": "content_block_delta", "index": index, "delta": piece}:
            _apply_delta(message["content"][index], inputs, index, piece)
        case {"type": "content_block_stop", "index": index} if inputs.get(index):
            message["content"][index]["input"] = _input(inputs[index])
        case {"type": "message_delta", "delta": ending, "usage": usage}:
            message.update(ending)
            message["usage"] = {**message["usage"], **usage}
        case _:
            pass


def _input(said: str) -> object:
    try:
        return msgspec.json.decode(said)
    except msgspec.DecodeError:
        return said


def _apply_delta(block: dict[str, Any], inputs: dict[int, str], index: int, piece: dict[str, Any]) -> None:
    match piece:
        case {"type": "text_delta", "text": said}:
            block["text"] += said
        case {"type": "thinking_delta", "thinking": said}:
            block["thinking"] += said
        case {"type": "signature_delta", "signature": signature}:
            block["signature"] = signature
        case {"type": "input_json_delta", "partial_json": said}:
            inputs[index] = inputs.get(index, "") + said
        case {"type": "citations_delta", "citation": citation}:
            block["citations"] = [*(block.get("citations") or []), citation]
        case _:
            block.setdefault("others", []).append(piece)
