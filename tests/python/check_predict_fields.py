#!/usr/bin/env python3
"""`predict` of fields: HDF5 with the names, coordinates and chunks of the input, probabilities and classes, masks with a
palette, overlapping tiles in 1, 2 and 3 dims.  The oracle cuts the tiles by hand and runs PyTorch in float64.

    check_predict_fields.py CTRAIN MPIEXEC DIR      prints TAP
"""
import itertools
import os
import shlex
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import torch
from PIL import Image

ctrain, mpiexec, work = sys.argv[1], shlex.split(sys.argv[2]), Path(sys.argv[3])
count = 0


def tap(fine, what, why=""):
    global count
    count += 1
    print(f"{'ok' if fine else 'not ok'} {count} - {what}", flush=True)
    if not fine:
        print("# " + str(why).replace("\n", "\n# "))


def run(*command, ranks=1, faults=""):
    start = [*mpiexec, "-n", str(ranks)] if ranks > 1 else []
    return subprocess.run([*start, ctrain, *map(str, command)], text=True, capture_output=True, cwd=work, timeout=300,
                          env={**os.environ, "CTRAIN_FAULTS": faults})


def errors(done):
    return [line for line in done.stderr.splitlines() if "error:" in line]


def starts(extent, tile, overlap):
    at = list(range(0, extent - tile, tile - overlap))
    return at + [extent - tile]


def ramp(kind, n, overlap):
    x = np.arange(n) + 0.5
    if kind == "gaussian":
        return np.exp(-0.5 * ((x - n / 2) / (n / 8)) ** 2)
    return np.minimum(1, np.minimum(x, n - x) / overlap) if kind == "linear" and overlap else np.ones(n)


def blend(f, x, tile, overlap, kind="linear", scale=1):
    """The outputs of f on the tiles of x [C, ...], averaged with weights."""
    axes, out = len(tile), 0
    grid = [starts(x.shape[1 + a], tile[a], overlap[a]) for a in range(axes)]
    weight = 1
    for a in range(axes):
        shape = [1] * axes
        shape[a] = -1
        weight = weight * ramp(kind, tile[a] * scale, overlap[a] * scale).reshape(shape)
    total = np.zeros([n * scale for n in x.shape[1:]])
    for at in itertools.product(*grid):
        inside = tuple(slice(s, s + t) for s, t in zip(at, tile))
        to = tuple(slice(s * scale, (s + t) * scale) for s, t in zip(at, tile))
        y = f(torch.from_numpy(x[(slice(None), *inside)][None].astype("f8")))[0].detach().numpy()
        if isinstance(out, int):
            out = np.zeros([y.shape[0], *total.shape])
        out[(slice(None), *to)] += y * weight
        total[to] += weight
    return out / total


def near(a, b, bound=2e-5):
    return a.shape == b.shape and np.abs(a - b).max() <= bound * max(1, np.abs(b).max())


def net(name, layers, x, y, loss, sizes="", rest=""):
    """Trains a model for an epoch; returns a function that runs it in float64."""
    with h5py.File(work / f"{name}.h5", "w") as f:
        f["images"], f["labels"] = x, y
    (work / f"{name}.yaml").write_text(
        f"run: {{dir: {name}}}\ndevice: cpu\ndata: {{train: {name}.h5, val: {name}.h5, batch: 4, layout: nchw}}\n"
        f"model: {{{sizes} layers: [{layers}]}}\nloss: {{kind: {loss}}}\noptim: {{lr: 0.01}}\ntrain: {{epochs: 1}}\n{rest}")
    done = run("train", f"{name}.yaml")
    tap(done.returncode == 0, f"train {name}", done.stderr)
    run("convert", name, f"{name}.pth")
    return {k: v.double() for k, v in torch.load(work / f"{name}.pth", weights_only=True).items()}


