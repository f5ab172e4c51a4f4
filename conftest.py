"""Plots in tests need no screen and leave no figure open; pages that save files do so in a folder of their own."""

import os
import sys

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")
# Some virtual machines announce AMX but do not allow it: there torch's bfloat16 would end the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
if "PYTEST_XDIST_WORKER" in os.environ:  # every process has a core: threads of its own would compete with the others
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True)
def _own_folder(request, tmp_path_factory, monkeypatch):
    if request.node.name.endswith(".md"):
        monkeypatch.chdir(tmp_path_factory.mktemp("page"))
