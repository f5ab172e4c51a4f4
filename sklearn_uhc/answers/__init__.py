"""The teachers' answers as one value, checked where they enter: `Answers`, and transformers of them.

Nobody behind this room checks answers again. May import utils, spaces.
"""

from sklearn_uhc.answers.check import answers_given, answers_of_input, refuse_probabilities
from sklearn_uhc.answers.transformer import AnswerTransformer
from sklearn_uhc.answers.value import Answers, Pattern, remembering, rows_by_speakers, to_numpy

__all__ = [
    "AnswerTransformer",
    "Answers",
    "Pattern",
    "answers_given",
    "answers_of_input",
    "refuse_probabilities",
    "remembering",
    "rows_by_speakers",
    "to_numpy",
]
