"""
Search over temperature and students without labels
===================================================

A search needs a score, and there are no labels. ``score(X)`` without ``y`` tells how well the merged classifier agrees
with every teacher on that teacher's own classes. This example shows what that score is good for, and what it is not.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_uhc import DistillationCurveDisplay, HeterogeneousDistiller, teacher_agreement_scorer

X, y = load_digits(return_X_y=True)
lists = [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [6, 7, 8, 9, 0], [1, 4, 8, 5, 9]]
teachers = []
for i, known in enumerate(lists):
    rows = np.arange(200 * i, 200 * (i + 1))
    rows = rows[np.isin(y[rows], known)]
    model = make_pipeline(StandardScaler(), LogisticRegression()) if i % 2 else RandomForestClassifier(random_state=i)
    teachers.append(model.fit(X[rows], y[rows]))
X_unlabelled, y_hidden = X[800:1400], y[800:1400]
X_test, y_test = X[1400:], y[1400:]

# %%
# Which student?
# --------------
# ``store`` keeps the teachers' answers in a folder, which pays for slow teachers: each reads every fold once, however
# many candidates there are. (These teachers are fast.)

clf = HeterogeneousDistiller(teachers, KNeighborsClassifier())
students = [
    KNeighborsClassifier(10),
    RandomForestClassifier(50, random_state=0),
    DecisionTreeClassifier(random_state=0),
]
search = GridSearchCV(clf, {"student": students, "temperature": [1, 2, 3, 6, 10]}, cv=3)
search.fit(X_unlabelled)  # no labels
print(search.best_params_)
print(f"accuracy on labelled test rows: {search.score(X_test, y_test):.3f}")

# %%
# All of it in one picture, one line per student. Scores are at most 0; higher is better.

DistillationCurveDisplay.from_search(search, by="student")
plt.show()

# %%
# With the test labels, which would not be at hand: the single tree is rightly left behind. The other two are close to
# each other in agreement, and the one that agrees a little more is the worse one here. Small differences of this score
# decide nothing; large ones do.

for student in students:
    one = HeterogeneousDistiller(teachers, student, temperature=2).fit(X_unlabelled)
    loss = log_loss(y_test, one.predict_proba(X_test))
    print(f"{type(student).__name__:24s} accuracy {one.score(X_test, y_test):.3f}, log-loss {loss:.2f}")

# %%
# Which temperature?
# ------------------
# With labels for the same rows, which nobody has here, the accuracy can be drawn beside the agreement. The agreement
# judges probabilities, as the log-loss does; it says little about which temperature gives the best accuracy. If
# accuracy is what counts, keep a few labelled rows and score with them.

scoring = {"agreement": teacher_agreement_scorer, "accuracy": "accuracy"}
both = GridSearchCV(clf, {"temperature": [0.5, 1, 2, 3, 6, 10]}, cv=3, scoring=scoring, refit=False)
both.fit(X_unlabelled, y_hidden)  # y is only scored with, never learnt from
figure, axes = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
for ax, score in zip(axes, scoring):
    DistillationCurveDisplay.from_search(both, score=score, ax=ax)
plt.show()
