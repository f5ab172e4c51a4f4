"""
A convolutional network from a network, a forest and a logistic regression
===========================================================================

Three sites have trained three kinds of image classifiers, each for different classes. Without their data, one small
convolutional network learns all the classes: from merged soft labels, and by direct backpropagation.

The images are digits of 8 x 8 pixels. With a folder that has ``fashion_mnist.npz``, they are those of Fashion-MNIST::

    UHC_DATA=FOLDER python docs/examples/cnn_student.py
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from skorch import NeuralNetClassifier
from torch import nn

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TorchTeacher

# %%
# Images are floats of the shape (n, channels, height, width). The first third trains the teachers, the second third
# has no labels, and the last third is the test set.

if "UHC_DATA" in os.environ:
    data = np.load(Path(os.environ["UHC_DATA"]) / "fashion_mnist.npz")
    X, y = data["X_train"][:9000] / 255.0, data["y_train"][:9000]
    names = [str(name) for name in data["class_names"]]
else:
    X, y = load_digits(return_X_y=True)
    X, names = X.reshape(-1, 8, 8) / 16.0, [str(digit) for digit in range(10)]
X, y = X[:, None].astype(np.float32), np.array(names)[y]
third = len(X) // 3

# %%
# The first teacher and the student have this network.


class SmallCNN(nn.Module):
    """Two convolutions, pooled to 3 x 3, and a linear layer."""

    def __init__(self, n_classes=10):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(288, n_classes),
        )  # fmt: skip

    def forward(self, X):
        """Return logits."""
        return self.layers(X)


def net(n_classes):
    return NeuralNetClassifier(
        SmallCNN, module__n_classes=n_classes, criterion=nn.CrossEntropyLoss, optimizer=torch.optim.Adam, lr=0.003,
        max_epochs=15, batch_size=64, iterator_train__shuffle=True, train_split=None, verbose=0,
    )  # fmt: skip


# %%
# The teachers: the scikit-learn classifiers flatten the images first.

torch.manual_seed(0)
lists = [names[:5], names[3:8], names[6:] + names[:2]]
rows = [np.flatnonzero(np.isin(y[:third], known)) for known in lists]
flatten = FunctionTransformer(lambda images: np.asarray(images).reshape(len(images), -1))
cnn = net(len(lists[0])).fit(X[rows[0]], np.searchsorted(np.sort(lists[0]), y[rows[0]])).module_
forest = make_pipeline(flatten, RandomForestClassifier(random_state=0)).fit(X[rows[1]], y[rows[1]])
logistic = make_pipeline(flatten, StandardScaler(), LogisticRegression(C=0.01, max_iter=500)).fit(
    X[rows[2]], y[rows[2]]
)
teachers = [TorchTeacher(cnn, sorted(lists[0])), forest, logistic]

# %%
# One network over all classes, from soft labels and by direct backpropagation. `random_state` seeds torch.

unlabelled, test = X[third : 2 * third], slice(2 * third, None)
for title, params in {"soft labels": {}, "backpropagation": {"backprop": True, "method": "ce"}}.items():
    student = SoftLabelClassifier(net(len(names)), random_state=0)
    clf = HeterogeneousDistiller(teachers, student, temperature=1, **params).fit(unlabelled)
    print(f"{title}: accuracy {clf.score(X[test], y[test]):.3f} over {len(clf.classes_)} classes")

# %%
# Some new images, and what the last network predicts:

figure, axes = plt.subplots(2, 6, figsize=(8, 3.2), layout="constrained")
for ax, image, said in zip(axes.ravel(), X[test], clf.predict(X[test][:12])):
    ax.imshow(image[0], cmap="Greys")
    ax.set_title(said, fontsize=10)
    ax.axis("off")
plt.show()

# %%
# For comparison, supervised training on all the teachers' data in one place:

seen = np.unique(np.concatenate(rows))
torch.manual_seed(0)
ceiling = net(len(names)).fit(X[seen], np.searchsorted(np.sort(names), y[seen]))
print(f"supervised: accuracy {np.mean(np.sort(names)[ceiling.predict(X[test])] == y[test]):.3f}")
