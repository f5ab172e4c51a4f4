"""
Ten digits from three classifiers that know six each
====================================================

Three sites have trained classifiers of handwritten digits. Each knows six of the ten digits, and none may share its
images. With 500 unlabelled images, they are merged into one classifier of all ten digits.
"""

# sphinx_gallery_thumbnail_number = 3

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import HeterogeneousDistiller
from sklearn_uhc.inspection import ClassOverlapDisplay, SoftLabelDisplay, TeacherAgreementDisplay

# %%
# The teachers
# ------------
# These are stand-ins for your classifiers: a forest, a logistic regression and nearest neighbours, each fitted on
# its own images of its own digits. From here on, only the fitted classifiers are used.

X, y = load_digits(return_X_y=True)
lists = [[0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8], [0, 1, 6, 7, 8, 9]]
models = [
    RandomForestClassifier(random_state=0),
    make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500)),
    KNeighborsClassifier(),
]
teachers = []
for i, (model, known) in enumerate(zip(models, lists)):
    rows = np.arange(300 * i, 300 * (i + 1))  # no image is in two places
    rows = rows[np.isin(y[rows], known)]
    teachers.append(model.fit(X[rows], y[rows]))

X_unlabelled, X_test, y_test = X[900:1400], X[1400:], y[1400:]

# %%
# One classifier
# --------------
# ``fit`` needs unlabelled images only. The student can be any classifier.

names = ["forest", "logistic", "neighbours"]
clf = HeterogeneousDistiller(dict(zip(names, teachers)), student=KNeighborsClassifier(10))
clf.fit(X_unlabelled)

# %%
# No teacher alone can get far on ten digits. The merged classifier can, and does not need the teachers any more:

for teacher in teachers:
    print(f"{type(teacher).__name__:24s} accuracy on all digits {teacher.score(X_test, y_test):.3f}")
print(f"{'merged':24s} accuracy on all digits {clf.score(X_test, y_test):.3f}")

# %%
# What the merge is based on
# --------------------------
# The first plot shows which teacher knows which digit. The second shows how often two teachers choose the same digit
# among those that both know:

figure, axes = plt.subplots(1, 2, figsize=(10, 2.8), layout="constrained")
ClassOverlapDisplay.from_estimator(clf, ax=axes[0])
TeacherAgreementDisplay.from_estimator(clf, X_unlabelled, ax=axes[1])
plt.show()

# %%
# The mean merged soft label of every digit, and the weight that ``balance=True`` would give it:

SoftLabelDisplay.from_estimator(clf, X_unlabelled)
plt.show()

# %%
# With the labels of the test images, we see where the merged classifier is wrong:

ConfusionMatrixDisplay.from_predictions(y_test, clf.predict(X_test), cmap="Blues", colorbar=False)
plt.show()
