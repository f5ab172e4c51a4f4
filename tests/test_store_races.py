"""Many readers of one store at once, killed readers, full disks: in separate processes, which may die."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sklearn_uhc import TeacherOutputs
from tests.test_store import Asked

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="fork, signals and limits of POSIX")

START = """
import errno, multiprocessing, os, resource, signal, sys, threading
import numpy as np
import sklearn_uhc.teachers.teacher_outputs as module
from sklearn_uhc import TeacherOutputs
from tests.test_store import Asked

module.STORED_ROWS = 100
folder, X, teachers = sys.argv[1], np.random.default_rng(0).normal(size=(1050, 3)), [Asked(), Asked(seed=1)]
lists = [["a", "b"], ["b", "c"]]

def read(**params):
    return TeacherOutputs(teachers, class_lists=lists, **params).fit_transform(X)

expected = read()

def check(store, times=1, barrier=None):
    for _ in range(times):
        if barrier is not None:
            barrier.wait(60)
        np.testing.assert_array_equal(read(store=store), expected)
"""

THREADS = """
def run(barrier):
    try:
        for turn in range(10):
            check(os.path.join(folder, str(turn)), 2, barrier)
    except BaseException as error:
        barrier.abort()
        failed.append(error)

failed, barrier = [], threading.Barrier(4)
threads = [threading.Thread(target=run, args=[barrier]) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed
"""

PROCESSES = """
context = multiprocessing.get_context("fork")
for turn in range(int(sys.argv[2])):
    barrier = context.Barrier(8)
    store = os.path.join(folder, str(turn))
    readers = [context.Process(target=check, args=(store, 2, barrier)) for _ in range(8)]
    [reader.start() for reader in readers]
    [reader.join() for reader in readers]
    assert [reader.exitcode for reader in readers] == [0] * 8, [reader.exitcode for reader in readers]
    assert len(os.listdir(store)) == 22, os.listdir(store)
"""

KILLED = """
answer = Asked.predict_proba

def killed(self, X):
    if Asked.asked >= 500:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(self, X)

Asked.asked, Asked.predict_proba = 0, killed
read(store=folder)
"""

KILLED_WHILE_WRITING = """
from pathlib import Path

def killed(self, target):
    if "-500-" in self.name:
        os.kill(os.getpid(), signal.SIGKILL)
    os.replace(self, target)

Path.replace = killed
read(store=folder)
"""

FULL = """
where, size = sys.argv[2], int(sys.argv[3])
if size:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    read(store=folder)
except OSError as error:
    assert error.errno == getattr(errno, where), error
    assert error.filename == folder, error
    assert "answers could not be written to the store. Those already stored are kept" in str(error), error
    assert not [name for name in os.listdir(folder) if not name.endswith(".npy")], os.listdir(folder)
else:
    raise AssertionError("nothing was raised")
"""


def run(script, *args):
    """Run a script and return how it ended."""
    root = Path(__file__).parent.parent
    env = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-c", START + script, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, cwd=root, env=env, timeout=600)


def check_resumed(folder, monkeypatch, kept):
    """Resume where a process stopped; the teacher is not called again for `kept` rows of the first teacher."""
    monkeypatch.setattr("sklearn_uhc.teachers.teacher_outputs.STORED_ROWS", 100)
    X = np.random.default_rng(0).normal(size=(1050, 3))
    teachers, lists = [Asked(), Asked(seed=1)], [["a", "b"], ["b", "c"]]
    expected = TeacherOutputs(teachers, class_lists=lists).fit_transform(X)
    Asked.asked, Asked.limit = 0, np.inf
    found = TeacherOutputs(teachers, class_lists=lists, store=folder).fit_transform(X)
    assert Asked.asked == 2 * 1050 - kept
    np.testing.assert_array_equal(found, expected)


def test_threads_share_a_store(tmp_path):
    ended = run(THREADS, tmp_path)
    assert ended.returncode == 0, ended


def test_processes_that_start_together_share_a_store(tmp_path):
    ended = run(PROCESSES, tmp_path, 3)
    assert ended.returncode == 0, ended


@pytest.mark.slow
def test_many_processes_share_a_store(tmp_path):
    ended = run(PROCESSES, tmp_path, 100)
    assert ended.returncode == 0, ended


@pytest.mark.parametrize("script", [KILLED, KILLED_WHILE_WRITING])
def test_what_a_killed_process_has_read_is_kept(script, tmp_path, monkeypatch):
    assert run(script, tmp_path).returncode == -9
    check_resumed(tmp_path, monkeypatch, kept=500)


@pytest.mark.parametrize(("size", "kept"), [(1000, 0), (4000, 300)])
def test_a_file_that_cannot_grow_is_an_error(size, kept, tmp_path, monkeypatch):
    ended = run(FULL, tmp_path, "EFBIG", size)
    assert ended.returncode == 0, ended
    check_resumed(tmp_path, monkeypatch, kept)


def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path, monkeypatch):
    mount = ["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", str(tmp_path)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a small disk is not permitted")
    try:
        ended = run(FULL, tmp_path, "ENOSPC", 0)
        assert ended.returncode == 0, ended
        kept = 100 * len(list(tmp_path.glob("*.npy")))
        assert kept > 0
        subprocess.run(["mount", "-o", "remount,size=4m", str(tmp_path)], check=True, capture_output=True)
        check_resumed(tmp_path, monkeypatch, kept)
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True, capture_output=True)
