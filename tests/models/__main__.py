"""Write models of the present release, with a few rows and the answers to them: run this once per release."""

import json
import pickle
from pathlib import Path

import numpy as np
import sklearn
from skl2onnx import to_onnx
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import sklearn_uhc
from sklearn_uhc import HeterogeneousDistiller, OnnxTeacher, SoftLabelClassifier, TeacherOutputs, UnifiedEnsemble


def models(X, y):
    """Estimators of ours by name; teachers are ONNX models, so that scikit-learn's own pickles are in students only."""
    teachers = []
    for k in range(3):
        fitted = LogisticRegression(max_iter=500).fit(X[y != k], y[y != k])
        teachers.append(OnnxTeacher(to_onnx(fitted, X[:1], options={"zipmap": False}).SerializeToString()))
    student = LogisticRegression(max_iter=500)
    soft = np.eye(3)[y] * 0.7 + 0.1
    ensembles = {f"ensemble_{m}": UnifiedEnsemble(teachers, method=m) for m in ("sd", "ce", "mf_p", "mf_lu", "mf_lf")}
    return {
        **{name: ensemble.fit(X) for name, ensemble in ensembles.items()},
        "outputs": TeacherOutputs(teachers).fit(X),
        "distiller": HeterogeneousDistiller(teachers, student).fit(X),
        "student": SoftLabelClassifier(student, temperature=2, classes=["a", "b", "c"]).fit(X, soft),
    }


def answers(model, X):
    """Probabilities, or what a transformer makes of X."""
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.transform(X)


def main():
    X, y = load_iris(return_X_y=True)
    X = X.astype(np.float32)
    folder = Path(__file__).parent / sklearn_uhc.__version__
    folder.mkdir(exist_ok=True)
    rows, known = X[::15], {}
    for name, model in models(X, y).items():
        (folder / f"{name}.pkl").write_bytes(pickle.dumps(model, protocol=4))
        known[name] = answers(model, rows).tolist()
    facts = {"scikit-learn": sklearn.__version__, "X": rows.tolist(), "answers": known}
    (folder / "answers.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
