#!/usr/bin/env python3
"""Steps per second of ctrain-hpc and of PyTorch, side by side on this machine.

    pip install torch torchvision; bench/compare.py [--case NAME]... [--rounds 5] [--program build/ctrain-hpc]

Each round runs one after the other and the table gives medians over rounds; a side's figure of one round
is its median step.  Both sides train on one synthetic float32 batch that stays in memory, with SGD and
momentum, with the same model, global batch, ranks and threads.  PyTorch gets its faster memory format
(tried in the first round) and DDP over gloo where there are several ranks.  Peak memory is the largest
resident set of a rank.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

# name: family, depth, classes, channels, size, batch per rank, ranks, threads
CASES = {
    "lenet28-1t": ("lenet", 0, 10, 1, 28, 64, 1, 1),
    "lenet28-2t": ("lenet", 0, 10, 1, 28, 64, 1, 2),
    "resnet18-32-1x2": ("resnet", 18, 10, 3, 32, 32, 1, 2),
    "resnet18-32-2x1": ("resnet", 18, 10, 3, 32, 32, 2, 1),
    "resnet18-224-1x2": ("resnet", 18, 1000, 3, 224, 16, 1, 2),
    "resnet18-224-2x1": ("resnet", 18, 1000, 3, 224, 16, 2, 1),
    "resnet50-224-1x2": ("resnet", 50, 1000, 3, 224, 16, 1, 2),
    "resnet50-224-2x1": ("resnet", 50, 1000, 3, 224, 16, 2, 1),
}


def steps_for(case):
    family, depth, _, _, size, _, _, _ = CASES[case]
    if family == "lenet":
        return 300
    return {32: 12, 224: 5}[size]


# ---- ctrain-hpc ----


def run_ctrain(case, program, mpiexec):
    family, depth, classes, channels, size, batch, ranks, threads = CASES[case]
    steps = steps_for(case)
    model = f"{{family: {family}, depth: {depth}, classes: {classes}}}" if depth else f"{{family: {family}, classes: {classes}}}"
    config = f"""
device: cpu
model: {model}
data: {{train: synthetic, shape: [{channels}, {size}, {size}], classes: {classes}, batch: {batch * ranks}}}
optim: {{kind: sgd, lr: 0.01, momentum: 0.9}}
"""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(config)
        f.flush()
        command = [mpiexec, "-n", str(ranks), program, "bench", "step", f.name, "--json", "--steps", str(steps),
                   "--warmup", str(max(2, steps // 5))]
        out = subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS=str(threads)), check=True,
                             stdout=subprocess.PIPE, text=True).stdout
    r = json.loads(out)
    return r["step_s"], r["peak_rss_bytes"]


# ---- PyTorch ----


def torch_model(family, depth, classes, size):
    import torch.nn as nn
    import torch.nn.functional as F
    import torchvision

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
            self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, classes)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
            return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))

    if family == "lenet":
        return LeNet()
    net = getattr(torchvision.models, f"resnet{depth}")(num_classes=classes)
    if size < 64:
        net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        net.maxpool = nn.Identity()
    return net


def torch_worker(case, layout):
    """One rank; rank 0 prints a line of JSON."""
    import resource
    import torch
    import torch.distributed as dist

    family, depth, classes, channels, size, batch, ranks, threads = CASES[case]
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    form = torch.channels_last if layout == "nhwc" else torch.contiguous_format
    net = torch_model(family, depth, classes, size).to(memory_format=form)
    if ranks > 1:
        dist.init_process_group("gloo")
        net = torch.nn.parallel.DistributedDataParallel(net)
    x = torch.randn(batch, channels, size, size).contiguous(memory_format=form)
    y = torch.randint(0, classes, (batch,))
    optim = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    steps = steps_for(case)
    times = []
    for _ in range(steps + max(2, steps // 5)):
        if ranks > 1:
            dist.barrier()
        begin = time.perf_counter()
        optim.zero_grad(set_to_none=True)
        loss = loss_of(net(x), y)
        loss.backward()
        optim.step()
        loss.item()
        times.append(time.perf_counter() - begin)
    if int(os.environ.get("RANK", "0")) == 0:
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"step_s": statistics.median(times[-steps:]), "rss": rss}))


def run_torch(case, layout):
    ranks, threads = CASES[case][6:8]
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), MASTER_ADDR="127.0.0.1", MASTER_PORT="29517",
               WORLD_SIZE=str(ranks))
    command = [sys.executable, os.path.abspath(__file__), "--worker", case, layout]
    workers = [subprocess.Popen(command, env=dict(env, RANK=str(r)), stdout=subprocess.PIPE, text=True)
               for r in range(ranks)]
    outs = [w.communicate()[0] for w in workers]
    if any(w.returncode for w in workers):
        sys.exit(f"the PyTorch side of {case} failed")
    r = json.loads(outs[0].splitlines()[-1])
    return r["step_s"], r["rss"]


# ---- the table ----


def compare(case, rounds, program, mpiexec):
    layouts = ["nchw", "nhwc"]
    ours, theirs = [], []
    for k in range(rounds):
        ours.append(run_ctrain(case, program, mpiexec))
        tried = {l: run_torch(case, l) for l in layouts}
        best = min(tried, key=lambda l: tried[l][0])
        theirs.append(tried[best])
        layouts = [best]
    med = lambda rows, i: statistics.median(r[i] for r in rows)
    a, b = med(ours, 0), med(theirs, 0)
    pairs = sorted(t[0] / o[0] for o, t in zip(ours, theirs))
    print(f"{case:18} {a * 1e3:9.2f} {b * 1e3:9.2f} {layouts[0]} {statistics.median(pairs):6.2f} "
          f"[{pairs[0]:.2f}-{pairs[-1]:.2f}] {med(ours, 1) / 2**20:7.0f} {med(theirs, 1) / 2**20:7.0f}", flush=True)


def main():
    if sys.argv[1:2] == ["--worker"]:
        return torch_worker(sys.argv[2], sys.argv[3])
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--case", action="append", choices=CASES, help="only this one; may be repeated")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--program", default=os.path.join(here, "..", "build", "ctrain-hpc"))
    p.add_argument("--mpiexec", default="mpiexec")
    a = p.parse_args()
    import torch
    print(f"PyTorch {torch.__version__}, load {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores")
    print(f"{'case':18} {'ours ms':>9} {'torch ms':>9}       ratio [min-max]   our MB torch MB")
    for case in a.case or CASES:
        compare(case, a.rounds, a.program, a.mpiexec)


if __name__ == "__main__":
    main()
