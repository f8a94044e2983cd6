"""Trains models with ctrain-hpc from their .pt2 files and with PyTorch in float64, and compares all that both compute.

    check_import.py CTRAIN [MODEL...] [--modes cpu,ref,ranks] [--steps N] [--keep DIR] [--mpiexec COMMAND]
    check_import.py CTRAIN --all           all of nets.py, with the models of torchvision, timm and transformers
    check_import.py --list --all           their names
    check_import.py CTRAIN --mistakes      the comparison itself: it must find wrong weights, gradients and statistics

It prints TAP, a line for each model and mode.  A mode is a word of MODES: where the model is trained and how.

For each model it writes net.pt2 (contrib/export_pt2.py), data of drawn numbers and a configuration; runs `train` for
STEPS steps of SGD in a fixed order, `predict` on other samples with another batch, and `convert` to a .pth file, which
must load with strict=True.  PyTorch does the same in float64 from the same float32 numbers; for several ranks or
micro-batches it computes them one after another, each with batch statistics of its own.  Compared are

    the loss of each step and of the evaluation, and the outputs of `predict` in eval mode;
    all gradients of the first step (the optimizer's momentum buffers), by name;
    all weights and buffers after the first and the last step, by name.

How far apart they may be is not chosen by taste.  PyTorch in float64 is run again DRAWS times with noise: each number
that an op of the forward pass, the backward pass or the optimizer computes, and each input and weight at the start, is
multiplied by 1 + 2^-23 r, with r drawn from a normal distribution.  Ops that only move or compare numbers get no noise.
The largest distance of a draw from the run without noise, for each tensor the largest over its elements, is the spread
of the tensor.  The program may be FACTOR spreads away, and in addition the rounding of the numbers that it stores,
2^-23 of the largest.  A tensor whose gradient is zero but for rounding has such a spread, too.  For --modes bf16 the
noise is 2^-9, and PyTorch's autocast to bfloat16 is one more draw.

The batches are those, out of SEEDS, for which the spread is smallest: where an input of a ReLU is near zero, noise
decides between two gradients.  In float32, PyTorch uses at most half of what is allowed.  If a tensor is farther away,
MORE_DRAWS runs with FACTOR times the noise decide: the program may be as far away as one of them.
"""

import argparse
import copy
import inspect
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import torch
import torch.nn.functional as F
import yaml
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "contrib"))
import nets
from export_pt2 import export

STEPS, BATCH, EVAL_BATCH, EVAL_SAMPLES = 10, 6, 5, 7
DRAWS, MORE_DRAWS, SEEDS, FACTOR, MOMENTUM = 5, 8, 4, 8, 0.9
POOL = 2**17 - 1  # factors of noise
LARGE = (3, 3, 1)  # steps, draws and data sets of large models
LARGE_MODES = ("cpu", "ranks", "bf16")
# name: ranks, and what the configuration has besides
MODES = {
    "cpu": (1, {"device": "cpu"}),
    "ref": (1, {"device": "ref"}),
    "ranks": (3, {"device": "cpu"}),
    "ref-ranks": (3, {"device": "ref"}),
    "sync_bn": (3, {"device": "cpu", "train": {"sync_bn": "world"}}),
    "accumulate": (1, {"device": "cpu", "train": {"accumulate": 2}}),
    "zero": (3, {"device": "cpu", "parallel": {"zero": 1}}),
    "resume": (1, {"device": "cpu"}),
    "bf16": (1, {"device": "cpu", "train": {"amp": "bf16"}}),
}


class Refused(Exception):
    """The program ends with an error: its message."""


