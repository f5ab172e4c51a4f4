"""
Hospitals with different diagnoses
==================================

Three hospitals have trained gradient boosting on tables of their own patients. They treat different illnesses, so
their classifiers know different diagnoses. Patients' records must not leave a hospital, but fitted classifiers may. A
public health office has a table of patients without diagnoses, and wants one LightGBM classifier of all diagnoses.
"""

# sphinx_gallery_thumbnail_number = 2

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.ensemble import HistGradientBoostingClassifier

from sklearn_uhc import HeterogeneousDistiller
from sklearn_uhc.inspection import ClassOverlapDisplay

# %%
# Patients
# --------
# The data are synthetic. Each illness has its own typical temperature, cough and so on; the season is a category.

TYPICAL = pd.DataFrame(
    {
        "temperature": [39.2, 37.3, 36.8, 38.6, 36.7, 39.0],
        "cough": [5, 4, 6, 6, 2, 8],
        "breathless": [2, 1, 7, 5, 2, 8],
        "sneezing": [3, 7, 1, 2, 8, 1],
        "age": [45, 35, 30, 50, 25, 68],
    },
    index=["flu", "cold", "asthma", "covid", "allergy", "pneumonia"],
)
SPREAD = np.array([0.6, 1.6, 1.5, 1.6, 14])
WINTER = pd.Series([0.8, 0.6, 0.4, 0.6, 0.1, 0.7], index=TYPICAL.index)


def patients(n, illnesses, rng):
    """Draw n patients with some of the illnesses."""
    y = rng.choice(illnesses, n)
    table = TYPICAL.loc[y].reset_index(drop=True) + SPREAD * rng.normal(size=(n, 5))
    season = np.where(rng.random(n) < WINTER[y], "winter", "summer")
    return table.assign(season=pd.Categorical(season, categories=["summer", "winter"])), y


# %%
# The hospitals' classifiers
# --------------------------

rng = np.random.default_rng(0)
diagnoses = {
    "county hospital": ["flu", "cold", "pneumonia", "covid"],
    "lung clinic": ["asthma", "covid", "pneumonia"],
    "family doctor": ["cold", "allergy", "asthma", "flu"],
}
records = [patients(1500, known, rng) for known in diagnoses.values()]
teachers = [HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(X, y) for X, y in records]

# %%
# One classifier of six diagnoses
# -------------------------------
# The table is passed unchanged to teachers and student, with column names and categories. Teachers may have names too.

X_unlabelled, _ = patients(3000, TYPICAL.index, rng)
X_test, y_test = patients(2000, TYPICAL.index, rng)
student = LGBMClassifier(n_estimators=60, num_leaves=15, n_jobs=1, verbose=-1)
clf = HeterogeneousDistiller(dict(zip(diagnoses, teachers)), student).fit(X_unlabelled)
clf

# %%
ClassOverlapDisplay.from_estimator(clf)
plt.show()

# %%
# For comparison, the last line is LightGBM trained on the records of all hospitals in one place, which is not allowed.

scores = {f"{name} alone": teacher.score(X_test, y_test) for name, teacher in zip(diagnoses, teachers)}
scores["merged, without labels"] = clf.score(X_test, y_test)
X_all, y_all = pd.concat([X for X, _ in records]), np.concatenate([y for _, y in records])
scores["trained on all records"] = student.fit(X_all, y_all).score(X_test, y_test)
for way, score in scores.items():
    print(f"{way:22s} {score:.3f}")

figure, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
ax.barh(list(scores), list(scores.values()), color=["#8a8a8a"] * 3 + ["#0072B2", "#D55E00"])
ax.bar_label(ax.containers[0], fmt="%.2f", padding=3)
ax.set(xlim=(0, 1), xlabel="accuracy on all six diagnoses")
ax.invert_yaxis()
plt.show()

# %%
# The student is an ordinary LightGBM model. Save it and share it; the hospitals' classifiers are not needed any more.

print(clf.student_.estimator_.booster_.model_to_string()[:60])
importance = pd.Series(clf.student_.estimator_.feature_importances_, index=X_test.columns)
figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
importance.sort_values().plot.barh(color="#0072B2", xlabel="times used in a split", ax=ax)
plt.show()
