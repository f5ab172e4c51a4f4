"""A student as the classifier of labelled rows."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from sklearn_uhc.students.direct import as_estimator, is_net
from sklearn_uhc.students.soft_label_classifier import SoftLabelClassifier


def as_template(classifier: Any) -> SoftLabelClassifier:
    """Return an unfitted `SoftLabelClassifier` at temperature 1; one of a network has an output for every class."""
    if not isinstance(classifier, SoftLabelClassifier):
        classifier = SoftLabelClassifier(classifier)
    last = as_estimator(classifier.estimator)
    while hasattr(last, "steps"):
        last = last.steps[-1][1]
    template: SoftLabelClassifier = clone(classifier)
    return template.set_params(temperature=1.0, classes=[] if is_net(last) else None)
