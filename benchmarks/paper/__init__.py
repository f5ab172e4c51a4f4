"""The experiments of the paper: datasets, backbones, protocols, trials, reports. See `python -m benchmarks --help`."""
