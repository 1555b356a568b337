"""What is said of a harness that takes no files with its prompts."""

from typing import Final

NO_FILES: Final = "A prompt with a file is refused before its turn begins."
