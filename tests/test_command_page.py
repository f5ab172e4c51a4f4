"""The page about the command: what a stranger types in a fresh folder gives what the page shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "guide" / "command.md").read_text()
BLOCKS = re.findall(r"^```(py|toml|console)\n(.*?)^```$", PAGE, flags=re.S | re.M)


def pattern_of(shown):
    """A pattern of what a command prints: "..." stands for anything on a line, and every number is a group."""
    pieces = re.split(r"(\.\.\.|\d+(?:\.\d+)?)", shown)
    return "".join(".*" if p == "..." else r"(\d+(?:\.\d+)?)" if re.match(r"\d", p) else re.escape(p) for p in pieces)


@pytest.fixture
def shell(tmp_path):
    """Run a line in a folder where `sklearn-uhc` and `python` are those of this environment."""
    (tmp_path / "bin").mkdir()
    for name, words in {"python": "", "sklearn-uhc": "-m sklearn_uhc"}.items():
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    env = os.environ | {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def run(line):
        return subprocess.run(line, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True)

    return run


def test_all_that_the_page_tells_to_type(shell, tmp_path):
    pytest.importorskip("tomllib")  # Python 3.11
    commands = 0
    for kind, block in BLOCKS:
        if kind != "console":
            (tmp_path / block.splitlines()[0].removeprefix("# ")).write_text(block)
            continue
        for line, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.M):
            if line.startswith("pip install"):
                continue
            done = shell(line)
            assert done.returncode == 0, f"{line}: {done.stderr}"
            found = re.fullmatch(pattern_of(shown), done.stdout)
            assert found, f"{line} printed\n{done.stdout}"
            numbers = re.findall(r"\d+(?:\.\d+)?", shown)
            assert [*map(float, found.groups())] == pytest.approx([*map(float, numbers)], rel=0.05, abs=1)
            assert "warning" not in done.stderr
            commands += 1
    assert commands == 9
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
    others = "{'pandas', 'scipy', 'sklearn', 'sklearn_uhc'}"
    run_alone = f"import runpy, sys; runpy.run_path('run.py'); print({others} & {{*sys.modules}})"
    assert shell(f'python -c "{run_alone}"').stdout.endswith("set()\n")


def test_everything_on_the_page_is_run_or_shown():
    assert set(re.findall(r"^```(\w+)$", PAGE, flags=re.M)) == {"py", "toml", "console"}
    assert all(block.startswith("# ") for kind, block in BLOCKS if kind != "console")
