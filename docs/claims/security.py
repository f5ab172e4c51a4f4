"""Figures of docs/security.md, from docs/packages.json."""

from docs.claims import Sentence
from docs.claims.records import load


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    raw, members = (load("packages.json")["fuzzed"][key] for key in ("raw", "members"))
    return [
        ("in a clean error ({:d} and {:d})", raw["error"], members["error"]),
        ("in a working teacher ({:d} and {:d})", raw["works"], members["works"]),
    ]
