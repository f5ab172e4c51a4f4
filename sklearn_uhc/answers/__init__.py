"""The teachers' answers: one value object, its checks, and the base class of steps that change it."""

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
