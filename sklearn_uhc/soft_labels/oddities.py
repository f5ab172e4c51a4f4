"""What is odd about class lists and about who answers, said once in `fit`."""

from __future__ import annotations

import numpy as np

from sklearn_uhc.answers import Answers
from sklearn_uhc.label_space import LabelSpace, shorten
from sklearn_uhc.utils.notes import warn_user


def warn_if_disconnected(space: LabelSpace) -> None:
    """Warn of groups of classes that no teacher links."""
    if not space.is_connected:
        warn_user(
            f"The class lists do not connect: {space.describe()}. How probable one group is beside another is not "
            "determined; every group gets mean logit 0. A teacher that knows classes of two groups would link them."
        )


def warn_of_unheard(answers: Answers) -> None:
    """Warn of rows that no teacher answers for."""
    nobody = int((~answers.heard).sum())
    warn_user(
        f"No teacher answers for {nobody} of {len(answers)} rows: nothing is known about them. Their soft labels are "
        "uniform, and have no weight in the distiller's student and in class weights."
    )


def warn_if_mute(answers: Answers) -> None:
    """Warn of teachers that answer no row, and of classes that nobody answers for therefore."""
    if answers.silent is None or not (mute := answers.silent.all(axis=0)).any():
        return
    space = answers.space
    unheard = space.classes[~space.mask[~mute].any(axis=0)]
    who = ", ".join(space.called(int(i)) for i in np.flatnonzero(mute))
    lost = f"Nobody answers for {shorten(unheard)}: what is said of them is a guess. " if len(unheard) else ""
    warn_user(
        f"None of the {len(answers)} rows is answered by {who}: the merge does without. {lost}Give rows that can be "
        "answered, or leave out who is silent."
    )
