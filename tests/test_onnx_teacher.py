"""Models in ONNX files as teachers: models of converters, and small handmade ones for what can go wrong."""

import json
import pickle
import tracemalloc

import lightgbm
import numpy as np
import onnx
import pandas as pd
import polars as pl
import pytest
import torch
import xgboost
from catboost import CatBoostClassifier
from numpy.testing import assert_allclose
from onnx import TensorProto, helper, numpy_helper
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from scipy.sparse import csc_matrix
from scipy.special import log_softmax, softmax
from skl2onnx import to_onnx
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from sklearn_uhc import HeterogeneousDistiller, OnnxTeacher, TeacherOutputs, UnifiedEnsemble
from sklearn_uhc.teachers.fingerprint import fingerprint
from sklearn_uhc.teachers.onnx_file import NotOnnxError, parse_onnx, read_onnx

X, y = load_iris(return_X_y=True)
X = X.astype(np.float32)
NAMES = np.array(["setosa", "versicolor", "virginica"])[y]
NUMBERS = 10 * y - 5


def linear(*tail, n_out=3, inputs=None, metadata=None, seed=0):
    """Return a linear model X W, with more operators after it."""
    W = np.random.default_rng(seed).normal(size=(4, n_out)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["X", "W"], ["v0"])]
    for i, op in enumerate(tail):
        nodes.append(helper.make_node(op, [f"v{i}"], [f"v{i + 1}"]))
    outputs = [helper.make_tensor_value_info(f"v{len(tail)}", TensorProto.FLOAT, [None, n_out])]
    inputs = inputs or [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 4])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(W, "W")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, metadata or {})
    return model.SerializeToString(), X @ W


SKLEARN = [
    RandomForestClassifier(10, random_state=0),
    make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
    GaussianNB(),
    KNeighborsClassifier(),
    MLPClassifier((8,), max_iter=30, random_state=0),
    StackingClassifier([("nb", GaussianNB())], RandomForestClassifier(5, random_state=0)),
]


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer", "ignore:.*deprecated:DeprecationWarning")
@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize("labels", [NAMES, NUMBERS], ids=["strings", "numbers"])
@pytest.mark.parametrize("estimator", SKLEARN, ids=lambda e: type(e).__name__)
def test_models_of_scikit_learn(estimator, labels, zipmap):
    fitted = clone(estimator).fit(X, labels)
    model = to_onnx(fitted, X[:1], options={"zipmap": zipmap}).SerializeToString()
    teacher = OnnxTeacher(model, batch_size=40, n_threads=1)
    assert teacher.classes_.tolist() == fitted.classes_.tolist()
    assert_allclose(teacher.predict_proba(X), fitted.predict_proba(X), atol=1e-5)
    assert_allclose(np.exp(teacher.predict_log_proba(X)), fitted.predict_proba(X), atol=1e-5)
    assert (teacher.predict(X) == fitted.predict(X)).mean() > 0.99


def boosters():
    shape = [("input", FloatTensorType([None, 4]))]
    for labels in (NAMES, NUMBERS):
        fitted = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(X, labels)
        yield fitted, convert_lightgbm(fitted, initial_types=shape)
        yield fitted, convert_lightgbm(fitted, initial_types=shape, zipmap=False)
    for rows in (slice(None), y < 2):
        fitted = xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(X[rows], y[rows])
        yield fitted, convert_xgboost(fitted, initial_types=shape)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_models_of_lightgbm_and_xgboost():
    for fitted, model in boosters():
        teacher = OnnxTeacher(model.SerializeToString(), n_threads=1)
        assert teacher.classes_.tolist() == fitted.classes_.tolist()
        assert_allclose(teacher.predict_proba(X), fitted.predict_proba(X), atol=1e-5)


