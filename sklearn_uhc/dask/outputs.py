"""Fitted estimators for the workers: without what only `fit` needs, and with the store of blocks."""

from __future__ import annotations

import copy
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.dask.store import BlockStore, key_of_block
from sklearn_uhc.teachers import TeacherOutputs
from sklearn_uhc.teachers.fingerprint import Hasher, fingerprint
from sklearn_uhc.teachers.roster import Roster
from sklearn_uhc.utils.response import check_not_nan


class StoredOutputs(TeacherOutputs):
    """Teacher outputs that call each teacher once per block and store its answers, separately per teacher."""

    stores: list[BlockStore]

    def _read(self, roster: Roster, X: Any) -> list[NDArray[np.floating[Any]]]:
        """Return stored answers for a block, or call the teachers; if one fails, earlier answers are kept."""
        key = key_of_block(X)
        found: list[NDArray[np.floating[Any]]] = []
        for i, store in enumerate(self.stores):
            answer = store.load(key, len(X))
            if answer is None:
                n_classes = len(roster.space.class_lists[i])
                answer = store.save(key, self._read_one(roster.teachers[i], X, n_classes, roster.called(i), None))
            elif not self.abstain:  # it may have been stored with abstain=True
                check_not_nan(answer, roster.called(i), "What is stored", False)
            found.append(answer)
        return found


def outputs_for_workers(outputs: TeacherOutputs, store: Any) -> TeacherOutputs:
    """Return fitted teacher outputs for use on blocks, with a store if one is given."""
    light: Any = StoredOutputs.__new__(StoredOutputs) if store is not None else TeacherOutputs.__new__(TeacherOutputs)
    light.__dict__.update(vars(outputs), teachers=None, _kept=None, _earlier=None, store=None, n_jobs=None, verbose=0)
    if store is not None:
        light.stores = open_answer_stores(outputs, store)
    return light


def open_answer_stores(outputs: TeacherOutputs, folder: str | os.PathLike[str]) -> list[BlockStore]:
    """Return one store per teacher; its key is the teacher's fingerprint."""
    roster = outputs.roster_
    stores = []
    for i, teacher in enumerate(roster.teachers):
        columns = roster.space.column_names[roster.space.blocks[i]]
        about = {"kind": "log-probabilities", "teacher": roster.called(i)}
        stores.append(BlockStore(folder, "answers", fingerprint(teacher), [str(name) for name in columns], about))
    return stores


def merger_for_workers(merger: Any, store: Any = None) -> Any:
    """Return a fitted merge for use on blocks; `store` defaults to the store of the merge."""
    light = copy.copy(merger)
    folder = merger.store if store is None else store
    light.teachers, light.store = None, None
    if merger.teacher_outputs_ is not None:
        light.teacher_outputs_ = outputs_for_workers(merger.teacher_outputs_, folder)
    return light


def open_label_store(merger: Any, folder: str | os.PathLike[str]) -> BlockStore:
    """Return the store of a merge's soft labels; its key is a hash of teachers, steps, method and memberships."""
    roster, method, memberships = merger.roster_, merger.method_, merger.memberships_
    learnt = [{k: v for k, v in vars(step).items() if isinstance(v, np.ndarray)} for step in merger.steps_]
    scorers = None if memberships is None else (memberships.scorers, memberships.whose, memberships.weight)
    scale = None if merger.class_scale_ is None else merger.class_scale_.factors
    decides = (
        [fingerprint(teacher) for teacher in roster.teachers],
        [labels.tolist() for labels in merger.label_space_.class_lists],
        *(merger.teacher_outputs_.floor_, merger.teacher_weight_, learnt, [type(step) for step in merger.steps_]),
        *(type(method), _settings(method), scorers, merger.none_label, scale),
    )
    columns = [*(str(label) for label in merger.classes_), "row weight"]
    about = {
        "kind": "soft labels, and the weight of the row",
        "method": type(method).__name__,
        "settings": _settings(method),
        "teachers": [roster.called(i) for i in range(len(roster.teachers))],
        "floors": merger.teacher_outputs_.floor_.tolist(),
        "steps": [{name: value.tolist() for name, value in values.items()} for values in learnt],
    }
    return BlockStore(folder, "soft_labels", Hasher().of(decides).hex(), columns, about)


def _settings(method: Any) -> dict[str, Any]:
    """Return the parameters of a method that affect soft labels."""
    left_out = ("verbose", "class_lists", "n_jobs")
    return {name: value for name, value in sorted(method.get_params(deep=False).items()) if name not in left_out}
