"""Small fitted models as each release pickled them. `python -m tests.models` writes those of the present one."""
