"""
Text classifiers with different lists of labels
===============================================

Three teams have classifiers of short messages, made of TF-IDF and a linear model. They use different lists of labels,
and one team calls *sport* "football". Texts are passed as they are, as a list of strings.
"""

# sphinx_gallery_thumbnail_number = 2

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import ComplementNB
from sklearn.pipeline import make_pipeline

from sklearn_uhc import HeterogeneousDistiller
from sklearn_uhc.inspection import ClassOverlapDisplay

# %%
# Messages
# --------
# A small generator of sentences, so that nothing has to be downloaded. A third of the words are fillers.

WORDS = {
    "sport": "match goal team player league coach stadium referee season keeper striker cup penalty fans",
    "weather": "rain storm sunny forecast wind cloud snow temperature degrees thunder frost humid sky fog",
    "politics": "vote minister election party parliament law budget debate senate campaign tax reform treaty mayor",
    "cooking": "recipe oven butter flour onion simmer taste salt garlic sauce bake dish pepper boil",
    "travel": "flight hotel train ticket beach passport luggage island tour border airport guide map coast",
}
FILLER = "the a very today some people said there it was and with for about much new last next again really"


def messages(n, topics, rng):
    """Draw n sentences about some topics; one in six words belongs to another topic."""
    y = rng.choice(topics, n)
    texts = []
    for topic in y:
        own, other = WORDS[topic].split(), WORDS[rng.choice(list(WORDS))].split()
        size = rng.integers(5, 11)
        kind = rng.choice(3, size, p=[0.5, 1 / 6, 1 / 3])
        texts.append(" ".join(rng.choice((own, other, FILLER.split())[k]) for k in kind))
    return texts, y


rng = np.random.default_rng(0)
print(*messages(3, list(WORDS), rng)[0], sep="\n")

# %%
# Three teams
# -----------
# Each classifier has its own vocabulary. The third team also has its own names: "football" is our sport.

newsroom = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(
    *messages(400, ["sport", "politics", "weather"], rng)
)
magazine = make_pipeline(TfidfVectorizer(), ComplementNB()).fit(*messages(400, ["cooking", "travel", "weather"], rng))
texts, y = messages(400, ["sport", "travel", "politics"], rng)
fan_club = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, np.where(y == "sport", "football", y))
print(fan_club.classes_)

# %%
# ``class_lists`` renames classes of single teachers, in the order of ``classes_``; the others keep their own names.

teachers = {"newsroom": newsroom, "magazine": magazine, "fan club": fan_club}
class_lists = {"fan club": ["sport", "politics", "travel"]}

# %%
# One classifier of five topics
# -----------------------------
# The student is a Pipeline that learns its own vocabulary from the unlabelled texts.

unlabelled, _ = messages(1500, list(WORDS), rng)
test, y_test = messages(1000, list(WORDS), rng)
student = make_pipeline(TfidfVectorizer(), LogisticRegression())
clf = HeterogeneousDistiller(teachers, student, class_lists=class_lists).fit(unlabelled)

ClassOverlapDisplay.from_estimator(clf)
plt.show()

# %%
for name, teacher in teachers.items():
    said = np.where(teacher.predict(test) == "football", "sport", teacher.predict(test))  # the same class
    print(f"{name} alone: {np.mean(said == y_test):.3f}")
print(f"merged: {clf.score(test, y_test):.3f}")

# %%
# The words with the largest weights for each topic, in the student:

pipeline = clf.student_.estimator_
words, model = pipeline[0].get_feature_names_out(), pipeline[-1].estimator_
figure, axes = plt.subplots(1, 5, figsize=(11, 2.6), layout="constrained")
for ax, topic, weights, color in zip(axes, clf.classes_, model.coef_, ["C0", "C1", "C2", "C3", "C4"]):
    best = weights.argsort()[-6:]
    ax.barh(words[best], weights[best], color=color)
    ax.set_title(topic, fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
for text in ["the keeper said the goal was offside", "butter and flour in the oven", "storm over the airport"]:
    probability = clf.predict_proba([text])[0]
    best = probability.argsort()[:-3:-1]
    print(f"{text:38s}", ", ".join(f"{clf.classes_[k]} {probability[k]:.2f}" for k in best))
