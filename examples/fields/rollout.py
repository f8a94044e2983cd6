#!/usr/bin/env python3
"""How well the model of a run predicts one step, and many steps from its own predictions: VRMSE by step.

    pip install numpy h5py; ./rollout.py RUN [CTRAIN [DIRECTORY]]      DIRECTORY has rollout.h5

VRMSE is sqrt(mean((x - y)^2) / var(y)) over the points of a field, then the mean over components and trajectories.
The second column is that of no change at all.
"""
import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np


def vrmse(x, y):
    return np.sqrt(((x - y) ** 2).mean((2, 3)) / y.var((2, 3))).mean()


def predict(program, run, state, work):
    with h5py.File(f"{work}/in.h5", "w") as f:
        f["state"] = state
        f["state"].attrs["layout"] = "NCHW"
    subprocess.run([program, "predict", run, "--input", f"{work}/in.h5", "--output", f"{work}/out.h5", "--log", "warn"],
                   check=True, stdout=subprocess.DEVNULL)
    with h5py.File(f"{work}/out.h5") as f:
        return f["outputs"][:].reshape(state.shape)


def main(run, program="ctrain-hpc", where=os.path.dirname(os.path.abspath(__file__))):
    with h5py.File(os.path.join(where, "rollout.h5")) as f:
        fields = f["fields"][:]
    with tempfile.TemporaryDirectory() as work:
        every = fields[:, :-1].reshape(-1, *fields.shape[2:])
        one = predict(program, run, every, work)
        print(f"one step: VRMSE {vrmse(one, fields[:, 1:].reshape(every.shape)):.4f}")
        state = fields[:, 0]
        for step in range(1, fields.shape[1]):
            state = predict(program, run, state, work)
            if step in (1, 2, 4, 8, 15):
                print(f"step {step:2}: VRMSE {vrmse(state, fields[:, step]):.4f}, no change "
                      f"{vrmse(fields[:, 0], fields[:, step]):.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
