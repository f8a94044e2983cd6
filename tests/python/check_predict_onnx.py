"""The way of a user: train, `convert` to ONNX, and onnxruntime's probabilities against `predict`'s.

    check_predict_onnx.py CTRAIN DIGITS.yaml DIR      prints TAP
"""
import csv
import subprocess
import sys

import numpy as np
import onnxruntime

program, config, work = sys.argv[1:4]


def ctrain(*words):
    subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def predicted(model):
    """[samples, classes] of `predict`, which tells the most probable ones first."""
    ctrain("predict", model, "--input", f"{work}/x.h5", "--top", "10", "--output", f"{work}/y.csv")
    rows = list(csv.reader(open(f"{work}/y.csv")))[1:]
    out = np.zeros((len(rows), 10))
    for i, row in enumerate(rows):
        for k in range(1, 21, 2):
            out[i, int(row[k])] = float(row[k + 1])
    return out


def softmax(v):
    e = np.exp(v - v.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


x = np.random.default_rng(1).integers(0, 17, (50, 64))
with open(f"{work}/x.csv", "w") as f:
    f.writelines(",".join(map(str, row)) + ",0\n" for row in x.tolist())
try:
    ctrain("pack", "--csv", f"{work}/x.csv", "--shape", "1,8,8", "--classes", "10",
           "--output", f"{work}/x.h5")
    ctrain("train", config, "--set", f"run.dir={work}/run", "--set", "train.steps=300")
    model = f"{work}/run/checkpoints/step-00000300.h5"
    ctrain("convert", model, f"{work}/m.onnx")
    session = onnxruntime.InferenceSession(f"{work}/m.onnx", providers=["CPUExecutionProvider"])
    samples = ((x - 4.88) / 6.02).astype(np.float32).reshape(-1, 1, 8, 8)
    got, wanted = softmax(session.run(None, {"input": samples})[0]), predicted(model)
    far = abs(got - wanted).max()
    assert got.shape == wanted.shape == (50, 10)
    assert wanted.max() > 0.2, "nothing was learned"
    assert far <= 1e-4, f"probabilities differ by {far}"
    print(f"ok 1 - predict and onnxruntime: within {far:.1e}")
except subprocess.CalledProcessError as e:
    print("# " + e.stderr.decode().replace("\n", "\n# "))
    print("not ok 1 - predict and onnxruntime")
except AssertionError as e:
    print(f"# {e}")
    print("not ok 1 - predict and onnxruntime")
print("1..1")
