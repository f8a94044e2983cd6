#!/usr/bin/env python3
"""Makes tests/golden/places.gold: short runs on the segmentation example beside PyTorch, in float64.

    pip install torch numpy h5py; tests/golden/make_places.py build > tests/golden/places.gold

The blocks are those of make_runs.py, and a line `config FILE`, below examples/.  Initial weights and the order of
the samples come from the program in the given directory.
"""
import math
import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "../../examples/segmentation")
COMMON = ["run.log_every=1", "data.batch=40", "data.eval_batch=20", "schedule={kind: constant}", "train.epochs=2",
          "train.steps=0", "optim={kind: sgd, lr: 0.05, momentum: 0.9}"]


class UNet(nn.Module):
    def __init__(self, channels, outputs, linear):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(channels, 5, 3, padding=1), nn.Conv2d(5, 7, 3, padding=1)
        self.conv3, self.conv4 = nn.Conv2d(12, 6, 3, padding=1), nn.Conv2d(6, outputs, 1)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear" if linear else "nearest")
        self.keys = [
            "model={layers: [{conv2d: {out: 5, kernel: 3, padding: 1}, name: conv1}, {relu: {}, name: skip}, "
            "{maxpool: {kernel: 2}}, {conv2d: {out: 7, kernel: 3, padding: 1}, name: conv2}, relu, "
            f"{{upsample: {{scale: 2, mode: {'linear' if linear else 'nearest'}}}, name: up}}, "
            "{concat: {}, from: [up, skip]}, {conv2d: {out: 6, kernel: 3, padding: 1}, name: conv3}, relu, "
            f"{{conv2d: {{out: {outputs}, kernel: 1}}, name: conv4}}]}}"]

    def forward(self, x):
        skip = F.relu(self.conv1(x))
        x = self.up(F.relu(self.conv2(F.max_pool2d(skip, 2))))
        return self.conv4(F.relu(self.conv3(torch.cat([x, skip], 1))))


def load(name):
    with h5py.File(f"{EXAMPLE}/{name}") as f:
        return {k: torch.from_numpy(f[k][...]).double() for k in f}


def classes(out, d, weight=None, **more):
    """torch.nn's mean over all places; with weights of samples these are factors of the places' weights."""
    y, each = d["masks"].long(), torch.tensor(weight or [1.0, 1, 1], dtype=torch.float64)
    if "w" not in d:
        return F.cross_entropy(out, y, weight=each, ignore_index=255, **more)
    losses = F.cross_entropy(out, y, weight=each, ignore_index=255, reduction="none", **more)
    known = (y != 255) * each[y.clamp(max=2)] * d["w"][:, None, None]
    return (losses * d["w"][:, None, None]).sum() / known.sum()


def elements(out, d):
    """The mean of weighted losses over all places, those without a class included: MLPerf HPC DeepCAM's."""
    each = F.cross_entropy(out, d["masks"].long(), weight=torch.tensor([0.5, 1.0, 2.0]).double(), ignore_index=255,
                           reduction="none")
    return each.mean()


def latitude(rows):
    w = torch.cos(math.pi * ((torch.arange(rows).double() + 0.5) / rows - 0.5))
    return (w / w.mean())[:, None]


def by_latitude(out, d):
    each = F.cross_entropy(out, d["masks"].long(), ignore_index=255, reduction="none")
    w = latitude(out.shape[2]) * (d["masks"] != 255)
    return (each * w).sum() / w.sum()


def with_dice(out, d):
    """Cross-entropy and half of the soft Dice, per sample and class, without places that have no class."""
    y, p = d["masks"].long(), out.softmax(1)
    known = (y != 255)[:, None].double()
    t = F.one_hot(y.clamp(max=2), 3).movedim(3, 1).double() * known
    both, base = (known * p * t).sum((2, 3)), (known * (p + t)).sum((2, 3))
    return F.cross_entropy(out, y, ignore_index=255) + 0.5 * (1 - (2 * both + 1) / (base + 1)).mean()


def some_edges(out, d):
    """Squared errors where the target is not 0, weighted by latitude and by sample."""
    w = (d["edges"] != 0) * latitude(out.shape[2]) * d["w"][:, None, None, None]
    return ((out - d["edges"]) ** 2 * w).sum() / w.sum()


def relative(out, d):
    return ((out - d["edges"]).flatten(1).norm(dim=1) / d["edges"].flatten(1).norm(dim=1)).mean()


def edges(kind):
    def loss(out, d):
        each = kind(out, d["edges"], reduction="none").mean((1, 2, 3))
        return (each * d["w"]).sum() / d["w"].sum() if "w" in d else each.mean()
    return loss


