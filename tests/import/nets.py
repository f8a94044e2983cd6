"""Models for check_import.py: small ones that use what .pt2 files have, and those of other packages if they are there."""
import torch
import torch.nn.functional as F
from torch import nn


class Entry:
    """make(): the module; draw: functions of a number of samples that draw its inputs; classes: of a cross-entropy, or 0.

    layers: the section `model` of a configuration, in place of the .pt2 file."""

    def __init__(self, make, *draw, classes=0, layers=None):
        self.make, self.draw, self.classes, self.layers = make, draw, classes, layers


def real(*shape):
    return lambda n: torch.randn(n, *shape)


def whole(below, *shape):
    """Numbers 0, 1, ... below - 1."""
    return lambda n: torch.randint(0, below, (n, *shape))


def without_random(net):
    """The module without dropout and drop path."""
    for m in net.modules():
        if isinstance(m, nn.modules.dropout._DropoutNd):
            m.p = 0.0
        elif isinstance(m, (nn.MultiheadAttention, nn.RNNBase)):
            m.dropout = 0.0
        elif type(m).__name__ == "StochasticDepth":
            m.p = 0.0
        elif type(m).__name__ == "DropPath":
            m.drop_prob = 0.0
    return net


# ---- written as layers, too ------------------------------------------------------------------
class Written(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.conv2 = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.Conv2d(6, 6, 3, 2)
        self.norm, self.fc = nn.GroupNorm(2, 6), nn.Linear(6 * 4, 5)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        return self.fc(F.gelu(self.norm(self.conv2(x))).flatten(1))


WRITTEN = {"layers": [
    {"conv2d": {"out": 6, "kernel": 3, "padding": 1}, "name": "conv1"}, {"batchnorm": {}, "name": "bn1"}, {"relu": {}},
    {"conv2d": {"out": 6, "kernel": 3, "stride": 2}, "name": "conv2"}, {"groupnorm": {"num_groups": 2}, "name": "norm"},
    {"gelu": {}}, {"flatten": {}}, {"linear": {"out": 5}, "name": "fc"}]}
MISTAKES = Entry(Written, real(2, 6, 6), classes=5, layers=WRITTEN)
MODELS = {
    "written": MISTAKES,
    "written-mse": Entry(Written, real(2, 6, 6), layers=WRITTEN),
}


def others():
    return {}