def images():
    r = np.random.default_rng(0)
    x = r.normal(size=(5, 2, 16, 16)).astype("f4")
    w = net("seg", "{conv2d: {out: 6, kernel: 3, padding: 1}, name: a}, relu, {conv2d: {out: 3, kernel: 3, padding: 1}, "
            "name: b}", x, r.integers(0, 3, (5, 16, 16)).astype("u1"), "cross_entropy", "classes: 3,")

    def f(t):
        t = torch.conv2d(t, w["a.weight"], w["a.bias"], padding=1).relu()
        return torch.conv2d(t, w["b.weight"], w["b.bias"], padding=1)

    large = r.normal(size=(3, 2, 37, 50)).astype("f4")
    with h5py.File(work / "large.h5", "w") as g:
        d = g.create_dataset("images", data=large, chunks=(1, 1, 37, 25))
        for name, n, dim in (("lat", 37, 2), ("lon", 50, 3)):
            s = g.create_dataset(name, data=np.linspace(0, 90, n))
            s.attrs["units"] = "degrees"
            s.make_scale(name)
            d.dims[dim].attach_scale(s)
        d.dims[0].label = "time"
    # a model without a size: the whole field at once
    done = run("predict", "seg", "large.h5", "--output", "w.h5", "--values", "outputs")
    whole = f(torch.from_numpy(large.astype("f8"))).numpy()
    if done.returncode:
        return tap(False, "a field", done.stderr)
    with h5py.File(work / "w.h5") as g:
        d = g["outputs"]
        tap(near(d[:], whole), "a field that is larger than those of the training")
        tap([x.label for x in d.dims] == ["time", "", "lat", "lon"] and d.chunks == (1, 3, 37, 25)
            and (d.dims[3]["lon"][:] == np.linspace(0, 90, 50)).all() and g["lat"].attrs["units"] == "degrees",
            "names of dims, coordinates and chunks of the input", (d.chunks, [x.label for x in d.dims]))
        tap(g["samples"][()].decode().splitlines()[1] == "large.h5, sample 1", "names of samples", g["samples"][()])
    for kind in ("linear", "constant", "gaussian"):
        done = run("predict", "seg", "large.h5", "--output", "t.h5", "--values", "outputs", "--tile", 16, "--overlap", "6x5",
                   "--blend", kind) if kind != "linear" else \
            run("predict", "seg", "large.h5", "--output", "t.h5", "--values", "outputs", "--tile", "16x16", "--overlap", "6x5")
        right = done.returncode == 0 or tap(False, f"tiles, {kind}", done.stderr)
        want = np.stack([blend(f, s, (16, 16), (6, 5), kind) for s in large])
        if right:
            with h5py.File(work / "t.h5") as g:
                tap(near(g["outputs"][:], want) and not near(want, whole), f"tiles, {kind}")
    want = np.stack([blend(f, s, (20, 16), (5, 4)) for s in large])
    for values in ("outputs", "probabilities", "classes"):
        for ranks in (1, 3):
            done = run("predict", "seg", "large.h5", "--output", f"{values}{ranks}.h5", "--values", values, "--tile", "20x16",
                       "--set", f"data.eval_batch={3 * ranks}", ranks=ranks)
            tap(done.returncode == 0, f"{values}, {ranks} ranks", done.stderr)
        tap((work / f"{values}1.h5").read_bytes() == (work / f"{values}3.h5").read_bytes(), "equal bytes at 1 and 3 ranks")
    with h5py.File(work / "probabilities3.h5") as g, h5py.File(work / "classes3.h5") as h:
        tap(near(g["probabilities"][:], torch.from_numpy(want).softmax(1).numpy()), "probabilities")
        tap((h["class"][:] == want.argmax(1)).mean() > 0.999 and h["class"].dtype == "u1" and list(h) != list(g)
            and [x.label for x in h["class"].dims] == ["time", "lat", "lon"] and h["class"].chunks == (1, 37, 25), "classes")
    classes = h5py.File(work / "classes1.h5")["class"][:]
    # masks, images of several sizes
    (work / "colours").write_text("10 20 30 sea\n1 2 3\n255 0 255 cloud, thick\n")
    done = run("predict", "seg", "large.h5", "--output", "masks/", "--tile", "20x16", "--palette", "colours")
    found = [Image.open(work / f"masks/large.h5, sample {i}.png") for i in range(3)] if done.returncode == 0 else []
    tap(len(found) == 3 and all((np.asarray(p) == c).all() for p, c in zip(found, classes))
        and found[0].mode == "P" and found[0].getpalette()[:9] == [10, 20, 30, 1, 2, 3, 255, 0, 255], "masks in colours",
        done.stderr)
    run("predict", "seg", "large.h5", "--output", "masks/", "--palette", "voc")
    tap(Image.open(work / "masks/large.h5, sample 0.png").getpalette()[:12] == [0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0],
        "VOC's colours")
    refused()


