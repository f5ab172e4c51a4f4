"""What the paper says about its table, judged by our results and by its own numbers."""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

from benchmarks.paper.published import METHODS, Column
from benchmarks.paper.records import Trials, in_order
from benchmarks.paper.statistics import ALPHA, compare, standard_error, wilcoxon_p

Pair = tuple[str, str]
_MERGING = ("CE", "MF-P", "MF-LU", "MF-LF")
_UNSUPERVISED = [method for method in METHODS if method != "SPV"]
_PROPOSED = [method for method in _UNSUPERVISED if method != "SD"]


class Claim(NamedTuple):
    """A claim that every difference (first minus second method, in points) is above `above`."""

    text: str
    pairs: list[Pair]
    above: float


class Verdict(NamedTuple):
    """Whether a claim holds, and the figures."""

    holds: bool | None  #: None: trials are too few or too different to tell, or the methods were not run
    figures: str
    run: str = "all"  #: whether "all", "some" or "none" of the methods that the claim is about were run

    def __str__(self) -> str:
        if self.holds is None:
            return "not measured" if self.run == "none" else "undecided"
        return "does not hold" if not self.holds else "holds" if self.run == "all" else "holds as far as run"


class Judged(NamedTuple):
    """A claim, what our results say of it, and what the paper's own table says."""

    text: str
    ours: Verdict
    paper: Verdict | None

    def __str__(self) -> str:
        paper = f" The paper's table: {self.paper}, {self.paper.figures}." if self.paper else ""
        return f"{self.text}. Ours: {self.ours.figures}.{paper}"


def _of(losses: tuple[str, ...]) -> list[str]:
    return [method for method in _PROPOSED if method.rpartition("-")[0] in losses]


def _against(methods: list[str], base: str) -> list[Pair]:
    return [(method, base) for method in methods]


_BEST = "MF-LF-BS is the best or not significantly different from it"
CLAIMS = {
    "random": [
        Claim("All proposed methods are more than 9 points above SD (paper: 9 to 15)", _against(_PROPOSED, "SD"), 9),
        Claim("CE and MF-LF are more than 9 points above SD (our bound)", _against(_of(("CE", "MF-LF")), "SD"), 9),
        Claim("MF-P and MF-LU are more than 7 points above SD (our bound)", _against(_of(("MF-P", "MF-LU")), "SD"), 7),
        Claim("All proposed methods are less than 4 points below SPV (paper: 1 to 4)", _against(_PROPOSED, "SPV"), -4),
        Claim("CE and MF-LF are less than 4 points below SPV (our bound)", _against(_of(("CE", "MF-LF")), "SPV"), -4),
        Claim(
            "MF-P and MF-LU are less than 6 points below SPV (our bound)", _against(_of(("MF-P", "MF-LU")), "SPV"), -6
        ),
        Claim("Balancing improves each method, BS - E > 0", [(f"{m}-BS", f"{m}-E") for m in _MERGING], 0),
        Claim("Balancing lifts SD by more than 5 points (paper: more than 10)", [("SD-BS", "SD")], 5),
        Claim("Nonconvex losses are better with BP, BP - E > 0", [(f"{m}-BP", f"{m}-E") for m in ("MF-P", "MF-LU")], 0),
    ],
    "overlapping": [
        Claim(
            "All methods are within about 1 point of each other (judged at 1.5)",
            list(permutations(_UNSUPERVISED, 2)),
            -1.5,
        ),
        Claim(
            "Balancing makes each method slightly worse, E - BS > 0",
            [("SD", "SD-BS"), *((f"{m}-E", f"{m}-BS") for m in _MERGING)],
            0,
        ),
    ],
}


def judge_claims(protocol: str, trials: Trials, paper: Column | None) -> list[Judged]:
    """Judge all claims about a protocol."""
    mean = {method: float(trials.get("accuracy", method).mean()) for method in trials.methods}
    judged = [
        Judged(c.text, _judge(c, mean, trials), _judge(c, paper.accuracy) if paper else None)
        for c in CLAIMS.get(protocol, [])
    ]
    if protocol == "random":
        judged.append(Judged(_BEST, _judge_best(trials), _published_best(paper) if paper else None))
    return judged