# name, launches, keys, channels, outputs, linear, loss, joins masks, weights of samples, size
IGNORE = "loss.ignore_index=255"
RUNS = [
    ("places", ["ref 1", "cpu 3", "cpu 2 train.accumulate=2", "cpu 3 parallel.mode=dp", "cpu 2 parallel.shards=4"],
     [IGNORE], 1, 3, True, classes, False, False, 16),
    ("places_weighted", ["ref 2", "cpu 3", "cpu 3 parallel.mode=dp"],
     [IGNORE, "loss.class_weights=[0.5, 1, 2]", "loss.label_smoothing=0.1", "data.weight=weights"],
     1, 3, False, lambda out, d: classes(out, d, [0.5, 1, 2], label_smoothing=0.1), False, True, 16),
    ("places_resized", ["ref 1", "cpu 2"], [IGNORE], 1, 3, True, classes, False, False, 22),
    # 255 is a class like others: all places count
    ("places_all", ["cpu 1", "cpu 3"], ["loss.ignore_index=", "model.classes=256"], 1, 256, False,
     lambda out, d: F.cross_entropy(out, d["masks"].long()), False, False, 16),
    ("places_bce", ["ref 1", "cpu 3"], ["loss.kind=bce", "loss.ignore_index=", "data.target=edges", "data.input=[images, masks]"],
     2, 1, True, edges(F.binary_cross_entropy_with_logits), True, False, 16),
    ("places_elements", ["ref 1", "cpu 3", "cpu 2 train.accumulate=3"],
     [IGNORE, "loss.reduction=elements", "loss.class_weights=[0.5, 1, 2]"], 1, 3, False, elements, False, False, 16),
    ("places_latitude", ["ref 1", "cpu 3", "cpu 3 parallel.mode=dp", "cpu 2 train.accumulate=2"],
     [IGNORE, "loss.place_weights=latitude"], 1, 3, False, by_latitude, False, False, 16),
    ("places_dice", ["ref 1", "cpu 3", "cpu 2 train.accumulate=2", "cpu 2 parallel.zero=1"],
     ["loss=[{kind: cross_entropy, ignore_index: 255}, {kind: dice, ignore_index: 255, weight: 0.5}]"],
     1, 3, False, with_dice, False, False, 16),
    ("places_sum", ["cpu 1", "cpu 3"],
     ["loss=[{kind: dice, ignore_index: 255, weight: 0.5}, {ignore_index: 255, weight: 5e-5, reduction: sum}]"], 1, 3, False,
     lambda out, d: with_dice(out, d) + 5e-5 * F.cross_entropy(out, d["masks"].long(), ignore_index=255, reduction="sum")
     - F.cross_entropy(out, d["masks"].long(), ignore_index=255), False, False, 16),
    ("places_some", ["ref 1", "cpu 3", "cpu 3 parallel.mode=dp", "cpu 2 train.accumulate=3"],
     ["loss={kind: mse, ignore_value: 0, place_weights: latitude}", "data.target=edges", "data.weight=weights"],
     1, 1, False, some_edges, False, True, 16),
    ("places_relative", ["ref 1", "cpu 3"], ["loss={kind: relative_l2}", "data.target=edges"], 1, 1, False, relative, False,
     False, 16),
    ("places_mse", ["ref 2", "cpu 3 parallel.mode=dp"],
     ["loss.kind=mse", "loss.ignore_index=", "data.target=edges", "data.weight=weights"], 1, 1, False, edges(F.mse_loss), False, True, 16),
]


def prepared(d, joins, weighted, size):
    d = dict(d, x=torch.cat([d["images"], d["masks"][:, None]], 1) if joins else d["images"])
    d["x"] = d["x"] / 255
    if weighted:
        d["w"] = d["weights"]
    if size != 16:
        d["x"] = F.interpolate(d["x"], (size, size), mode="bilinear", antialias=True)
        d["masks"] = F.interpolate(d["masks"][:, None], (size, size), mode="nearest")[:, 0]
    return d


def ctrain(build, keys):
    command = [os.path.abspath(f"{build}/ctrain-hpc"), "train", f"{EXAMPLE}/train.yaml"]
    subprocess.run(command + [a for k in keys for a in ("--set", k)], check=True, capture_output=True,
                   cwd=EXAMPLE)


def evaluate(net, loss, d, step, several):
    with torch.no_grad():
        out = net(d["x"])
    print(f"eval {step} {loss(out, d).item():.9g}", end="")
    if out.shape[1] > 1 and not several:
        y = d["masks"].long()
        two = out.topk(2, 1).values
        known = (y != 255) | (out.shape[1] == 256)
        assert (two[:, 0] - two[:, 1])[known].min() > 1e-6, "top-1 depends on rounding"
        print(f" {((out.argmax(1) == y) & known).sum().item() / known.sum().item():.12g} {len(y)}")
    else:
        print()


def run(build, name, on, keys, channels, outputs, linear, loss, joins, weighted, size):
    net = UNet(channels, outputs, linear).double()
    moved = [f"{{resize: {{size: [{size}, {size}]}}}}"] if size != 16 else []
    keys = COMMON + net.keys + keys + ["transforms=[" + ", ".join(["to_tensor"] + moved) + "]"]
    with tempfile.TemporaryDirectory() as dir:
        ctrain(build, keys + [f"run.dir={dir}/run", "optim={lr: 0}", "train={steps: 1}"])
        with h5py.File(f"{dir}/run/checkpoints/step-00000001.h5") as f:
            for key, p in net.named_parameters():
                p.data = torch.from_numpy(f[f"model/{key}"][...]).double()
    train, val = (prepared(load(n), joins, weighted, size) for n in ("train.h5", "val.h5"))
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
            value = loss(net(batch["x"]), batch)
            value.backward()
            norm = math.sqrt(sum((p.grad ** 2).sum().item() for p in net.parameters()))
            optim.step()
            print(f"step {step} {value.item():.9g} 0.05 {norm:.9g} 1")
        evaluate(net, loss, val, step, any(k.startswith("loss=[") for k in keys))


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"# Made by make_places.py with PyTorch {torch.__version__.split('+')[0]}.")
    for each in RUNS:
        run(sys.argv[1] if len(sys.argv) > 1 else "build", *each)
