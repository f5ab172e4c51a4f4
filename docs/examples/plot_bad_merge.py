"""
Diagnosing a bad merge
======================

A merge is only as good as its input. Four things go wrong in practice: a teacher whose classes are misnamed, class
lists that do not connect, a teacher whose zeros and ones mean nothing, and unlabelled rows of other data. Each leaves a
trace that you can see without a single label.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import (
    ClassOverlapDisplay,
    HeterogeneousDistiller,
    SoftLabelDisplay,
    TeacherAgreementDisplay,
    teacher_report,
)

X, y = load_digits(return_X_y=True)
X_unlabelled, X_test, y_test = X[900:1400], X[1400:], y[1400:]
lists = [[0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8], [0, 1, 6, 7, 8, 9], [0, 2, 4, 6, 8, 9]]


def teach(known, i, model=None):
    """Fit a classifier of some digits on its own images."""
    rows = np.arange(225 * i, 225 * (i + 1))
    rows = rows[np.isin(y[rows], known)]
    model = make_pipeline(StandardScaler(), LogisticRegression()) if model is None else model
    return model.fit(X[rows], y[rows])


teachers = {name: teach(known, i) for i, (name, known) in enumerate(zip("ABCD", lists))}
good = HeterogeneousDistiller(teachers, KNeighborsClassifier(10)).fit(X_unlabelled)
print(f"all correct: accuracy {good.score(X_test, y_test):.3f}, agreement {good.score(X_unlabelled):.3f}")

# %%
# A teacher whose classes are misnamed
# ------------------------------------
# Someone has mixed up the order of the third teacher's classes. Nothing fails, but accuracy drops. The agreement of the
# teachers on shared digits shows which teacher it is: its row and column are dark.

wrong = {"C": [9, 8, 7, 6, 1, 0]}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    mixed_up = HeterogeneousDistiller(teachers, KNeighborsClassifier(10), class_lists=wrong).fit(X_unlabelled)
print(f"accuracy {mixed_up.score(X_test, y_test):.3f}, agreement {mixed_up.score(X_unlabelled):.3f}")
print(caught[0].message)

figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
for ax, clf, title in zip(axes, (good, mixed_up), ("correct", "third teacher misnamed")):
    TeacherAgreementDisplay.from_estimator(clf, X_unlabelled, ax=ax)
    ax.set_title(title, fontsize=10)
plt.show()

# %%
# Class lists that do not connect
# -------------------------------
# If no two teachers share a digit across the groups, the relative probability of the groups is unknown. There is a
# warning, and the plot shows the gap. A teacher that knows classes of both groups would close it.

apart = [teach([0, 1, 2, 3, 4], 0, KNeighborsClassifier(15)), teach([5, 6, 7, 8, 9], 1), teach([7, 8, 9], 2)]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    disconnected = HeterogeneousDistiller(apart, KNeighborsClassifier(10)).fit(X_unlabelled)
print(caught[0].message)
print(f"accuracy {disconnected.score(X_test, y_test):.3f}")
ClassOverlapDisplay.from_estimator(disconnected)
plt.show()

# %%
# A teacher whose zeros mean nothing
# ----------------------------------
# Naive Bayes assumes independent features, and answers 1e-300. As a logarithm this overrules all other teachers.
# ``floor="auto"`` learns for each teacher whether its small numbers mean something. Here one such teacher among four
# does little harm either way; the page on floors has cases where it costs ten points or more.

saturated = {**teachers, "D": teach(lists[3], 3, GaussianNB())}
for floor in ("auto", 1e-30):
    clf = HeterogeneousDistiller(saturated, KNeighborsClassifier(10), floor=floor).fit(X_unlabelled)
    floors = clf.merger_.teacher_outputs_.floor_.round(6)
    print(f"floor={floor!s:6s} floors {floors}, accuracy {clf.score(X_test, y_test):.3f}")

# %%
# Unlabelled rows of other data
# -----------------------------
# Rows that show no digits at all get soft labels too, and not even uncertain ones: teachers can be as confident about
# nonsense as about digits. The signs are that teachers stop agreeing on shared digits, and that a few classes take
# most of the rows.

noise = np.random.default_rng(0).permuted(X_unlabelled, axis=1)  # the same grey values, in the wrong places
elsewhere = HeterogeneousDistiller(teachers, KNeighborsClassifier(10)).fit(noise)
print(f"accuracy {elsewhere.score(X_test, y_test):.3f}")

figure, axes = plt.subplots(2, 3, figsize=(12, 6), layout="constrained")
for row, data, title in zip(axes, (X_unlabelled, noise), ("digits", "other data")):
    TeacherAgreementDisplay.from_estimator(good, data, ax=row[0])
    SoftLabelDisplay.from_estimator(good, data, kind="top", ax=row[1])
    SoftLabelDisplay.from_estimator(good, data, kind="entropy", ax=row[2])
    row[0].set_ylabel(title)
plt.show()

# %%
# All of it on one page
# ---------------------
# ``teacher_report`` checks all this at once and says what is wrong, here for the misnamed teacher. It is displayed
# below; ``report.to_html("report.html")`` saves the page, to send to a colleague.

log_p = good.merger_.teacher_outputs_.transform(X_unlabelled)
misnamed = dict(zip("ABCD", [*lists[:2], wrong["C"], lists[3]]))
teacher_report(log_p=log_p, class_lists=misnamed)
