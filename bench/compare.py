#!/usr/bin/env python3
"""Steps per second of ctrain-hpc and of PyTorch, side by side on this machine.

    pip install torch torchvision; bench/compare.py [--case NAME]... [--rounds 5] [--program build/ctrain-hpc]
    bench/compare.py --amp bf16                             # both sides in mixed precision
    bench/compare.py --own train.sync_bn=world              # ctrain-hpc with this option against itself without

Each round runs one after the other and the table gives medians over rounds; a side's figure of one round
is its median step.  Both sides train on one synthetic float32 batch that stays in memory, with SGD and
momentum, with the same model, global batch, ranks and threads.  PyTorch gets its faster memory format
(tried in the first round) and DDP over gloo where there are several ranks.  Peak memory is the largest
resident set of a rank; with --own the memory columns are the arena of activations and gradients.
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


def run_ctrain(case, program, mpiexec, options=()):
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
        for option in options:
            command += ["--set", option]
        out = subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS=str(threads)), check=True,
                             stdout=subprocess.PIPE, text=True).stdout
    r = json.loads(out)
    return r["step_s"], r["peak_rss_bytes"], r["activation_bytes"]


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


def torch_worker(case, layout, amp):
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
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp == "bf16"):
            loss = loss_of(net(x), y)
        loss.backward()
        optim.step()
        loss.item()
        times.append(time.perf_counter() - begin)
    if int(os.environ.get("RANK", "0")) == 0:
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"step_s": statistics.median(times[-steps:]), "rss": rss}))


def run_torch(case, layout, amp):
    ranks, threads = CASES[case][6:8]
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), MASTER_ADDR="127.0.0.1", MASTER_PORT="29517",
               WORLD_SIZE=str(ranks))
    command = [sys.executable, os.path.abspath(__file__), "--worker", case, layout, amp]
    workers = [subprocess.Popen(command, env=dict(env, RANK=str(r)), stdout=subprocess.PIPE, text=True)
               for r in range(ranks)]
    outs = [w.communicate()[0] for w in workers]
    if any(w.returncode for w in workers):
        sys.exit(f"the PyTorch side of {case} failed")
    r = json.loads(outs[0].splitlines()[-1])
    return r["step_s"], r["rss"]


# ---- the table ----


def compare(case, a):
    """A row: ctrain-hpc against PyTorch."""
    layouts = ["nchw", "nhwc"]
    ours, theirs = [], []
    options = a.set + ([f"train.amp={a.amp}"] if a.amp != "off" else [])
    for k in range(a.rounds):
        ours.append(run_ctrain(case, a.program, a.mpiexec, options))
        tried = {l: run_torch(case, l, a.amp) for l in layouts}
        best = min(tried, key=lambda l: tried[l][0])
        theirs.append(tried[best])
        layouts = [best]
    row(case, ours, theirs, layouts[0], 1)


def compare_own(case, a):
    """A row: ctrain-hpc with the option against itself without."""
    pairs = [(run_ctrain(case, a.program, a.mpiexec, a.set + [a.own]),
              run_ctrain(case, a.program, a.mpiexec, a.set)) for _ in range(a.rounds)]
    row(case, [p[0] for p in pairs], [p[1] for p in pairs], "", 2)


def row(case, ours, theirs, note, memory):
    med = lambda rows, i: statistics.median(r[i] for r in rows)
    ratios = sorted(t[0] / o[0] for o, t in zip(ours, theirs))
    print(f"{case:18} {med(ours, 0) * 1e3:9.2f} {med(theirs, 0) * 1e3:9.2f} {note:4} {statistics.median(ratios):6.2f} "
          f"[{ratios[0]:.2f}-{ratios[-1]:.2f}] {med(ours, memory) / 2**20:9.1f} "
          f"{med(theirs, min(memory, len(theirs[0]) - 1)) / 2**20:9.1f}", flush=True)


def main():
    if sys.argv[1:2] == ["--worker"]:
        return torch_worker(*sys.argv[2:5])
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--case", action="append", choices=CASES, help="only this one; may be repeated")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--amp", choices=["off", "bf16"], default="off", help="mixed precision, on both sides")
    p.add_argument("--set", action="append", default=[], help="KEY=VALUE for ctrain-hpc")
    p.add_argument("--own", help="KEY=VALUE: compare with ctrain-hpc without it, not with PyTorch")
    p.add_argument("--program", default=os.path.join(here, "..", "build", "ctrain-hpc"))
    p.add_argument("--mpiexec", default="mpiexec")
    a = p.parse_args()
    peer = "without" if a.own else "torch"
    if not a.own:
        import torch
        print(f"PyTorch {torch.__version__}", end=", ")
    print(f"load {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores" + (f", {a.own}" if a.own else f", amp {a.amp}"))
    print(f"{'case':18} {'ours ms':>9} {peer + ' ms':>9}       ratio [min-max]      our MB  {peer} MB")
    for case in a.case or CASES:
        (compare_own if a.own else compare)(case, a)


if __name__ == "__main__":
    main()
