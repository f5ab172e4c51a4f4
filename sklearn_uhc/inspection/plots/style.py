"""Colours of all plots, including those of the documentation and the benchmarks."""

from __future__ import annotations

#: Colours that most colour-blind readers can distinguish (Okabe and Ito, 2008), most readable first.
PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
#: Main colour, contrasting colour, and secondary colour.
MAIN, CONTRAST, SECOND = PALETTE[0], PALETTE[1], PALETTE[5]
#: Lines and text; guide lines; a pale fill.
INK, GUIDE, PALE = "#222222", "#8a8a8a", "#dbe8f2"
#: A class that a teacher knows as its own column, as part of a set, and not at all.
KNOWN, IN_SET, UNKNOWN = MAIN, "#9cc7e3", "#f2f2f2"
#: Colour map of agreement: darker is lower. It also works in greyscale.
AGREEMENT_MAP = "OrRd_r"
#: Line styles and markers that differ without colour.
LINES = [("-", "o"), ("--", "s"), (":", "^"), ("-.", "D"), ((0, (5, 1)), "v"), ((0, (1, 1)), "X")]
#: Colour map of the probabilities of one row: darker is more probable.
ROW_MAP = "Blues"
