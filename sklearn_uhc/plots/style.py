"""The colours of all plots, of the documentation's pictures and of the benchmarks'."""

from __future__ import annotations

#: Colours that most colour-blind readers can tell apart (Okabe and Ito, 2008), the best readable first.
PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
#: What is meant to be seen first, what stands out against it, and what is merely beside it.
MAIN, CONTRAST, SECOND = PALETTE[0], PALETTE[1], PALETTE[5]
#: Lines and letters; lines that only guide the eye; a pale fill.
INK, GUIDE, PALE = "#222222", "#8a8a8a", "#dbe8f2"
#: A class that a teacher knows by a column of its own, as one of a set, and not at all.
KNOWN, IN_SET, UNKNOWN = MAIN, "#9cc7e3", "#f2f2f2"
#: Agreement of teachers: the less, the darker. Its lightness alone tells the order.
AGREEMENT_MAP = "OrRd_r"
#: Line styles and markers that differ without colour.
LINES = [("-", "o"), ("--", "s"), (":", "^"), ("-.", "D"), ((0, (5, 1)), "v"), ((0, (1, 1)), "X")]
