"""Small networks for the tests."""

import numpy as np
import skorch
import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch import nn
from torch.utils.data import Dataset


class Small(nn.Module):
    """A convolution and a linear layer for 8 x 8 images."""

    def __init__(self, n_out=10, probabilities=False):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, n_out))
        self.probabilities = probabilities

    def forward(self, X):
        out = self.body(X)
        return out.softmax(dim=-1) if self.probabilities else out


def net(**params):
    own = {"max_epochs": 8, "lr": 0.1, "iterator_train__shuffle": True, "verbose": 0, "batch_size": 64}
    return skorch.NeuralNetClassifier(Small, **own | {"optimizer__momentum": 0.9} | params)


def flattened(model):
    return make_pipeline(FunctionTransformer(lambda X: np.asarray(X).reshape(len(X), -1)), model)


class Images(Dataset):
    """Images read one by one."""

    def __init__(self, X):
        self.X = X

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return torch.as_tensor(self.X[i]), 0
