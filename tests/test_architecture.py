"""Rooms import only what stands above them, and `import sklearn_uhc` stays light."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

import sklearn_uhc

#: The rooms of the package: each may import only what stands above it. Rooms of one line do not import each other.
ROOMS = [
    ["utils"],
    ["spaces"],
    ["answers"],
    ["solvers"],
    ["merging"],
    ["teachers", "students", "labels", "membership"],
    ["evidence"],
    ["estimators"],
    ["inspection"],
    ["exporting"],
    ["packages"],
    ["dask"],
    ["__init__"],
    ["command"],
    ["__main__"],
]
#: Those that are folders.
FOLDERS = [rooms for rooms in ROOMS if not rooms[0].startswith("__")]
ROOT = Path(sklearn_uhc.__file__).parent
FLOOR_OF = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}
OPTIONAL = [
    "torch",
    "skorch",
    "lightgbm",
    "xgboost",
    "catboost",
    "onnxruntime",
    "skl2onnx",
    "onnx",
    "httpx",
    "pyarrow",
    "dask",
    "matplotlib",
    "pandas",
    "polars",
    "tqdm",
]
MODULES = sorted(ROOT.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(source: str, package: str) -> Iterator[str]:
    """Yield the full names of everything that a file of `package` imports, anywhere and in any form."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            function = getattr(node.func, "attr", getattr(node.func, "id", None))
            name = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
            if function in ("import_module", "__import__") and isinstance(name, ast.Constant):
                yield resolve_name(str(name.value), package)


def imported_parts(source: str, path: Path) -> Iterator[str]:
    """Yield the parts of our package that a file imports; names of the package itself belong to its `__init__`."""
    package = ".".join(("sklearn_uhc", *path.relative_to(ROOT).parent.parts))
    for name in imports(source, package):
        first, _, rest = name.partition(".")
        if first == "sklearn_uhc":
            part = rest.split(".")[0]
            yield part if part in FLOOR_OF else "__init__"


def downward(source: str, path: Path) -> list[str]:
    """Return the rooms that a file imports but must not: those below its own, and its neighbours."""
    own = part_of(path)
    return [other for other in imported_parts(source, path) if other != own and FLOOR_OF[other] >= FLOOR_OF[own]]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_rooms_import_only_what_stands_above_them(path):
    assert downward(path.read_text(), path) == []


def test_every_file_is_in_a_room_and_the_docs_list_the_rooms():
    assert {part_of(path) for path in MODULES} == set(FLOOR_OF)
    page = (ROOT.parent / "docs" / "architecture.md").read_text()
    listed = re.search(r"```\n(utils/.*?)```", page, re.DOTALL)[1].splitlines()
    assert [re.findall(r"(\w+)/", line.split("   ")[0]) for line in listed] == FOLDERS


@pytest.mark.parametrize("room", [room for rooms in FOLDERS for room in rooms])
def test_every_room_says_what_it_is_for_and_what_it_may_import(room):
    text = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text()))
    assert 3 <= len(text.splitlines()) <= 4
    assert "import" in text


@pytest.mark.parametrize(
    "source",
    [
        "import sklearn_uhc.students",
        "import numpy, sklearn_uhc.students.twins as twins",
        "from sklearn_uhc import students",
        "from sklearn_uhc import spaces, students as s",
        "from sklearn_uhc.students import SoftLabelClassifier",
        "from .. import students",
        "from ..students.twins import TwinStrategy",
        "def later():\n    from sklearn_uhc import students",
        "if TYPE_CHECKING:\n    from sklearn_uhc import students",
        "import_module('sklearn_uhc.students')",
        "importlib.import_module(f'sklearn_uhc.students.{name}')",
        "importlib.import_module('..students', __package__)",
        "__import__('sklearn_uhc.students')",
    ],
)
def test_an_import_of_a_lower_room_or_a_neighbour_is_found_in_every_form(source):
    assert "students" in downward(source, ROOT / "merging" / "ce.py")
    assert "students" in downward(source, ROOT / "teachers" / "store.py")
    assert downward(source, ROOT / "students" / "twins.py") == []
    assert downward(source, ROOT / "estimators" / "ensemble.py") == []


def test_relative_imports_are_read_from_the_files_own_folder():
    assert downward("from . import students\nfrom .method import Merged", ROOT / "merging" / "ce.py") == []


@pytest.mark.parametrize(
    "source", ["import sklearn_uhc", "from sklearn_uhc import UnifiedEnsemble", "from .. import *"]
)
def test_nothing_inside_imports_the_package_itself(source):
    for room in ("spaces", "merging", "estimators"):
        assert downward(source, ROOT / room / "file.py") == ["__init__"]


@pytest.mark.parametrize("path", [p for p in MODULES if part_of(p) == "solvers"], ids=lambda p: p.name)
def test_solvers_know_neither_sklearn_nor_warnings(path):
    found = {name.split(".")[0] for name in imports(path.read_text(), "sklearn_uhc.solvers")}
    assert found.isdisjoint({"sklearn", "warnings", "joblib"})


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
except TypeError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'sklearn-uhc[torch]'" in shown
