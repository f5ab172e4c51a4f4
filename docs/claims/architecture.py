"""Figures of docs/architecture.md, from docs/local_optima.json."""

from docs.claims import Sentence
from docs.claims.records import load


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    found = load("local_optima.json")
    rows, above, below, open_ = (sum(r[key] for r in found) for key in ("rows", "above", "below", "not converged"))
    return [
        ("On {:,} rows of noisy teachers", rows),
        ("{:d} ({:.2f} %) end more than", above, 100 * above / rows),
        ("{:,} end as much below; rows reported as not converged: {:d}", below, open_),
    ]
