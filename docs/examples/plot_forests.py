"""
Merging two forests whose classes differ
========================================

Somebody has two fitted random forests. The first was trained to tell dogs from cats. The second came later, from other
data, and tells cows, dogs and cats apart. The training data of the first are gone. They would like one forest that is
at least as good as both, and ask how to combine the two: scikit-learn's issue
`#26326 <https://github.com/scikit-learn/scikit-learn/issues/26326>`_. The trees cannot simply be put together, as the
first forest's trees have two outputs and the second's have three; half of the trees would call every cow a dog or cat.
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
# Animals are clouds of points. The first forest has seen many dogs and cats, the second few animals of each kind.

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
# Putting all trees into one forest means nothing: column 1 is the dog of the first forest and the cow of the second. A
# vote over fitted forests with different classes is not meant to be either:

vote = VotingClassifier([("first", first), ("second", second)], voting="soft")
vote.estimators_, vote.classes_ = [first, second], second.classes_
try:
    vote.predict(X_test)
except ValueError as error:
    print("VotingClassifier:", error)

# %%
# One forest from two
# -------------------
# Both forests answer for unlabelled animals, the answers are merged into one distribution over the three classes, and a
# new forest learns these.

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
# Where each would call an animal what: black is cow, white is cat.

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
# The result holds a forest of its own, which needs neither of the two:

print(merged.student_.estimator_)

# %%
# Who may keep both forests can also ask them every time, with no new forest at all:

show("both, every time", UnifiedEnsemble([first, second]).fit(X_unlabelled).predict(X_test))
