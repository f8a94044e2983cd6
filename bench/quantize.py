#!/usr/bin/env python3
"""What eight bits cost in accuracy: three sets, each trained, quantized by every method, and trained on with train.qat.

    pip install numpy h5py
    bench/quantize.py --mnist DIR [--set mnist] [--set garments] [--set objects] [--program build/ctrain-hpc]

DIR holds MNIST's four files (train-images-idx3-ubyte.gz, ...).  The other two sets are made of them, since nothing is
downloaded: `garments`, 28x28 in grey, as hard for a LeNet as Fashion-MNIST and harder (digits turned, bent, moved, in
noise); `objects`, 32x32 in colours, about as hard for a small ResNet as CIFAR-10 (digits of one colour on a ground of
another, partly hidden).  Prints a table in Markdown; top-1 of the validation set, in per cent.
"""
import argparse
import gzip
import json
import os
import subprocess
import tempfile

import numpy as np

CONFIG = """
run: {name: %(name)s}
data: {train: train.h5, val: val.h5, batch: 64}
transforms: [to_tensor, {normalize: {mean: [%(mean)s], std: [%(std)s]}}]
model: %(model)s
train: {epochs: %(epochs)d}
optim: {kind: sgd, lr: %(lr)g, momentum: 0.9, weight_decay: 1e-4}
schedule: {kind: cosine, warmup_epochs: 0.1}
"""
SETS = {
    "mnist": dict(mean="0.1307", std="0.3081", model="{family: lenet}", epochs=2, lr=0.05),
    "garments": dict(mean="0.3", std="0.3", model="{family: lenet}", epochs=4, lr=0.05),
    "objects": dict(mean="0.5, 0.5, 0.5", std="0.25, 0.25, 0.25", model="{family: resnet, depth: 20}", epochs=4,
                    lr=0.1),
}
SAMPLES = {"mnist": (60000, 10000), "garments": (20000, 5000), "objects": (20000, 5000)}


def fields(draw, n, side, knots):
    """n smooth random fields, bilinear between knots x knots drawn numbers."""
    g = draw.standard_normal((n, knots, knots)).astype(np.float32)
    at = np.linspace(0, knots - 1.001, side)
    i, f = at.astype(int), (at - at.astype(int)).astype(np.float32)
    g = g[:, i] * (1 - f)[None, :, None] + g[:, i + 1] * f[None, :, None]
    return g[:, :, i] * (1 - f) + g[:, :, i + 1] * f


def bend(draw, x, side, zoom):
    """Digits turned by up to half a radian, moved, enlarged and bent."""
    n, h = x.shape[:2]
    y0, x0 = np.mgrid[0:side, 0:side].astype(np.float32) - (side - 1) / 2
    turn, size = (draw.uniform(*r, n)[:, None, None] for r in ((-.5, .5), zoom))
    away = [2 * fields(draw, n, side, 5) + draw.uniform(-3, 3, n)[:, None, None] + (h + 1) / 2 for _ in range(2)]
    y = np.clip(size * (np.cos(turn) * y0 - np.sin(turn) * x0) + away[0], 0, h + .99)
    x1 = np.clip(size * (np.sin(turn) * y0 + np.cos(turn) * x0) + away[1], 0, h + .99)
    p = np.pad(x, ((0, 0), (1, 1), (1, 1))).astype(np.float32) / 255
    a, b, k = y.astype(int), x1.astype(int), np.arange(n)[:, None, None]
    fa, fb = y - a, x1 - b
    return ((1 - fa) * ((1 - fb) * p[k, a, b] + fb * p[k, a, b + 1]) +
            fa * ((1 - fb) * p[k, a + 1, b] + fb * p[k, a + 1, b + 1]))


def garments(draw, x):
    noise = .25 * draw.standard_normal(x.shape) + .25 * fields(draw, len(x), 28, 7)
    return (bend(draw, x, 28, (.8, 1.5)) + noise)[:, None]


def objects(draw, x):
    n = len(x)
    shape, other = (bend(draw, d, 32, zoom)[:, None] for d, zoom in ((x, (.8, 1.2)), (draw.permutation(x), (.6, 1))))
    ground = draw.uniform(.2, .8, (n, 3, 1, 1))
    colour = ground + np.where(ground > .5, -.5, .5) * draw.uniform(.4, 1, (n, 3, 1, 1))
    ground = ground + .08 * np.stack([fields(draw, n, 32, 6) for _ in range(3)], 1)
    image = ground * (1 - shape) + colour * shape
    hidden = fields(draw, n, 32, 3)[:, None] > 1.3
    return np.where(hidden, (image + other) / 2, image) + .06 * draw.standard_normal(image.shape)


def idx(folder, name, offset):
    with gzip.open(os.path.join(folder, name)) as f:
        return np.frombuffer(f.read(), np.uint8, offset=offset)


def make(name, mnist, folder):
    import h5py
    draw = np.random.default_rng(0)
    for part, prefix, n in zip(("train", "val"), ("train", "t10k"), SAMPLES[name]):
        x = idx(mnist, prefix + "-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)[:n]
        y = idx(mnist, prefix + "-labels-idx1-ubyte.gz", 8)[:n]
        x = x[:, None] if name == "mnist" else np.uint8(255 * np.clip(globals()[name](draw, x), 0, 1))
        with h5py.File(os.path.join(folder, part + ".h5"), "w") as f:
            f.attrs["classes"] = 10
            f.create_dataset("images", data=x, chunks=(32,) + x.shape[1:])
            f.create_dataset("labels", data=y.astype(np.int32))


def measure(name, mnist, program):
    def run(*words):
        return subprocess.run([program, *words], cwd=folder, check=True, capture_output=True, text=True).stdout

    def top1(*words):
        return 100 * json.loads(run("eval", "model.yaml", "--json", *words))["top1"]

    with tempfile.TemporaryDirectory() as folder:
        make(name, mnist, folder)
        with open(os.path.join(folder, "model.yaml"), "w") as f:
            f.write(CONFIG % dict(SETS[name], name=name))
        run("train", "model.yaml", "--set", "run.dir=whole")
        cells = [f"{top1('--checkpoint', 'whole/checkpoints/latest'):.2f}"]
        for way in (["percentile"], ["minmax"], ["entropy"]):
            run("quantize", "model.yaml", "--checkpoint", "whole/checkpoints/latest", "--output", "eight.h5", "--method",
                *way)
            cells.append(f"{top1('--checkpoint', 'eight.h5'):.2f}")
        sets = []
        for key in ("run.dir=qat", "train.qat=true", "init.from=whole/checkpoints/latest", "init.strict=false",
                    f"optim.lr={SETS[name]['lr'] / 20:g}", "train.epochs=2"):
            sets += ["--set", key]
        run("train", "model.yaml", *sets)
        run("quantize", "model.yaml", *sets, "--checkpoint", "qat/checkpoints/latest", "--output", "qat.h5")
        cells.append(f"{top1('--checkpoint', 'qat.h5'):.2f}")
    print("| " + " | ".join([name, SETS[name]["model"].strip("{}"), *cells]) + " |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mnist", required=True)
    p.add_argument("--set", action="append", choices=list(SETS))
    p.add_argument("--program", default="build/ctrain-hpc")
    o = p.parse_args()
    print("| set | model | float32 | percentile | minmax | entropy | train.qat |\n" + "|---" * 7 + "|")
    for name in o.set or SETS:
        measure(name, os.path.abspath(o.mnist), os.path.abspath(o.program))


main()
