"""The arguments of the command."""

from __future__ import annotations

import argparse
from typing import Any

from sklearn_uhc import __version__
from sklearn_uhc.command import inspect, merge, pack, predict
from sklearn_uhc.command.students import STUDENTS

ROWS = "CSV, Parquet or npz (array X); features are all columns of numbers but those of --labels and --id"
FILES = "packages (.teacher), ONNX files (.onnx), answer files (.csv, .tsv, .parquet: a column per class)"


def make_parser() -> argparse.ArgumentParser:
    """Return the parser; each subcommand sets `run`."""
    parser = argparse.ArgumentParser(
        prog="sklearn-uhc",
        description="Merge classifiers that know different classes into one, with unlabelled rows.",
        epilog="Tutorial: docs/guide/command.md. Exit codes: 0 done, 1 failed, 2 wrong arguments, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"sklearn-uhc {__version__}")
    commands = parser.add_subparsers(metavar="{inspect,merge,predict,pack}", required=True)
    for add in (_add_inspect, _add_merge, _add_predict, _add_pack):
        add(commands)
    return parser


def _add(commands: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)
    return parser


def _add_inspect(commands: Any) -> None:
    text = "Show what files hold: classes, overlap, what the overlap leaves open, look-alike names, lineage."
    parser = _add(commands, "inspect", inspect.run, text)
    parser.add_argument("files", nargs="+", metavar="FILE", help=FILES)
    parser.add_argument("--id", metavar="COLUMN", help="column of ids in answer files")
    _add_trust(parser)


def _add_merge(commands: Any) -> None:
    parser = _add(commands, "merge", merge.run, "Merge teachers on unlabelled rows into one ONNX file.")
    parser.add_argument("files", nargs="*", metavar="TEACHER", help=FILES)
    parser.add_argument("--teachers", metavar="FILE.toml", help="more teachers: URLs, class lists, weights")
    parser.add_argument("--rows", required=True, metavar="FILE", help=f"unlabelled rows: {ROWS}")
    parser.add_argument("--student", choices=STUDENTS, default="logistic", help="what to train (default: logistic)")
    parser.add_argument("--labels", metavar="COLUMN", help="column of labels; empty cells are unlabelled rows")
    parser.add_argument("--prior", metavar="FILE", help="class frequencies: JSON object, or CSV with class,frequency")
    parser.add_argument("--id", metavar="COLUMN", help="column of ids in the rows and in answer files")
    parser.add_argument("--out", metavar="FILE.onnx", required=True, help="the merged classifier")
    parser.add_argument("--report", metavar="FILE.html", help="a page about the result")
    _add_trust(parser)


def _add_predict(commands: Any) -> None:
    parser = _add(commands, "predict", predict.run, "Write labels and probabilities for rows.")
    parser.add_argument("model", metavar="MODEL", help="a merged classifier (.onnx) or a package (.teacher)")
    parser.add_argument("--rows", required=True, metavar="FILE", help=ROWS)
    parser.add_argument("--id", metavar="COLUMN", help="column of ids, copied to the output")
    parser.add_argument("--out", required=True, metavar="FILE", help="CSV or Parquet; an answer file for `merge`")


def _add_pack(commands: Any) -> None:
    text = "Write a fitted model of your own as a package, which others load without running your code."
    parser = _add(commands, "pack", pack.run, text)
    parser.add_argument("model", metavar="MODEL.joblib", help="joblib or pickle file of a fitted classifier")
    parser.add_argument("--rows", required=True, metavar="FILE", help=f"example rows: {ROWS}")
    parser.add_argument("--labels", metavar="COLUMN", help="column of labels, which is no feature")
    parser.add_argument("--id", metavar="COLUMN", help="column of ids, which is no feature")
    parser.add_argument("--out", required=True, metavar="FILE.teacher", help="the package")
    parser.add_argument("--classes", nargs="+", metavar="NAME", help="names of the classes, in the model's order")
    parser.add_argument("--description", default="", help="text for the card")
    parser.add_argument("--examples", type=int, default=5, help="rows to store in the package (default: 5; 0: none)")
    _add_trust(parser)


def _add_trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trust-pickle", action="store_true", help="load pickles, which can run any code")
