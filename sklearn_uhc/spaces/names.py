"""Class names that are nearly equal: they differ only in spaces, case, hyphens, dots, accents or a plural.

Characters that cannot be seen do not count either.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, islice, product
from typing import Any

from sklearn_uhc.spaces.class_sets import OTHER
from sklearn_uhc.spaces.harmonize import members

#: Spaces, underscores, hyphens, dots and apostrophes that only separate words: "B-cell", "B_cell" and "Bcell" are
#: alike. A hyphen or dot next to anything else has a meaning ("CD4-", "-1"), and so does a separator between digits
#: ("1.5", "type 1 2").
_SEPARATOR = re.compile(r"(?<=\w)[\s_\-.']+(?=\w)")
#: A dot that ends a name counts only after a digit or after fewer than three letters: "v1.", "No." and "U.S." may be
#: something else than "v1", "no" and "us".
_END = re.compile(r"(?<=[^\W\d_]{3})\.$")
#: Characters without width: soft hyphens, joiners, marks of direction, variation selectors, byte order marks.
_UNSEEN = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
_BLANKS = re.compile(r"[\s_]+")
#: Blanks next to a sign: "CD4 +" and "CD4+", "T (CD4)" and "T(CD4)" are alike.
_BESIDE_SIGN = re.compile(r"(?<=[^\w\s]) | (?=[^\w\s])")
#: "classes", "boxes", "dishes", "heroes".
_LONG_PLURAL = re.compile(r"(s|x|z|ch|sh|o)es$")
#: "virus", "analysis" and "class" are not plurals.
_NO_PLURAL = re.compile(r"(us|is|ss)$")
#: Names that often mean "none of my other classes", as `forms` has them.
_REST = {
    *("background", "misc", "miscellaneous", "n/a", "na", "none", "noneoftheabove", "noneofthese", "notassigned"),
    *("notclassified", "other", "remainder", "rest", "unassigned", "uncategorised", "uncategorized", "unclassified"),
    *("undefined", "undetermined", "unidentified", "unknown", "unlabeled", "unlabelled", "unspecified"),
}
#: What may stand around such a name: "misc.", "(other)".
_AROUND = " .:*()[]<>"
#: Maximum number of forms of a name that are compared.
MOST_FORMS = 64


def nearly_equal(class_lists: Iterable[Iterable[Any]]) -> list[tuple[Any, Any]]:
    """Return pairs of names that differ in spelling only; none that one teacher tells apart.

    A name that is like two which one teacher tells apart is left out too, and so are names that may mean OTHER: those
    of two teachers seldom mean the same rows.

    Parameters
    ----------
    class_lists : iterable of class lists
        Entries are labels, tuples of labels or `OTHER`.

    Returns
    -------
    pairs : list of pairs of labels
        In the order of the lists.
    """
    lists = _labels(class_lists)
    owners = owners_of_names(lists)
    order = list(owners)
    by_form: dict[str, list[Any]] = defaultdict(list)
    for label in order:
        for form in () if may_mean_other(label) else forms(str(label)):
            by_form[form].append(label)
    place = {label: k for k, label in enumerate(order)}
    found = {(a, b) for alike in by_form.values() for a, b in combinations(alike, 2)}
    clear = [pair for pair in _without_rivals(found, owners) if not _told_apart(pair, owners)]
    return sorted(clear, key=lambda pair: (place[pair[0]], place[pair[1]]))


def _labels(class_lists: Iterable[Iterable[Any]]) -> list[list[Any]]:
    """Return the labels of each list, alone or in a set, as plain values."""
    plain = (own.tolist() if hasattr(own, "tolist") else own for own in class_lists)
    return [[label for entry in own for label in members(entry)] for own in plain]


def _told_apart(pair: tuple[Any, Any], owners: dict[Any, set[int]]) -> bool:
    """Return whether one teacher has both names."""
    return bool(owners[pair[0]] & owners[pair[1]])


def _without_rivals(pairs: set[tuple[Any, Any]], owners: dict[Any, set[int]]) -> list[tuple[Any, Any]]:
    """Remove names that are similar to two names of one teacher, since it is unclear which is meant."""
    like: dict[Any, set[Any]] = defaultdict(set)
    for a, b in pairs:
        like[a].add(b)
        like[b].add(a)
    unclear = {name for name, others in like.items() if any(_told_apart(p, owners) for p in combinations(others, 2))}
    return [(a, b) for a, b in pairs if a not in unclear and b not in unclear]


def forms(name: str) -> set[str]:
    """Return the forms of a name without case, accents, separators, unseen characters and plurals.

    Two names are nearly equal if they have a form in common.
    """
    words = _words(name)
    choices = product(*([word, *_singulars(word)] for word in words))
    return {"".join(choice) for choice in islice(choices, MOST_FORMS)}


def may_mean_other(label: Any) -> bool:
    """Return whether a name sounds like "none of my other classes": other, unknown, none, unassigned, misc., n/a."""
    return isinstance(label, str) and not _REST.isdisjoint(forms(label.strip(_AROUND)))


def _words(name: str) -> list[str]:
    """Split a name at its separators, without case and accents."""
    plain = unicodedata.normalize("NFKD", _UNSEEN.sub("", name)).casefold()
    letters = (
        "-" if unicodedata.category(c) == "Pd" else "'" if c == "\N{RIGHT SINGLE QUOTATION MARK}" else c
        for c in plain
        if not unicodedata.combining(c)
    )
    text = _END.sub("", _BESIDE_SIGN.sub("", _BLANKS.sub(" ", "".join(letters)).strip()))
    out, start = [], 0
    for found in _SEPARATOR.finditer(text):
        if not _between_digits(text, found):
            out.append(text[start : found.start()])
            start = found.end()
    return [*out, text[start:]]


def _between_digits(text: str, found: re.Match[str]) -> bool:
    return text[found.start() - 1].isdigit() and text[found.end()].isdigit()


def _singulars(word: str) -> Iterator[str]:
    """Yield the possible singulars of a word; in "shirt/tops", only its end is considered."""
    end = re.split(r"[\W\d_]", word)[-1]
    if len(end) < 3 or not end.endswith("s") or _NO_PLURAL.search(end):
        return
    yield word[:-1]
    if end.endswith("ies") and len(end) > 4:
        yield word[:-3] + "y"
    if _LONG_PLURAL.search(end):
        yield word[:-2]


def look_alikes(class_lists: Iterable[Iterable[Any]]) -> list[dict[Any, int]]:
    """Return groups of nearly equal names, each name with the first teacher that has it."""
    lists = _labels(class_lists)
    owners = owners_of_names(lists)
    groups = grouped(owners, nearly_equal(lists))
    return [{label: min(owners[label]) for label in group} for group in groups if len(group) > 1]


def sounding_like_other(class_lists: Iterable[Iterable[Any]]) -> dict[Any, list[int]]:
    """Return names that sound like OTHER, with the teachers that have them and for whom OTHER would mean something.

    These are the teachers that do not name all classes of the others. A teacher that has OTHER itself is not among
    them.
    """
    plain = [own.tolist() if hasattr(own, "tolist") else list(own) for own in class_lists]
    labels = [{label for label in own if not may_mean_other(label)} for own in _labels(plain)]
    classes = set().union(*labels)
    found: dict[Any, list[int]] = {}
    for i, own in enumerate(plain):
        if classes > labels[i] and OTHER not in own:
            for entry in own:
                if not isinstance(entry, tuple) and may_mean_other(entry):
                    found.setdefault(entry, []).append(i)
    return found


def one_for_each(names: dict[Any, list[int]]) -> list[Any]:
    """Return the names that can become OTHER together: no teacher has two of them. The most common go first."""
    chosen: list[Any] = []
    for name in sorted(names, key=lambda name: -len(names[name])):
        if not any(set(names[name]) & set(names[other]) for other in chosen):
            chosen.append(name)
    return [name for name in names if name in chosen]


def owners_of_names(lists: Iterable[Iterable[Any]]) -> dict[Any, set[int]]:
    """Return the teachers that have each name, in the order of the lists."""
    owners: dict[Any, set[int]] = {}
    for i, own in enumerate(lists):
        for label in own:
            owners.setdefault(label, set()).add(i)
    return owners


def grouped(owners: dict[Any, set[int]], links: Iterable[tuple[Any, Any]]) -> list[list[Any]]:
    """Join names link by link, the strongest first, unless that would join two that one teacher tells apart.

    Parameters
    ----------
    owners : dict of label to set of teachers
        Who has a name; the order of the names is kept.
    links : iterable of pairs of labels
        The strongest first.

    Returns
    -------
    groups : list of lists of labels
        Names that no link joins are groups of one.
    """
    group_of = {label: [label] for label in owners}
    for a, b in links:
        one, two = group_of[a], group_of[b]
        if one is two or _owners_of(one, owners) & _owners_of(two, owners):
            continue
        one.extend(two)
        group_of.update((label, one) for label in two)
    groups = {id(group): group for group in group_of.values()}
    place = {label: k for k, label in enumerate(owners)}
    return [sorted(group, key=place.__getitem__) for group in groups.values()]


def _owners_of(group: Iterable[Any], owners: dict[Any, set[int]]) -> set[int]:
    return set().union(*(owners[label] for label in group))


def quoted(names: Sequence[Any]) -> list[str]:
    """Return names in quotes, escaped as by `ascii` if two of them would look the same: accents, composed or not."""
    cases = [name.casefold() if isinstance(name, str) else repr(name) for name in names]
    looks = [unicodedata.normalize("NFC", case) for case in cases]
    alike = {look for look, n in Counter(look for look, _ in set(zip(looks, cases, strict=True))).items() if n > 1}
    return [ascii(name) if look in alike else repr(name) for name, look in zip(names, looks, strict=True)]


def about_look_alikes(groups: list[dict[Any, int]], called: Callable[[int], str], most: int = 8) -> str:
    """Return a warning about names that look alike, or an empty string; `called` is what a teacher is called."""
    if not groups:
        return ""
    named = [zip(quoted(list(group)), group.values(), strict=True) for group in groups[:most]]
    found = [" and ".join(f"{name} ({called(i)})" for name, i in group) for group in named]
    more = f"; and {len(groups) - most} more" if len(groups) > most else ""
    return (
        f"Names that differ in spelling only count as different classes: {'; '.join(found)}{more}. If they mean the "
        "same class, give them one name: class_lists=harmonize(teachers, synonyms={name: name to use})."
    )


def about_rests(rests: dict[Any, list[int]], called: Callable[[int], str], most: int = 8) -> str:
    """Return a warning about names that sound like OTHER, or an empty string; `called` is what a teacher is called."""
    if not rests:
        return ""
    found = [f"{name!r} ({', '.join(map(called, who[:most]))})" for name, who in list(rests.items())[:most]]
    several = len(one_for_each(rests)) < len(rests)
    more = " A teacher has one OTHER only: first add up the probabilities of its columns that mean it." * several
    return (
        f'Names that sound like "none of my other classes" count as classes: {"; ".join(found)}. If they mean that, '
        f"say so: class_lists=harmonize(teachers, other={one_for_each(rests)[:most]}).{more}"
    )
