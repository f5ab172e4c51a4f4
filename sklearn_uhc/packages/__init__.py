"""Teacher packages: fitted classifiers in files that run no code when they are loaded.

Parse, audit, then construct. May import all but dask.
"""

from sklearn_uhc.packages.load import load_teacher
from sklearn_uhc.packages.pack import pack_teacher

__all__ = ["load_teacher", "pack_teacher"]
