"""Teachers from files, and from a TOML file for what needs more than a path.

Packages and ONNX files become teachers at once. Answer files need the rows that they belong to, so they wait for them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_uhc import OTHER, OnnxTeacher, RemoteTeacher, load_teacher
from sklearn_uhc.command.console import CommandError
from sklearn_uhc.command.files import check_input, suffix_of
from sklearn_uhc.teachers.answer_sources import PARQUET, TEXT

PACKAGE, ONNX, ANSWERS, PICKLES = ".teacher", ".onnx", (*TEXT, *PARQUET), (".joblib", ".pkl", ".pickle")
#: Options of answer files in TOML, which `read_answers` takes.
ANSWER_OPTIONS = ("scale", "accuracy", "ignore", "abstain")
#: Keys of every teacher in TOML; all others are options of its kind.
COMMON = ("name", "path", "url", "classes", "weight")


@dataclass
class Source:
    """A teacher as the user named it; `teacher` is None for an answer file until there are rows."""

    name: str
    path: str
    teacher: Any = None
    classes: list[Any] | None = None
    weight: float | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def is_answers(self) -> bool:
        """Whether this is a table of answers."""
        return self.path != "" and suffix_of(self.path) in ANSWERS


def open_sources(paths: Sequence[str], toml: str | None, trust_pickle: bool) -> list[Source]:
    """Load every teacher but answer files; raise an error that names the file."""
    sources = [_open(Source(name, path), trust_pickle) for name, path in zip(_names(paths), paths, strict=True)]
    if toml is not None:
        sources += [_open(source, trust_pickle) for source in _read_toml(toml)]
    names = [source.name for source in sources]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise CommandError(f"{twice}: two teachers have this name, or a file is named twice.")
    return sources


def load_pickle(path: str, trust_pickle: bool) -> Any:
    """Load a joblib or pickle file of a fitted model, if the user trusts it."""
    check_input(path, PICKLES, "a model")
    if not trust_pickle:
        raise CommandError(
            f"{path}: a pickle can run any code when it is loaded; pass --trust-pickle if you trust its maker, or "
            "ask for a package, which the owner makes with `sklearn-uhc pack`."
        )
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:  # unpickling may raise anything
        raise CommandError(f"{path}: it cannot be loaded ({type(error).__name__}: {error}).") from error


def _names(paths: Sequence[str]) -> list[str]:
    """Return the names of files without folder and suffix, or whole paths if these are not unique."""
    stems = [Path(path).stem for path in paths]
    unique = len(set(stems)) == len(stems) and all(stems)
    return [name.replace("__", "_") for name in (stems if unique else paths)]


def _open(source: Source, trust_pickle: bool) -> Source:
    """Load a teacher; of an answer file, check only that it exists."""
    if source.teacher is not None:
        return source
    kind = check_input(source.path, (PACKAGE, ONNX, *ANSWERS, *PICKLES), "a teacher")
    if kind in ANSWERS:
        _check_options(source, ANSWER_OPTIONS)
        return source
    if kind in PICKLES:
        _check_options(source, ())
        source.teacher = load_pickle(source.path, trust_pickle)
    elif kind == PACKAGE:
        _check_options(source, _keywords(load_teacher))
        source.teacher = load_teacher(source.path, **source.options)
    else:
        _check_options(source, _keywords(OnnxTeacher))
        source.teacher = open_onnx(source.path, **source.options)
    if kind != PACKAGE:
        source.teacher.sha256_ = checksum(source.path)
    return source


def open_onnx(path: str, **options: Any) -> OnnxTeacher:
    """Load an ONNX file as a teacher after the audit that packages get."""
    try:
        teacher = OnnxTeacher(path, audit=True, **options)
        teacher._load()
    except (ValueError, OSError) as error:
        raise CommandError(f"{path}: {error}") from error
    return teacher


def checksum(path: str) -> str:
    """Return the checksum of a file as `sha256sum` does."""
    return sha256(Path(path).read_bytes()).hexdigest()


def _read_toml(path: str) -> list[Source]:
    try:
        import tomllib
    except ModuleNotFoundError as error:  # Python 3.10
        raise CommandError(f"{path}: reading TOML needs Python 3.11 or newer; name the files instead.") from error
    check_input(path, (".toml",), "the file of teachers")
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise CommandError(f"{path}: it is not TOML ({error}).") from error
    tables = content.get("teacher")
    if set(content) != {"teacher"} or not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise CommandError(f"{path}: it must consist of [[teacher]] tables, each with a name and a path or url.")
    return [_from_table(table, path, i) for i, table in enumerate(tables)]


def _from_table(table: dict[str, Any], toml: str, i: int) -> Source:
    where = f"{toml}: teacher {table.get('name', i)!r}"
    if ("path" in table) == ("url" in table):
        raise CommandError(f"{where} needs either a path or a url.")
    name = table.get("name", Path(str(table.get("path", f"teacher {i}"))).stem)
    weight = table.get("weight")
    if not isinstance(name, str) or isinstance(weight, bool) or not isinstance(weight, (int, float, type(None))):
        raise CommandError(f"{where}: name must be a string and weight a number.")
    if not isinstance(table.get("classes", []), list):
        raise CommandError(f"{where}: classes must be a list.")
    classes = [_entry(entry) for entry in table["classes"]] if "classes" in table else None
    options = {key: value for key, value in table.items() if key not in COMMON}
    if "path" in table:
        file = str(Path(toml).parent / str(table["path"]))
        return Source(name, file, classes=classes, weight=weight, options=options)
    if classes is None:
        raise CommandError(f"{where}: a url needs classes, in the order of the server's answers.")
    return _server(Source(name, "", classes=classes, weight=weight, options=options), table["url"], where)


def _server(source: Source, url: Any, where: str) -> Source:
    """Return a source with its teacher, which is not called yet."""
    classes: list[Any] = source.classes or []
    _check_options(source, _keywords(RemoteTeacher), where)
    # The server's own names of its columns are not known: sets are for the class list of the merge.
    columns = [f"{k}" for k in range(len(classes))] if any(_is_set(c) for c in classes) else classes
    try:
        source.teacher = RemoteTeacher(url, columns, **source.options)
        source.teacher._check_parameters()
    except (ValueError, TypeError) as error:
        raise CommandError(f"{where}: {error}") from error
    return source


def _entry(entry: Any) -> Any:
    """Return a class list's entry: a list is a set of classes, {other = true} all classes that are not named."""
    if isinstance(entry, list):
        return tuple(entry)
    return OTHER if entry == {"other": True} else entry


