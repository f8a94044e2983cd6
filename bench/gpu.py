#!/usr/bin/env python3
"""Steps per second of ctrain-hpc and of PyTorch on one GPU.

    pip install torch torchvision; bench/gpu.py [--case NAME]... [--rounds 5] [--program build/ctrain-hpc] [--compile]

Each round runs one program after the other, so that both see the same clocks; the table gives medians over
rounds, and the range of the ratio.  A side's figure of one round is its median step.  Both train on one made-up
batch in the GPU's memory, with SGD and momentum.  PyTorch uses channels_last, autocast (with GradScaler for
fp16) and cudnn.benchmark; --compile adds torch.compile with its default settings.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys

# name: family, depth, classes, channels, size, batch, amp, timed steps
CASES = {
    "resnet50-fp16": ("resnet", 50, 1000, 3, 224, 256, "fp16", 30),
    "resnet50-bf16": ("resnet", 50, 1000, 3, 224, 256, "bf16", 30),
    "resnet18-32": ("resnet", 18, 10, 3, 32, 128, "fp16", 100),
    "lenet": ("lenet", 0, 10, 1, 28, 64, "off", 300),
}
HERE = os.path.dirname(os.path.abspath(__file__))


def run_ctrain(case, program):
    family, depth, classes, channels, size, batch, amp, steps = CASES[case]
    model = f"{{family: {family}, depth: {depth}, classes: {classes}}}" if depth else f"{{family: {family}, classes: {classes}}}"
    data = f"{{train: synthetic, shape: [{channels}, {size}, {size}], classes: {classes}, batch: {batch}, samples: {batch}}}"
    out = subprocess.run(shlex.split(program) + ["bench", "step", os.path.join(HERE, "gpu.yaml"), "--json", "--steps", str(steps),
                         "--warmup", "12", "--set", f"train.amp={amp}", "--set", f"model={model}", "--set", f"data={data}"],
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)["step_s_median"]


def torch_worker(case, compiled):
    """Prints a line of JSON."""
    import time
    import torch
    from compare import torch_model

    family, depth, classes, channels, size, batch, amp, steps = CASES[case]
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    net = torch_model({"family": family, "depth": depth}, (channels, size, size), classes).cuda().to(memory_format=torch.channels_last)
    if compiled:
        net = torch.compile(net)
    x = torch.randn(batch, channels, size, size, device="cuda").contiguous(memory_format=torch.channels_last)
    y = torch.randint(0, classes, (batch,), device="cuda")
    optim = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    loss_of = torch.nn.CrossEntropyLoss()
    low = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(amp)
    scaler = torch.amp.GradScaler("cuda", enabled=amp == "fp16")

    def step():
        optim.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=low or torch.float16, enabled=low is not None):
            loss = loss_of(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(optim)
        scaler.update()

    for _ in range(12):
        step()
    torch.cuda.synchronize()
    times = []
    # in groups, so that the host may run ahead as it does in a training; a group's mean is one figure
    for _ in range(max(1, steps // 10)):
        begin = time.perf_counter()
        for _ in range(10):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / 10)
    p = torch.cuda.get_device_properties(0)
    print(json.dumps({"step_s": statistics.median(times), "gpu": p.name, "torch": torch.__version__,
                      "cudnn": torch.backends.cudnn.version()}))


def run_torch(case, compiled):
    out = subprocess.run([sys.executable, os.path.abspath(__file__), "--worker", case] + (["--compile"] if compiled else []),
                         check=True, stdout=subprocess.PIPE, text=True, env=dict(os.environ, PYTHONPATH=HERE)).stdout
    return json.loads(out.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--program", default="build/ctrain-hpc", help="may be several words")
    parser.add_argument("--compile", action="store_true", help="also torch.compile")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.worker:
        return torch_worker(a.worker, a.compile)
    told = False
    for case in a.case or CASES:
        own, sides = [], {"eager": []}
        if a.compile:
            sides["compile"] = []
        for _ in range(a.rounds):
            own.append(run_ctrain(case, a.program))
            for side, times in sides.items():
                r = run_torch(case, side == "compile")
                times.append(r["step_s"])
                if not told:
                    print(f"{r['gpu']}, PyTorch {r['torch']}, its cuDNN {r['cudnn']}; milliseconds a step")
                    print(f"{'case':16} {'batch':>6} {'ctrain-hpc':>11} {'samples/s':>10}  PyTorch")
                    told = True
        mine = statistics.median(own)
        line = f"{case:16} {CASES[case][5]:6} {1e3 * mine:11.3f} {CASES[case][5] / mine:10.0f}"
        for side, times in sides.items():
            ratios = sorted(t / o for t, o in zip(times, own))
            line += f"  {side} {1e3 * statistics.median(times):.3f}: {statistics.median(ratios):.2f}x [{ratios[0]:.2f}-{ratios[-1]:.2f}]"
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
