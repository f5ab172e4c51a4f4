"""Results of earlier versions on a fixed set of cases, so that they do not change unnoticed.

`python -m tests.test_recorded` records them again. Do so only if results are meant to change, and say why in the
commit.
"""

from pathlib import Path

import numpy as np
import pytest

from sklearn_uhc import TeacherCalibrator
from tests.helpers import METHOD_NAMES, make_method, random_lists, random_outputs

RECORDED = Path(__file__).parent / "recorded.npz"
#: Tolerances: closed forms, solvers that stop at a tolerance, single precision.
TOLERANCE = {"sd": 1e-12, "mf_lf": 1e-12, "ce": 1e-9, "mf_p": 1e-9, "mf_lu": 1e-9, "float32": 1e-5, "calibrator": 1e-9}


def cases():
    """Yield name, tolerance and result of every case."""
    for k, (L, N, low, high, spread) in enumerate([(5, 4, 2, 4, 1.0), (12, 8, 3, 6, 3.0)]):
        rng = np.random.default_rng(k)
        lists = random_lists(rng, L, N, low, high)
        Z = random_outputs(rng, lists, 12, spread, 0.7)
        weight, quiet = rng.uniform(0.2, 3, N), rng.random((12, N)) < 0.25
        teacher_of = np.repeat(np.arange(N), [len(labels) for labels in lists])
        S = np.where(quiet[:, teacher_of], np.nan, Z)
        for name in METHOD_NAMES:
            for T in (1.0, 3.0):
                key, same = f"{k}/{name}/{T:.0f}", {"temperature": T}
                yield f"{key}/plain", name, make_method(name, lists, **same).fit_transform(Z)
                yield f"{key}/weights", name, make_method(name, lists, teacher_weight=weight, **same).fit_transform(Z)
                both = make_method(name, lists, teacher_weight=weight, abstain=True, **same)
                yield f"{key}/silence", name, both.fit_transform(S[~quiet.all(axis=1)])
                single = make_method(name, lists, **same).fit_transform(Z.astype(np.float32))
                yield f"{key}/float32", "float32", single
        calibrator = TeacherCalibrator(lists, min_overlap=0.0, abstain=True, teacher_weight=weight).fit(S)
        yield f"{k}/calibrator", "calibrator", calibrator.temperatures_


@pytest.mark.filterwarnings("ignore:None of the .* rows is answered")
def test_answers_are_those_of_earlier_versions():
    with np.load(RECORDED) as recorded:
        for name, kind, answer in cases():
            np.testing.assert_allclose(answer, recorded[name], rtol=0, atol=TOLERANCE[kind], err_msg=name)


def test_torch_gives_the_same():
    torch = pytest.importorskip("torch")
    lists = random_lists(np.random.default_rng(0), 5, 4, 2, 4)
    Z = random_outputs(np.random.default_rng(1), lists, 12, 1.0, 0.7)
    for name in METHOD_NAMES:
        answer = make_method(name, lists).fit_transform(torch.as_tensor(Z)).numpy()
        np.testing.assert_allclose(answer, make_method(name, lists).fit_transform(Z), rtol=0, atol=1e-9)


if __name__ == "__main__":
    np.savez_compressed(RECORDED, **{name: answer for name, _, answer in cases()})
