#!/usr/bin/env python3
"""Makes train.h5 and val.h5: gray images of squares and discs on a noisy background, with a mask for each image.

    pip install numpy h5py; ./make_data.py

images  N x 1 x 16 x 16 uint8; masks N x 16 x 16 uint8: 0 background, 1 square, 2 disc, 255 not known (the edge of
an object); edges N x 1 x 16 x 16 float32, 1 there; weights N float32.
"""
import os

import h5py
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def draw(rng):
    image, mask = rng.integers(3, 9, (16, 16)) * 8, np.zeros((16, 16), np.uint8)
    y, x = np.mgrid[:16, :16]
    for _ in range(rng.integers(1, 3)):
        row, column = rng.integers(3, 13, 2)
        size, kind = rng.integers(3, 6), rng.integers(1, 3)
        far = np.maximum(abs(y - row), abs(x - column)) if kind == 1 else np.hypot(y - row, x - column)
        image[far < size] = 160 + 8 * rng.integers(0, 4)
        mask[far < size] = kind
        mask[(far >= size) & (far < size + 0.5)] = 255
    return image, mask


def make(name, count, seed):
    rng = np.random.default_rng(seed)
    images, masks = zip(*(draw(rng) for _ in range(count)))
    images, masks = np.array(images, np.uint8)[:, None], np.array(masks)
    with h5py.File(os.path.join(HERE, name), "w") as f:
        pack = dict(compression="gzip", compression_opts=9, shuffle=True)
        f.create_dataset("images", data=images, chunks=(16, 1, 16, 16), **pack)
        f.create_dataset("masks", data=masks, chunks=(16, 16, 16), **pack)
        f.create_dataset("edges", data=(masks == 255).astype(np.float32)[:, None], chunks=(16, 1, 16, 16), **pack)
        f["weights"] = rng.uniform(0.5, 2, count).astype(np.float32)
        f.attrs["classes"] = 3


make("train.h5", 144, 1)
make("val.h5", 48, 2)
