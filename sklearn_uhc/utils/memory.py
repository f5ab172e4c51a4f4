"""Let the C library keep the memory of freed arrays for the next ones."""

from __future__ import annotations

import numpy as np

#: Bytes of the largest block that raises glibc's thresholds, with room for its header.
LARGEST = 2**25 - 2**16


def keep_freed_memory() -> None:
    """Let glibc's malloc reuse freed memory, up to 64 MiB per thread, instead of returning it to the system.

    Memory that is returned must be mapped and zeroed again, page by page. Solvers free and allocate arrays of megabytes
    all the time, so they would spend much time on this, above all in threads, which wait for each other to do it.
    Freeing a mapped block raises glibc's threshold for mapping to its size, and its threshold for returning memory to
    twice that (`man mallopt`, M_MMAP_THRESHOLD). Blocks of up to 32 MiB count. This one is never written to, so it
    takes no memory. With other C libraries nothing changes.
    """
    np.empty(LARGEST, dtype=np.uint8)