def _is_set(entry: Any) -> bool:
    return entry is OTHER or isinstance(entry, tuple)


def _keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the options that a function or class takes by name only."""
    found = inspect.signature(function).parameters.values()
    return tuple(p.name for p in found if p.kind is p.KEYWORD_ONLY)


def _check_options(source: Source, known: Sequence[str], where: str | None = None) -> None:
    for name in source.options:
        if name not in known:
            allowed = ", ".join(sorted({*COMMON, *known}))
            raise CommandError(f"{where or source.path}: unknown key {name!r}; the keys are {allowed}.")


def class_type(sources: Sequence[Source]) -> Callable[[Any], Any] | None:
    """Return how column names of answer files become classes: as numbers, if all other teachers' classes are."""
    kinds = {type(label) for source in sources if source.teacher is not None for label in own_classes(source)}
    return next(iter(kinds)) if len(kinds) == 1 and kinds <= {int, float} else None


def own_classes(source: Source) -> list[Any]:
    """Return the classes that a teacher names, alone or in sets; raise an error if it names none."""
    try:
        own = source.classes if source.classes is not None else np.asarray(source.teacher.classes_).tolist()
    except AttributeError as error:
        raise CommandError(
            f"{source.path}: it does not name its classes; name them in a file for --teachers: a [[teacher]] with path "
            "and classes."
        ) from error
    return [label for entry in own for label in (entry if isinstance(entry, tuple) else [entry]) if label is not OTHER]
