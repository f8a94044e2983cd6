#!/usr/bin/env python3
"""Steps per second of ctrain-hpc and of PyTorch on one GPU.

    pip install torch torchvision
    bench/gpu.py [--case NAME]... [--seconds 440] [--rounds 1] [--json FILE] [--program build/ctrain-hpc]

A round runs ctrain-hpc, then PyTorch (eager, and where the case says so with torch.compile), then ctrain-hpc
again with `--ops`, so that a change of the clocks shows.  Without torch only ctrain-hpc runs.  Each result is
printed as it comes and is a line of FILE; a case is skipped, or goes without torch.compile, if --seconds would
be over.  The table at the end gives medians.

A step is forward, backward and update on one synthetic batch in the GPU's memory, with SGD and momentum.  PyTorch
uses channels_last, autocast (with GradScaler for fp16), cudnn.benchmark and the default settings of torch.compile.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Case:
    model: dict  # as a configuration has it, without `classes`
    shape: list  # of a sample
    classes: int
    batch: int
    amp: str  # off, bf16, fp16
    steps: int
    tf32: bool = False
    compile: bool = False  # torch.compile takes a minute
    own: list = field(default_factory=list)  # options of ctrain-hpc alone
    tokens: bool = False  # a sample is a window of tokens, `shape` its length, each with a label


def resnet50(amp, steps=30, **more):
    return Case({"family": "resnet", "depth": 50}, [3, 224, 224], 1000, 256, amp, steps, **more)


def gpt2(amp, **more):
    """GPT-2 124M, as llm.c trains it."""
    model = {"family": "gpt2", "layers": 12, "heads": 12, "dim": 768, "vocab": 50257, "context": 1024}
    return Case(model, [1024], 50257, 32, amp, 10, tokens=True, **more)


# most important first
CASES = {
    "resnet50-fp16": resnet50("fp16", compile=True),
    "vit-b-bf16": Case({"family": "vit", "depth": 12, "patch": 16, "dim": 768, "heads": 12}, [3, 224, 224], 1000, 256,
                       "bf16", 20, compile=True),
    "resnet50-tf32": resnet50("off", 15, tf32=True),
    "lstm-bf16": Case({"family": "lstm", "depth": 2, "hidden": 1024}, [128, 256], 10, 128, "bf16", 30),
    "resnet50-bf16": resnet50("bf16"),
    "resnet50-fp32": resnet50("off", 10),
    "resnet18-32": Case({"family": "resnet", "depth": 18}, [3, 32, 32], 10, 128, "fp16", 100),
    "gpt2-bf16": gpt2("bf16", compile=True),
    "gpt2-tf32": gpt2("off", tf32=True),
    "lenet": Case({"family": "lenet"}, [1, 28, 28], 10, 64, "off", 300),
}
OWN_S, TORCH_S, COMPILE_S = 30, 40, 80  # what a process takes, with its start


def rehearsed(case):
    """The same case, small enough for a CPU."""
    small = dict(case.model)
    if "dim" in small:
        small.update(depth=1, dim=64, heads=4)
    if "hidden" in small:
        small.update(depth=1, hidden=16)
    if small.get("depth", 0) > 18:
        small["depth"] = 18
    if case.tokens:
        small.update(layers=1, vocab=50, context=16)
    shape = [c if c < 4 else min(c, 16) for c in case.shape]
    return Case(small, shape, 50 if case.tokens else 10, 2, "bf16" if case.amp == "bf16" else "off", 2, case.tf32,
                False, case.own, case.tokens)


# ---- the two sides ----


def run_ctrain(case, args, seconds, ops):
    model, data = dict(case.model, classes=case.classes), {"train": "synthetic", "shape": case.shape}
    if case.tokens:
        model, data = dict(case.model), {"train": "synthetic", "context": case.shape[0]}
    data.update(classes=case.classes, batch=case.batch, samples=case.batch)
    command = shlex.split(args.program) + ["bench", "step", os.path.join(HERE, "gpu.yaml"), "--json",
                                           "--steps", str(case.steps), "--warmup", "12" if case.steps > 2 else "1"]
    if ops:
        command.append("--ops")
    emulated = args.rehearse and case.model["family"] != "resnet"  # which takes seconds on an emulated GPU
    device = args.device if emulated or not args.rehearse else "cpu"
    amp = "tf32" if case.tf32 and device != "cpu" else case.amp
    for option in [f"device={device}", f"train.amp={amp}",
                   f"model={json.dumps(model)}", f"data={json.dumps(data)}"] + case.own:
        command += ["--set", option]
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds)
    if out.returncode:
        raise RuntimeError(out.stderr.strip()[-400:])
    return json.loads(out.stdout)


def torch_worker(args):
    """Prints a line of JSON for eager mode, and one for torch.compile."""
    import torch
    from compare import torch_model

    case = CASES[args.worker]
    if args.rehearse:
        case = rehearsed(case)
    device = "cpu" if args.rehearse else "cuda"
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = case.tf32
    image = len(case.shape) == 3
    form = torch.channels_last if image else torch.contiguous_format
    x = torch.randn(case.batch, *case.shape, device=device).contiguous(memory_format=form)
    y = torch.randint(0, case.classes, (case.batch,), device=device)
    if case.tokens:
        x, y = (torch.randint(0, case.classes, (case.batch, *case.shape), device=device) for _ in "xy")
    loss_of = torch.nn.CrossEntropyLoss()
    low = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(case.amp)
    sync = torch.cuda.synchronize if device == "cuda" else lambda: None

    def measure(compiled):
        torch.manual_seed(0)
        net = torch_model(case.model, case.shape, case.classes).to(device, memory_format=form)
        if compiled:
            net = torch.compile(net)
        optim = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
        scaler = torch.amp.GradScaler(device, enabled=case.amp == "fp16")

        def step():
            optim.zero_grad(set_to_none=True)
            with torch.autocast(device, dtype=low or torch.bfloat16, enabled=low is not None):
                out = net(x)
                loss = loss_of(out.view(-1, case.classes), y.view(-1))
            scaler.scale(loss).backward()
            scaler.step(optim)
            scaler.update()

        for _ in range(12 if case.steps > 2 else 1):
            step()
        sync()
        times, group = [], min(10, case.steps)
        # in groups, so that the host may run ahead as it does in a training; a group's mean is one figure
        for _ in range(max(1, case.steps // group)):
            begin = time.perf_counter()
            for _ in range(group):
                step()
            sync()
            times.append((time.perf_counter() - begin) / group)
        return statistics.median(times)

    name = "a CPU" if args.rehearse else torch.cuda.get_device_name(0)
    for compiled in [False, True][: 1 + args.compile]:
        print(json.dumps({"side": "compile" if compiled else "eager", "step_s": measure(compiled), "gpu": name,
                          "torch": torch.__version__, "cudnn": None if args.rehearse else torch.backends.cudnn.version()}), flush=True)


def run_torch(name, args, seconds, compiled):
    """What the worker printed before its time was over."""
    command = [sys.executable, os.path.abspath(__file__), "--worker", name]
    command += ["--compile"] * compiled + ["--rehearse"] * args.rehearse
    env = dict(os.environ, PYTHONPATH=HERE)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as p:
        try:
            out, err = p.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            err = f"it did not end in {seconds:.0f} s"
    if p.returncode:
        print(f"# {name}: PyTorch: {err.strip().splitlines()[-1] if err.strip() else p.returncode}", flush=True)
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


# ---- cases ----


class Results:
    def __init__(self, args):
        self.args, self.begin, self.times = args, time.monotonic(), {}

    def left(self):
        return self.args.seconds - (time.monotonic() - self.begin)

    def add(self, name, batch, one):
        self.times.setdefault((name, batch), {}).setdefault(one["side"], []).append(one["step_s"])
        print(f"{name:16} {one['side']:10} {1e3 * one['step_s']:10.3f} ms {batch / one['step_s']:9.0f} samples/s",
              flush=True)
        if self.args.json:
            with open(self.args.json, "a") as f:
                f.write(json.dumps(dict(one, case=name, batch=batch)) + "\n")

    def own(self, name, case, ops):
        if self.left() < 5:
            return
        try:
            r = run_ctrain(case, self.args, self.left(), ops)
        except (RuntimeError, subprocess.TimeoutExpired) as e:
            print(f"# {name}: ctrain-hpc: {e}", flush=True)
            return
        self.add(name, case.batch, {"side": "ctrain-hpc", "step_s": r["step_s_median"]})
        if ops and self.args.json:
            with open(self.args.json, "a") as f:
                f.write(json.dumps({"case": name, "ops": r["ops"], "copy": r["copy_bytes_per_s"],
                                    "gemm": r["flop_per_s"]}) + "\n")

    def round(self, name, case, torch):
        self.own(name, case, False)
        if torch and self.left() > TORCH_S:
            compiled = case.compile and self.left() > TORCH_S + COMPILE_S
            for one in run_torch(name, self.args, self.left(), compiled):
                self.add(name, case.batch, one)
        # an emulated GPU never ends the large GEMM that --ops times
        if self.left() > OWN_S or self.args.rehearse:
            self.own(name, case, not (self.args.rehearse and self.args.device == "cuda"))

    def table(self):
        print(f"\n{'case':16} {'batch':>6} {'ctrain-hpc':>11} {'samples/s':>10}  PyTorch (times as fast as it)")
        for (name, batch), sides in self.times.items():
            own = statistics.median(sides.get("ctrain-hpc", [float("nan")]))
            line = f"{name:16} {batch:6} {1e3 * own:11.3f} {batch / own:10.0f}"
            for side in ("eager", "compile"):
                if side in sides:
                    other = statistics.median(sides[side])
                    line += f"  {side} {1e3 * other:.3f} ms: {other / own:.2f}x"
            print(line, flush=True)


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=440, help="for all cases together")
    parser.add_argument("--json", metavar="FILE", help="to append each result to")
    parser.add_argument("--program", default="build/ctrain-hpc", help="may be several words")
    parser.add_argument("--rehearse", action="store_true", help="small cases; PyTorch on the CPU")
    parser.add_argument("--device", default="cuda", help="of ctrain-hpc")
    parser.add_argument("--compile", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return torch_worker(args)
    if args.list:
        return print("\n".join(CASES))
    results, torch = Results(args), has_torch()
    if not torch:
        print("# PyTorch is not here: ctrain-hpc alone", flush=True)
    for round in range(args.rounds):
        for name in args.case or CASES:
            case = rehearsed(CASES[name]) if args.rehearse else CASES[name]
            if results.left() < (5 if args.rehearse else OWN_S):
                print(f"# {name}: no time left", flush=True)
            else:
                results.round(name, case, torch)
    results.table()
    return 0 if results.times else 1


if __name__ == "__main__":
    sys.exit(main())
