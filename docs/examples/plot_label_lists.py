"""
Cell types: synonyms, coarse classes and "other"
================================================

Four laboratories have classifiers of blood cells. One has "T cell" where the others have "CD4 T" and "CD8 T", one
writes "B-cells" for "B cell", and one has "unknown". Merged without care, "T cell" is a class next to its own subtypes.
``harmonize`` declares what the columns mean, and the merge takes care of the rest.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from sklearn_uhc import HeterogeneousDistiller, harmonize
from sklearn_uhc.inspection import ClassOverlapDisplay, suggest_harmonization, teacher_report

# %%
# Cells
# -----
# The data are synthetic: every type has its own mean in 12 genes, and the two kinds of T cells are close to each other.

TYPES = np.array(["B cell", "CD4 T", "CD8 T", "NK cell", "monocyte"])
rng = np.random.default_rng(0)
MEANS = 1.1 * rng.normal(size=(5, 12))
MEANS[2] = MEANS[1] + 0.55 * rng.normal(size=12)


def cells(n, known=TYPES):
    """Draw n cells of some types."""
    y = rng.choice(known, n)
    return MEANS[np.searchsorted(TYPES, y)] + rng.normal(size=(n, 12)), y


def laboratory(model, n, known, names):
    """Fit a classifier of some types to n cells, under the laboratory's own names."""
    X, y = cells(n, known)
    return model.fit(X, [names.get(label, label) for label in y])


forest, logistic = RandomForestClassifier(100, random_state=0), LogisticRegression()
coarse = {"CD4 T": "T cell", "CD8 T": "T cell"}
teachers = {
    "north": laboratory(logistic, 2000, TYPES, coarse),
    "south": laboratory(forest, 300, ["CD4 T", "CD8 T", "B cell"], {"B cell": "B-cells"}),
    "east": laboratory(LogisticRegression(), 300, ["CD4 T", "CD8 T", "monocyte"], {}),
    "west": laboratory(LogisticRegression(), 300, TYPES, {"CD4 T": "unknown", "CD8 T": "unknown", "B cell": "unknown"}),
}
unlabelled, _ = cells(1500)
test, y_test = cells(2000)

# %%
# Merged without care
# -------------------
# There are eight classes, since nothing says that "T cell" has subtypes. ``fit`` warns of the two spellings, that
# "unknown" counts as a class, and that one class seems to be absent. ``suggest_harmonization`` compares names and
# answers. Here it finds the two spellings, and that "unknown" may mean OTHER. It does not look for subtypes, and its
# suggestions are nearly always right, but many cases are missed.

student = LogisticRegression()
as_they_are = HeterogeneousDistiller(teachers, student).fit(unlabelled)
print(f"{len(as_they_are.classes_)} classes, accuracy {as_they_are.score(test, y_test):.3f}")
print(suggest_harmonization(list(teachers.values()), unlabelled))

# %%
# One vocabulary
# --------------
# Suggestions are never applied. Pass what is right to ``harmonize``: synonyms, a taxonomy, names that mean "other".

class_lists = harmonize(
    teachers,
    synonyms={"B-cells": "B cell"},
    taxonomy={"T cell": ["CD4 T", "CD8 T"]},
    other="unknown",
)
for name, own in class_lists.items():
    print(f"{name}: {own}")

# %%
# A class with a column of its own is dark, a class in a set is light, and a class in OTHER is hatched.

clf = HeterogeneousDistiller(teachers, student, class_lists=class_lists).fit(unlabelled)
ClassOverlapDisplay.from_estimator(clf)
plt.show()

# %%
# There are five classes. The alternative is to leave out the two coarse laboratories, and with them NK cells.

fine = {name: teachers[name] for name in ("south", "east")}
own_lists = {name: class_lists[name] for name in fine}
without = HeterogeneousDistiller(fine, student, class_lists=own_lists).fit(unlabelled)
print(f"with sets {clf.score(test, y_test):.3f}, without north and west {without.score(test, y_test):.3f}")

# %%
# What the lists leave open
# -------------------------
# Without south and east, no teacher distinguishes the T cells. They get equal shares, and the report says so.

coarse_only = {name: teachers[name] for name in ("north", "west")}
report = teacher_report(coarse_only, unlabelled, class_lists={name: class_lists[name] for name in coarse_only})
for line in report["warnings"]:
    print("-", line)
