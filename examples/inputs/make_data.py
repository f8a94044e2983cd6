#!/usr/bin/env python3
"""Makes train.h5 and val.h5 from the data of the digits example: the two upper rows of each image, and the column sums
of the other rows.

    pip install numpy h5py; ./make_data.py

images  N x 1 x 2 x 8 uint8 (0 to 16); columns N x 8 float32 (0 to 1); labels N.
"""
import glob
import os

import h5py
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def make(name, pattern):
    images, labels = [], []
    for path in sorted(glob.glob(os.path.join(HERE, "../digits", pattern))):
        with h5py.File(path) as f:
            images.append(f["images"][...])
            labels.append(f["labels"][...])
    images, labels = np.concatenate(images).reshape(-1, 1, 8, 8), np.concatenate(labels)
    with h5py.File(os.path.join(HERE, name), "w") as f:
        pack = dict(compression="gzip", compression_opts=9, shuffle=True)
        f.create_dataset("images", data=images[:, :, :2], chunks=(60, 1, 2, 8), **pack)
        f.create_dataset("columns", data=(images[:, 0, 2:].sum(1) / 96).astype(np.float32), chunks=(60, 8), **pack)
        f.create_dataset("labels", data=labels.astype(np.uint8), **pack)
        f.attrs["classes"] = 10


make("train.h5", "train-*.h5")
make("val.h5", "val-000.h5")
