"""What calls return: text as coding agents read it, and text that no compressor gets small."""

import base64
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path


def source_text(size: int) -> Iterator[str]:
    """Pieces of `size` characters of the standard library's source, none twice: some 10 MB of it."""
    library = Path(sysconfig.get_path("stdlib"))
    files = [path for path in library.rglob("*.py") if "site-packages" not in path.parts]
    for path in sorted(files, key=lambda path: (len(path.parts), path)):
        text = path.read_text(encoding="utf-8", errors="replace")
        for at in range(0, len(text) - size, size):
            yield text[at : at + size]


def random_text(size: int, seed: int = 1) -> Iterator[str]:
    """Pieces of `size` characters of base 85, in which Zstandard finds nothing but the alphabet."""
    generator = random.Random(seed)
    while True:
        yield base64.b85encode(generator.randbytes(size)).decode()[:size]
