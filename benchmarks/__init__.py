"""Measurements and the demo. They use the public API only."""

from typing import Any

#: The paper's setting, at the library's T = 1. Studies of other choices keep it fixed.
PAPER: dict[str, Any] = {"method": "mf_lf", "balance": True}
