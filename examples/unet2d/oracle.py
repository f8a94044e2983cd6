#!/usr/bin/env python3
"""Trains train.yaml with ctrain-hpc and the same network with PyTorch, from the same initial weights and on the same
batches, and prints the IoU of both.

    pip install torch h5py safetensors; ./make_data.py; ./oracle.py [CTRAIN [KEY=VALUE...]]      options as of --set
"""
import json
import os
import subprocess
import sys
import tempfile

import h5py
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, EPOCHS, LR, WIDTHS, CLASSES = 16, 8, 0.003, [8, 16, 32, 64], 3  # of train.yaml


class Two(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
            nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())

    def forward(self, x):
        return self.double_conv(x)


class UNet(nn.Module):
    """With the names of milesial/Pytorch-UNet, as the family `unet`."""

    def __init__(self):
        super().__init__()
        w = WIDTHS
        self.inc = Two(1, w[0])
        for i in range(1, len(w)):
            down, up = nn.Module(), nn.Module()
            down.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), Two(w[i - 1], w[i]))
            up.up, up.conv = nn.ConvTranspose2d(w[-i], w[-i - 1], 2, 2), Two(2 * w[-i - 1], w[-i - 1])
            self.add_module(f"down{i}", down)
            self.add_module(f"up{i}", up)
        self.outc = nn.Module()
        self.outc.conv = nn.Conv2d(w[0], CLASSES, 1)

    def forward(self, x):
        skips = [self.inc(x)]
        for i in range(1, len(WIDTHS)):
            skips.append(getattr(self, f"down{i}").maxpool_conv(skips[-1]))
        x = skips.pop()
        for i in range(1, len(WIDTHS)):
            up = getattr(self, f"up{i}")
            x = up.conv(torch.cat((skips.pop(), up.up(x)), 1))
        return self.outc.conv(x)


def read(name):
    with h5py.File(os.path.join(HERE, name)) as f:
        return torch.from_numpy(f["images"][:]).float() / 255, torch.from_numpy(f["masks"][:]).long()


def iou(net, x, y):
    """The mean over classes of intersection over union, over all pixels."""
    with torch.no_grad():
        p = torch.cat([net.eval()(b).argmax(1) for b in x.split(BATCH)])
    return [((p == k) & (y == k)).sum().item() / ((p == k) | (y == k)).sum().item() for k in range(CLASSES)]


def by_torch(net):
    x, y = read("train.h5")
    optim = torch.optim.Adam(net.parameters(), LR)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optim, EPOCHS * -(-len(x) // BATCH))
    for _ in range(EPOCHS):
        net.train()
        for at in range(0, len(x), BATCH):
            optim.zero_grad()
            F.cross_entropy(net(x[at:at + BATCH]), y[at:at + BATCH]).backward()
            optim.step()
            schedule.step()
    return iou(net, *read("val.h5"))


def by_program(net, program, options):
    with tempfile.TemporaryDirectory() as work:
        save_file(net.state_dict(), f"{work}/init.safetensors")
        sets = [f"run.dir={work}/run", f"init.from={work}/init.safetensors", *options]
        config = [os.path.join(HERE, "train.yaml"), *(word for s in sets for word in ("--set", s)), "--log", "warn"]
        subprocess.run([program, "train", *config], check=True)
        out = subprocess.run([program, "eval", *config, "--json"], check=True, stdout=subprocess.PIPE).stdout
    return [c["iou"] for c in json.loads(out)["classes"]]


def main(program="ctrain-hpc", *options):
    torch.manual_seed(1)
    torch.set_num_threads(2)
    net = UNet()
    results = {"ctrain-hpc": by_program(net, program, options), "PyTorch": by_torch(net)}
    for who, values in results.items():
        print(f"{who:<12} IoU " + " ".join(f"{v:.4f}" for v in values) + f"  mean {sum(values) / CLASSES:.4f}")
    ours, theirs = (sum(v) / CLASSES for v in results.values())
    sys.exit(abs(ours - theirs) > 0.01)


if __name__ == "__main__":
    main(*sys.argv[1:])
