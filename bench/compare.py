#!/usr/bin/env python3
"""Steps of ctrain-hpc and of PyTorch, side by side on this machine, as the table that docs/ shows.

    pip install torch torchvision; bench/compare.py [--case NAME]... [--rounds 5] [--program build/ctrain-hpc]
    bench/compare.py --case all --compile                   # torch.compile too (wants a C++ compiler)
    bench/compare.py --amp bf16                             # both sides in mixed precision
    bench/compare.py --isa avx2                             # both sides as on a processor without AVX-512
    bench/compare.py --own train.sync_bn=world              # ctrain-hpc with this option against itself without

Each round runs the sides one after the other; the table gives medians over rounds, and of the ratio also its
smallest and largest round.  A side's figure of one round is its median step.  All sides train on one synthetic
float32 batch that stays in memory, with SGD and momentum, with the same model, global batch, ranks and threads.
PyTorch gets its faster memory format, for language models with or without glibc's heap kept (tried in the first
round), and DDP over gloo where there are several ranks.
Peak memory is the largest resident set of a rank; with --own it is the arena of activations and gradients.
"""
import argparse
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import time

from cases import CASES, add_case_option, chosen, machine, run_ctrain

HERE = os.path.dirname(os.path.abspath(__file__))

# ---- PyTorch ----

# glibc keeps freed memory: large tensors need no new pages in each step
HEAP_KEPT = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_TOP_PAD_": str(1 << 26)}


# What limits oneDNN and, on our side, all kernels; PyTorch's own kernels; and MKL's GEMMs
ISAS = {name: {"ONEDNN_MAX_CPU_ISA": onednn, "ATEN_CPU_CAPABILITY": aten, "MKL_ENABLE_INSTRUCTIONS": mkl}
        for name, onednn, aten, mkl in (("avx2", "AVX2", "avx2", "AVX2"), ("avx512", "AVX512_CORE", "avx512", "AVX512"))}


def lenet(classes):
    import torch.nn as nn
    import torch.nn.functional as F

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
            self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, classes)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
            return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))

    return LeNet()