def _judge(claim: Claim, mean: dict[str, float], trials: Trials | None = None) -> Verdict:
    """Judge a claim by mean accuracies; with trials, only differences that are significant count."""
    pairs = [(a, b) for a, b in claim.pairs if a in mean and b in mean]
    missing = in_order({method for pair in claim.pairs for method in pair if method not in mean})
    if not pairs:
        return Verdict(None, f"no results of {', '.join(missing)}", "none")
    # Rounded: the difference of .7000 and .6900 is one point, not a little more.
    difference = {pair: round(100 * (mean[pair[0]] - mean[pair[1]]), 9) for pair in pairs}
    figures = _describe(difference, claim.above, trials) + (f" (not run: {', '.join(missing)})" if missing else "")
    open_ones = [pair for pair in pairs if trials and not _is_significant(*pair, claim.above, trials)]
    broken = any(difference[pair] <= claim.above for pair in pairs if pair not in open_ones)
    return Verdict(False if broken else None if open_ones else True, figures, "some" if missing else "all")


def _describe(difference: dict[Pair, float], above: float, trials: Trials | None) -> str:
    """Write a few differences one by one, of many the extremes."""
    low, high = min(difference, key=difference.__getitem__), max(difference, key=difference.__getitem__)
    if low[::-1] in difference:  # all pairs, both ways round
        return f"{difference[high]:.2f} points between {high[0]} and {high[1]}"
    if len(difference) > 5:
        return f"{difference[low]:+.1f} ({low[0]}) to {difference[high]:+.1f} ({high[0]})"
    return ", ".join(f"{_label(a, b)} {d:+.2f}{_error(a, b, above, trials)}" for (a, b), d in difference.items())


def _label(a: str, b: str) -> str:
    """Name a difference by the loss where both methods have the same one."""
    loss = a.rpartition("-")[0] or a
    return loss if loss == (b.rpartition("-")[0] or b) else a


def _error(a: str, b: str, above: float, trials: Trials | None) -> str:
    """Write the standard error of a difference of paired results, and whether it could be on the bound's other side."""
    if trials is None:
        return ""
    error = standard_error(trials.get("accuracy", a) - trials.get("accuracy", b))
    chance = "" if _is_significant(a, b, above, trials) else " (n.s.)"
    return ("" if error is None else f" ± {100 * error:.2f}") + chance


def _is_significant(a: str, b: str, above: float, trials: Trials) -> bool:
    """Return whether the difference of two methods, in points, is significantly above or below a bound."""
    return wilcoxon_p(trials.get("accuracy", a), trials.get("accuracy", b) + above / 100) < ALPHA


def _judge_best(trials: Trials) -> Verdict:
    """Judge whether MF-LF-BS is as good as the best of the paper's methods."""
    if "MF-LF-BS" not in trials.methods:
        return Verdict(None, "no results of MF-LF-BS", "none")
    few = 2.0 ** (1 - len(trials.trials)) >= ALPHA  # no difference could be significant
    best = compare(trials, METHODS)
    if best.best == "MF-LF-BS":
        return Verdict(None if few else True, "it is the best")
    p = best.p["MF-LF-BS"]
    behind = 100 * float((trials.get("accuracy", best.best) - trials.get("accuracy", "MF-LF-BS")).mean())
    return Verdict(None if few else p >= ALPHA, f"{behind:.2f} points behind {best.best}, p = {p:.2g}")


def _published_best(paper: Column) -> Verdict:
    """Read from the paper's marks whether MF-LF-BS was the best or as good."""
    words = {"best": "underlined", "same": "bold", "": "not bold"}
    return Verdict(paper.mark["MF-LF-BS"] != "", words[paper.mark["MF-LF-BS"]])