def test_a_model_of_catboost(tmp_path):
    fitted = CatBoostClassifier(iterations=5, verbose=0, thread_count=1, allow_writing_files=False).fit(X, NAMES)
    fitted.save_model(tmp_path / "cat.onnx", format="onnx")
    teacher = OnnxTeacher(tmp_path / "cat.onnx", n_threads=1)
    assert teacher.classes_.tolist() == fitted.classes_.tolist()
    assert_allclose(teacher.predict_proba(X), fitted.predict_proba(X), atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("any_batch", [True, False])
def test_a_network_of_torch_whatever_its_batch(tmp_path, any_batch):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16, 5))
    images = np.random.default_rng(0).normal(size=(30, 1, 4, 4)).astype(np.float32)
    shapes = ({0: torch.export.Dim("n")},) if any_batch else None
    example = (torch.zeros(7, 1, 4, 4),)
    torch.onnx.export(module.eval(), example, tmp_path / "cnn.onnx", dynamic_shapes=shapes, dynamo=True, verbose=False)
    teacher = OnnxTeacher(tmp_path / "cnn.onnx", list("abcde"), batch_size=8, n_threads=1)
    expected = module(torch.as_tensor(images)).log_softmax(dim=1).detach().numpy()
    assert_allclose(teacher.predict_log_proba(images), expected, atol=1e-5)
    assert_allclose(teacher.predict_log_proba(images.astype(float)[:3]), expected[:3], atol=1e-5)
    with pytest.raises(ValueError, match=r"shape \(1, 4, 4\), but X .*\(16\)"):
        teacher.predict(images.reshape(30, 16))
    flat = make_pipeline(FunctionTransformer(lambda rows: rows.reshape(-1, 1, 4, 4)), teacher)
    assert_allclose(flat.predict_log_proba(images.reshape(30, 16)), expected, atol=1e-5)


@pytest.mark.parametrize("tail", [(), ("Softmax",), ("LogSoftmax",), ("LogSoftmax", "Identity"), ("LogSoftmax", "Exp")])
def test_what_an_output_holds_is_seen_from_the_last_operator(tail):
    model, scores = linear(*tail)
    teacher = OnnxTeacher(model, list("abc"))
    assert_allclose(teacher.predict_log_proba(X), log_softmax(scores, axis=1), atol=1e-4)


def test_scores_that_are_not_known_to_be_any_are_refused():
    model, scores = linear("Neg")
    with pytest.raises(ValueError, match=r"row 0 (has the value|sums to) .*output_kind=\"logits\""):
        OnnxTeacher(model, list("abc")).predict(X)
    teacher = OnnxTeacher(model, list("abc"), output_kind="logits")
    assert_allclose(teacher.predict_proba(X), softmax(-scores, axis=1), atol=1e-5)
    with pytest.raises(ValueError, match="output_kind must be one of"):
        OnnxTeacher(model, list("abc"), output_kind="score").predict(X)


