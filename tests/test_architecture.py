"""Imports point inward only, and `import sklearn_uhc` stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sklearn_uhc

ROOT = Path(sklearn_uhc.__file__).parent
RINGS = {
    "_answers": 0,
    "_device": 0,
    "_diagram": 0,
    "_notes": 0,
    "_progress": 0,
    "_response": 0,
    "_rows": 0,
    "_unchanged": 0,
    "label_space": 0,
    "solvers": 0,
    "balance": 1,
    "calibration": 1,
    "losses": 1,
    "metrics": 1,
    "soft_labels": 1,
    "students": 1,
    "teachers": 1,
    "merging": 2,
    "distiller": 2,
    "ensemble": 2,
    "report": 2,
    "plots": 2,
    "__init__": 3,
}
OPTIONAL = [
    "torch",
    "skorch",
    "lightgbm",
    "xgboost",
    "catboost",
    "onnxruntime",
    "dask",
    "matplotlib",
    "pandas",
    "polars",
    "tqdm",
]
MODULES = sorted(ROOT.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_inward(path):
    own = part_of(path)
    for module in imports(path):
        if module.startswith("sklearn_uhc."):
            other = module.split(".")[1]
            same_part = other == own
            inward = RINGS[other] < RINGS[own] or (RINGS[other] == RINGS[own] and RINGS[own] in (0, 2))
            assert same_part or inward, f"{path.name} imports {module}: ring {RINGS[own]} to ring {RINGS[other]}"


@pytest.mark.parametrize("path", [p for p in MODULES if part_of(p) == "solvers"], ids=lambda p: p.name)
def test_solvers_know_neither_sklearn_nor_warnings(path):
    assert not [m for m in imports(path) if m.split(".")[0] in ("sklearn", "warnings", "joblib")]


def test_import_brings_no_optional_package_in():
    # scikit-learn brings in pandas by itself where it is installed: only what we add counts.
    code = (
        "import sys, sklearn.ensemble, sklearn.pipeline, sklearn.naive_bayes; before = set(sys.modules)\n"
        f"import sklearn_uhc; print([m for m in {OPTIONAL} if m in set(sys.modules) - before])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


def test_public_names_exist_and_are_documented():
    for name in sklearn_uhc.__all__:
        assert getattr(sklearn_uhc, name).__doc__


def test_everything_else_works_without_torch():
    code = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "skorch", "lightgbm", "xgboost", "catboost", "matplotlib", "tqdm", "numba"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, UnifiedEnsemble
X, y = load_iris(return_X_y=True)
teachers = [LogisticRegression(max_iter=500).fit(X[y != k], y[y != k]) for k in (0, 2)]
for method in ("sd", "ce", "mf_p", "mf_lu", "mf_lf"):
    HeterogeneousDistiller(teachers, RandomForestClassifier(5), method=method).fit(X).predict(X)
    UnifiedEnsemble(teachers, method=method).fit(X).predict_proba(X)
HeterogeneousDistiller(teachers, LogisticRegression(max_iter=500)).fit(X)
try:
    HeterogeneousDistiller(teachers, LogisticRegression(), backprop=True).fit(X)
except ImportError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'sklearn-uhc[torch]'" in shown
