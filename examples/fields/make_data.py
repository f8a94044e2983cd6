#!/usr/bin/env python3
"""Makes train.h5, val.h5 and rollout.h5: solutions of the viscous Burgers equation in two dimensions, periodic.

    pip install numpy h5py; ./make_data.py [DIRECTORY [TRAIN VAL]]      numbers of trajectories, 64 and 8

u_t + u . grad u = 0.02 laplace u on [0, 2 pi)^2, pseudo-spectral with RK4, from random waves of low frequency. Snapshots
are 0.1 apart. train.h5 and val.h5 hold pairs: state, next  N x 2 x 32 x 32 float32 (the two components of u). rollout.h5
holds the trajectories of val.h5 as a whole: fields  trajectory x 16 x 2 x 32 x 32.
"""
import os
import sys

import h5py
import numpy as np

SIZE, STEPS, APART, INNER, VISCOSITY = 32, 16, 0.1, 10, 0.02
K = np.fft.fftfreq(SIZE, 1 / SIZE)
KY, KX = np.meshgrid(K, K, indexing="ij")
KEEP = (abs(KY) < SIZE / 3) & (abs(KX) < SIZE / 3)  # against aliasing


def change(f):
    """The time derivative of the Fourier coefficients f, ... x 2 x SIZE x SIZE."""
    u, by_x, by_y = (np.fft.ifft2(a).real for a in (f, 1j * KX * f, 1j * KY * f))
    product = u[..., :1, :, :] * by_x + u[..., 1:, :, :] * by_y
    return -np.fft.fft2(product) * KEEP - VISCOSITY * (KX**2 + KY**2) * f


def solve(count, seed):
    rng = np.random.default_rng(seed)
    low = (abs(KY) <= 3) & (abs(KX) <= 3)
    f = np.fft.fft2(rng.standard_normal((count, 2, SIZE, SIZE))) * low
    f /= np.fft.ifft2(f).real.std((1, 2, 3), keepdims=True)
    h, out = APART / INNER, []
    for step in range(STEPS * INNER):
        if step % INNER == 0:
            out.append(np.fft.ifft2(f).real)
        a = change(f)
        b = change(f + h / 2 * a)
        c = change(f + h / 2 * b)
        f = f + h / 6 * (a + 2 * b + 2 * c + change(f + h * c))
    return np.stack(out, 1).astype(np.float32)


def write_pairs(path, fields):
    order = np.random.default_rng(0).permutation(len(fields) * (STEPS - 1))
    with h5py.File(path, "w") as f:
        for name, part in (("state", fields[:, :-1]), ("next", fields[:, 1:])):
            f.create_dataset(name, data=part.reshape(-1, 2, SIZE, SIZE)[order], chunks=(15, 2, SIZE, SIZE))
            f[name].attrs["layout"] = "NCHW"


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    counts = [int(n) for n in sys.argv[2:4]] or [64, 8]
    write_pairs(os.path.join(where, "train.h5"), solve(counts[0], 1))
    val = solve(counts[1], 2)
    write_pairs(os.path.join(where, "val.h5"), val)
    with h5py.File(os.path.join(where, "rollout.h5"), "w") as f:
        f["fields"] = val
