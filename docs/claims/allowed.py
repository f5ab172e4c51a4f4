"""Figures on the pages that are no measurements of ours: page (`*`: all), what they look like, and the reason."""

ALLOWED: list[tuple[str, str, str]] = [
    ("*", r"\b[Pp]ython (?:>= ?)?3\.\d+(?: to 3\.\d+)?", "a version"),
    ("*", r"scikit-learn \(?1\.\d(?: to 1\.\d)?", "a version"),
    ("*", r"\b(?:T|lam|lambda|C|weight of|rate of) (?:= )?\d*\.?\d+(?: / T²)?", "the value of a parameter"),
    ("teachers.md", r"floors \.1, \.03, \.01, \.001", "the floors that were tried"),
    ("teachers.md", r"Teachers get 40 %|digits\*: 50 %", "how the data were split"),
    ("teachers.md", r"silent about 30 %", "what the experiment draws"),
    ("README.md", r"know 5 to 15 of 20 to 50 classes", "the protocol of the paper"),
    ("any_teacher.md", r"X is 5 and 51 MB", "what the rows take"),
    (
        "floor.md",
        r"at least 2 % of|0\.05 / k|total 0\.05|among \.03, \.05, \.1, \.2, \.3|\.03 and \.1|kinds: \.1 is",
        "floors and limits",
    ),
    ("networks.md", r"learning rate \.001|= +\.01(?: / T²)?", "rates and parameters"),
    ("label_lists.md", r"below \.025", "a limit in the code"),
    ("architecture.md", r"down to \.05 \(at \.001", "temperatures, the range of a promise that tests hold"),
    ("architecture.md", r"q = \(\.2, 1e-20, \.8\)", "an example of probabilities"),
    ("architecture.md", r"64 times its precision", "a limit in the code"),
    ("architecture.md", r"of \.15, relative", "a default"),
    ("architecture.md", r"up to 0\.1 % of a row", "a limit in the code"),
    ("compatibility.md", r"\b0\.\d(?:\.\d)?\b", "versions of this package"),
    ("dask.md", r"\(256 MiB at most\)|fit into 1 GiB|nearly 2 % of", "limits in the code"),
    ("dask.md", r"20 MB per block|of 1 GiB each", "a setting of the benchmark, or advice"),
    ("dask.md", r"above 64 KiB|up to 128 MiB", "settings of malloc"),
    ("dask.md", r"PySpark 4\.3\.0|PySpark 4\.3|Ray 2\.60\.0", "versions"),
    ("digits.md", r"40 % of the digits|40 % are|20 % are", "how the data were split"),
    (
        "few_labels.md",
        r"is 3 to 5 points",
        "the standard error of 100 draws, sqrt(p (1 - p) / 100) for p from .7 to .9",
    ),
    ("reproducing.md", r"64 x 64", "the size of images"),
    ("reproducing.md", r"momentum \.9, ten epochs at \.1 and ten at \.01", "settings of the paper"),
    ("holdout_search.md", r"trained on 70 % of|would reach \.50", "a setting, and chance"),
    ("security.md", r"1 GiB by default", "a default"),
    ("students.md", r"accuracy below \.25", "a limit of the table"),
    ("students.md", r"the aim of 5 times", "an aim"),
    ("solvers.md", r"at most 5 times the plain method", "an aim"),
    ("solvers.md", r"The aim, 1\.6 times as fast", "an aim"),
    ("choosing.md", r"below \.905 of", "a threshold of the rule"),
    ("*", r"\b95 % (?:interval|confidence)", "the level of an interval"),
]

#: Pages that are not checked yet.
NOT_YET: set[str] = set()
