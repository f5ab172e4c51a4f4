"""Chunks of rows for several threads, and the memory that these reuse."""

import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from sklearn_uhc.utils.rows import chunks

#: Frees ten arrays of 3 MB again and again, before and after the call; prints the page faults of either.
FAULTS = """
import resource
import numpy as np
from sklearn_uhc.utils.memory import keep_freed_memory

def faults():
    so_far = []
    for _ in range(10):
        so_far.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
        [np.ones(3 * 2**17) for _ in range(10)]
    return so_far[-1] - so_far[2]  # the first rounds enlarge the heap

first = faults()
keep_freed_memory()
print(first, faults())
"""


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [0, 1, 10, 11, 25, 39, 80, 81, 1000])
def test_all_rows_are_in_one_slice_of_bounded_length(n, workers):
    parts = list(chunks(n, 8, 10, workers))
    assert [row for part in parts for row in range(part.start, part.stop)] == list(range(n))
    assert max((part.stop - part.start for part in parts), default=0) <= 10


@pytest.mark.parametrize(
    ("n", "workers", "lengths"),
    [(10, 2, [10]), (11, 2, [6, 5]), (25, 2, [7, 7, 7, 4]), (25, 8, [9, 9, 7]), (25, 1, [10, 10, 5])],
)
def test_workers_get_equal_shares(n, workers, lengths):
    """Slices of the same length, and equally many per worker if there are enough."""
    assert [part.stop - part.start for part in chunks(n, 8, 10, workers)] == lengths


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other rules")
def test_freed_memory_is_reused():
    """Memory that was returned to the system faults again at first use; memory that was kept does not."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    found = subprocess.run([sys.executable, "-c", FAULTS], env=env, capture_output=True, text=True, check=True)
    before, after = np.array(found.stdout.split(), dtype=int)
    assert after < before / 10
