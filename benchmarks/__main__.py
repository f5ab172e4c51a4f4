"""The paper's experiments: run trials, report the table.

python -m benchmarks run digits --trials 5
python -m benchmarks run features --data FOLDER --trials 50 --jobs 2
python -m benchmarks run features --data FOLDER --protocol overlapping
python -m benchmarks run features --data FOLDER --study temperature --trials 10
python -m benchmarks report results/*.jsonl --out report

A killed run resumes where it stopped when it is started again. Other epochs, teachers or data need another --out. Two
machines can share the trials with --first, and a report takes the files of both.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from benchmarks.paper.experiments import EXPERIMENTS, STUDIES, Experiment, choose_methods
from benchmarks.paper.protocol import PROTOCOLS

#: Which values a study takes, and how to say so.
VALUES: dict[str, tuple[Callable[[float], bool], str]] = {
    "size": (lambda value: value >= 1 and value.is_integer(), "whole numbers of samples from 1 on"),
    "temperature": (lambda value: 0 < value < math.inf, "positive numbers"),
    "accuracy": (lambda value: 0 < value <= 1, "above 0 and at most 1"),
}


def main(arguments: list[str] | None = None) -> None:
    args = parse(arguments)
    try:
        if args.command == "run":
            run_trials(args)
        else:
            print_report(args.results, args.out)
    except (OSError, ValueError, ImportError) as error:  # data, packages or results that are missing or do not fit
        print(f"python -m benchmarks: error: {error}", file=sys.stderr)
        sys.exit(2)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run trials of an experiment and report them")
    run.add_argument("config", choices=list(EXPERIMENTS))
    run.add_argument("--data", type=Path, help="folder with the dataset; digits and synthetic need none")
    run.add_argument("--protocol", choices=PROTOCOLS, default="random")
    run.add_argument("--study", choices=list(STUDIES), default="main", help="a sensitivity study instead of the table")
    run.add_argument("--values", type=float, nargs="+", help="the study's values, instead of the paper's")
    methods = "paper, all, rivals, names, or your own as package.module:Class, with commas"
    run.add_argument("--methods", default="paper", help=methods)
    run.add_argument("--student", help="the student's architecture, such as vgg16 or resnet34")
    run.add_argument("--teachers", nargs="+", help="the architectures that teachers are drawn from")
    run.add_argument("--trials", type=int, default=50)
    run.add_argument("--first", type=int, default=0, help="number of the first trial")
    run.add_argument("--jobs", type=int, default=1, help="trials at the same time")
    run.add_argument("--scheduler", help="address of a Dask scheduler to run the trials on")
    run.add_argument("--epochs", type=int, default=20)
    run.add_argument("--cache", type=Path, default=Path("features"), help="folder for extracted features")
    run.add_argument("--device", default="auto")
    run.add_argument("--out", type=Path, help="file of results, .jsonl")
    report = commands.add_parser("report", help="table, statistics and figures of results")
    report.add_argument("results", type=Path, nargs="+", help="files of results, .jsonl")
    report.add_argument("--out", type=Path, default=Path("report"), help="folder for the report")
    args = parser.parse_args(arguments)
    if args.command == "run":
        check(args, run.error)
    return args


def check(args: argparse.Namespace, refuse: Callable[[str], NoReturn]) -> None:
    """Raise an error for arguments that cannot be run, before anything is loaded."""
    for name, least in {"trials": 1, "first": 0, "epochs": 1}.items():
        if getattr(args, name) < least:
            refuse(f"--{name} is {getattr(args, name)}; it must be at least {least}")
    if args.jobs == 0:
        refuse("--jobs is 0; give a number of trials, or -1 for as many as there are cores")
    if args.values and args.study == "main":
        refuse(f"--values belong to a study; add --study with one of {', '.join(VALUES)}")
    for value in args.values or ():
        fits, words = VALUES[args.study]
        if not fits(value):
            refuse(f"--values of --study {args.study} must be {words}, got {value:g}")
    check_architectures(args, refuse)


def check_architectures(args: argparse.Namespace, refuse: Callable[[str], NoReturn]) -> None:
    """Raise an error for unknown names of networks."""
    given = [("--student", args.student)] if args.student else []
    given += [("--teachers", name) for name in args.teachers or ()]
    if given:
        from benchmarks.paper.backbones import BACKBONES  # loads torch

        for option, name in given:
            if name not in BACKBONES:
                refuse(f"{option}: there is no architecture {name!r}; take one of {', '.join(BACKBONES)}")


def run_trials(args: argparse.Namespace) -> None:
    from benchmarks.paper.runner import run

    experiment = make_experiment(args)
    out = args.out or Path("results") / f"{experiment.name}.jsonl"
    numbers = range(args.first, args.first + args.trials)
    run(experiment, numbers, out, jobs=args.jobs, scheduler=args.scheduler)
    print_report([out], out.with_suffix(""))


def make_experiment(args: argparse.Namespace) -> Experiment:
    given = EXPERIMENTS[args.config]
    return replace(
        given,
        folder=None if args.data is None else str(args.data.resolve()),
        protocol=args.protocol,
        study=args.study,
        values=tuple(dict.fromkeys(args.values or STUDIES[args.study])),
        methods=choose_methods(args.methods, args.study),
        student=args.student or given.student,
        teachers=tuple(args.teachers or given.teachers),
        epochs=args.epochs,
        cache=str(args.cache.resolve()),
        device=args.device,
    )


def print_report(files: list[Path], out: Path) -> None:
    from benchmarks.paper.report import make_report

    print(make_report(files, out))
    print(f"Written to {out}")


if __name__ == "__main__":
    main()
