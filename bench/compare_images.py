#!/usr/bin/env python3
"""Training images from JPEG files by ctrain-hpc and by torchvision with PyTorch's DataLoader and Pillow, side by side on
this machine, in images/s.

    pip install torch torchvision pillow numpy
    bench/compare_images.py [--size 500x375] [--workers 2] [--rounds 5] [--seconds 3] [--program build/ctrain-hpc]

Makes its own JPEG files (4:2:0, quality 90, noise as photographs have), below --dir, and packs them with
`ctrain-hpc pack --images-from DIR --encoded`.  Both sides do RandomResizedCrop(224), a flip, and the usual normalization,
in random order, from the page cache of the system.  Each round runs the sides one after the other, each in a process of
its own; the medians over rounds are told, and of the ratio also the smallest and largest round.
--prefix COMMAND stands before each measured command, such as 'chrt -r 1'.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

from loaders import loader_rate

IMAGES, BATCH = 200, 32
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def make_images(dir, width, height):
    import numpy as np
    from PIL import Image
    rng = np.random.default_rng(1)
    y, x = np.mgrid[0:height, 0:width]
    for i in range(IMAGES):
        waves = [np.sin(x * rng.uniform(0.01, 0.3) + y * rng.uniform(0.01, 0.3)) for _ in range(3)]
        image = 128 + 60 * np.stack(waves, -1) + rng.normal(0, 12, (height, width, 1))
        os.makedirs(f"{dir}/{i % 4}", exist_ok=True)
        Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(f"{dir}/{i % 4}/{i}.jpg", quality=90, subsampling=2)


def peer(dir, workers, seconds):
    """A process: images/s of torchvision, Pillow and DataLoader."""
    import torch
    from torchvision import datasets, transforms
    data = datasets.ImageFolder(dir, transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize(MEAN, STD)]))

    def batches():
        while True:
            yield from loader

    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(data, BATCH, shuffle=True, num_workers=workers,
                                         persistent_workers=workers > 0)
    print(loader_rate(batches(), workers, seconds))


def measured(a, command):
    out = subprocess.run(shlex.split(a.prefix) + command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)


def ours(a, shards):
    config = a.dir + "/train.yaml"
    with open(config, "w") as f:
        f.write(f"data: {{train: {shards}, batch: {BATCH}}}\n"
                "transforms: [{random_resized_crop: {size: 224}}, random_flip, to_tensor, "
                f"{{normalize: {{mean: {MEAN}, std: {STD}}}}}]\n"
                "model: {layers: [{flatten: {}}, {linear: {out: 4}}]}\n")
    return measured(a, [a.program, "bench", "io", config, "--seconds", str(a.seconds), "--workers", str(a.workers),
                        "--json"])["samples_per_s"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", default="500x375")
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=int, default=3)
    p.add_argument("--program", default="build/ctrain-hpc")
    p.add_argument("--dir", default="")
    p.add_argument("--prefix", default="")
    p.add_argument("--peer", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.peer:
        return peer(a.peer, a.workers, a.seconds)
    with tempfile.TemporaryDirectory() as made:
        a.dir = a.dir or made
        images, shards = f"{a.dir}/images-{a.size}", f"{a.dir}/images-{a.size}.h5"
        if not os.path.exists(shards):
            make_images(images, *map(int, a.size.split("x")))
            subprocess.run([a.program, "pack", "--images-from", images, "--encoded", "--output", shards], check=True,
                           stdout=subprocess.DEVNULL)
        mine, theirs = [], []
        for _ in range(a.rounds):
            mine.append(ours(a, shards))
            theirs.append(measured(a, [sys.executable, __file__, "--peer", images, "--workers", str(a.workers),
                                       "--seconds", str(a.seconds)]))
        ratios = sorted(m / o for m, o in zip(mine, theirs))
        size = os.path.getsize(shards) / IMAGES / 1000
        print(f"{a.size}, {size:.0f} KB, {a.workers} threads or workers: ctrain-hpc {statistics.median(mine):.0f}, "
              f"torchvision {statistics.median(theirs):.0f} images/s, ratio {statistics.median(ratios):.2f} "
              f"({ratios[0]:.2f} to {ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
