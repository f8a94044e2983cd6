#!/usr/bin/env python3
"""Prediction by ctrain-hpc, onnxruntime and PyTorch (eager and compiled), side by side on this machine, in images/s.

    pip install torch torchvision onnx onnxruntime
    bench/predict.py [--case resnet50-224-1x2]... [--threads 1,2] [--rounds 5] [--program build/ctrain-hpc]

Each round runs the sides one after the other; the table gives medians over rounds of each side's median pass, and of
the ratios to ctrain-hpc also the smallest and largest round.  All run the same model with drawn weights on one
float32 batch that stays in memory; models are torchvision's, exported by PyTorch for onnxruntime.  PyTorch is in
inference mode, with channels_last; compiled: torch.compile (inductor) with frozen weights, the faster of its settings
for inference, which folds batchnorms as ctrain-hpc does.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from cases import CASES

PASSES, WARMUP = 7, 2


def model_of(case):
    import torchvision
    m = case.model
    names = {"resnet": f"resnet{m.get('depth')}", "vgg_bn": f"vgg{m.get('depth')}_bn",
             "densenet": f"densenet{m.get('depth')}", "mobilenet_v2": "mobilenet_v2"}
    if m["family"] not in names or case.shape[-1] < 224:  # for small images ours have another stem
        sys.exit("torchvision has no such model: choose another case")
    return getattr(torchvision.models, names[m["family"]])(num_classes=case.classes).eval()


def median_rate(batch, run):
    seconds = []
    for i in range(WARMUP + PASSES):
        begin = time.perf_counter()
        run()
        if i >= WARMUP:
            seconds.append(time.perf_counter() - begin)
    return batch / statistics.median(seconds)


def torch_rate(case, threads, onnx, compiled=False):
    import torch
    torch.set_num_threads(threads)
    model = model_of(case).to(memory_format=torch.channels_last)
    x = torch.randn(case.batch, *case.shape).to(memory_format=torch.channels_last)
    if compiled:
        import torch._inductor.config
        torch._inductor.config.freezing = True
        model = torch.compile(model)
    with torch.no_grad() if compiled else torch.inference_mode():
        return median_rate(case.batch, lambda: model(x))


def compiled_rate(case, threads, onnx):
    return torch_rate(case, threads, onnx, compiled=True)


def ort_rate(case, threads, onnx):
    import numpy as np
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(onnx, options)
    x = np.random.default_rng(0).standard_normal((case.batch, *case.shape)).astype(np.float32)
    return median_rate(case.batch, lambda: session.run(None, {"x": x}))


def own_rate(case, threads, program):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(case.config())
        f.flush()
        out = subprocess.run([program, "bench", "predict", f.name, "--json", "--log", "error", "--steps", str(PASSES),
                              "--warmup", str(WARMUP)], capture_output=True, text=True, check=True,
                             env=dict(os.environ, OMP_NUM_THREADS=str(threads)))
    return json.loads(out.stdout)["samples_per_s"]


SIDES = {"onnxruntime": ort_rate, "PyTorch": torch_rate, "PyTorch compiled": compiled_rate}


def other_rate(side, case, threads, onnx):
    """In a process of its own: thread pools are made once."""
    out = subprocess.run([sys.executable, __file__, "--side", side, "--case", case, "--threads", str(threads), "--onnx",
                          onnx], capture_output=True, text=True, check=True)
    return float(out.stdout.split()[-1])


def export(case, path):
    import torch
    torch.onnx.export(model_of(case), torch.zeros(1, *case.shape), path, dynamo=False, input_names=["x"],
                      dynamic_axes={"x": {0: "N"}})


def measure(name, threads, rounds, program):
    rates = {side: [] for side in ["ctrain-hpc", *SIDES]}
    with tempfile.TemporaryDirectory() as folder:
        onnx = os.path.join(folder, "model.onnx")
        export(CASES[name], onnx)
        for _ in range(rounds):
            rates["ctrain-hpc"].append(own_rate(CASES[name], threads, program))
            for side in SIDES:
                rates[side].append(other_rate(side, name, threads, onnx))
    row = [name, str(threads)]
    for side, all_of in rates.items():
        ratios = sorted(a / b for a, b in zip(rates["ctrain-hpc"], all_of))
        text = f"{statistics.median(all_of):.1f}"
        if side in SIDES:
            text += f" ({statistics.median(ratios):.2f}x, {ratios[0]:.2f}-{ratios[-1]:.2f})"
        row.append(text)
    print("| " + " | ".join(row) + " |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--case", action="append", choices=list(CASES))
    p.add_argument("--threads", default="1,2")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--program", default="build/ctrain-hpc")
    p.add_argument("--side", help=argparse.SUPPRESS)
    p.add_argument("--onnx", help=argparse.SUPPRESS)
    o = p.parse_args()
    cases = o.case or ["resnet50-224-1x2"]
    if o.side:
        print(SIDES[o.side](CASES[cases[0]], int(o.threads), o.onnx))
        return
    print("| case | threads | " + " | ".join(["ctrain-hpc", *SIDES]) + " |\n|" + "---|" * (3 + len(SIDES)))
    for name in cases:
        for threads in o.threads.split(","):
            measure(name, int(threads), o.rounds, o.program)


main()