def refused():
    (work / "few").write_text("1 2 3\n4 5 6\n")
    (work / "bad").write_text("1 2 3\n4 5 600\n4 5 6\n")
    for words, what in ((["--tile", "512"], "smaller than a tile"), (["--tile", "16", "--overlap", "16"], "must be smaller"),
                        (["--overlap", "4"], "is for --tile"), (["--tile", "4x4x4"], "2 axes"), (["--tile", "0"], "expected N"),
                        (["--tile", "16x"], "expected N"), (["--blend", "cubic", "--tile", "8"], "unknown"),
                        (["--values", "logits"], "unknown"), (["--palette", "voc"], "is for --output DIR/")):
        done = run("predict", "seg", "large.h5", "--output", "no.h5", *words, ranks=2)
        tap(done.returncode == 2 and len(errors(done)) == 1 and what in done.stderr, f"refused: {' '.join(words)}", done.stderr)
    for words, what in ((["--palette", "few"], "has 2 colours, but the model has 3"), (["--palette", "bad"], "bad:2"),
                        (["--values", "classes"], "--output FILE.h5")):
        done = run("predict", "seg", "large.h5", "--output", "no/", *words)
        tap(done.returncode == 2 and len(errors(done)) == 1 and what in done.stderr, f"refused: {' '.join(words)}", done.stderr)
    done = run("predict", "seg", "large.h5", "--tile", 16)
    tap(done.returncode == 2 and "needs --output" in done.stderr, "tiles as text are refused", done.stderr)
    r = np.random.default_rng(5)
    net("whole", "{conv2d: {out: 2, kernel: 5}}, global_avgpool, flatten", r.normal(size=(4, 2, 16, 16)).astype("f4"),
        np.arange(4, dtype="i4") % 2, "cross_entropy")
    done = run("predict", "whole", "large.h5", "--output", "no.h5", "--tile", 16)
    tap(done.returncode == 2 and len(errors(done)) == 1 and "does not scale" in done.stderr, "a classifier is refused", done.stderr)
    done = run("predict", "whole", "large.h5", "--output", "no.h5", "--tile", 4, ranks=2)
    tap(done.returncode != 0 and len(errors(done)) == 1 and "--tile 4" in done.stderr, "so is a tile that is too small",
        done.stderr)
    done = run("predict", "seg", "large.h5", "--output", "no.h5", ranks=2, faults="fields.put@0:2")
    tap(done.returncode == 1 and len(errors(done)) == 1 and "fields.put" in done.stderr, "a file that cannot be written",
        done.stderr)
    with h5py.File(work / "cut.h5", "w") as g:
        x = np.zeros((3, 2, 37, 50), "f4")
        x[2, 1, 30, 40] = np.nan
        g["images"] = x
    done = run("predict", "seg", "cut.h5", "--output", "no.h5", "--tile", 16)
    tap(done.returncode == 1 and len(errors(done)) == 1 and "sample 2, tile" in done.stderr, "a bad tile is named", done.stderr)
    done = run("predict", "seg", "cut.h5", "--output", "s.h5", "--tile", 16, "--set", "data.on_error=skip")
    with h5py.File(work / "s.h5") as g:
        tap(done.returncode == 1 and (g["class"][2] == 255).all() and (g["class"][:2] < 3).all()
            and "1 sample could not" in done.stderr, "or its sample is left out", done.stderr)
    tap(not list(work.glob("no*")) and not list(work.glob("*.tmp")), "nothing is left of what failed", list(work.glob("no*")))


def large_batches():
    """Of large outputs rank 0 holds those of a sample, of others those of a batch."""
    x = np.random.default_rng(4).normal(size=(60, 2, 37, 50)).astype("f4")
    x[[3, 41], 1, 30, 40] = np.nan
    with h5py.File(work / "many.h5", "w") as g:
        g["images"] = x
    for name, ranks, batch in (("a", 1, 2), ("b", 3, 59)):
        done = run("predict", "seg", "many.h5", "--output", f"{name}.h5", "--values", "outputs", "--set", "data.on_error=skip",
                   "--set", f"data.eval_batch={batch}", ranks=ranks)
        tap(done.returncode == 1 and "2 samples could not" in done.stderr, f"batches of {batch}", done.stderr)
    with h5py.File(work / "b.h5") as g:
        lost = np.isnan(g["outputs"][:]).all((1, 2, 3))
    tap((work / "a.h5").read_bytes() == (work / "b.h5").read_bytes() and list(np.flatnonzero(lost)) == [3, 41],
        "the same from small and large batches", np.flatnonzero(lost))


