"""What the teachers' columns mean: class lists, sets, the label space, what it determines, vocabularies.

Words and structure only, no answers. May import utils.
"""

from sklearn_uhc.spaces.harmonize import harmonize
from sklearn_uhc.spaces.label_space import OTHER, LabelSpace

__all__ = ["OTHER", "LabelSpace", "harmonize"]
