"""Merges of real models and real data, as told in docs/stories; the data are not part of the project."""
