#!/usr/bin/env python3
"""What users hand to `predict`: arrays that transforms make smaller, folders of classes, damaged images, segmentations,
pipes; and the names of classes, from shards to predictions.

    check_predict.py CTRAIN DIR      prints TAP
"""
import json
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

ctrain, work = sys.argv[1], Path(sys.argv[2])
count = 0


def tap(fine, what, why=""):
    global count
    count += 1
    print(f"{'ok' if fine else 'not ok'} {count} - {what}", flush=True)
    if not fine:
        print("# " + str(why).replace("\n", "\n# "))


def run(*command, **more):
    more.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([ctrain, *map(str, command)], text=True, stderr=subprocess.PIPE, cwd=work, timeout=300, **more)


def errors(done):
    return [line for line in done.stderr.splitlines() if line.startswith("ctrain-hpc: error:")]


def resized():
    r = np.random.default_rng(0)
    with h5py.File(work / "t.h5", "w") as f:
        f["images"] = r.integers(0, 256, (8, 3, 31, 31), dtype="u1")
        f["labels"] = np.arange(8, dtype="i4") % 2
    for name, transform in (("resize", "{resize: {size: 16}}"), ("crop", "{center_crop: {size: 16}}")):
        (work / f"{name}.yaml").write_text(
            f"run: {{dir: {name}}}\ndevice: cpu\ndata: {{train: t.h5, val: t.h5, batch: 4, layout: nchw}}\n"
            f"transforms: [{transform}, to_tensor]\nmodel: {{layers: [flatten, {{linear: {{out: 2}}}}]}}\n"
            "train: {epochs: 1}\n")
        run("train", f"{name}.yaml")
        done = run("predict", name, "t.h5")
        right = run("predict", name, "t.h5", "--set", "data.shape=[3,31,31]")
        tap(done.returncode == 0 and len(done.stdout.splitlines()) == 8 and done.stdout == right.stdout,
            f"{name} of arrays", done.stderr)
    with h5py.File(work / "flat.h5", "w") as f:
        f["images"] = r.integers(0, 256, (5, 3 * 31 * 31), dtype="u1")
    (work / "plain.yaml").write_text((work / "crop.yaml").read_text().replace("{center_crop: {size: 16}}, ", "")
                                     .replace("dir: crop", "dir: plain"))
    run("train", "plain.yaml")
    done = run("predict", "plain", "flat.h5")
    tap(done.returncode == 0 and len(done.stdout.splitlines()) == 5, "flat arrays of a model of images", done.stderr)


def layers():
    """The output of a layer: the last one is the model's, another one has its own shape."""
    out = {}
    (work / "layers.yaml").write_text(
        "run: {dir: layers}\ndevice: cpu\ndata: {train: t.h5, val: t.h5, batch: 4, layout: nchw}\ntrain: {epochs: 1}\n"
        "model: {layers: [flatten, {linear: {out: 5}}, relu, {linear: {out: 2}}]}\n")
    run("train", "layers.yaml")
    for name, options in (("model", ("--values", "outputs")), ("linear", ("--layer", "linear2")),
                          ("relu", ("--layer", "relu1"))):
        done = run("predict", "layers", "t.h5", *options, "--output", f"{name}-layer.h5")
        tap(done.returncode == 0, f"predict {' '.join(options)}", done.stderr)
        with h5py.File(work / f"{name}-layer.h5") as f:
            out[name] = f["outputs"][...]
    tap(np.array_equal(out["model"], out["linear"]), "the last layer gives the model's outputs")
    tap(out["relu"].shape == (8, 5) and out["relu"].min() == 0, "another layer gives its own", out["relu"])
    done = run("predict", "layers", "t.h5", "--layer", "none")
    tap(done.returncode == 2 and "no layer of that name" in errors(done)[0], "an unknown layer", done.stderr)


