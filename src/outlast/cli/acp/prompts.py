"""What an editor sends as a prompt, as the text that a session is given."""

from collections.abc import Sequence

from acp import schema

from outlast.errors import BadInput


def prompt_text(blocks: Sequence[object]) -> str:
    """The blocks of a prompt as one text: files that are mentioned by their address, those that are given whole.

    Raises:
        BadInput: it holds what a prompt cannot carry, or no words.
    """
    text = ("" if _flows(blocks) else "\n\n").join(_said(block) for block in blocks)
    if not text.strip():
        raise BadInput(detail="The prompt is empty. Give it a text.")
    return text


def _flows(blocks: Sequence[object]) -> bool:
    """Mentions stand in the middle of a sentence."""
    return all(isinstance(block, schema.TextContentBlock | schema.ResourceContentBlock) for block in blocks)


def _said(block: object) -> str:
    match block:
        case schema.TextContentBlock():
            return block.text
        case schema.ResourceContentBlock():
            return f"[{block.name}]({block.uri})"
        case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents() as file):
            return f"{file.uri}:\n\n{_fenced(file.text)}"
        case _:
            kind = getattr(block, "type", "block")
            raise BadInput(
                detail=f"A prompt carries text and text files, no {kind}. Name the file by its path instead."
            )


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text.rstrip()}\n{fence}"
