"""Text that is shown while it is said, where nothing can be taken back.

What is said anew after a cut often begins as before: as long as it does, nothing is shown, since it stands there
already. Where it differs, a line says that what stands above was cut off, and the answer follows from its beginning.
"""

from typing import Final

AGAIN: Final = "\n\n*(The answer above was cut off. It is given again:)*\n\n"


class Speech:
    """One answer after the other, each of which may be begun anew."""

    def __init__(self) -> None:
        self._shown = ""
        """What stands on the screen of the answer that is under way, or of the one that was cut off."""
        self._said = ""
        self._blind = False
        """Its beginning was not heard: it is shown when it is whole."""
        self._cut = False

    def hear(self, offset: int, text: str) -> str:
        """What is to be added to the screen, now that `text` was said behind `offset` characters."""
        if offset > len(self._said):
            self._blind = True
        self._said = self._said[:offset] + text
        if self._blind or self._shown.startswith(self._said):
            return ""
        return self._add()

    def cut(self) -> None:
        """What was said of this answer is void."""
        self._said, self._blind, self._cut = "", False, bool(self._shown)

    def end(self, whole: str) -> str:
        """What is to be added, now that the answer is whole: nothing where all of it was heard."""
        self._said = whole
        told = bool(self._shown) and not self._cut and not whole.startswith(self._shown)
        added = "" if told or not whole else self._add()
        self._shown, self._said, self._blind, self._cut = "", "", False, False
        return added

    def _add(self) -> str:
        begun = self._said.startswith(self._shown)
        added = self._said[len(self._shown) :] if begun else f"{AGAIN}{self._said}"
        self._shown = self._said
        return added