# ---- PyTorch ---------------------------------------------------------------------------------
EXACT = set("""cat stack clone copy_ _to_copy where masked_fill index select_scatter slice_scatter embedding gather pad
    constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
    replication_pad3d roll flip max min amax amin maximum minimum max_pool2d_with_indices max_pool3d_with_indices relu
    relu_ threshold hardtanh hardtanh_ clamp clamp_ clamp_min clamp_max abs neg sign floor ceil round zeros ones full
    empty zeros_like ones_like full_like empty_like new_zeros new_ones new_empty new_full arange fill_ zero_ scalar_tensor
    eq ne lt le gt ge logical_and logical_or logical_not bitwise_not lift_fresh_copy lift_fresh _local_scalar_dense
    repeat im2col pixel_shuffle pixel_unshuffle channel_shuffle split_with_sizes_copy triu tril masked_fill_
    index_select empty_strided threshold_backward detach_ set_ resize_ random_ normal_ uniform_ linspace eye
    upsample_nearest1d upsample_nearest2d upsample_nearest3d adaptive_max_pool2d adaptive_max_pool3d""".split())


def is_number(t):
    return t.is_floating_point() or t.is_complex()


def cast(net, dtype):
    """The module in a type, its complex tensors in the complex type of it."""
    return net._apply(lambda t: t.to(dtype.to_complex() if t.is_complex() else dtype) if is_number(t) else t)


def numbers(t):
    """An array; complex numbers as pairs."""
    return (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t).double().numpy()


