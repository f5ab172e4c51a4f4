"""More images than memory should hold."""

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_a_hundred_thousand_images_in_flat_memory():
    """Images are made on access, and memory does not grow with their number."""
    code = """
import resource, sys, numpy as np, torch
from torch import nn
from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TorchTeacher
class Synthetic(torch.utils.data.Dataset):
    def __init__(self, n): self.n = n
    def __len__(self): return self.n
    def __getitem__(self, i): return torch.full((3, 32, 32), (i % 97) / 97.0)
torch.manual_seed(0)
small = lambda k: nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(48, k))
teachers = [TorchTeacher(small(3), [0, 1, 2]), TorchTeacher(small(3), [2, 3, 4])]
import skorch, sklearn
sklearn.set_config(working_memory=64)
student = skorch.NeuralNet(small(5), nn.MSELoss, max_epochs=1, batch_size=256, train_split=None, verbose=0)
peaks = []
for n in (2_000, 100_000):
    HeterogeneousDistiller(teachers, SoftLabelClassifier(student)).fit(Synthetic(n))
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(peaks[1] - peaks[0])
"""
    grown = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert grown < 300, "all images together are 1,200 MiB"