def constants():
    """Scales that are not trained are in no state dict of PyTorch."""
    x = np.random.default_rng(6).normal(size=(4, 1, 5, 8)).astype("f4")
    w = net("scale", "{conv2d: {out: 1, kernel: 1}, name: a}, {layernorm: {elementwise_affine: no}, name: n}", x, x, "mse")
    torch.save({k: v.float() for k, v in w.items() if k[0] == "a"}, work / "state.pth")
    done = run("predict", "scale.yaml", "--checkpoint", "state.pth", "--output", "n.h5")
    want = torch.layer_norm(torch.conv2d(torch.from_numpy(x).double(), w["a.weight"], w["a.bias"]), (8,)).numpy()
    with h5py.File(work / "n.h5") as g:
        tap(done.returncode == 0 and near(g["outputs"][:], want), "constants that the weights lack", done.stderr)


def several_sizes():
    r = np.random.default_rng(1)
    x = r.integers(0, 256, (4, 1, 16, 16), dtype="u1")
    w = net("pics", "{conv2d: {out: 2, kernel: 3, padding: 1}, name: a}", x, (x[:, 0] > 127).astype("u1"), "cross_entropy",
            "classes: 2,", "transforms: [to_tensor]\n")
    (work / "photos/a").mkdir(parents=True)
    pixels = {"a/1": r.integers(0, 256, (20, 31), dtype="u1"), "2": r.integers(0, 256, (16, 40), dtype="u1")}
    for name, p in pixels.items():
        Image.fromarray(p).save(work / f"photos/{name}.png")
    done = run("predict", "pics", "photos", "--output", "found/", "--tile", 16, ranks=2)
    tap(done.returncode == 0, "images of several sizes", done.stderr)
    for name, p in pixels.items():
        y = blend(lambda t: torch.conv2d(t, w["a.weight"], w["a.bias"], padding=1), p[None] / 255, (16, 16), (4, 4))
        tap((np.asarray(Image.open(work / f"found/{name}.png")) == y.argmax(0)).mean() > 0.995, f"mask of {name}")
    done = run("predict", "pics", "photos", "--output", "no.h5", "--tile", 16)
    tap(done.returncode == 2 and "differ in size" in done.stderr, "as one array they are refused", done.stderr)


def volumes():
    r = np.random.default_rng(2)
    x = r.normal(size=(2, 1, 8, 8, 8)).astype("f4")
    w = net("vol", "{conv3d: {out: 2, kernel: 3, padding: 1}, name: a}", x, r.normal(size=(2, 2, 8, 8, 8)).astype("f4"), "mse")
    large = r.normal(size=(2, 1, 11, 9, 13)).astype("f4")
    with h5py.File(work / "vl.h5", "w") as g:
        g["images"] = large
    done = run("predict", "vol", "vl.h5", "--output", "v.h5", "--tile", "8x8x8", "--overlap", "3x4x2", ranks=2)
    if done.returncode:
        return tap(False, "volumes", done.stderr)
    want = [blend(lambda t: torch.conv3d(t, w["a.weight"], w["a.bias"], padding=1), s, (8, 8, 8), (3, 4, 2)) for s in large]
    with h5py.File(work / "v.h5") as g:
        tap(near(g["outputs"][:], np.stack(want)) and g["outputs"].chunks == (1, 2, 11, 9, 13), "volumes",
            (g["outputs"].chunks, np.abs(g["outputs"][:] - np.stack(want)).max((0, 1))))


def other_scale():
    r = np.random.default_rng(3)
    x = r.normal(size=(4, 1, 8, 8)).astype("f4")
    w = net("up", "{conv2d: {out: 1, kernel: 3, padding: 1}, name: a}, {upsample: {scale: 2}}", x,
            r.normal(size=(4, 1, 16, 16)).astype("f4"), "mse")
    up = r.normal(size=(2, 1, 13, 20)).astype("f4")
    with h5py.File(work / "u.h5", "w") as g:
        g["images"] = up
    done = run("predict", "up", "u.h5", "--output", "uo.h5", "--tile", 8, "--overlap", 2)
    if done.returncode:
        return tap(False, "an output of twice the size", done.stderr)
    want = [blend(lambda t: torch.nn.functional.interpolate(torch.conv2d(t, w["a.weight"], w["a.bias"], padding=1),
                                                            scale_factor=2), s, (8, 8), (2, 2), scale=2) for s in up]
    with h5py.File(work / "uo.h5") as g:
        tap(near(g["outputs"][:], np.stack(want)), "an output of twice the size")


if __name__ == "__main__":
    images()
    large_batches()
    constants()
    several_sizes()
    volumes()
    other_scale()
    print(f"1..{count}")