class Noise(TorchDispatchMode):
    """Multiplies what ops compute by 1 + size * r."""

    def __init__(self, size, seed):
        super().__init__()
        self.random = torch.Generator().manual_seed(seed)
        factors = torch.randn(POOL, generator=self.random, dtype=torch.float64).mul_(size).add_(1)
        self.pool = torch.cat([factors, factors])  # drawing each number anew would take most of the time

    def factor(self, t):
        first = int(torch.randint(POOL, (), generator=self.random))
        count = min(t.numel(), POOL)
        part = self.pool[first : first + count].to(t.dtype)
        return (part if count == t.numel() else part.repeat(-(-t.numel() // POOL))[: t.numel()]).view(t.shape)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func._schema.name.split("::")[-1] in EXACT:
            return out
        for value, meant in zip(out if isinstance(out, (tuple, list)) else [out], func._schema.returns):
            changed = meant.alias_info is None or meant.alias_info.is_write
            if changed and isinstance(value, torch.Tensor) and is_number(value):
                value.mul_(self.factor(value))
        if "batch_norm" in func._schema.name and "backward" not in func._schema.name and args[5] is True:
            for statistic in args[3:5]:  # which the op changes, although its schema does not say so
                if statistic is not None:
                    statistic.mul_(self.factor(statistic))
        return out


def pieces(n, count):
    """The program's parts of a batch: those of the ranks, or their micro-batches."""
    each, more = divmod(n, count)
    first = [each * i + min(i, more) for i in range(count + 1)]
    return [slice(a, b) for a, b in zip(first, first[1:]) if b > a]


class Reference:
    """The training of a model in float64, as `ranks` ranks do it."""

    def __init__(self, case, ranks=1, micro_batches=1, sync_bn=False):
        self.case, self.parts, self.own = case, 1 if sync_bn else ranks * micro_batches, micro_batches

    def forward(self, net, inputs, targets, autocast):
        """The loss; buffers are those of the first rank."""
        total, n = 0, len(inputs[0])
        for i, part in enumerate(pieces(n, self.parts)):
            kept = [] if i < self.own else [(m, dict(m._buffers)) for m in net.modules() if m._buffers]
            for m, buffers in kept:
                m._buffers.update({k: None if b is None else b.clone() for k, b in buffers.items()})
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                out = net(*(x[part] for x in inputs))
            share = (part.stop - part.start) / n
            total = total + self.case.loss(out, [t[part] for t in targets]) * share
            for m, buffers in kept:
                m._buffers.update(buffers)
        return total

    def run(self, data, steps, rate, size=0.0, seed=0, autocast=False, dtype=torch.float64):
        """{quantity: array}; with noise of a size."""
        torch.set_default_dtype(dtype)
        try:
            return self.steps(data, steps, rate, size, seed, autocast, dtype)
        finally:
            torch.set_default_dtype(torch.float32)

    def steps(self, data, steps, rate, size, seed, autocast, dtype):
        net = cast(copy.deepcopy(self.case.net), dtype).train()
        noise = Noise(size, seed)
        rough = lambda t: t * noise.factor(t) if size and is_number(t) else t
        draw = lambda t: rough(t.to(dtype)) if t.is_floating_point() else t
        inputs, targets = [draw(x) for x in data.inputs], [draw(t) for t in data.targets]
        with torch.no_grad():
            for t in net.parameters() if size else []:
                t.copy_(rough(t))
        out, buffers = {}, {}
        with noise if size else open(os.devnull):
            for step in range(steps):
                part = slice(step * BATCH, (step + 1) * BATCH)
                loss = self.forward(net, [x[part] for x in inputs], [t[part] for t in targets], autocast)
                net.zero_grad()
                loss.backward()
                out[f"loss of step {step + 1}"] = loss.detach()
                with torch.no_grad():
                    for k, p in net.named_parameters():
                        g = torch.zeros_like(p) if p.grad is None else p.grad
                        buffers[k] = g.clone() if step == 0 else buffers[k] * MOMENTUM + g
                        p.sub_(buffers[k] * rate)
                        if step == 0:
                            out[f"gradient of {k}"] = g.clone()
                if step in (0, steps - 1):
                    out.update({f"{k} after step {step + 1}": v.clone() for k, v in net.state_dict().items()})
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                y = net.eval()(*(x[-EVAL_SAMPLES:] for x in inputs))
            out.update(self.case.outputs(y))
            out["loss of the evaluation"] = self.case.loss(y, [t[-EVAL_SAMPLES:] for t in targets])
        return {k: numbers(v.detach()) for k, v in out.items()}


def several(y):
    return tuple(y) if isinstance(y, (tuple, list)) else (y,)


def far(a, b):
    """The largest distance of elements; infinity where one is not a number."""
    d = np.abs(np.asarray(a, "f8") - np.asarray(b, "f8")).max() if np.size(b) else 0.0
    return float(d) if np.isfinite(d) else float("inf")


def spreads(reference, data, steps, rate, want, size, draws, autocast=False):
    runs = [reference.run(data, steps, rate, size, seed) for seed in range(1, draws + 1)]
    runs += [reference.run(data, steps, rate, autocast=True, dtype=torch.float32)] if autocast else []
    return {k: max(far(r[k], v) for r in runs) for k, v in want.items()}


# ---- a model and its data --------------------------------------------------------------------
class Data:
    def __init__(self, case, steps, seed):
        torch.manual_seed(seed)
        n = steps * BATCH + EVAL_SAMPLES
        self.inputs = [draw(n) for draw in case.draw]
        with torch.no_grad():
            y = copy.deepcopy(case.net).eval()(*self.inputs)
            again = [copy.deepcopy(case.net).train()(*self.inputs) for _ in range(2)]
        if not all(map(torch.equal, *map(several, again))):
            raise ValueError(f"{case.name} draws random numbers in training, which the program draws otherwise")
        self.targets = case.targets(y)


class Case:
    """A model and its losses: cross-entropy of an output with classes, else squared errors."""

    def __init__(self, name, entry, seed=1):
        torch.manual_seed(seed)
        self.name, self.draw = name, entry.draw
        self.steps, self.draws, self.seeds = LARGE if entry.large else (STEPS, DRAWS, SEEDS)
        self.net = nets.without_random(entry.make()).float()
        for k, t in [*self.net.named_parameters(), *self.net.named_buffers()]:
            if t.is_floating_point() and t.numel() > 1 and t.min() == t.max():  # ones and zeros: so no two are alike
                t.data.add_(0.2 * torch.rand_like(t))
        self.layers = entry.layers
        self.classes = several(entry.classes)

    def loss(self, y, targets):
        outputs = [v.float() if v.dtype == torch.bfloat16 else v for v in several(y)]
        kinds = [F.cross_entropy if k else F.mse_loss for k in self.classes]
        return sum(f(v, t) for f, v, t in zip(kinds, outputs, targets))

    def targets(self, y):
        """Drawn: classes, or numbers near the outputs."""
        near = lambda v: (v + v.std() * torch.randn_like(v)).float()
        return [torch.arange(len(v)) * 7 % k if k else near(v) for k, v in zip(self.classes, several(y))]

    def outputs(self, y):
        """What `predict` gives, by the output's number."""
        return {f"output {i}": v.softmax(1) if k else v for i, (k, v) in enumerate(zip(self.classes, several(y)))}

    def rate(self, data):
        """A learning rate with which the largest weight moves by a percent of the largest in a step."""
        net = cast(copy.deepcopy(self.net), torch.float64).train()
        x = [x[:BATCH].double() if x.is_floating_point() else x[:BATCH] for x in data.inputs]
        torch.set_default_dtype(torch.float64)
        self.loss(net(*x), [t[:BATCH] for t in data.targets]).backward()
        torch.set_default_dtype(torch.float32)
        largest = lambda tensors: max(t.detach().abs().max().item() for t in tensors if t is not None)
        return 0.01 * largest(net.parameters()) / largest(p.grad for p in net.parameters())


def worst(want, spread):
    """The largest spread of losses and outputs as a share of the largest number."""
    share = {k: spread[k] / max(np.abs(v).max(), 1e-30) for k, v in want.items() if k.startswith(("loss", "output"))}
    return max(share.values()) if all(map(math.isfinite, share.values())) else math.inf


def choose(case, reference, steps, size):
    """Of SEEDS data sets the one with the smallest spread of two draws, its learning rate and its run.

    A training that runs away multiplies the noise: the rate becomes smaller until the spread is below 100 times it."""
    best, rate = None, case.rate(Data(case, steps, 1))
    for seed in range(1, case.seeds + 1):
        data = Data(case, steps, seed)
        for attempt in range(6):
            rate = float(f"{rate / 4 if attempt else rate:.3g}")
            want = reference.run(data, steps, rate)
            spread = spreads(reference, data, steps, rate, want, size, 2)
            if worst(want, spread) < 100 * size or best:
                break
        if best is None or worst(want, spread) < best[0]:
            best = (worst(want, spread), data, rate, want)
    return best[1:]


# ---- the program -----------------------------------------------------------------------------
class Program:
    def __init__(self, path, mpiexec, directory):
        self.path, self.mpiexec, self.directory = path, mpiexec, directory

    def run(self, ranks, *command):
        launch = [*self.mpiexec, "-n", str(ranks)] if ranks > 1 else []
        done = subprocess.run(
            [*launch, self.path, *command, "--log", "error"],
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=600,
        )
        if done.returncode:
            raise Refused(f"{command[0]}: " + (done.stderr.strip()[-600:] or f"status {done.returncode}"))

    def write(self, case, data, steps, rate, more):
        """The .pt2 file, the weights, the data, and a configuration."""
        at = lambda name: f"{self.directory}/{name}"
        torch.save(case.net.state_dict(), at("init.pth"))
        if case.layers is None:
            export(copy.deepcopy(case.net), tuple(x[:3] for x in data.inputs), at("net.pt2"))
        cut = steps * BATCH
        labels = ["labels"] + [f"labels{i}" for i in range(1, len(data.targets))]
        losses = [{"kind": "cross_entropy" if k else "mse"} for k in case.classes]
        names = list(inspect.signature(case.net.forward).parameters)[: len(data.inputs)]
        for name, part in (("train.h5", slice(0, cut)), ("val.h5", slice(cut, None))):
            with h5py.File(at(name), "w") as h:
                for array, x in zip(names, data.inputs):
                    h[array] = x[part].numpy() if x.is_floating_point() else x[part].int().numpy()
                    if x.dim() in (4, 5):
                        h[array].attrs["layout"] = "NCHW" if x.dim() == 4 else "NCDHW"
                for array, t in zip(labels, data.targets):
                    h[array] = t[part].float().numpy() if t.is_floating_point() else t[part].int().numpy()
        keys = {
            "run": {"dir": "run", "log_every": 1},
            "data": {
                "train": "train.h5",
                "val": "val.h5",
                "shuffle": False,
                "batch": BATCH,
                "eval_batch": EVAL_BATCH,
                "input": names,
                "join_inputs": False,
                "target": labels if len(labels) > 1 else "labels",
            },
            "model": {"from": "net.pt2"} if case.layers is None else copy.deepcopy(case.layers),
            "train": {"epochs": 1},
            "loss": losses[0] if len(losses) == 1 else losses,
            "optim": {"kind": "sgd", "lr": rate, "momentum": MOMENTUM},
            "eval": {"every_epochs": 0},
            "checkpoint": {"every_epochs": 0, "every_steps": 1, "keep": 0},
            "cpu": {"threads": 1},
        }
        if case.layers is not None:
            keys["init"] = {"from": "init.pth"}
            keys["model"].setdefault("classes", case.classes[0] or data.targets[0].shape[1])
        if data.inputs[0].dim() == 3:  # N x H x W would be images of one channel
            keys["data"]["shape"] = list(data.inputs[0].shape[1:])
        for section, values in more.items():
            keys[section] = {**keys.get(section, {}), **values} if isinstance(values, dict) else values
        with open(at("c.yaml"), "w") as f:
            yaml.safe_dump(keys, f, sort_keys=False)

    def train(self, case, steps, ranks, resume):
        """The quantities of Reference.run(), from the run's files."""
        shutil.rmtree(f"{self.directory}/run", ignore_errors=True)
        if resume:
            self.run(ranks, "train", "c.yaml", "--set", f"train.steps={steps // 2}")
        self.run(ranks, "train", "c.yaml")
        out = {}
        with open(f"{self.directory}/run/metrics.jsonl") as f:
            for line in map(json.loads, f):
                if line["event"] == "step":
                    out[f"loss of step {line['step']}"] = line["loss"]
        with open(f"{self.directory}/run/summary.json") as f:
            out["loss of the evaluation"] = json.load(f)["val_loss"]
        for step in (1, steps):
            checkpoint = f"run/checkpoints/step-{step:08}.h5"
            self.run(1, "convert", checkpoint, f"step{step}.pth")
            state = torch.load(f"{self.directory}/step{step}.pth", weights_only=True)
            out.update({f"{k} after step {step}": numbers(v) for k, v in state.items()})
            with h5py.File(f"{self.directory}/{checkpoint}") as h:
                for k, _ in case.net.named_parameters() if step == 1 else []:
                    if f"optim/momentum_buffer/{k}" in h:
                        out[f"gradient of {k}"] = h[f"optim/momentum_buffer/{k}"][...]
        self.run(ranks, "predict", "run", "--checkpoint", "latest", "--input", "val.h5", "--output", "out.h5")
        with h5py.File(f"{self.directory}/out.h5") as h, open(f"{self.directory}/run/config.yaml") as f:
            if "outputs" in h and isinstance(h["outputs"], h5py.Group):  # several, or with a value at each place
                names = yaml.safe_load(f)["model"].get("outputs") if len(case.classes) > 1 else list(h["outputs"])
                out.update({f"output {i}": h[f"outputs/{name}"][...] for i, name in enumerate(names)})
            else:
                out["output 0"] = h["probabilities" if case.classes[0] else "outputs"][...]
        return out

    def back(self, case, steps):
        """The weights in PyTorch: what load_state_dict with strict=True says, or nothing."""
        self.run(1, "convert", "run", "out.pth")
        net = copy.deepcopy(case.net)
        try:
            net.load_state_dict(torch.load(f"{self.directory}/out.pth", weights_only=True), strict=True)
        except RuntimeError as e:
            return {"load_state_dict": str(e).split("\n")[1].strip()[:200]}
        with open(f"{self.directory}/out.pth", "rb") as a, open(f"{self.directory}/step{steps}.pth", "rb") as b:
            same = a.read() == b.read()
        return {} if same else {"out.pth": "not that of the last checkpoint"}


def differences(want, got, spread):
    """{quantity: why}, for those that are missing or too far away; and the largest share of what is allowed."""
    wrong, share = {}, 0.0
    for k, v in want.items():
        if k not in got:
            if np.abs(v).max() > 0 or not k.startswith("gradient"):  # nothing depends on an unused parameter
                wrong[k] = "missing"
            continue
        value = np.asarray(got[k] if got[k] is not None else float("nan"), "f8")
        if value.size != np.size(v):
            wrong[k] = f"{value.shape} instead of {np.shape(v)}"
            continue
        allowed = FACTOR * spread[k] + 2.0**-23 * (np.abs(v).max() if np.size(v) else 0)
        distance = far(value.reshape(np.shape(v)), v)
        if math.isfinite(distance):
            share = max(share, distance / allowed if allowed else float(distance > 0))
        if not distance <= allowed:
            wrong[k] = f"{distance:.3g} away, {allowed:.3g} allowed, {np.abs(v).max():.3g} the largest"
    return wrong, share


class Expected:
    """What PyTorch computes in a mode: the data, the learning rate, the numbers, and how far they may be away.

    Modes whose numbers are the same share it."""

    made = {}

    def __init__(self, case, reference, steps, size, low):
        self.data, self.rate, self.want = choose(case, reference, steps, size)
        self.draws = lambda size, n: spreads(reference, self.data, steps, self.rate, self.want, size, n, low)
        self.spread, self.size, self.wide = self.draws(size, case.draws), size, False

    def widen(self):
        """Allows what more draws, with FACTOR times the noise, have besides: they meet the ReLUs that noise decides."""
        if not self.wide:
            more, self.wide = self.draws(FACTOR * self.size, MORE_DRAWS), True
            self.spread = {k: max(s, more[k] / FACTOR) for k, s in self.spread.items()}

    @classmethod
    def get(cls, case, mode, steps):
        ranks, more = MODES[mode]
        train = more.get("train", {})
        key = (ranks, train.get("accumulate", 1), "sync_bn" in train)
        low = "amp" in train
        if (case, key, low) not in cls.made:
            cls.made = {k: v for k, v in cls.made.items() if k[0] is case}  # of one model at a time
            cls.made[case, key, low] = cls(case, Reference(case, *key), steps, 2.0**-9 if low else 2.0**-23, low)
        return cls.made[case, key, low]


def compare(case, program, mode, steps):
    """The differences of a model in a mode."""
    e = Expected.get(case, mode, steps)
    program.write(case, e.data, steps, e.rate, MODES[mode][1])
    got = program.train(case, steps, MODES[mode][0], mode == "resume")
    wrong, share = differences(e.want, got, e.spread)
    if wrong:
        e.widen()
        wrong, share = differences(e.want, got, e.spread)
    wrong.update(program.back(case, steps))
    return wrong, share, (e.want, got, e.spread)


# ---- the comparison itself -------------------------------------------------------------------
def find_mistakes(program, report):
    """What is slightly wrong in one number must be found: 1e-3 of a gradient, 1e-4 of a weight, a loss, an output."""
    case = Case("mistakes", nets.BY_LAYERS["layers"])
    wrong, share, (want, got, spread) = compare(case, program, "cpu", STEPS)
    report("the network without mistakes", wrong, share)
    for k in want:
        if not np.size(want[k]) or "num_batches" in k:
            continue
        bad = {q: np.array(v, "f8", copy=True) for q, v in got.items()}
        place = np.unravel_index(np.abs(want[k]).argmax(), np.shape(want[k]))
        bad[k][place] += (1e-3 if "gradient" in k else 1e-4) * max(np.abs(want[k]).max(), 1e-2)
        found = differences(want, bad, spread)[0]
        report(f"a mistake in {k}", {} if list(found) == [k] else {k: f"not found, but {found}"})
    first = next(iter(case.net.state_dict()))
    for name, change in (("a weight", {first: 1 + 1e-3}), ("another learning rate", None), ("another momentum", None)):
        if change:
            state = case.net.state_dict()
            torch.save({k: v * change.get(k, 1) for k, v in state.items()}, f"{program.directory}/init.pth")
        else:
            torch.save(case.net.state_dict(), f"{program.directory}/init.pth")
            with open(f"{program.directory}/c.yaml") as f:
                keys = yaml.safe_load(f)
            keys["optim"]["lr" if "rate" in name else "momentum"] *= 1.01
            with open(f"{program.directory}/c.yaml", "w") as f:
                yaml.safe_dump(keys, f)
        found = differences(want, program.train(case, STEPS, 1, False), spread)[0]
        report(f"the program has {name}", {} if found else {name: "not found"})


class Report:
    """Lines of TAP."""

    def __init__(self):
        self.number = 0

    def __call__(self, name, wrong, share=0, skip=None):
        self.number += 1
        for k, why in list(wrong.items())[:8]:
            print(f"# {k}: {why}".replace("\n", " "))
        if len(wrong) > 8:
            print(f"# and {len(wrong) - 8} more")
        words = f" # SKIP {skip}" if skip else f" # {share:.2f} of what is allowed" if share else ""
        print(f"{'not ok' if wrong else 'ok'} {self.number} - {name}{words}", flush=True)


def check(case, mode, a, report):
    """One model in one mode."""
    name = case.name
    if MODES[mode][0] > 1 and not a.mpiexec:
        return report(f"{name}, {mode}", {}, skip="no MPI launcher")
    directory = a.keep or tempfile.mkdtemp(dir=os.environ.get("TMPDIR"))
    os.makedirs(directory, exist_ok=True)
    share = 0
    try:
        program = Program(a.program, a.mpiexec.split(), directory)
        wrong, share, _ = compare(case, program, mode, a.steps or case.steps)
    except Refused as e:
        wrong = {"refused": str(e)}
    finally:
        if not a.keep:
            shutil.rmtree(directory, ignore_errors=True)
    report(f"{name}, {mode}", wrong, share)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program", nargs="?")
    p.add_argument("models", nargs="*", help="all of nets.MODELS")
    p.add_argument("--modes", default="cpu", help=f"some of {','.join(MODES)}")
    p.add_argument("--steps", type=int, default=0, help=f"{STEPS}; {LARGE[0]} of large models")
    p.add_argument("--quick", action="store_true", help="only nets.QUICK")
    p.add_argument(
        "--all",
        action="store_true",
        help=f"those of other packages, too; large ones only in modes {','.join(LARGE_MODES)}",
    )
    p.add_argument("--list", action="store_true")
    p.add_argument("--mistakes", action="store_true")
    p.add_argument("--mpiexec", default=os.environ.get("CT_MPIEXEC", ""))
    p.add_argument("--keep", metavar="DIR", help="where the files of the last model stay")
    a = p.parse_args()
    table = {**nets.MODELS, **nets.BY_LAYERS, **nets.others()}
    usual = nets.QUICK if a.quick else [k for k in table if a.all or k in nets.MODELS]
    if a.list:
        return print("\n".join(usual))
    torch.set_num_threads(1)
    report = Report()
    whole = a.quick or a.all or not (a.models or a.mistakes)
    for name in a.models + (usual if whole else []):
        case = Case(name, table[name])
        for mode in a.modes.split(","):
            if not a.all or not table[name].large or mode in LARGE_MODES:
                check(case, mode, a, report)
    if a.mistakes:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as directory:
            find_mistakes(Program(a.program, a.mpiexec.split(), directory), report)
    print(f"1..{report.number}")
    return None


if __name__ == "__main__":
    main()
