#!/usr/bin/env python3
"""Makes tests/golden/inputs.gold: a short run on two inputs of different shapes beside PyTorch, in float64.

    pip install torch numpy h5py; tests/golden/make_inputs.py build > tests/golden/inputs.gold

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

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/inputs")
BATCH, EPOCHS, LR = 200, 2, 0.05
KEYS = [
    "run.log_every=1", f"data.batch={BATCH}", "data.eval_batch=100", "schedule={kind: constant}",
    f"train.epochs={EPOCHS}", f"optim={{kind: sgd, lr: {LR}, momentum: 0.9}}",
    "model={layers: [{conv2d: {out: 5, kernel: 3, padding: 1}, name: conv}, {relu: {}}, {flatten: {}, name: image}, "
    "{linear: {out: 7}, name: fc1, from: input.columns}, {relu: {}, name: vector}, "
    "{concat: {}, from: [vector, image]}, {linear: {out: 8}, name: fc2}, {relu: {}, name: both}, "
    "{add: {}, from: [both, input.columns]}, {linear: {out: 10}, name: fc3}]}",
]
LAUNCHES = ["ref 1", "cpu 3", "cpu 2 train.accumulate=2", "cpu 3 parallel.mode=dp", "cpu 2 parallel.shards=4",
            "cpu 2 parallel.zero=1", "cpu 2 data.workers=0"]


class Net(nn.Module):
    """The second input is read twice: by a layer of its own, and behind the join."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 5, 3, padding=1)
        self.fc1, self.fc2, self.fc3 = nn.Linear(8, 7), nn.Linear(7 + 80, 8), nn.Linear(8, 10)

    def forward(self, x, columns):
        both = torch.cat([F.relu(self.fc1(columns)), F.relu(self.conv(x)).flatten(1)], 1)
        return self.fc3(F.relu(self.fc2(both)) + columns)


def load(name):
    with h5py.File(f"{EXAMPLE}/{name}") as f:
        d = {k: torch.from_numpy(f[k][...]).double() for k in f}
    return (d["images"] - 4.88) / 6.02, d["columns"], d["labels"].long()


def ctrain(build, keys):
    command = [f"{build}/ctrain-hpc", "train", f"{EXAMPLE}/train.yaml"]
    subprocess.run(command + [a for k in keys for a in ("--set", k)], check=True, capture_output=True)


def run(build):
    net = Net().double()
    with tempfile.TemporaryDirectory() as dir:
        ctrain(build, KEYS + [f"run.dir={dir}/run", "optim={lr: 0}", "train={steps: 1}"])
        with h5py.File(f"{dir}/run/checkpoints/step-00000001.h5") as f:
            for key, p in net.named_parameters():
                p.data = torch.from_numpy(f[f"model/{key}"][...]).double()
    train, val = load("train.h5"), load("val.h5")
    n = len(train[2])
    text = subprocess.run([f"{build}/tests/golden/draws", "1", str(n), str(EPOCHS)], check=True, capture_output=True, text=True)
    rows = np.array([line.split()[0] for line in text.stdout.splitlines()], dtype=int).reshape(EPOCHS, n)
    print("run two_inputs\nconfig inputs/train.yaml\nnear 2e-05")
    for key in KEYS:
        print("set", key)
    for launch in LAUNCHES:
        print("on", launch)
    optim, step = torch.optim.SGD(net.parameters(), lr=LR, momentum=0.9), 0
    for epoch in rows:
        for begin in range(0, n, BATCH):
            step += 1
            x, columns, y = (v[torch.from_numpy(epoch[begin:begin + BATCH])] for v in train)
            optim.zero_grad()
            value = F.cross_entropy(net(x, columns), y)
            value.backward()
            norm = math.sqrt(sum((p.grad ** 2).sum().item() for p in net.parameters()))
            optim.step()
            print(f"step {step} {value.item():.9g} {LR} {norm:.9g} 1")
        with torch.no_grad():
            out, y = net(*val[:2]), val[2]
        two = out.topk(2, 1).values
        assert (two[:, 0] - two[:, 1]).min() > 1e-6, "top-1 depends on rounding"
        print(f"eval {step} {F.cross_entropy(out, y).item():.9g} {(out.argmax(1) == y).double().mean().item():.12g} {len(y)}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"# Made by make_inputs.py with PyTorch {torch.__version__.split('+')[0]}.")
    run(sys.argv[1] if len(sys.argv) > 1 else "build")
