"""Base class of transformers from answers to answers, for steps between the teachers and the merge."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.answers.check import answers_of_input
from sklearn_uhc.answers.value import Answers, remembering
from sklearn_uhc.spaces.label_space import LabelSpace
from sklearn_uhc.utils.fitting import all_or_nothing
from sklearn_uhc.utils.lazy import lazily
from sklearn_uhc.utils.versioned import Versioned


class AnswerTransformer(Versioned, TransformerMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of transformers of `log_p`, (n, K) to (n, K), such as `TeacherCalibrator`.

    To write one of your own, derive from it and define `learn`, which learns from answers, and `apply`, which changes
    them. This class checks arrays, names and silence. Its parameters are `class_lists`, and optionally
    `teacher_weight` and `abstain`. Pass an instance as `calibrate` of a merge, which accepts any object with
    `fit_transform_answers` and `transform_answers`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.answers import AnswerTransformer
    >>> class Halved(AnswerTransformer):
    ...     def __init__(self, class_lists=None):
    ...         self.class_lists = class_lists
    ...
    ...     def learn(self, answers):
    ...         pass
    ...
    ...     def apply(self, answers):
    ...         return answers.log_p / 2
    >>> Halved([["a", "b"]]).fit_transform(np.array([[-2.0, 0.0]]))
    array([[-1.,  0.]])
    """

    class_lists: Any
    teacher_weight: Sequence[float] | None = None
    abstain: bool = False
    label_space_: LabelSpace

    @abstractmethod
    def learn(self, answers: Answers) -> None:
        """Learn from checked answers; set attributes that end in an underscore.

        Parameters
        ----------
        answers : Answers
            Answers of all teachers on unlabelled rows.
        """

    @abstractmethod
    def apply(self, answers: Answers) -> Any:
        """Return the changed answers.

        Parameters
        ----------
        answers : Answers
            Answers of all teachers.

        Returns
        -------
        log_p : array of shape (n, K)
            NaN where the answers are NaN.
        """

    def check_params(self) -> None:
        """Raise if a parameter is wrong, before anything is read."""

    @all_or_nothing
    @lazily
    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn from the teachers' answers on unlabelled rows.

        Parameters
        ----------
        X : array-like of shape (n, K)
            Log-probabilities or logits of all teachers, block by block in the order of `class_lists`.
        y : ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        self
        """
        self.check_params()
        self._learn_from(answers_of_input(self, X, reset=True))
        return self

    @lazily
    def transform(self, X: Any) -> Any:
        """Return the changed answers.

        Parameters
        ----------
        X : array-like of shape (n, K)
            Log-probabilities or logits of all teachers, block by block in the order of `class_lists`.

        Returns
        -------
        log_p : ndarray of shape (n, K)
            A torch tensor if X is one.
        """
        check_is_fitted(self, "label_space_")
        return remembering(self.apply(answers_of_input(self, X, reset=False)), self.label_space_)

    @all_or_nothing
    def fit_transform_answers(self, answers: Answers) -> Answers:
        """Learn from answers that are already checked, and return the changed answers.

        Parameters
        ----------
        answers : Answers
            Answers of all teachers. Their label space and weights are used, not this transformer's parameters.

        Returns
        -------
        answers : Answers
        """
        self.check_params()
        self.n_features_in_ = answers.space.n_outputs
        self._learn_from(answers)
        return self.transform_answers(answers)

    def transform_answers(self, answers: Answers) -> Answers:
        """Change answers that are already checked.

        Parameters
        ----------
        answers : Answers
            Answers of all teachers.

        Returns
        -------
        answers : Answers
        """
        return answers.saying(self.apply(answers))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns, `<teacher>__<class>`.

        Parameters
        ----------
        input_features : ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self, "label_space_")
        return np.asarray(self.label_space_.output_names)

    def _learn_from(self, answers: Answers) -> None:
        self.label_space_ = answers.space
        self.learn(answers)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
