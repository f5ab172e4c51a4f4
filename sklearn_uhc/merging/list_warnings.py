"""Warnings of `fit` about class lists and silent teachers."""

from __future__ import annotations

import numpy as np

from sklearn_uhc.answers import Answers
from sklearn_uhc.spaces.label_space import LabelSpace, shorten
from sklearn_uhc.spaces.undetermined import warnings_of_sets
from sklearn_uhc.utils.notes import warn_user


def warn_if_disconnected(space: LabelSpace) -> None:
    """Warn about groups of classes that no teacher links."""
    if not space.is_connected:
        warn_user(
            f"The class lists do not connect: {space.describe()}. The relative probability of these groups is not "
            "determined; every group gets mean logit 0. A teacher that knows classes of two groups would link them."
        )


def warn_of_sets(answers: Answers, levels_groups: bool) -> None:
    """Warn about classes that sets do not distinguish or determine, unless only membership scorers have sets."""
    if answers.space.has_sets and answers.untempered is None:
        for sentence in warnings_of_sets(answers.space, with_rank=levels_groups):
            warn_user(sentence)


def warn_of_unanswered(answers: Answers) -> None:
    """Warn about rows without any answer."""
    nobody = int((~answers.answered).sum())
    warn_user(
        f"No teacher answers for {nobody} of {len(answers)} rows, so nothing is known about them. Their soft labels "
        "are uniform; in `fit` they count neither in training nor in class weights."
    )


def warn_if_mute(answers: Answers) -> None:
    """Warn about teachers that answer no row, and about classes that therefore have no answer."""
    if answers.silent is None or not (mute := answers.silent.all(axis=0)).any():
        return
    space = answers.space
    unanswered = space.classes[~space.mask[~mute].any(axis=0)]
    who = ", ".join(space.called(int(i)) for i in np.flatnonzero(mute))
    it = "it" if mute.sum() == 1 else "them"
    lost = (
        f"No other teacher answers for {shorten(unanswered)}: their probabilities are a guess. "
        if len(unanswered)
        else ""
    )
    warn_user(
        f"None of the {len(answers)} rows is answered by {who}, so the merge ignores {it}. {lost}Use rows that can be "
        "answered, or leave silent teachers out."
    )
