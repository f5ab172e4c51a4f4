"""Pickles include the release that wrote them, and those of every release can still be loaded."""

import inspect
import json
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

import sklearn_uhc
from sklearn_uhc import LogitFactorization, SoftLabelClassifier, UnifiedEnsemble
from sklearn_uhc.utils import versioned
from tests.models.__main__ import answers

FOLDER = Path(__file__).parent / "models"
STORED = sorted(FOLDER.glob("*/*.pkl"))
#: For developers who change the attributes of estimators.
REMEDY = "Before the release run `python -m tests.models`; after it, teach __setstate__ the old attributes."
#: These contain pickles of scikit-learn, which guarantees nothing between its releases.
WITH_SKLEARN = ("student", "distiller")
ESTIMATORS = [
    found
    for name in sklearn_uhc.__all__
    if inspect.isclass(found := getattr(sklearn_uhc, name)) and issubclass(found, BaseEstimator)
]


@pytest.mark.parametrize("path", STORED, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_models_of_every_release_answer_as_they_did(path):
    facts = json.loads((path.parent / "answers.json").read_text())
    if path.stem in WITH_SKLEARN and facts["scikit-learn"].split(".")[:2] != sklearn.__version__.split(".")[:2]:
        pytest.skip(f"it holds a model of scikit-learn {facts['scikit-learn']}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = pickle.loads(path.read_bytes())
        found = answers(model, np.array(facts["X"], dtype=np.float32))
    except Exception as error:
        pytest.fail(f"{path.parent.name} cannot be read any more: {error!r}. {REMEDY}")
    np.testing.assert_allclose(found, facts["answers"][path.stem], atol=1e-5, err_msg=REMEDY)


def test_every_release_leaves_its_models_behind():
    assert len(STORED) >= 8
    assert sum(path.stat().st_size for path in FOLDER.rglob("*.*")) < 200_000 * len(list(FOLDER.glob("*.*.*")))
    released = sklearn_uhc.__version__
    assert (FOLDER / released).is_dir(), "run python -m tests.models"


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda k: k.__name__)
def test_every_estimator_stores_its_version(kind):
    assert issubclass(kind, versioned.Versioned)
    assert kind.__mro__.index(versioned.Versioned) < kind.__mro__.index(BaseEstimator)


def test_another_version_is_warned_of(data, monkeypatch):
    X, y = data
    teachers = [LogisticRegression().fit(X[y != k], y[y != k]) for k in (0, 1)]
    for model in (LogitFactorization(), UnifiedEnsemble(teachers).fit(X), SoftLabelClassifier(LogisticRegression())):
        text = pickle.dumps(model)
        pickle.loads(text)  # the same release: not a word
        with monkeypatch.context() as patch:
            patch.setattr(sklearn_uhc, "__version__", "9.9")
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                loaded = pickle.loads(text)
        named = rf"{type(model).__name__} .*{sklearn_uhc.__version__}.* 9\.9\..*Fit it again"
        assert any(re.search(named, str(warning.message)) for warning in said)
        assert versioned.KEY not in vars(loaded)
        assert not hasattr(model, versioned.KEY)
