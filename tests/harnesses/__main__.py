"""`python -m tests.harnesses` writes the table of `docs/harnesses/index.md` anew."""

from tests.harnesses.page import PAGE, page

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
