"""Checks models that onnx_make wrote: onnx's checker, and onnxruntime's outputs against ours.

    check_onnx.py ONNX_MAKE DIR      prints TAP
"""
import os
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort

make, work = sys.argv[1:3]
names = [line.split() for line in subprocess.check_output([make], text=True).splitlines()]


def read(name, what, shape):
    return np.fromfile(f"{work}/{name}.{what}", np.float32).reshape(shape)


def check(name, batch):
    subprocess.run([make, name, work], check=True)
    path = f"{work}/{name}.onnx"
    onnx.checker.check_model(path, full_check=True)
    model = onnx.load(path, load_external_data=False)
    assert model.ir_version == 8 and model.opset_import[0].version == 17
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given, wanted = session.get_inputs()[0], session.get_outputs()[0]
    assert (given.name, wanted.name) == ("input", "output")
    assert given.shape[0] == "N" and wanted.shape[0] == "N", (given.shape, wanted.shape)
    x = read(name, "in", [batch] + given.shape[1:])
    y = read(name, "out", [batch] + wanted.shape[1:])
    largest = np.abs(y).max()
    assert largest > 1e-3, "the outputs are as good as zero"
    for rows in (slice(0, batch), slice(0, 1)):  # batches of any size
        got = session.run(None, {"input": x[rows]})[0]
        far = np.abs(got - y[rows]).max()
        assert got.shape == y[rows].shape, (got.shape, y[rows].shape)
        assert far <= 1e-4 * max(1.0, largest), f"outputs differ by {far}, the largest is {largest}"
    return far / max(1.0, largest)


for i, (name, batch) in enumerate(names):
    try:
        print(f"ok {i + 1} - {name}: within {check(name, int(batch)):.1e}", flush=True)
    except Exception as e:  # the next one may pass
        print("# " + str(e).replace("\n", "\n# "))
        print(f"not ok {i + 1} - {name}", flush=True)
    for suffix in ("onnx", "onnx.data", "in", "out"):
        if os.path.exists(f"{work}/{name}.{suffix}"):
            os.remove(f"{work}/{name}.{suffix}")
print(f"1..{len(names)}")
