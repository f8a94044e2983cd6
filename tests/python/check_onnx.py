"""Checks models that onnx_make wrote: onnx's checker, and onnxruntime's outputs against ours.

    check_onnx.py CTRAIN ONNX_MAKE DIR [WORD]    prints TAP; of models with the word in their names
"""
import os
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort

program, make, work = sys.argv[1:4]
names = [line.split() for line in subprocess.check_output([make], text=True).splitlines()]
if len(sys.argv) > 4:
    names = [n for n in names if sys.argv[4] in n[0]]


def read(name, what, shape):
    return np.fromfile(f"{work}/{name}.{what}", np.float32).reshape(shape)


def run(path, x, level, kept=""):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    options.optimized_model_filepath = kept
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"input": x})[0]


def integers(path, model, x, plain):
    """What a runtime makes of pairs is integer arithmetic: it differs by roundings alone."""
    kept = f"{work}/kept.onnx"
    wanted = sum(n.op_type == "Conv" for n in model.graph.node)
    got = run(path, x, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, kept)
    ops = [n.op_type for n in onnx.load(kept, load_external_data=False).graph.node]
    assert ops.count("QLinearConv") == wanted and "Conv" not in ops, ops
    assert not wanted or "QGemm" in ops, ops
    os.remove(kept)
    return np.abs(got - plain).max()


def check(name, batch, eight):
    subprocess.run([make, name, work], check=True)
    path = f"{work}/{name}.onnx"
    onnx.checker.check_model(path, full_check=True)
    model = onnx.load(path, load_external_data=False)
    assert model.ir_version == 8 and model.opset_import[0].version == 17
    given, wanted = model.graph.input[0], model.graph.output[0]
    assert (given.name, wanted.name) == ("input", "output")
    shape = [d.dim_param or d.dim_value for d in given.type.tensor_type.shape.dim]
    assert shape[0] == "N"
    x = read(name, "in", [batch] + shape[1:])
    y = read(name, "out", [batch, -1])
    assert wanted.type.tensor_type.shape.dim[0].dim_param == "N"
    assert wanted.type.tensor_type.shape.dim[1].dim_value == y.shape[1]
    largest = np.abs(y).max()
    assert largest > 1e-3, "the outputs are as good as zero"
    near = 0.05 if eight else 1e-4
    level = ort.GraphOptimizationLevel
    level = level.ORT_DISABLE_ALL if eight else level.ORT_ENABLE_ALL
    for rows in (slice(0, batch), slice(0, 1)):  # batches of any size
        got = run(path, x[rows], level)
        far = np.abs(got - y[rows]).max() / max(1.0, largest)
        assert got.shape == y[rows].shape, (got.shape, y[rows].shape)
        assert far <= near, f"outputs differ by {far}, the largest is {largest}"
    if eight:  # the same by way of a file
        subprocess.run([program, "convert", f"{work}/{name}.h5", path], check=True,
                       stdout=subprocess.DEVNULL)
        onnx.checker.check_model(path, full_check=True)
        far = max(far, np.abs(run(path, x, level) - y).max() / max(1.0, largest))
        assert far <= near, f"of a quantized file outputs differ by {far}"
        model = onnx.load(path, load_external_data=False)
    if eight == 1:
        far2 = integers(path, model, x[rows], got) / max(1.0, largest)
        assert far2 <= 0.02, f"in integers outputs differ by {far2}"
    return far


for i, (name, batch, eight) in enumerate(names):
    try:
        far = check(name, int(batch), int(eight))
        print(f"ok {i + 1} - {name}: within {far:.1e}", flush=True)
    except Exception as e:  # the next one may pass
        print("# " + str(e).replace("\n", "\n# "))
        print(f"not ok {i + 1} - {name}", flush=True)
    for suffix in ("onnx", "onnx.data", "in", "out", "h5"):
        if os.path.exists(f"{work}/{name}.{suffix}"):
            os.remove(f"{work}/{name}.{suffix}")
print(f"1..{len(names)}")
