"""`sklearn-uhc inspect`: what files hold, and what a merge of them could tell."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from sklearn_uhc import LabelSpace
from sklearn_uhc.command.console import CommandError, Console
from sklearn_uhc.command.recorded import read_table
from sklearn_uhc.command.sources import Source, checksum, class_type, open_sources, own_classes
from sklearn_uhc.estimators.lineage import KEY as LINEAGE
from sklearn_uhc.estimators.lineage import lineage_from_json
from sklearn_uhc.inspection import suggest_harmonization
from sklearn_uhc.spaces.undetermined import listed, warnings_of_sets


def run(given: Any, console: Console) -> tuple[dict[str, Any], list[str]]:
    """Describe every file, and the class lists together."""
    sources = open_sources(given.files, None, given.trust_pickle)
    kind = class_type(sources)
    files = [_describe(source, given.id, kind, console) for source in sources]
    lines = [line for file in files for line in _lines(file)]
    found: dict[str, Any] = {"files": files}
    if len(files) > 1:
        found["together"] = _together(
            {source.name: file["classes"] for source, file in zip(sources, files, strict=True)}
        )
        lines += _lines_together(found["together"])
    return found, lines


def _describe(source: Source, id_column: str | None, kind: Any, console: Console) -> dict[str, Any]:
    """Return what a file holds."""
    found: dict[str, Any] = {"path": source.path, "name": source.name, "sha256": checksum(source.path)}
    if source.is_answers:
        log_p, classes = read_table(source.path, id_column, None, kind)
        return found | {"kind": "answers", "classes": list(classes), "rows": len(log_p)}
    classes, card = own_classes(source), getattr(source.teacher, "card_", None)
    if card is not None:
        told = {key: card[key] for key in ("model", "description", "versions")}
        columns = [part["name"] for part in card["inputs"]] if card["columns"] else None
        membership = card["membership"] is not None
        return found | {"kind": "package", "classes": classes, **told, "columns": columns, "membership": membership,
                        "lineage": card[LINEAGE]}  # fmt: skip
    if hasattr(source.teacher, "_load"):
        names = getattr(source.teacher, "feature_names_in_", None)
        columns = None if names is None else np.asarray(names).tolist()
        return found | {"kind": "ONNX", "classes": classes, "columns": columns, "lineage": _lineage(source, console)}
    lineage = getattr(source.teacher, "lineage_", None)
    return found | {"kind": f"pickle of {type(source.teacher).__name__}", "classes": classes, "lineage": lineage}


def _lineage(source: Source, console: Console) -> dict[str, Any] | None:
    """Return the lineage in the metadata of an ONNX file; other tools may use the same key for something else."""
    text = source.teacher._load().session.get_modelmeta().custom_metadata_map.get(LINEAGE)
    try:
        return None if text is None else lineage_from_json(text)
    except ValueError as error:
        console.warn(f"{source.path}: {error}.")
        return None


def _together(lists: dict[str, list[Any]]) -> dict[str, Any]:
    """Return what the class lists share, what they leave open, and names that may mean the same."""
    try:
        space = LabelSpace(lists)
    except (ValueError, TypeError) as error:
        raise CommandError(f"{' and '.join(lists)}: {error}") from error
    owners = {label: [name for name, own in lists.items() if label in own] for label in space.classes.tolist()}
    return {
        "summary": space.describe(),
        "classes": [{"class": label, "known_by": names} for label, names in owners.items()],
        "identified": space.is_identified,
        "groups": [group.tolist() for group in space.groups()],
        "left_open": warnings_of_sets(space, with_rank=True) if space.has_sets else [],
        "names": [str(suggestion) for suggestion in suggest_harmonization(lists)],
    }


def _lines(file: dict[str, Any]) -> list[str]:
    """Return a file as text."""
    size = f", {file['rows']} rows" if "rows" in file else ""
    model = f" of {file['model']}" if "model" in file else ""
    lines = [
        f"{file['path']}: {file['kind']}{model}{size}",
        f"  {len(file['classes'])} classes: {listed(file['classes'])}",
    ]
    if file.get("description"):
        lines.append(f"  description: {file['description']}")
    if file.get("columns"):
        lines.append(f"  columns: {listed(file['columns'])}")
    if file.get("membership"):
        lines.append("  says whether a row is one of its classes at all")
    lines.append(f"  sha256 {file['sha256']}")
    if file.get("lineage"):
        lines += ["  lineage (as the file tells it):", *_spread(file["lineage"], "    ")]
    return lines


def _spread(value: dict[str, Any], indent: str) -> list[str]:
    """Return lineage as lines; it may hold anything that JSON can."""
    lines = []
    for key, part in value.items():
        if isinstance(part, list) and part:
            lines += [f"{indent}{key}:", *(f"{indent}  {_short(item)}" for item in part)]
        else:
            lines.append(f"{indent}{key}: {_short(part)}")
    return lines


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(part)}" for key, part in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _lines_together(found: dict[str, Any]) -> list[str]:
    """Return what the class lists say together, as text."""
    shared = [entry["class"] for entry in found["classes"] if len(entry["known_by"]) > 1]
    lines = ["together:", f"  {found['summary']}"]
    lines.append(f"  known by several: {listed(shared) if shared else 'none'}")
    for name in dict.fromkeys(entry["known_by"][0] for entry in found["classes"] if len(entry["known_by"]) == 1):
        alone = [entry["class"] for entry in found["classes"] if entry["known_by"] == [name]]
        lines.append(f"  known by {name} alone: {listed(alone)}")
    if len(found["groups"]) > 1:
        lines.append("  not identified: how probable one group is against another, since no teacher links them")
    return [
        *lines,
        *(f"  {text}" for text in found["left_open"]),
        *(f"  look-alike: {text}" for text in found["names"]),
    ]