def test_probabilities_that_look_like_logits_are_refused():
    half = helper.make_node("Add", ["a", "a"], ["b"])
    nodes = [
        helper.make_node("Softmax", ["X"], ["s"]), helper.make_node("Mul", ["s", "half"], ["a"]), half,
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 4])],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, [None, 4])],
        [numpy_helper.from_array(np.float32(0.5), "half")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    with pytest.raises(ValueError, match='pass output_kind="proba"'):
        OnnxTeacher(model, list("abcd")).predict(X)
    teacher = OnnxTeacher(model, list("abcd"), output_kind="proba")
    assert_allclose(teacher.predict_proba(X), softmax(X, axis=1), atol=1e-6)


@pytest.mark.parametrize(("tail", "kind"), [((), "auto"), (("Sigmoid",), "auto"), (("Sigmoid", "Log"), "log_proba")])
def test_one_output_speaks_for_the_second_of_two_classes(tail, kind):
    model, scores = linear(*tail, n_out=1)
    teacher = OnnxTeacher(model, ["no", "yes"], output_kind=kind)
    expected = 1 / (1 + np.exp(-scores[:, 0]))
    assert teacher.classes_.tolist() == ["no", "yes"]
    assert_allclose(teacher.predict_proba(X), np.column_stack([1 - expected, expected]), atol=1e-5)


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("estimator", [LinearSVC(), LogisticRegression()], ids=lambda e: type(e).__name__)
def test_the_score_of_two_classes_counts_once(estimator, raw):
    fitted = clone(estimator).fit(X[y > 0], NAMES[y > 0])
    options = {"raw_scores": raw} if isinstance(estimator, LinearSVC) else {"raw_scores": True, "zipmap": raw}
    model = to_onnx(fitted, X[:1], options=options).SerializeToString()
    score = fitted.decision_function(X)
    answer = OnnxTeacher(model, fitted.classes_, output_kind="logits").predict_log_proba(X)
    assert_allclose(answer, log_softmax(np.column_stack([0 * score, score]), axis=1), atol=1e-4)


FRAME = pd.DataFrame(
    {
        "sepal/length (cm)": X[:, 0],
        "width": X[:, 1],
        "kind": np.where(X[:, 2] > 3, "long", "short"),
        "whole": X[:, 3].astype(np.int64),
    }
)


@pytest.fixture(scope="module")
def by_column():
    columns = make_column_transformer(
        (StandardScaler(), ["sepal/length (cm)", "width", "whole"]), (OneHotEncoder(), ["kind"])
    )
    fitted = make_pipeline(columns, LogisticRegression(max_iter=500)).fit(FRAME, NAMES)
    return fitted, to_onnx(fitted, FRAME[:1]).SerializeToString()


def test_one_input_per_column(by_column):
    fitted, model = by_column
    teacher, expected = OnnxTeacher(model, batch_size=64), fitted.predict_proba(FRAME)
    shuffled = FRAME[["whole", "kind", "width", "sepal/length (cm)"]].assign(more=1)
    for frame in (FRAME, shuffled, shuffled.astype({"kind": "category", "width": float}), pl.DataFrame(shuffled)):
        assert_allclose(teacher.predict_proba(frame), expected, atol=1e-4)
        log_p = TeacherOutputs([teacher], floor=1e-9).fit_transform(frame)
        assert_allclose(np.exp(log_p), expected, atol=1e-4)
    assert_allclose(teacher.predict_proba(FRAME.to_numpy(dtype=object)), expected, atol=1e-4)


def test_columns_that_do_not_fit_are_named(by_column):
    teacher = OnnxTeacher(by_column[1])
    for ask in (teacher.predict, TeacherOutputs([teacher]).fit):
        with pytest.raises(ValueError, match=r"columns that X does not have: \['width'\]"):
            ask(FRAME.drop(columns="width"))
    with pytest.raises(ValueError, match=r"'whole' .*expects int64"):
        teacher.predict(FRAME.assign(whole=0.5))
    with pytest.raises(ValueError, match=r"'whole' .*expects int64"):
        teacher.predict(FRAME.assign(whole=np.nan))
    with pytest.raises(ValueError, match=r"'width' .*expects numbers"):
        teacher.predict(FRAME.assign(width="wide"))
    for missing in (None, np.nan, pd.NA):
        kind = FRAME["kind"].astype(object).where(FRAME.index != 3, missing)
        with pytest.raises(ValueError, match=r"'kind' of the model expects strings.* in row 3 of"):
            teacher.predict(FRAME.assign(kind=kind))
    with pytest.raises(ValueError, match="4 columns, but X has 3"):
        teacher.predict(FRAME.to_numpy(dtype=object)[:, :3])


def test_columns_that_a_converter_cannot_tell_apart_are_an_error(by_column):
    """Both could be the model's `sepal_length__cm_`."""
    both = FRAME.rename(columns={"sepal/length (cm)": "sepal length (cm)"}).assign(**{"sepal-length (cm)": 0.0})
    with pytest.raises(ValueError, match=r"columns that X does not have: \['sepal_length__cm_'\]"):
        OnnxTeacher(by_column[1]).predict(both)


def test_columns_of_a_matrix_by_name():
    expected = OnnxTeacher(linear()[0], list("abc")).predict_proba(X)
    frame = pd.DataFrame(X, columns=list("pqrs"))[list("srqp")].assign(t=0)
    named, _ = linear(metadata={"feature_names": json.dumps(list("pqrs"))})
    for teacher in (OnnxTeacher(linear()[0], list("abc"), feature_names=list("pqrs")), OnnxTeacher(named, list("abc"))):
        assert teacher.feature_names_in_.tolist() == list("pqrs")
        assert_allclose(teacher.predict_proba(frame), expected, atol=1e-6)
        assert_allclose(teacher.predict_proba(X), expected, atol=1e-6)
        with pytest.raises(ValueError, match=r"columns that X does not have: \['p'\]"):
            teacher.predict(frame.drop(columns="p"))
    plain = OnnxTeacher(linear()[0], list("abc"))
    assert not hasattr(plain, "feature_names_in_")
    with pytest.raises(ValueError, match=r"shape \(4\), but X .*\(5\)"):
        plain.predict(frame)


def test_texts():
    vectors = numpy_helper.from_array(np.array([0.0, 1.0, 0.0], dtype=np.float32), "unused")
    node = helper.make_node(
        "LabelEncoder", ["X"], ["v"], domain="ai.onnx.ml", keys_strings=["spam", "ham"], values_floats=[0.9, 0.2],
    )  # fmt: skip
    for shape in ([None], [None, 1]):
        graph = helper.make_graph(
            [node], "g", [helper.make_tensor_value_info("X", TensorProto.STRING, shape)],
            [helper.make_tensor_value_info("v", TensorProto.FLOAT, shape)], [vectors],
        )  # fmt: skip
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
        teacher = OnnxTeacher(model, ["ham", "spam"])
        assert_allclose(teacher.predict_proba(["ham", "spam"]), [[0.8, 0.2], [0.1, 0.9]], atol=1e-6)
        assert teacher.predict(np.array(["ham", "spam"])).tolist() == ["ham", "spam"]
        assert teacher.predict(pd.DataFrame({"t": [0], "X": ["spam"]})[["X"]]).tolist() == ["spam"]


@pytest.mark.parametrize(
    ("metadata", "classes"),
    [
        ({"classes": '["cat", "dog", "cow"]'}, ["cat", "dog", "cow"]),
        ({"names": "{0: 'cat', 1: 'dog', 2: 'cow'}"}, ["cat", "dog", "cow"]),
        ({"class_names": '{"1": "dog", "2": "cow", "0": "cat"}'}, ["cat", "dog", "cow"]),
        ({"classes": "[7, 8, 9]"}, [7, 8, 9]),
        ({"classes": '["cat", "dog"]'}, None),
        ({"classes": "3"}, None),
        ({"names": "__import__('os')"}, None),
        ({"names": "[" * 100_000}, None),
        ({"names": f"['a', 'b', 'c'{' ' * 2**20}]"}, None),
    ],
)
def test_classes_in_the_metadata(metadata, classes):
    teacher = OnnxTeacher(linear(metadata=metadata)[0])
    if classes is not None:
        assert teacher.classes_.tolist() == classes
        return
    assert not hasattr(teacher, "classes_")
    with pytest.raises(
        ValueError, match=r"teacher 0 \(OnnxTeacher\) has no classes_: name its classes with class_lists"
    ):
        TeacherOutputs([teacher]).fit(X)
    assert TeacherOutputs([teacher], class_lists=[list("abc")]).fit_transform(X).shape == (150, 3)


def test_classes_that_do_not_fit():
    model = linear()[0]
    with pytest.raises(ValueError, match=r"classes has 2 entries, but output 'v0' of the model of .* has 3 columns"):
        TeacherOutputs([OnnxTeacher(model, list("ab"))]).fit(X)
    with pytest.raises(AttributeError, match="pass classes="):
        _ = OnnxTeacher(model).classes_
    fitted = to_onnx(GaussianNB().fit(X, NAMES), X[:1]).SerializeToString()
    with pytest.warns(UserWarning, match="in another order"):
        assert OnnxTeacher(fitted, ["virginica", "setosa", "versicolor"]).classes_[0] == "virginica"
    assert OnnxTeacher(fitted, list("abc")).classes_.tolist() == list("abc")


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
def test_an_output_must_be_chosen_or_is_missing():
    scores = to_onnx(LinearSVC().fit(X, NAMES), X[:1]).SerializeToString()
    with pytest.raises(ValueError, match="not probabilities"):
        OnnxTeacher(scores).predict(X)
    model = onnx.load_from_string(to_onnx(GaussianNB().fit(X, y), X[:1], options={"zipmap": False}).SerializeToString())
    del model.graph.output[1]
    with pytest.raises(ValueError, match=r"returns no probabilities, only 'label' \(tensor\(int64\)\)"):
        OnnxTeacher(model.SerializeToString()).predict(X)
    two = onnx.load_from_string(linear("Softmax")[0])
    two.graph.output.append(helper.make_tensor_value_info("v0", TensorProto.FLOAT, [None, 3]))
    with pytest.raises(ValueError, match=r"has several outputs, 'v1' .*, 'v0' .*: pass output="):
        OnnxTeacher(two.SerializeToString(), list("abc")).predict(X)
    answers = [OnnxTeacher(two.SerializeToString(), list("abc"), output=o).predict_proba(X) for o in ("v0", "v1")]
    assert_allclose(*answers, atol=1e-6)
    ridge = to_onnx(Ridge().fit(X, y), X[:1]).SerializeToString()
    with pytest.raises(ValueError, match="classes has 3 entries, but output"):
        _ = OnnxTeacher(ridge, list("abc")).classes_


def test_what_is_not_onnx(tmp_path):
    good = linear()[0]
    for bad in (b"", b"not a model", good[: len(good) // 2], pickle.dumps(GaussianNB())):
        with pytest.raises(ValueError, match=r"is not an ONNX model|onnxruntime cannot load"):
            OnnxTeacher(bad).predict(X)
    (tmp_path / "model.onnx").write_bytes(b"\x00\x01")
    with pytest.raises(ValueError, match=r"the model '.*model.onnx' is not an ONNX model"):
        OnnxTeacher(tmp_path / "model.onnx").predict(X)
    with pytest.raises(FileNotFoundError):
        OnnxTeacher(tmp_path / "nothing.onnx").predict(X)
    with pytest.raises(TypeError, match=r"got ModelProto.*model.SerializeToString\(\)"):
        OnnxTeacher(onnx.load_from_string(good)).predict(X)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer", "ignore:.*deprecated:DeprecationWarning")
def test_damaged_files_are_an_error_or_a_model():
    """Bytes are changed, removed and inserted; reading the file never fails in another way."""
    rng = np.random.default_rng(0)
    zipped = to_onnx(MLPClassifier((3,), max_iter=2).fit(X, NUMBERS), X[:1], options={"zipmap": False})
    for good in (zipped.SerializeToString(), to_onnx(GaussianNB().fit(X, NAMES), X[:1]).SerializeToString()):
        outcomes = set()
        for _ in range(1000):
            bad = bytearray(good)
            for place in rng.integers(0, len(bad), rng.integers(1, 6)):
                kind = rng.integers(3)
                bad[place : place + (kind != 1)] = b"" if kind == 2 else bytes([rng.integers(256)])
            try:
                file = read_onnx(parse_onnx(bytes(bad)))
                facts = [(file.source(name), file.classes_of(name, None)) for name in file.outputs]
                outcomes.add(len(facts) > 0)
            except NotOnnxError:
                outcomes.add("refused")
        assert {True, "refused"} <= outcomes


def test_providers_and_threads():
    model, _ = linear()
    teacher = OnnxTeacher(model, list("abc"), providers=["CPUExecutionProvider"], n_threads=2)
    assert teacher.predict_proba(X).shape == (150, 3)
    for wrong in (["CUDAExecutionProvider2"], "CPUExecutionProvider"):
        with pytest.raises(ValueError, match=r"providers must be a list.*\["):
            OnnxTeacher(model, list("abc"), providers=wrong).predict(X)
    for name in ("batch_size", "n_threads"):
        with pytest.raises(ValueError, match=f"{name} must be a positive integer, got 0"):
            OnnxTeacher(model, list("abc"), **{name: 0}).predict(X)


def test_pickles_clones_and_new_parameters(tmp_path):
    model, other = linear(seed=1)[0], linear(seed=2)[0]
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    expected = OnnxTeacher(model, list("abc")).predict_proba(X)
    for given in (model, path, str(path)):
        teacher = OnnxTeacher(given, list("abc"))
        assert_allclose(teacher.predict_proba(X), expected)
        for copied in (clone(teacher), pickle.loads(pickle.dumps(teacher))):
            assert copied.get_params() == teacher.get_params()
            assert_allclose(copied.predict_proba(X), expected)
    teacher.set_params(model=other)
    assert np.abs(teacher.predict_proba(X) - expected).max() > 0.01
    assert len(repr(OnnxTeacher(model))) < 200
    assert f"<{len(model)} bytes>" in repr(OnnxTeacher(model))


def test_the_key_of_a_store_is_the_content_of_the_file(tmp_path):
    model, other = linear(seed=1)[0], linear(seed=2)[0]
    a, b = tmp_path / "a.onnx", tmp_path / "b.onnx"
    a.write_bytes(model)
    b.write_bytes(model)
    key = fingerprint(OnnxTeacher(model, list("abc")))
    read = OnnxTeacher(a, list("abc"), batch_size=3, n_threads=1)
    for same in (read, OnnxTeacher(str(b), list("abc")), pickle.loads(pickle.dumps(read))):
        assert fingerprint(same) == key
        same.predict(X[:2])
        assert fingerprint(same) == key
    a.write_bytes(other)
    assert fingerprint(read) == key, "it answers with what it has loaded"
    different = [OnnxTeacher(a, list("abc")), OnnxTeacher(b, list("abd")), OnnxTeacher(b, output_kind="proba")]
    assert len({fingerprint(teacher) for teacher in different} | {key}) == 4


def test_a_stored_answer_is_not_computed_again(tmp_path):
    teacher = OnnxTeacher(linear()[0], list("abc"))
    first = TeacherOutputs([teacher], store=tmp_path).fit_transform(X)
    teacher._load()  # as the key does; after this the session must not be used
    object.__setattr__(teacher._loaded, "session", None)
    assert_allclose(TeacherOutputs([teacher], store=tmp_path).fit_transform(X), first)


def test_weights_in_other_files(tmp_path):
    model = onnx.load_from_string(linear()[0])
    expected = OnnxTeacher(linear()[0], list("abc")).predict_proba(X)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    teacher = OnnxTeacher(path, list("abc"))
    assert_allclose(teacher.predict_proba(X), expected)
    key = fingerprint(teacher)
    with pytest.raises(ValueError, match=r"keeps weights in other files, \['weights.bin'\]: pass its path"):
        OnnxTeacher(path.read_bytes(), list("abc")).predict(X)
    (tmp_path / "weights.bin").write_bytes(np.ones(12, dtype=np.float32).tobytes())
    assert fingerprint(OnnxTeacher(path, list("abc"))) != key
    for outside in ("../weights.bin", "/etc/hostname", "a/../../b", "..\\weights.bin", "C:weights.bin"):
        moved = onnx.load(path, load_external_data=False)
        next(e for e in moved.graph.initializer[0].external_data if e.key == "location").value = outside
        (tmp_path / "moved.onnx").write_bytes(moved.SerializeToString())
        with pytest.raises(ValueError, match="outside its own folder"):
            OnnxTeacher(tmp_path / "moved.onnx", list("abc")).predict(X)


def test_sparse_rows_and_no_copy_of_all_of_x():
    expected = OnnxTeacher(linear()[0], list("abc")).predict_proba(X)
    assert_allclose(
        OnnxTeacher(linear()[0], list("abc"), batch_size=7).predict_proba(csc_matrix(X)), expected, atol=1e-6
    )
    many = np.zeros((200_000, 4))  # float64, so that every batch is converted
    teacher = OnnxTeacher(linear()[0], list("abc"), batch_size=1000)
    teacher.predict(many[:10])
    tracemalloc.start()
    teacher.predict_log_proba(many)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000 * 3 * 4 + 500_000, "the answers and a few batches"


def test_a_merge_of_onnx_teachers_as_of_the_originals():
    pairs = [[0, 1], [1, 2], [0, 2]]
    rows = [np.isin(y, pair) for pair in pairs]
    originals = [LogisticRegression(max_iter=500).fit(X[r], NAMES[r]) for r in rows]
    files = [OnnxTeacher(to_onnx(t, X[:1]).SerializeToString()) for t in originals]
    merged = [UnifiedEnsemble(teachers).fit(X).predict_proba(X) for teachers in (originals, files)]
    assert_allclose(*merged, atol=5e-3)  # 1 - p of a p near 1 in single precision
    clf = HeterogeneousDistiller(files, LogisticRegression(max_iter=500)).fit(X)
    assert clone(clf).fit(X).score(X, NAMES) > 0.85
    assert pickle.loads(pickle.dumps(clf)).score(X, NAMES) > 0.85
