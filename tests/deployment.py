"""The way from owners to deployment, with each party in its own process.

Owners pack their models. A receiver, in which pickle and torch cannot load anything, merges the packages and exports
the result: `python deployment.py receive folder`. A user with only numpy and onnxruntime runs it: `python deployment.py
deploy folder`.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np


def merge(folder, X, y, side):
    """Let owners pack models trained on the first half, and a receiver in another process merge on the second."""
    half = len(X) // 2
    pack_all(folder, X[:half], y[:half], side)
    np.savetxt(folder / "X.csv", X[half:], delimiter=",")
    np.savetxt(folder / "y.csv", y[half:])
    run(sys.executable, __file__, "receive", folder, env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])})


def deploy_alone(folder):
    """Run the result in a new virtual environment with numpy and onnxruntime; return what it prints."""
    venv.create(folder / "alone", with_pip=True)
    python = folder / "alone" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "numpy", "onnxruntime")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    assert run(python, "-c", "import importlib.util as u; print(u.find_spec('sklearn'))", env=environment) == "None\n"
    return run(python, __file__, "deploy", folder, env=environment)


def run(*command, **settings):
    """Run a command and return what it prints."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **settings)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def pack_all(folder, X, y, side):
    """Fit and pack five kinds of models, each with its own class list."""
    import lightgbm
    import torch
    import xgboost
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from sklearn_uhc import pack_teacher

    lists = [[0, 1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 7, 8, 9], [8, 9, 0, 1], [1, 3, 5, 7, 9]]
    models = [
        RandomForestClassifier(50, random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, random_state=0),
        xgboost.XGBClassifier(n_estimators=20, random_state=0),
        None,
    ]
    for i, (model, known) in enumerate(zip(models, lists, strict=True)):
        own = np.isin(y, known)
        codes = np.searchsorted(sorted(known), y[own])
        if model is None:
            module = train(torch, X[own], codes, len(known), side)
            pack_teacher(module, folder / f"{i}.teacher", X[:200], classes=[f"class {k}" for k in sorted(known)])
        else:
            model.fit(X[own], codes)
            pack_teacher(model, folder / f"{i}.teacher", X[:200], classes=[f"class {k}" for k in sorted(known)])


def train(torch, X, codes, n_classes, side):
    """Train a small convolutional network that takes flat images."""
    nn = torch.nn
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Unflatten(1, (1, side, side)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * (side // 2) ** 2, n_classes),
    )
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    inputs, targets = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(codes)
    for _ in range(40):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(inputs), targets).backward()
        optimizer.step()
    return module.eval()


def receive(folder):
    """Merge the packages without pickle, export the result, and store rows and answers for the deployment."""
    import pickle

    import sklearn.ensemble
    import torch

    from sklearn_uhc import HeterogeneousDistiller, export, load_teacher

    def refuse(*args, **kwargs):
        raise AssertionError("something was unpickled")

    pickle.load = pickle.loads = pickle.Unpickler = torch.load = refuse
    teachers = [load_teacher(path) for path in sorted(folder.glob("*.teacher"))]
    X = np.loadtxt(folder / "X.csv", delimiter=",")
    student = sklearn.ensemble.ExtraTreesClassifier(100, random_state=0)
    clf = HeterogeneousDistiller(teachers, student).fit(X)
    export(clf, folder / "merged.onnx", X)
    np.savetxt(folder / "P.csv", clf.predict_proba(X.astype(np.float32)), delimiter=",")
    (folder / "labels.txt").write_text("\n".join(clf.predict(X.astype(np.float32))))


def deploy(folder):
    """Run the result and compare; only numpy and onnxruntime are needed."""
    import onnxruntime

    X = np.loadtxt(folder / "X.csv", delimiter=",").astype(np.float32)
    label, P = onnxruntime.InferenceSession(folder / "merged.onnx").run(None, {"X": X})
    own = np.loadtxt(folder / "P.csv", delimiter=",")
    labels = np.array((folder / "labels.txt").read_text().split("\n"))
    error, different = float(np.abs(P - own).max()), int((label != labels).sum())
    truth = np.loadtxt(folder / "y.csv").astype(int)
    right = float((label == np.char.add("class ", truth.astype(str))).mean())
    print(f"error {error:.2g} labels {different} of {len(labels)} accuracy {right:.3f}")
    assert error <= 1e-5
    assert different == 0
    return right


if __name__ == "__main__":
    {"receive": receive, "deploy": deploy}[sys.argv[1]](Path(sys.argv[2]))
