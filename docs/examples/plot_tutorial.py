"""
Tutorial: from three classifiers to one
=======================================

This tutorial goes from fitted classifiers to a deployed model on real data: check the class lists, merge, measure,
choose a student without labels, use a few labels, decide when not to answer, save. The data are scikit-learn's 1,797
images of handwritten digits.
"""

# sphinx_gallery_thumbnail_number = 3

import tempfile
from pathlib import Path

import joblib
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import HeterogeneousDistiller, LabelSpace, TeacherHoldoutSearch
from sklearn_uhc.inspection import ClassOverlapDisplay, teacher_report

# %%
# What you start with
# -------------------
# Three offices have trained classifiers on their own forms. Each office has only some of the digits, and none may share
# its images. One office uses words as class names. You have 500 unlabelled images. The last 397 images and their
# labels are used only to measure; in practice you would not have them.

X, y = load_digits(return_X_y=True)
X_unlabelled, X_test, y_test = X[900:1400], X[1400:], y[1400:]
WORDS = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


def office(k, known, model, names=None):
    """Train on the images of an office: every third of the first 900, if it shows a digit that the office knows."""
    rows = np.arange(k, 900, 3)
    rows = rows[np.isin(y[rows], known)]
    return model.fit(X[rows], y[rows] if names is None else names[y[rows]])


teachers = {
    "tax office": office(0, [0, 1, 2, 3, 4, 5], RandomForestClassifier(random_state=0)),
    "post office": office(1, [3, 4, 5, 6, 7], make_pipeline(StandardScaler(), LogisticRegression())),
    "registry": office(2, [0, 1, 6, 7, 8, 9], KNeighborsClassifier(5), WORDS),
}
for name, teacher in teachers.items():
    print(f"{name:12s} knows {teacher.classes_.tolist()}")

# %%
# Bring the class lists into one vocabulary
# -----------------------------------------
# ``class_lists`` renames the classes of a teacher, in the order of its ``classes_``. The lists must be linked by shared
# classes. `LabelSpace` checks this before anything is computed.

digit_of = {word: digit for digit, word in enumerate(WORDS)}
class_lists = {"registry": [digit_of[word] for word in teachers["registry"].classes_]}
lists = [class_lists.get(name, teacher.classes_) for name, teacher in teachers.items()]
print(LabelSpace(lists).describe())

# %%
# Check the teachers before you merge them
# ----------------------------------------
# The report needs no labels. It shows the confidence of each teacher, the agreement of teachers on shared classes, and
# possible problems. ``report.to_html("report.html")`` saves a page that you can send to a colleague.

print(teacher_report(teachers, X_unlabelled, class_lists=class_lists))

# %%
# Merge
# -----
# One call does it all: it calls the teachers, calibrates them, merges their answers into soft labels, and trains the
# student on these. If something looked wrong, ``fit`` would warn.

clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(), class_lists=class_lists).fit(X_unlabelled)
ClassOverlapDisplay.from_estimator(clf)
plt.show()

# %%
# How good is it?
# ---------------
# Compare with each office alone, with simple rivals (the same student, trained on what the most confident office says,
# or on the average of the offices that know a digit), and with training on all offices' images in one place, which the
# offices do not allow.

scores = {
    f"{name} alone": np.mean(np.asarray(known)[teacher.predict_proba(X_test).argmax(axis=1)] == y_test)
    for (name, teacher), known in zip(teachers.items(), lists)
}
P = [teacher.predict_proba(X_unlabelled) for teacher in teachers.values()]
chosen = [np.asarray(known)[p.argmax(axis=1)] for known, p in zip(lists, P)]
surest = np.choose(np.argmax([p.max(axis=1) for p in P], axis=0), chosen)
scores["most confident office"] = KNeighborsClassifier().fit(X_unlabelled, surest).score(X_test, y_test)
every = np.full((len(P), len(X_unlabelled), 10), np.nan)
for answers, known, p in zip(every, lists, P):
    answers[:, known] = p
average = np.nanmean(every, axis=0).argmax(axis=1)
scores["average of those who know"] = KNeighborsClassifier().fit(X_unlabelled, average).score(X_test, y_test)
scores["merged, no labels"] = clf.score(X_test, y_test)
offices = np.concatenate([np.arange(k, 900, 3)[np.isin(y[k:900:3], known)] for k, known in enumerate(lists)])
scores["all images in one place"] = KNeighborsClassifier().fit(X[offices], y[offices]).score(X_test, y_test)
for way, score in scores.items():
    print(f"{way:26s} {score:.3f}")

# %%
fig, ax = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
colors = ["#8a8a8a"] * 5 + ["#0072B2", "#D55E00"]
ax.barh(list(scores), list(scores.values()), color=colors)
ax.bar_label(ax.containers[0], fmt="%.2f", padding=3)
ax.set(xlim=(0, 1.08), xlabel="accuracy on all ten digits")
ax.invert_yaxis()
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Choose the student without labels
# ---------------------------------
# `TeacherHoldoutSearch` holds each teacher out in turn, and finds the student that best predicts the answers of the
# held-out teacher.

students = [KNeighborsClassifier(), RandomForestClassifier(random_state=0), LogisticRegression(max_iter=2000)]
search = TeacherHoldoutSearch(clf, {"student": students}).fit(X_unlabelled)
print("chosen:", search.best_params_["student"])

# %%
# Use a few labels, if you have some
# ----------------------------------
# Suppose that 50 of the 500 images have labels. Pass them to ``fit``, with -1 for the others.

labelled = np.random.default_rng(0).choice(500, 50, replace=False)
some = np.full(500, -1)
some[labelled] = y[900 + labelled]
with_labels = HeterogeneousDistiller(teachers, KNeighborsClassifier(), class_lists=class_lists).fit(X_unlabelled, some)
labels_alone = KNeighborsClassifier().fit(X_unlabelled[labelled], some[labelled])
print(f"merged without labels {clf.score(X_test, y_test):.3f}")
print(f"50 labels alone       {labels_alone.score(X_test, y_test):.3f}")
print(f"both                  {with_labels.score(X_test, y_test):.3f}")

# %%
# Know when not to answer
# -----------------------
# The student's probabilities show which rows a person should check. If it answers only the rows it is most confident
# about, more of its answers are right.

confidence = clf.predict_proba(X_test).max(axis=1)
right = (clf.predict(X_test) == y_test)[np.argsort(-confidence, kind="stable")]
answered = np.arange(1, len(right) + 1) / len(right)
fig, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
axes[0].plot(100 * answered[20:], (np.cumsum(right) / np.arange(1, len(right) + 1))[20:], color="#0072B2")
axes[0].set(xlabel="rows answered, most confident first, in %", ylabel="accuracy on these rows")
axes[0].spines[["top", "right"]].set_visible(False)
ConfusionMatrixDisplay.from_predictions(y_test, clf.predict(X_test), cmap="Blues", colorbar=False, ax=axes[1])
plt.show()

# %%
# Save it
# -------
# The student does not need the teachers any more. ``export`` writes a file that runs without Python.

file = Path(tempfile.mkdtemp()) / "digits.joblib"
joblib.dump(clf.student_, file)
print(f"{file.name}: {file.stat().st_size / 1024:.0f} KiB, predicts", joblib.load(file).predict(X_test[:5]))

# %%
# Next, read :doc:`/guide/choosing`, :doc:`/guide/diagnosing`, :doc:`/guide/class_lists` and :doc:`/guide/deployment`.
