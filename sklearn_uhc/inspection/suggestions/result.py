"""The result of `suggest_harmonization`: a list to read, select from, and pass to `harmonize`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, overload

from sklearn_uhc.spaces.names import quoted

KINDS = ("spelling", "answers", "other")


@dataclass(frozen=True)
class Suggestion:
    """One suggestion, with its evidence.

    Attributes
    ----------
    kind : {"spelling", "answers", "other"}
        Names that are nearly equal, columns that behave alike, a name that sounds like "none of my other classes".
    name : label
        The class that would change.
    becomes : tuple of labels
        The one name to use instead, or OTHER.
    score : float or None
        How similar the answers are, at most about 1; None if there were no answers to compare. A low score of a nearly
        equal name says little: teachers may be most confident on rows that the others do not know.
    evidence : str
        The reason, in words.
    numbers : dict
        The figures behind it.

    Examples
    --------
    >>> from sklearn_uhc.inspection import suggest_harmonization
    >>> suggestion = suggest_harmonization([["B cell", "NK"], ["B-cells", "T cell"]])[0]
    >>> suggestion.kind, suggestion.name, suggestion.becomes
    ('spelling', 'B-cells', ('B cell',))
    """

    kind: str
    name: Any
    becomes: tuple[Any, ...]
    score: float | None
    evidence: str
    numbers: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        name, new = quoted([self.name, *self.becomes])
        return f"{name} may mean {new}: {self.evidence}"


class Suggestions(Sequence[Suggestion]):
    """Suggestions, the most certain first within each kind. Nothing is applied until it is passed to `harmonize`.

    Select by number, `found[[0, 2]]`, by slice, or by kind, `found.of_kind("spelling")`. Each returns `Suggestions`.

    Parameters
    ----------
    items : iterable of Suggestion
        What was found.
    note : str, default=""
        What could not be compared.

    Examples
    --------
    >>> from sklearn_uhc import harmonize
    >>> from sklearn_uhc.inspection import suggest_harmonization
    >>> lists = [["B cell", "T cell"], ["B-cells", "NK cell"]]
    >>> found = suggest_harmonization(lists)
    >>> found
    1 suggestion, not applied:
    [0] 'B-cells' may mean 'B cell': the names are nearly equal
    Only spelling was compared. Abbreviations and synonyms show in the answers: pass X.
    >>> harmonize(lists, synonyms=found.as_synonyms())
    [['B cell', 'T cell'], ['B cell', 'NK cell']]
    """

    def __init__(self, items: Iterable[Suggestion], note: str = "") -> None:
        self._items = list(items)
        self.note = note

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Suggestion: ...

    @overload
    def __getitem__(self, index: slice | list[int] | list[bool]) -> Suggestions: ...

    def __getitem__(self, index: int | slice | list[int] | list[bool]) -> Suggestion | Suggestions:
        """Return one suggestion by its number, or several as `Suggestions`.

        Several are chosen by a slice, a list of numbers, or a list of True or False, one for each suggestion.
        """
        index = index.tolist() if hasattr(index, "tolist") else index  # a column of `to_frame` compared with something
        if isinstance(index, slice):
            return Suggestions(self._items[index])
        if isinstance(index, list) and any(isinstance(i, bool) for i in index):
            if len(index) != len(self):
                raise IndexError(f"{len(index)} values of True or False were given for {len(self)} suggestions.")
            return Suggestions(compress(self._items, index))
        if isinstance(index, list):
            return Suggestions(self._items[i] for i in index)
        return self._items[index]

    def of_kind(self, *kinds: str) -> Suggestions:
        """Return the suggestions of some kinds.

        Parameters
        ----------
        *kinds : {"spelling", "answers", "other"}
            Kinds to keep.

        Returns
        -------
        suggestions : Suggestions
            Those of these kinds.
        """
        if unknown := set(kinds) - set(KINDS):
            raise ValueError(f"There is no kind {sorted(unknown)}: kinds are {list(KINDS)}.")
        return Suggestions(one for one in self if one.kind in kinds)

    def as_synonyms(self) -> dict[Any, Any]:
        """Return {name: name to use}, for `harmonize(synonyms=...)`.

        Returns
        -------
        synonyms : dict
            From the kinds "spelling" and "answers".
        """
        return {one.name: one.becomes[0] for one in self if one.kind in ("spelling", "answers")}

    def as_other(self) -> list[Any]:
        """Return names, for `harmonize(other=...)`.

        Returns
        -------
        names : list of labels
            From the kind "other".
        """
        return [one.name for one in self if one.kind == "other"]

    def to_frame(self) -> Any:
        """Return the suggestions as a pandas DataFrame, one row each.

        Returns
        -------
        frame : DataFrame
            Columns "kind", "name", "becomes", "score", "evidence", and the figures.
        """
        import pandas as pd

        columns = ["kind", "name", "becomes", "score", "evidence"]
        rows = [{**{name: getattr(one, name) for name in columns}, **one.numbers} for one in self]
        return pd.DataFrame(rows, columns=list(dict.fromkeys([*columns, *(key for row in rows for key in row)])))

    def __repr__(self) -> str:
        count = f"{len(self)} suggestion{'s' * (len(self) != 1)}"
        head = f"{count}, not applied:" if self._items else "No suggestions."
        lines = [f"[{i}] {one}" for i, one in enumerate(self)]
        return "\n".join([head, *lines, *([self.note] if self.note else [])])