def classes():
    r = np.random.default_rng(1)
    for k, name in enumerate(("ant", "bee, wild", "cat")):
        for i in range(6):
            folder = work / "photos" / name
            folder.mkdir(parents=True, exist_ok=True)
            pixels = r.integers(0, 60, (12, 12, 3)) + 90 * k
            Image.fromarray(pixels.astype("u1")).save(folder / f"{i}.png")
    done = run("pack", "--images-from", "photos", "--output", "photos.h5")
    tap(done.returncode == 0, "pack", done.stderr)
    (work / "photos.yaml").write_text(
        "run: {dir: photos-run}\ndevice: cpu\ndata: {train: photos.h5, val: photos.h5, batch: 6}\n"
        "transforms: [to_tensor]\nmodel: {layers: [flatten, {linear: {out: 3}}]}\n"
        "optim: {lr: 0.02}\ntrain: {epochs: 30}\n")
    done = run("train", "photos.yaml")
    tap(done.returncode == 0, "train", done.stderr)
    done = run("predict", "photos-run", "photos")
    lines = done.stdout.splitlines()
    tap(done.returncode == 0 and len(lines) == 18 and lines == sorted(lines), "folders of classes, in order", done.stderr)
    right = sum(Path(line.split("  ")[0]).parent.name in line.split("  ")[1] for line in lines)
    tap(right == 18, "their names are told", done.stdout)
    done = run("predict", "photos-run", "photos", "--output", "p.csv")
    tap('"bee, wild"' in (work / "p.csv").read_text(), "in csv, quoted", done.stderr)
    done = run("eval", "photos-run", "--confusion", "c.csv")
    tap("cat" in done.stdout and (work / "c.csv").read_text().startswith('label,ant,"bee, wild",cat\nant,'),
        "by eval and its matrix", done.stdout + done.stderr)
    done = run("eval", "photos.yaml", "--json")
    tap([c.get("name") for c in json.loads(done.stdout)["classes"]] == ["ant", "bee, wild", "cat"], "as JSON", done.stdout)
    for to in ("pth", "safetensors"):
        run("convert", "photos-run", f"photos.{to}")
        done = run("predict", f"photos.{to}", "photos")
        tap(done.stdout.splitlines() == lines, f"names travel into .{to}", done.stderr)
    with h5py.File(work / "photos.h5") as f, h5py.File(work / "turned.h5", "w") as g:
        g["images"], g["labels"], g.attrs["classes"] = f["images"][:], f["labels"][:], 3
        g.attrs["class_names"] = ["cat", "bee, wild", "ant"]  # h5py: of no fixed length
    done = run("eval", "photos-run", "--set", f"data.val={work}/turned.h5")
    tap("class 0 is named 'cat', but in the model" in done.stderr, "other names are warned of", done.stderr)
    done = run("train", "photos.yaml", "--set", "data.train=[photos.h5, turned.h5]", "--set", "run.dir=none")
    tap(done.returncode == 1 and "class_names" in done.stderr, "shards that differ in them are refused", done.stderr)


def damaged():
    (work / "photos/ant/3.png").write_bytes((work / "photos/ant/3.png").read_bytes()[:90])
    (work / "photos/cat/1.png").write_text("no image")
    done = run("predict", "photos-run", "photos", "--output", "none.csv")
    tap(done.returncode == 1 and len(errors(done)) == 1 and not (work / "none.csv").exists(), "damage ends it", done.stderr)
    done = run("predict", "photos-run", "photos", "--set", "data.on_error=skip")
    lines = done.stdout.splitlines()
    tap(done.returncode == 1 and len(lines) == 16 and "2 samples could not be read" in errors(done)[0]
        and done.stderr.count("ant/3.png") == 1 and done.stderr.count("cat/1.png") == 1,
        "or is left out, and told", f"{done.returncode} {len(lines)} {done.stderr}")
    tap(all(Path(line.split("  ")[0]).parent.name in line.split("  ")[1] for line in lines), "and all others are right", done.stdout)
    run("predict", "photos-run", "photos", "--set", "data.on_error=skip", "--output", "s.h5")
    with h5py.File(work / "s.h5") as f:
        tap(list(np.flatnonzero(f["class"][:] < 0)) == [3] and len(f["class"]) == 17, "HDF5 has its place", f["class"][:])