def lstm(model, features, classes):
    import torch.nn as nn

    class Sequence(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(features, model["hidden"], num_layers=model["depth"], batch_first=True)
            self.fc = nn.Linear(model["hidden"], classes)

        def forward(self, x):
            return self.fc(self.lstm(x)[0][:, -1])

    return Sequence()


def resnet(depth, classes, size):
    import torch.nn as nn
    import torchvision

    net = getattr(torchvision.models, f"resnet{depth}")(num_classes=classes)
    if size < 64:
        net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        net.maxpool = nn.Identity()
    return net


def gpt2(model, context, classes):
    """As transformers' GPT2LMHeadModel: tied, gelu by tanh; attention by PyTorch's fused kernel."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    dim, heads = model["dim"], model["heads"]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.c_attn, self.c_proj = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
            self.ln_2, self.c_fc, self.mlp_proj = nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (y.view(b, t, heads, c // heads).transpose(1, 2) for y in self.c_attn(self.ln_1(x)).split(c, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.c_proj(y.transpose(1, 2).reshape(b, t, c))
            return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))

    class GPT2(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(classes, dim), nn.Embedding(context, dim)
            self.h, self.ln_f = nn.ModuleList(Block() for _ in range(model["layers"])), nn.LayerNorm(dim)
            for p in self.parameters():
                if p.dim() == 2:
                    nn.init.normal_(p, std=0.02)

        def forward(self, i):
            x = self.wte(i) + self.wpe(torch.arange(i.shape[1], device=i.device))
            for block in self.h:
                x = block(x)
            return F.linear(self.ln_f(x), self.wte.weight)

    return GPT2()


def cosmoflow(channels, size, classes):
    """As in MLPerf HPC; a stage halves the volume."""
    import torch
    import torch.nn as nn

    class CosmoFlow(nn.Module):
        def __init__(self):
            super().__init__()
            widths = [channels] + [16 << i for i in range(5)]
            self.stages = nn.ModuleList(
                nn.Sequential(nn.Conv3d(a, b, 3, padding=1), nn.LeakyReLU(0.3), nn.MaxPool3d(2))
                for a, b in zip(widths, widths[1:]))
            hidden = []
            for a, b in ((256 * (size // 32) ** 3, 128), (128, 64)):
                hidden += [nn.Linear(a, b), nn.LeakyReLU(0.3), nn.Dropout(0.5)]
            self.hidden = nn.Sequential(*hidden, nn.Linear(64, classes))

        def forward(self, x):
            for stage in self.stages:
                x = stage(x)
            return 1.2 * torch.tanh(self.hidden(x.flatten(1)))

    return CosmoFlow()


def unet(dims, channels, classes, widths):
    """As the family builds it."""
    sys.path.insert(0, os.path.join(HERE, "..", "tests", "python"))
    from field_nets import UNet

    return UNet(dims, channels, classes, widths)


def torch_module(case):
    """What a case of an imported model exports and trains."""
    import torchvision.models as zoo

    if case.module == "UNet":
        return unet(len(case.shape) - 1, case.shape[0], case.classes, [32, 64, 128, 256, 512])
    return getattr(zoo, case.module)(num_classes=case.classes)


def torch_export(case):
    """Writes the .pt2 file of a case, in a process of its own."""
    sys.path.insert(0, os.path.join(HERE, "..", "contrib"))
    from export_pt2 import export
    import torch

    export(torch_module(case), torch.randn(2, *case.shape), case.model["from"])


def torch_model(model, shape, classes):
    """The same network; `model` as a configuration has it."""
    family = model["family"]
    if family == "lenet":
        return lenet(classes)
    if family == "gpt2":
        return gpt2(model, shape[0], classes)
    if family == "cosmoflow":
        return cosmoflow(shape[0], shape[-1], classes)
    if family == "lstm":
        return lstm(model, shape[-1], classes)
    if family == "unet":
        return unet(len(shape) - 1, shape[0], classes, model["widths"])
    if family == "deeplabv3plus":
        sys.path.insert(0, os.path.join(HERE, "..", "tests", "python"))
        from field_nets import DeepLab

        return DeepLab(shape[0], classes)
    import torchvision.models as zoo

    if family == "resnet":
        return resnet(model["depth"], classes, shape[-1])
    if family == "vit":
        return zoo.VisionTransformer(image_size=shape[-1], patch_size=model["patch"], num_layers=model["depth"],
                                     num_heads=model["heads"], hidden_dim=model["dim"], mlp_dim=4 * model["dim"],
                                     num_classes=classes)
    name = {"vgg_bn": "vgg{}_bn", "densenet": "densenet{}", "mobilenet_v2": "mobilenet_v2"}[family]
    return getattr(zoo, name.format(model.get("depth")))(num_classes=classes)


def torch_format(case, layout):
    import torch

    last = torch.channels_last if len(case.shape) == 3 else torch.channels_last_3d
    return last if layout == "nhwc" else torch.contiguous_format


def torch_batch(case, form):
    """Samples and labels or targets."""
    import torch

    if case.tokens:
        return torch.randint(0, case.classes, (2, case.batch, *case.shape))
    x = torch.randn(case.batch, *case.shape).contiguous(memory_format=form)
    if case.targets:
        return x, torch.rand(case.batch, case.classes) * 2 - 1
    return x, torch.randint(0, case.classes, (case.batch, *case.shape[1:]) if case.pixels else (case.batch,))


def torch_steps(case, net, x, y, steps, amp="off", after=lambda step: None):
    """Trains; returns the seconds of each step."""
    import torch
    import torch.distributed as dist

    optim = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss_of = torch.nn.MSELoss() if case.targets else torch.nn.CrossEntropyLoss()
    times = []
    for step in range(steps):
        if case.ranks > 1:
            dist.barrier()
        begin = time.perf_counter()
        optim.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp == "bf16"):
            out = net(x)
            loss = loss_of(out.flatten(0, 1), y.flatten()) if case.tokens else loss_of(out, y)
        loss.backward()
        optim.step()
        loss.item()
        times.append(time.perf_counter() - begin)
        del out, loss
        after(step)
    return times


def torch_worker(name, layout, amp, compiled):
    """One rank; rank 0 prints a line of JSON."""
    import resource
    import torch
    import torch.distributed as dist

    case = CASES[name]
    torch.set_num_threads(case.threads)
    torch.manual_seed(0)
    form = torch_format(case, layout)
    net = torch_module(case) if case.module else torch_model(case.model, case.shape, case.classes)
    net = net.to(memory_format=form)
    if case.ranks > 1:
        dist.init_process_group("gloo")
        net = torch.nn.parallel.DistributedDataParallel(net)
    if compiled:
        net = torch.compile(net)
    times = torch_steps(case, net, *torch_batch(case, form), case.steps + case.warmup(), amp)
    if int(os.environ.get("RANK", "0")) == 0:
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"step_s": statistics.median(times[-case.steps:]), "bytes": rss}))


def run_torch(name, layout, amp, compiled):
    case = CASES[name]
    env = dict(os.environ, OMP_NUM_THREADS=str(case.threads), MASTER_ADDR="127.0.0.1", MASTER_PORT="29517",
               WORLD_SIZE=str(case.ranks))
    if layout == "heap kept":
        env.update(HEAP_KEPT)
    command = [sys.executable, os.path.abspath(__file__), "--worker", name, layout, amp, "compiled" if compiled else "eager"]
    workers = [subprocess.Popen(command, env=dict(env, RANK=str(r)), stdout=subprocess.PIPE, text=True)
               for r in range(case.ranks)]
    outs = [w.communicate()[0] for w in workers]
    if any(w.returncode for w in workers):
        sys.exit(f"the PyTorch side of {name} failed")
    return json.loads(outs[0].splitlines()[-1])


# ---- the table ----


class Side:
    """A column: runs in each round, and what it took."""

    def __init__(self, title, run, variants=(None,)):
        self.title, self.run, self.variants, self.rounds = title, run, list(variants), []

    def round(self):
        """In the first one all variants are tried, and the fastest is kept."""
        tried = {v: self.run(v) for v in self.variants}
        best = min(tried, key=lambda v: tried[v]["step_s"])
        self.variants = [best]
        self.rounds.append(tried[best])

    def median(self, what):
        return statistics.median(r[what] for r in self.rounds)


def sides_of(name, a):
    """Ours first."""
    case = CASES[name]

    def own(options, memory):
        def run(_):
            r = run_ctrain(case, a.program, options, mpiexec=a.mpiexec)
            return {"step_s": r["step_s_median"], "bytes": r[memory], "library": r["library"]}
        return run

    if a.own:
        return [Side(a.own, own(a.set + [a.own], "activation_bytes")), Side("without", own(a.set, "activation_bytes"))]
    amp = [f"train.amp={a.amp}"] if a.amp != "off" else []
    sides = [Side("ctrain-hpc", own(a.set + amp, "peak_rss_bytes"))]
    for compiled in [False, True] if a.compile else [False]:
        sides.append(Side("torch.compile" if compiled else "PyTorch",
                          lambda layout, compiled=compiled: run_torch(name, layout, a.amp, compiled), case.layouts))
    return sides


def ms(seconds):
    return f"{seconds * 1e3:.2f} ms" if seconds < 0.01 else f"{seconds * 1e3:.1f} ms"


def print_row(name, sides):
    case, ours = CASES[name], sides[0]
    cells = [case.title + (" per rank" if case.ranks > 1 else ""), f"{case.ranks} × {case.threads}", ms(ours.median("step_s"))]
    for other in sides[1:]:
        ratios = sorted(t["step_s"] / o["step_s"] for o, t in zip(ours.rounds, other.rounds))
        note = f" ({other.variants[0]})" if other.variants[0] else ""
        cells += [ms(other.median("step_s")) + note,
                  f"**{statistics.median(ratios):.2f}** [{ratios[0]:.2f}–{ratios[-1]:.2f}]"]
    cells.append(" against ".join(f"{s.median('bytes') / 2**20:.0f}" for s in sides[:2]) + " MB")
    print(f"| {' | '.join(cells)} |", flush=True)


def print_head(sides, a):
    if a.own:
        peer, memory = "", "activations and their gradients"
    else:
        # not imported: a process that this one starts begins with its peak memory
        peer, memory = f"PyTorch {importlib.metadata.version('torch')}, ", "peak memory of a rank"
    isa = f"limited to {a.isa}; " if a.isa else ""
    print(f"{machine()}; {isa}{peer}{sides[0].rounds[0]['library']}; amp {a.amp}, medians of {a.rounds} rounds, "
          f"{time.strftime('%Y-%m-%d')}\n")
    heads = ["model", "ranks × threads", sides[0].title]
    for other in sides[1:]:
        heads += [other.title, "ratio [min–max]"]
    heads.append(memory)
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|", flush=True)


def main():
    if sys.argv[1:2] == ["--worker"]:
        return torch_worker(*sys.argv[2:5], sys.argv[5] == "compiled")
    if sys.argv[1:2] == ["--export"]:
        return torch_export(CASES[sys.argv[2]])
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_case_option(p)
    p.add_argument("--amp", choices=["off", "bf16"], default="off", help="mixed precision, on all sides")
    p.add_argument("--isa", choices=list(ISAS), help="limit all sides to this instruction set (x86)")
    p.add_argument("--compile", action="store_true", help="torch.compile as one more side")
    p.add_argument("--own", metavar="KEY=VALUE", help="compare with ctrain-hpc without it, not with PyTorch")
    p.add_argument("--program", default=os.path.join(HERE, "..", "build", "ctrain-hpc"), help="may be several words")
    p.add_argument("--mpiexec", default="mpiexec")
    a = p.parse_args()
    if a.isa and a.compile:
        p.error("torch.compile's kernels are of the processor's own instruction set: no --isa with --compile")
    os.environ.update(ISAS[a.isa] if a.isa else {})
    for i, name in enumerate(chosen(a.case)):
        if CASES[name].module:
            subprocess.run([sys.executable, os.path.abspath(__file__), "--export", name], check=True)
        sides = sides_of(name, a)
        for _ in range(a.rounds):
            for side in sides:
                side.round()
        if i == 0:
            print_head(sides, a)
        print_row(name, sides)


if __name__ == "__main__":
    main()
