"""The plot of which teacher knows which class: cells, order, names and legend."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import OTHER, HeterogeneousDistiller, LabelSpace, TeacherOutputs
from sklearn_uhc.inspection import ClassOverlapDisplay
from sklearn_uhc.teachers.roster import kind_of_teacher
from tests.helpers import linear_teachers

pytest.importorskip("matplotlib.pyplot")
LISTS = [["ant", "bee", "cat"], ["bee", "cat", "dog"], ["cat", "dog", "ant"]]


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(60, 4))


@pytest.fixture(scope="module")
def distiller(X):
    return HeterogeneousDistiller(linear_teachers(LISTS), KNeighborsClassifier(3), temperature=1).fit(X)


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def fifty():
    names = [f"class {k:02d}" for k in range(50)]
    return [names[i : i + 9] for half in (0, 25) for i in (half, half + 8, half + 16)]


def test_overlap_draws_the_mask_group_by_group():
    lists = [["a", "d"], ["b", "c"], ["d", "e"]]
    display = ClassOverlapDisplay.from_class_lists(dict(zip(["first", "second", "third"], lists, strict=True)))
    assert ticks(display.ax_.xaxis) == ["a", "d", "e", "b", "c"]
    assert ticks(display.ax_.yaxis) == ["first", "second", "third"]
    expected = [[1, 1, 0, 0, 0], [0, 0, 0, 1, 1], [0, 1, 1, 0, 0]]
    np.testing.assert_array_equal(display.image_.get_array(), expected)
    assert [line.get_xdata()[0] for line in display.boundaries_] == [2.5]
    assert {"group 1", "group 2"} <= {text.get_text() for text in display.ax_.texts}


def test_overlap_puts_classes_of_the_same_teachers_side_by_side():
    lists = [["f", "a", "d"], ["d", "b", "e"], ["b", "e", "c"]]
    display = ClassOverlapDisplay.from_class_lists(lists)
    assert ticks(display.ax_.xaxis) == ["a", "f", "d", "b", "e", "c"]
    drawn = display.image_.get_array()
    assert (np.abs(np.diff(drawn, axis=1)).sum(axis=1) <= 2).all()  # every list is one bar


def test_overlap_of_hundreds_of_classes_fits_a_screen():
    lists = [[f"class {k}" for k in range(25 * i, 25 * i + 50)] for i in range(11)]
    display = ClassOverlapDisplay.from_class_lists(lists)
    assert display.figure_.get_size_inches()[0] <= 16
    assert display.ax_.get_xlabel().startswith("300 classes")
    assert not any("class" in tick for tick in ticks(display.ax_.xaxis))


def test_overlap_of_fifty_classes_names_every_class_and_every_group():
    lists = fifty()
    space = LabelSpace(lists)
    display = ClassOverlapDisplay.from_class_lists(lists)
    assert sorted(ticks(display.ax_.xaxis)) == space.classes.tolist()
    assert len(display.boundaries_) == space.n_components - 1 == 1
    drawn = display.image_.get_array()
    assert drawn.sum() == sum(map(len, lists))
    assert all(label.get_rotation() == 90 for label in display.ax_.get_xticklabels())


SETS = {"coarse": [("a", "b"), ("c", "d")], "fine": ["a", "b", "c"], "rest": ["d", OTHER]}


def test_overlap_tells_single_classes_sets_and_other_apart():
    display = ClassOverlapDisplay.from_class_lists(SETS)
    assert display.sets.tolist() == [[1, 1, 2, 2], [0, 0, 0, 0], [-1, -1, -1, 0]]
    drawn = display.image_.get_array()
    assert drawn.mask.tolist() == (display.sets == -1).tolist()
    assert len({0.0, float(drawn[0, 0]), float(drawn[1, 0])}) == 3  # unknown, in a set, alone
    assert display.ax_.patch.get_hatch()
    assert [text.get_text() for text in display.texts_] == ["a", "a", "b", "b"]
    assert [text.get_text().split(" (")[0] for text in display.legend_.get_texts()] == [
        "a column of its own",
        "one of a set",
        "one of OTHER",
        "does not know it",
    ]
    display.figure_.canvas.draw()


def test_legend_names_only_what_is_there(distiller):
    def legend(display):
        return [text.get_text().split(" (")[0] for text in display.legend_.get_texts()]

    display = ClassOverlapDisplay.from_class_lists([["a", "b"], [("a", "b"), "c"]])
    assert legend(display) == ["a column of its own", "one of a set", "does not know it"]
    assert legend(ClassOverlapDisplay.from_estimator(distiller)) == ["knows the class", "does not know it"]
    everything = ClassOverlapDisplay(np.ones((2, 2))).plot()
    assert legend(everything) == ["knows the class"]
    assert everything.texts_ == []


def test_overlap_of_many_sets_has_no_letters():
    display = ClassOverlapDisplay.from_class_lists([[tuple(range(40)), tuple(range(40, 61))], list(range(61))])
    assert display.texts_ == []
    assert display.sets.max() == 2


def test_a_single_column_links_nothing():
    display = ClassOverlapDisplay.from_class_lists([[("a", "b", "c")], ["a", "b"], ["c", "d"]])
    assert len(display.boundaries_) == 1


def test_overlap_refuses_sets_of_unknown_classes():
    with pytest.raises(ValueError, match="0 where the mask is False"):
        ClassOverlapDisplay([[True, False], [True, True]], sets=[[0, 1], [0, 0]])
    with pytest.raises(ValueError, match="must be the same"):
        ClassOverlapDisplay(np.ones((2, 2)), sets=[[0, 1]])


def test_connected_lists_have_no_boundary(distiller):
    display = ClassOverlapDisplay.from_estimator(distiller)
    assert display.boundaries_ == []
    assert ticks(display.ax_.yaxis) == ["0 LinearTeacher", "1 LinearTeacher", "2 LinearTeacher"]
    mask = distiller.merger_.label_space_.mask
    np.testing.assert_array_equal(display.image_.get_array(), mask[:, display.order])


def test_a_pipeline_is_named_after_its_last_step(X):
    y = np.arange(len(X)) % 3
    teacher = make_pipeline(StandardScaler(), RandomForestClassifier(2)).fit(X, y)
    display = ClassOverlapDisplay.from_estimator(TeacherOutputs([teacher]).fit(X))
    assert ticks(display.ax_.yaxis) == ["0 RandomForestClassif…"]
    assert display.teacher_names == ["0 RandomForestClassifier"]


def test_teachers_are_named_after_what_is_inside():
    class Net:
        module = KNeighborsClassifier  # a class, as in a skorch net

    class Torch:
        module = KNeighborsClassifier()  # an instance, as in a TorchTeacher

    frozen = FrozenEstimator(make_pipeline(StandardScaler(), RandomForestClassifier()))
    kinds = [kind_of_teacher(teacher) for teacher in (Net(), Torch(), frozen, KNeighborsClassifier())]
    assert kinds == ["KNeighborsClassifier", "KNeighborsClassifier", "RandomForestClassifier", "KNeighborsClassifier"]


@pytest.mark.parametrize(
    ("mask", "message"),
    [([True], "shape"), ([[True, True], [False, False]], "row 1"), ([[True, False]], "column 1")],
)
def test_overlap_refuses_masks_of_no_merge(mask, message):
    with pytest.raises(ValueError, match=message):
        ClassOverlapDisplay(mask)


def test_names_must_fit():
    with pytest.raises(ValueError, match="1 names for 2 teachers"):
        ClassOverlapDisplay(np.ones((2, 2)), teacher_names=["one"])
    with pytest.raises(ValueError, match="3 classes for 2 columns"):
        ClassOverlapDisplay(np.ones((2, 2)), classes=["a", "b", "c"])