def segmentation():
    r = np.random.default_rng(2)
    x = r.integers(0, 256, (6, 1, 16, 20), dtype="u1")
    y = (x[:, 0] > 127).astype("u1")
    with h5py.File(work / "seg.h5", "w") as f:
        f["images"], f["labels"] = x, y
    (work / "seg.yaml").write_text(
        "run: {dir: seg}\ndevice: cpu\ndata: {train: seg.h5, val: seg.h5, batch: 6, layout: nchw}\n"
        "transforms: [to_tensor, {normalize: {mean: [0.5], std: [0.1]}}]\n"
        "model: {classes: 2, layers: [{conv2d: {out: 2, kernel: 1}}]}\noptim: {lr: 0.5}\ntrain: {epochs: 60}\n")
    done = run("train", "seg.yaml")
    tap(done.returncode == 0, "train on masks", done.stderr)
    done = run("predict", "seg", "seg.h5", "--output", "m.h5")
    if done.returncode:
        return tap(False, "masks as HDF5", done.stderr)
    with h5py.File(work / "m.h5") as f:
        masks = f["class"][:]
    tap(masks.shape == y.shape and (masks == y).mean() > 0.97, "masks as HDF5", masks.shape)
    (work / "pics/a").mkdir(parents=True)
    for i in range(6):
        Image.fromarray(x[i, 0]).save(work / f"pics/{'a/' if i % 2 else ''}{i}.png")
    done = run("predict", "seg", "pics", "--output", "masks/")
    found = {p.name: np.asarray(Image.open(p)) for p in (work / "masks").rglob("*.png")}
    tap(done.returncode == 0 and len(found) == 6 and (work / "masks/a/1.png").exists()
        and all((found[f"{i}.png"] == masks[i]).all() for i in range(6)), "masks as images", done.stderr)
    done = run("predict", "seg", "pics", "--top", "2")
    shares = [line.split("  ")[1:] for line in done.stdout.splitlines()]
    tap(done.returncode == 0 and len(shares) == 6
        and all(abs(sum(float(s.split()[1]) for s in line) - 1) < 1e-3 for line in shares), "shares of classes",
        done.stdout + done.stderr)
    done = run("predict", "resize", "t.h5", "--output", "masks/")
    tap(done.returncode == 2 and len(errors(done)) == 1, "a folder for a model of whole samples is refused", done.stderr)


def pipes():
    with h5py.File(work / "long.h5", "w") as f:
        f["images"] = np.zeros((40000, 3, 31, 31), "u1")
    with open(work / "err", "w") as err:
        p = subprocess.Popen([ctrain, "predict", "resize", "long.h5", "--log", "error"], stdout=subprocess.PIPE, stderr=err,
                             cwd=work)
        first = p.stdout.readline()
        p.stdout.close()
        status = p.wait(timeout=300)
    said = (work / "err").read_text()
    tap(status == 0 and first and not said, "| head: a quiet end", f"{status} {said}")
    for command in (["predict", "resize", "t.h5"], ["eval", "resize"], ["eval", "resize", "--json"], ["inspect", "resize"],
                    ["inspect", "t.h5", "--json"], ["summary", "resize.yaml"], ["convert", "resize", "o.pth"],
                    ["doctor"], ["report", "resize"], ["report", "resize", "--json"], ["watch", "resize"],
                    ["train", "resize.yaml", "--print-config"], ["quantize", "resize", "--output", "q.h5", "--dynamic"],
                    ["--version"], ["--help"], ["predict", "--help"]):
        with open("/dev/full", "w") as full:
            done = run(*command, stdout=full)
        tap(done.returncode == 1 and len(errors(done)) == 1 and "standard output" in errors(done)[0],
            f"{' '.join(command)} > /dev/full", f"{done.returncode} {done.stderr}")


if __name__ == "__main__":
    resized()
    layers()
    classes()
    damaged()
    segmentation()
    pipes()
    print(f"1..{count}")
