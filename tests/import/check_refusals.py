"""Programs that the importer must refuse, since no list of layers does the same: by op, with the reason.

check_refusals.py CTRAIN DIR        prints TAP
"""

import os
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "contrib"))
from export_pt2 import export


class Frozen(nn.BatchNorm1d):
    """Stays in eval mode."""

    def train(self, mode=True):
        return super().train(False)


class Net(nn.Module):
    def __init__(self, function, **modules):
        super().__init__()
        self.function, self.w = function, nn.Parameter(torch.randn(6, 5))
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, x):
        return self.function(self, x * self.w)


def attend(net, x):
    """Each sample is a step of one sequence of queries."""
    return F.scaled_dot_product_attention(x[:, 0][None], net.w[None], net.w[None], is_causal=True)[0]


CASES = {
    "a causal mask over the samples": (Net(attend), "scaled_dot_product_attention", "samples of the batch"),
    "a batchnorm that stays in eval mode": (
        Net(lambda net, x: net.a(net.b(x)), a=Frozen(6), b=nn.BatchNorm1d(6)),
        "aten.batch_norm.default in module 'a'",
        "train.freeze_bn",
    ),
    "gradients divided by the frequency of an index": (
        Net(lambda net, x: net.e((x > 0).long()), e=nn.Embedding(2, 3, scale_grad_by_freq=True)),
        "aten.embedding.default in module 'e'",
        "frequency",
    ),
    "a dropout of all": (Net(lambda net, x: net.d(x), d=nn.Dropout(1.0)), "aten.dropout.default in module 'd'", "p = 1"),
    "the samples in another order": (Net(lambda net, x: x.flip(0)), "aten.flip", "samples of a batch"),
    "a sum over the samples": (Net(lambda net, x: x - x.mean(0)), "aten.mean.dim", "samples of a batch"),
}


def main():
    print(f"1..{len(CASES)}")
    for i, (name, (net, op, reason)) in enumerate(CASES.items()):
        path = f"{sys.argv[2]}/refused.pt2"
        export(net, torch.randn(2, 6, 5), path)
        done = subprocess.run([sys.argv[1], "import", path], capture_output=True, text=True)
        good = done.returncode and op in done.stderr and reason in done.stderr
        print(f"{'ok' if good else 'not ok'} {i + 1} - {name}" + ("" if good else f": {done.stderr.strip()}"), flush=True)


main()
