"""
Search over students and settings without labels
================================================

A search needs a score, and there are no labels. ``TeacherHoldoutSearch`` holds teachers out: the others are merged, a
student is trained, and it has to predict the held-out teacher's answers. This example shows what this can choose, and
why ``score(X)``, the agreement with the merged teachers, cannot.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_uhc import HeterogeneousDistiller, TeacherHoldoutSearch
from sklearn_uhc.inspection import DistillationCurveDisplay

X, y = load_digits(return_X_y=True)
lists = [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [6, 7, 8, 9, 0], [1, 4, 8, 5, 9], [2, 3, 6, 9, 5]]
teachers = []
for i, known in enumerate(lists):
    rows = np.arange(160 * i, 160 * (i + 1))
    rows = rows[np.isin(y[rows], known)]
    model = make_pipeline(StandardScaler(), LogisticRegression()) if i % 2 else RandomForestClassifier(random_state=i)
    teachers.append(model.fit(X[rows], y[rows]))
X_unlabelled, X_test, y_test = X[800:1400], X[1400:], y[1400:]

# %%
# Which student?
# --------------
# Every teacher is called once, however many candidates there are.

clf = HeterogeneousDistiller(teachers, KNeighborsClassifier())
students = [
    KNeighborsClassifier(10),
    RandomForestClassifier(50, random_state=0),
    DecisionTreeClassifier(random_state=0),
]
grid = {"student": students, "temperature": [1, 3, 10], "balance": [True, False]}
search = TeacherHoldoutSearch(clf, grid).fit(X_unlabelled)  # no labels
print(search.best_params_)
print(f"accuracy on labelled test rows: {search.score(X_test, y_test):.3f}")

# %%
# One line per student; for the other parameters, the best choice is shown. The score is the share of rows
# for which the student chooses the held-out teacher's class.

DistillationCurveDisplay.from_search(search, by="student")
plt.show()

# %%
# Is it right?
# ------------
# With the test labels, which you would not have in practice, we compare the accuracy of all candidates with their
# score, and with the agreement with the teachers. The agreement rewards whatever reproduces the teachers, including
# their errors on rows of classes that they do not know.

candidates = [HeterogeneousDistiller(teachers, None).set_params(**params) for params in search.cv_results_["params"]]
for candidate in candidates:
    candidate.fit(X_unlabelled)
accuracy = [candidate.score(X_test, y_test) for candidate in candidates]
scores = {
    "predicts held-out teachers": search.cv_results_["mean_test_score"],
    "agrees with its own teachers": [candidate.score(X_test) for candidate in candidates],
}
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
for ax, (name, score) in zip(axes, scores.items()):
    ax.scatter(score, accuracy)
    ax.set(xlabel=name, title=f"rank correlation {spearmanr(score, accuracy)[0]:.2f}")
axes[0].set_ylabel("accuracy")
plt.show()

# %%
# Over the temperature alone, with everything else fixed, the score says little: the accuracy changes by a point or two,
# and the score by as much from one sample of rows to the next. Keep the default, or use a few labelled rows.
