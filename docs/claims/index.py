"""Figures of docs/index.md: what its own code prints."""

from docs.claims import Sentence
from docs.claims.readme import opening


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    return opening("index.md")
