#!/usr/bin/env python3
"""Makes train.h5 and val.h5: gray images of cells and rods on an uneven, noisy background, with a mask for each.

    pip install numpy h5py; ./make_data.py [DIRECTORY [TRAIN VAL]]

images  N x 1 x 48 x 48 uint8; masks  N x 48 x 48 uint8: 0 background, 1 cell, 2 rod. Both differ in shape only.
"""
import os
import sys

import h5py
import numpy as np

SIZE = 48


def draw(rng):
    y, x = np.mgrid[:SIZE, :SIZE]
    slope = rng.uniform(-0.8, 0.8, 2)
    image, mask = 90 + slope[0] * y + slope[1] * x, np.zeros((SIZE, SIZE), np.uint8)
    for _ in range(rng.integers(2, 6)):
        row, column, kind, angle = rng.uniform(4, SIZE - 4), rng.uniform(4, SIZE - 4), rng.integers(1, 3), rng.uniform(0, np.pi)
        a, b = (rng.uniform(4, 7),) * 2 if kind == 1 else (rng.uniform(8, 13), rng.uniform(1.8, 2.8))
        along = (x - column) * np.cos(angle) + (y - row) * np.sin(angle)
        across = (y - row) * np.cos(angle) - (x - column) * np.sin(angle)
        inside = (along / a) ** 2 + (across / b) ** 2 < 1
        image[inside] += rng.uniform(35, 60)
        mask[inside] = kind
    return np.clip(image + rng.normal(0, 14, image.shape), 0, 255).astype(np.uint8), mask


def make(path, count, seed):
    rng = np.random.default_rng(seed)
    images, masks = map(np.array, zip(*(draw(rng) for _ in range(count))))
    with h5py.File(path, "w") as f:
        f.create_dataset("images", data=images[:, None], chunks=(min(16, count), 1, SIZE, SIZE))
        f.create_dataset("masks", data=masks, chunks=(min(16, count), SIZE, SIZE))
        f.attrs["classes"] = 3


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    counts = [int(n) for n in sys.argv[2:4]] or [320, 80]
    make(os.path.join(where, "train.h5"), counts[0], 1)
    make(os.path.join(where, "val.h5"), counts[1], 2)
