"""A model in an ONNX file as a teacher."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import gen_batches

from sklearn_uhc.spaces.label_space import shorten
from sklearn_uhc.teachers.answering import AnsweringTeacher, Floats, check_kind, look_like_probabilities, to_log_proba
from sklearn_uhc.teachers.onnx_inputs import make_feed, padded
from sklearn_uhc.teachers.onnx_model import ModelBytes, OnnxModel, load_model, name_of
from sklearn_uhc.utils.features import own_columns
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.parameters import check_flag, check_positive
from sklearn_uhc.utils.rows import count_rows, take_columns, take_rows

__all__ = ["OnnxTeacher"]

REMEDY = 'If the model returns scores or logits, pass output_kind="logits".'


class OnnxTeacher(AnsweringTeacher):
    """A classifier in an ONNX file, as a fitted classifier.

    An ONNX file holds numbers and operators. Unlike a pickle, it does not run Python code when it is loaded.
    Converters exist for scikit-learn, LightGBM, XGBoost, CatBoost, torch and others. It needs the packages onnx and
    onnxruntime: ``pip install 'sklearn-uhc[onnx]'``.

    Parameters
    ----------
    model : path or bytes
        The file, or its content. A path stays a path when the teacher is pickled; bytes are pickled with it.
    classes : list, default=None
        The k classes, in the order of the model's outputs. None: those named in the file.
    output : str, default=None
        Which output of the model to use. None: the only one that can be probabilities, or the one whose name says so.
    output_kind : {"auto", "proba", "log_proba", "logits"}, default="auto"
        What that output holds. "auto" means logits if the model ends in a linear layer or a convolution,
        log-probabilities if it ends in a LogSoftmax, and otherwise probabilities, whose rows must sum to 1.
    feature_names : list of str, default=None
        Names of the model's columns, for a model with one input matrix. The model then takes its columns from a frame
        by name, in any order. None: the names in the file, or else by position.
    batch_size : int, default=1024
        Rows per run of the model. A model with a fixed number of rows gets that many.
    n_threads : int, default=None
        Threads of one run. None: as many as there are cores.
    providers : list, default=None
        Execution providers of onnxruntime. None: CUDA if available, else the CPU.
    audit : bool, default=False
        True for a file from someone whom you do not trust: only operators of the ONNX standard that cannot loop are
        allowed, all weights must be in the file, and ``onnx.checker`` must accept it. `load_teacher` always does this.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        `classes`, or those named in the file.
    feature_names_in_ : ndarray of str
        Names of the model's columns, if they are known.

    Notes
    -----
    Classes are looked up in the metadata under "classes", "class_names" or "names" (a JSON list, or names by
    number), in ZipMap, in operators that return labels (tree ensembles, linear models, support vector machines), and
    in the list that labels are picked from. Column names are the names of the inputs, if there is one per column, or
    the metadata's "feature_names", a JSON list.

    Numbers are converted to the type that the model expects, usually float32, so trees may send a row that lies on a
    threshold to the other side. The model is loaded when it is first needed. X is read batch by batch, never copied as
    a whole.

    Examples
    --------
    >>> import numpy as np
    >>> from skl2onnx import to_onnx
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_uhc import OnnxTeacher
    >>> iris = load_iris()
    >>> X, y = iris.data.astype(np.float32), iris.target_names[iris.target]
    >>> model = to_onnx(LogisticRegression(max_iter=500).fit(X, y), X[:1])
    >>> teacher = OnnxTeacher(model.SerializeToString())
    >>> teacher.classes_.tolist()
    ['setosa', 'versicolor', 'virginica']
    >>> teacher.predict(X[:2]).tolist()
    ['setosa', 'setosa']
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        classes: Sequence[Any] | None = None,
        *,
        output: str | None = None,
        output_kind: str = "auto",
        feature_names: Sequence[str] | None = None,
        batch_size: int = 1024,
        n_threads: int | None = None,
        providers: Sequence[Any] | None = None,
        audit: bool = False,
    ) -> None:
        self.model = model
        self.classes = classes
        self.output = output
        self.output_kind = output_kind
        self.feature_names = feature_names
        self.batch_size = batch_size
        self.n_threads = n_threads
        self.providers = providers
        self.audit = audit

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, in the order of the outputs."""
        loaded = self._load()
        names = loaded.classes if self.classes is None else list(self.classes)
        if names is None:  # an AttributeError, so that class_lists can name the classes instead
            raise AttributeError(f"{name_of(self.model)} does not name its classes: pass classes=[...] to OnnxTeacher.")
        if loaded.n_columns not in (None, len(names)) and (loaded.n_columns, len(names)) != (1, 2):
            raise ValueError(
                f"classes has {len(names)} entries, but output {loaded.output!r} of {name_of(self.model)} has "
                f"{loaded.n_columns} columns: name every one, in their order."
            )
        return np.asarray(names)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the model's columns."""
        names = self._load().feature_names if self.feature_names is None else list(self.feature_names)
        if names is None:
            raise AttributeError(f"{name_of(self.model)} does not name its columns.")
        return np.asarray(names, dtype=object)

    def predict_log_proba(self, X: Any) -> Floats:
        """Return log-probabilities.

        Parameters
        ----------
        X : array, frame, sparse matrix, list of strings or torch Dataset with n rows
            In the shape that the model expects. From a frame, the model gets its own columns if it knows their names.

        Returns
        -------
        log_proba : ndarray of shape (n, k)
            In the precision of the model's output, float32 at least.
        """
        loaded, n = self._load(), count_rows(X)
        columns = own_columns(self, X, type(self).__name__)
        X = X.tocsr() if issparse(X) else X
        out: Floats | None = None
        for rows in gen_batches(n, loaded.inputs[0].batch or int(self.batch_size)):
            part = take_rows(X, rows)
            answer = self._run(loaded, part if columns is None else take_columns(part, columns), rows)
            out = np.empty((n, answer.shape[1]), answer.dtype) if out is None else out
            out[rows] = answer
        assert out is not None
        return out

    def _run(self, loaded: OnnxModel, part: Any, rows: slice) -> Floats:
        """Run the model on one batch."""
        n, batch = rows.stop - rows.start, loaded.inputs[0].batch
        feed = make_feed(loaded.inputs, part)
        values = loaded.session.run([loaded.output], feed if batch in (None, n) else padded(feed, batch))[0][:n]
        kind = loaded.output_kind if self.output_kind == "auto" else self.output_kind
        if rows.start == 0 and self.output_kind == "auto" and kind == "logits" and look_like_probabilities(values):
            raise ValueError(
                f"Output {loaded.output!r} of {name_of(self.model)} comes from an operator that returns logits, but "
                'its rows sum to 1: pass output_kind="proba" or output_kind="logits".'
            )
        n_classes = self._n_classes(loaded, values)
        if kind == "logits" and loaded.mirrored and n_classes == 2 and (values[:, 0] == -values[:, 1]).all():
            values = values[:, 1]  # one score; softmax of both columns would count it twice
        return to_log_proba(values, kind, n, n_classes, f"Output {loaded.output!r} of {name_of(self.model)}", REMEDY)

    def _n_classes(self, loaded: OnnxModel, values: Any) -> int:
        names = loaded.classes if self.classes is None else self.classes
        if names is not None:
            return len(names)
        return 2 if values.ndim == 1 or values.shape[1] == 1 else values.shape[1]

    def _load(self) -> OnnxModel:
        """Return the model, which is loaded once for these parameters."""
        wanted = self.model, self.output, self.n_threads, self.providers, self.audit
        if getattr(self, "_loaded_for", None) != wanted:
            self._check_parameters()
            self._loaded = load_model(*wanted)
            self._loaded_for = wanted
            self._warn_if_reordered()
        return self._loaded

    def _check_parameters(self) -> None:
        if not isinstance(self.model, (str, os.PathLike, bytes)):
            raise TypeError(
                f"model must be the path of an ONNX file or its bytes, got {type(self.model).__name__}. For an object "
                "of the onnx package, pass model.SerializeToString()."
            )
        check_kind("output_kind", self.output_kind, "auto")
        check_positive("batch_size", self.batch_size, integer=True)
        check_flag("audit", self.audit)
        if self.n_threads is not None:
            check_positive("n_threads", self.n_threads, integer=True)

    def _warn_if_reordered(self) -> None:
        own, given = self._loaded.classes, None if self.classes is None else np.asarray(self.classes).tolist()
        if own is not None and given is not None and own != given and set(own) == set(given):
            warn_user(
                f"classes holds the classes of {name_of(self.model)} in another order, which renames its outputs: "
                f"{shorten(own)} become {shorten(given)}. If that is not what you want, leave classes out."
            )

    def _decides_answers(self) -> Any:
        """Return what the answers depend on: the content of the file, not its path or how it is run."""
        return self._load().digest, self.classes, self._load().output, self.output_kind, self.feature_names

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {key: value for key, value in state.items() if key not in ("_loaded", "_loaded_for")}

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        if type(self.model) is not bytes:
            return str(super().__repr__(N_CHAR_MAX))
        shown = copy.copy(self)
        shown.model = ModelBytes(self.model)
        return repr(shown)
