"""
Merging two forests whose classes differ
========================================

You have two fitted random forests. The first distinguishes dogs and cats. The second was trained later, on other
data, and knows cows, dogs and cats. The training data of the first are gone. You want one forest that is at least as
good as both. This is scikit-learn's issue `#26326 <https://github.com/scikit-learn/scikit-learn/issues/26326>`_. The
trees cannot simply be joined, since the first forest's trees have two outputs and the second's have three. Half of the
trees would call every cow a dog or a cat.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.datasets import make_blobs
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.metrics import recall_score

from sklearn_uhc import HeterogeneousDistiller, UnifiedEnsemble

# %%
# The two forests
# ---------------
# Animals are clouds of points. The first forest has seen many dogs and cats, the second a few animals of each kind.

names = np.array(["cat", "cow", "dog"])
X, y = make_blobs(4000, centers=[[0, 0], [3, 3], [3, 0]], cluster_std=1.5, random_state=0)
y = names[y]
many, few = np.arange(0, 1500), np.arange(1500, 1560)
many = many[y[many] != "cow"]
first = RandomForestClassifier(random_state=0).fit(X[many], y[many])
second = RandomForestClassifier(random_state=1).fit(X[few], y[few])
X_unlabelled, X_test, y_test = X[1600:2800], X[2800:], y[2800:]

# %%
# What one might try
# ------------------
# Joining the trees makes no sense: column 1 is the dog of the first forest and the cow of the second. Voting does not
# work for fitted forests with different classes either:

vote = VotingClassifier([("first", first), ("second", second)], voting="soft")
vote.estimators_, vote.classes_ = [first, second], second.classes_
try:
    vote.predict(X_test)
except ValueError as error:
    print("VotingClassifier:", error)

# %%
# One forest from two
# -------------------
# Both forests answer for unlabelled animals. The answers are merged into one distribution over the three classes, and a
# new forest is trained on it.

merged = HeterogeneousDistiller([first, second], RandomForestClassifier(min_samples_leaf=5, random_state=2))
merged.fit(X_unlabelled)


def show(name, predicted):
    recall = recall_score(y_test, predicted, labels=names, average=None, zero_division=0)
    each = ", ".join(f"{label} {value:.2f}" for label, value in zip(names, recall))
    print(f"{name:16s} accuracy {np.mean(predicted == y_test):.3f}   found: {each}")


show("first forest", first.predict(X_test))
show("second forest", second.predict(X_test))
show("merged forest", merged.predict(X_test))

# %%
# The predicted animal in every region: cat is blue, cow is orange, dog is pink.

COLORS = ListedColormap(["#56B4E9", "#E69F00", "#CC79A7"])
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
across, up = np.meshgrid(np.linspace(-3, 6.5, 120), np.linspace(-3, 6.5, 120))
for ax, (name, forest) in zip(axes, {"first": first, "second": second, "merged": merged}.items()):
    where = np.searchsorted(names, forest.predict(np.c_[across.ravel(), up.ravel()])).reshape(across.shape)
    ax.pcolormesh(across, up, where, cmap=COLORS, vmin=0, vmax=2)
    ax.set(title=f"{name} forest", xticks=[], yticks=[])
    for label, center in zip(names, [[0, 0], [3, 3], [3, 0]]):
        ax.text(*center, label, ha="center", weight="bold", bbox={"facecolor": "white", "edgecolor": "black"})
plt.show()

# %%
# The result contains a forest of its own, and needs neither of the two. It is printed as a ``RandomForestRegressor``,
# because scikit-learn's regressors accept probabilities as targets and its classifiers do not. On soft labels it grows
# the same trees, and ``merged`` turns its output into classes and probabilities:

print(merged.student_.estimator_)

# %%
# If you can keep both forests, you may also call them at every prediction, without a new forest:

show("both, every time", UnifiedEnsemble([first, second]).fit(X_unlabelled).predict(X_test))
