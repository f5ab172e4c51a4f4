"""
Diagnosing a bad merge
======================

A merge is as good as what goes in. Three things often go wrong: a teacher whose classes are misnamed, class lists that
do not connect, and unlabelled data from elsewhere. ``fit`` warns of all three, without a single label.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import HeterogeneousDistiller
from sklearn_uhc.inspection import ClassOverlapDisplay, SoftLabelDisplay, TeacherAgreementDisplay, teacher_report

X, y = load_digits(return_X_y=True)
X_unlabelled, X_test, y_test = X[900:1400], X[1400:], y[1400:]
lists = [[0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8], [0, 1, 6, 7, 8, 9], [0, 2, 4, 6, 8, 9]]


def teach(known, i, model=None):
    """Fit a classifier of some digits on its own images."""
    rows = np.arange(225 * i, 225 * (i + 1))
    rows = rows[np.isin(y[rows], known)]
    model = make_pipeline(StandardScaler(), LogisticRegression()) if model is None else model
    return model.fit(X[rows], y[rows])


def merge(teachers, rows, **params):
    """Merge teachers and print what ``fit`` warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(10), **params).fit(rows)
    for warning in caught:
        print(f"{warning.category.__name__}: {warning.message}\n")
    return clf


teachers = {name: teach(known, i) for i, (name, known) in enumerate(zip("ABCD", lists))}
good = merge(teachers, X_unlabelled)
print(f"all well: accuracy {good.score(X_test, y_test):.3f}, agreement {good.score(X_unlabelled):.3f}")

# %%
# A teacher whose classes are misnamed
# ------------------------------------
# Somebody has mixed up the order of the second teacher's classes. Nothing fails, but ``fit`` says that the list looks
# permuted, and that this teacher contradicts the others.

wrong = {"B": [4, 5, 6, 7, 8, 3]}
mixed_up = merge(teachers, X_unlabelled, class_lists=wrong)
print(f"accuracy {mixed_up.score(X_test, y_test):.3f}, agreement {mixed_up.score(X_unlabelled):.3f}")

# %%
# The student loses less than it might, as calibration makes such a teacher unsure. Do not rely on that. The teachers'
# agreement on the digits that they share shows who it is: its row and column stand out.

figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
for ax, clf, title in zip(axes, (good, mixed_up), ("as it should be", "second teacher misnamed")):
    TeacherAgreementDisplay.from_estimator(clf, X_unlabelled, ax=ax)
    ax.set_title(title, fontsize=10)
plt.show()

# %%
# Class lists that do not connect
# -------------------------------
# Without a digit that two teachers share, it is unknown how probable one group is relative to the other. There is a
# warning, and the picture shows the gap. A teacher that knows classes of both groups would close it.

apart = [teach([0, 1, 2, 3, 4], 0, KNeighborsClassifier(15)), teach([5, 6, 7, 8, 9], 1), teach([7, 8, 9], 2)]
disconnected = merge(apart, X_unlabelled)
print(f"accuracy {disconnected.score(X_test, y_test):.3f}")
ClassOverlapDisplay.from_estimator(disconnected)
plt.show()

# %%
# Unlabelled data from elsewhere
# ------------------------------
# Rows that show no digits at all get soft labels too, and not even unsure ones: teachers are as certain about nonsense
# as about digits. But the teachers stop agreeing on the digits that they share, which ``fit`` notices, and a few
# classes take most of the rows.

noise = np.random.default_rng(0).permuted(X_unlabelled, axis=1)  # the same grey values, in the wrong places
elsewhere = merge(teachers, noise)
print(f"accuracy {elsewhere.score(X_test, y_test):.3f}")

figure, axes = plt.subplots(2, 3, figsize=(12, 6), layout="constrained")
for row, data, title in zip(axes, (X_unlabelled, noise), ("digits", "from elsewhere")):
    TeacherAgreementDisplay.from_estimator(good, data, ax=row[0])
    SoftLabelDisplay.from_estimator(good, data, kind="top", ax=row[1])
    SoftLabelDisplay.from_estimator(good, data, kind="entropy", ax=row[2])
    row[0].set_ylabel(title)
plt.show()

# %%
# All of it on one page
# ---------------------
# ``teacher_report`` looks for all this at once and says what is wrong, here of the misnamed teacher. It shows itself as
# below; ``report.to_html("report.html")`` saves the page, to send to a colleague.

log_p = good.merger_.teacher_outputs_.transform(X_unlabelled)
misnamed = dict(zip("ABCD", [lists[0], wrong["B"], *lists[2:]]))
teacher_report(log_p=log_p, class_lists=misnamed)
