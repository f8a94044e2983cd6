#!/usr/bin/env python3
"""Makes tests/golden/outputs.gold: short runs of models with several outputs beside PyTorch, in float64.

    pip install torch numpy h5py; tests/golden/make_outputs.py build > tests/golden/outputs.gold

The blocks are those of make_runs.py and make_places.py, whose example, the segmentation, is used.
"""
import math
import sys
import tempfile

import h5py
import numpy as np
import subprocess
import torch
import torch.nn as nn
import torch.nn.functional as F

from make_places import COMMON, ctrain, load


class Heads(nn.Module):
    """A class for each pixel, the edges, the weight of the sample, and an output without a loss."""
    keys = ["transforms=[to_tensor]", "model.outputs=[masks, spare, edges, weight]",
            "model.layers=[{conv2d: {out: 5, kernel: 3, padding: 1}, name: conv1}, {relu: {}, name: trunk}, "
            "{conv2d: {out: 3, kernel: 1}, name: masks}, "
            "{conv2d: {out: 2, kernel: 3, padding: 1}, name: spare, from: trunk}, "
            "{conv2d: {out: 1, kernel: 1}, name: edges, from: trunk}, "
            "{global_avgpool: {}, from: edges}, {flatten: {}}, {linear: 1, name: weight}]"]

    def __init__(self):
        super().__init__()
        self.conv1, self.masks = nn.Conv2d(1, 5, 3, padding=1), nn.Conv2d(5, 3, 1)
        self.edges, self.weight = nn.Conv2d(5, 1, 1), nn.Linear(1, 1)

    def forward(self, x):
        trunk = F.relu(self.conv1(x))
        edges = self.edges(trunk)
        return self.masks(trunk), edges, self.weight(edges.mean((2, 3)))


def pixels(out, d, weight=None, **more):
    """torch.nn's mean over all places; with weights of samples these are factors of the places' weights."""
    y, each = d["masks"].long(), torch.tensor(weight or [1.0, 1, 1], dtype=torch.float64)
    losses = F.cross_entropy(out, y, weight=each, ignore_index=255, reduction="none", **more)
    known = (y != 255) * each[y.clamp(max=2)]
    w = d["weights"][:, None, None] if "w" in d else 1
    return (losses * w).sum() / (known * w).sum()


def mean(losses, d):
    each = losses.flatten(1).mean(1)
    return (each * d["w"]).sum() / d["w"].sum() if "w" in d else each.mean()


def bce(out, d):
    return mean(F.binary_cross_entropy_with_logits(out, d["edges"], reduction="none"), d)


def mse(out, d):
    return mean(F.mse_loss(out, d["weights"][:, None], reduction="none"), d)


MASKS, EDGES = "{kind: cross_entropy, ignore_index: 255, target: masks}", "{kind: bce, target: edges, output: edges}"
ARRAYS = "data.target=[masks, weights, edges]"
# name, launches, keys, terms of the loss, weights of samples
RUNS = [
    ("outputs", ["ref 1", "cpu 1", "cpu 3", "cpu 2 train.accumulate=2", "cpu 3 parallel.zero=1", "cpu 2 parallel.shards=4",
                 "cpu 3 parallel.bucket_mb=0.0001"],
     [ARRAYS, f"loss=[{MASKS}, {{kind: mse, output: weight, target: weights, weight: 0.25}}, {EDGES}]"],
     lambda m, e, w, d: pixels(m, d) + 0.25 * mse(w, d) + bce(e, d), False),
    ("outputs_weighted", ["ref 2", "cpu 3", "cpu 2 train.accumulate=3"],
     [ARRAYS, "data.weight=weights",
      "loss=[{kind: mse, output: weight, target: weights, weight: 2}, "
      "{kind: cross_entropy, ignore_index: 255, output: masks, target: masks, class_weights: [0.5, 1, 2], label_smoothing: 0.1}]"],
     lambda m, e, w, d: 2 * mse(w, d) + pixels(m, d, [0.5, 1, 2], label_smoothing=0.1), True),
    # one loss, which is not of the first output; the head `edges` has parameters that it needs all the same
    ("outputs_one", ["cpu 1", "cpu 3 parallel.mode=dp"],
     [ARRAYS, "loss={kind: mse, output: weight, target: weights}"], lambda m, e, w, d: mse(w, d), False),
]


def evaluate(net, loss, d, step):
    with torch.no_grad():
        print(f"eval {step} {loss(*net(d['x']), d).item():.9g}")


def run(build, name, on, keys, loss, weighted):
    net = Heads().double()
    keys = COMMON + net.keys + keys
    with tempfile.TemporaryDirectory() as dir:
        ctrain(build, keys + [f"run.dir={dir}/run", "optim={lr: 0}", "train={steps: 1}"])
        with h5py.File(f"{dir}/run/checkpoints/step-00000001.h5") as f:
            for key, p in net.named_parameters():
                p.data = torch.from_numpy(f[f"model/{key}"][...]).double()
    train, val = load("train.h5"), load("val.h5")
    for d in train, val:
        d["x"] = d["images"] / 255
        if weighted:
            d["w"] = d["weights"]
    n = len(train["x"])
    text = subprocess.run([f"{build}/tests/golden/draws", "1", str(n), "2"], check=True, capture_output=True, text=True)
    rows = np.array([line.split()[0] for line in text.stdout.splitlines()], dtype=int).reshape(2, n)
    print(f"run {name}\nconfig segmentation/train.yaml\nnear 2e-05")
    for key in keys:
        print("set", key)
    for launch in on:
        print("on", launch)
    optim, step = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9), 0
    for epoch in rows:
        for begin in range(0, n, 40):
            step += 1
            some = torch.from_numpy(epoch[begin:begin + 40])
            batch = {k: v[some] for k, v in train.items()}
            optim.zero_grad()
            value = loss(*net(batch["x"]), batch)
            value.backward()
            norm = math.sqrt(sum((p.grad ** 2).sum().item() for p in net.parameters() if p.grad is not None))
            optim.step()
            print(f"step {step} {value.item():.9g} 0.05 {norm:.9g} 1")
        evaluate(net, loss, val, step)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"# Made by make_outputs.py with PyTorch {torch.__version__.split('+')[0]}.")
    for each in RUNS:
        run(sys.argv[1] if len(sys.argv) > 1 else "build", *each)
