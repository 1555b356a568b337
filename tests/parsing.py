"""Reads Python source."""

import ast


def parsed(text: str) -> ast.AST:
    """The tree of a module's text."""
    try:
        return ast.parse(text)
    except SystemError:
        # CPython up to 3.11.8 miscounts its own depth when the collector or another thread comes in between.
        return ast.parse(text)
