#!/usr/bin/env python3
"""Makes tests/golden/runs.gold: what PyTorch makes of short whole runs on the digits example.

    pip install torch numpy h5py; tests/golden/make_runs.py build > tests/golden/runs.gold

With names of runs behind the directory it makes these only.

Everything is computed by torch in float64, but for mixed precision.  Three things come from the program, which
is built in the given directory: the initial weights (the checkpoint behind a step whose rate is 0), the order of
the samples, and what mixup and cutmix drew (tests/golden/draws.c).  The rest is here twice, side by side: as the
keys that the program is given, and as what they mean in torch.

The result is text, for runs.test: blocks of

    run NAME
    near TOLERANCE           relative, of losses and norms
    set KEY=VALUE            of the program; many
    on DEVICE RANKS [KEY=VALUE...]    launches that must all give the lines below
    then KEY=VALUE           goes on from its checkpoint with this key
    fault POINT              CTRAIN_FAULTS of the program
    step NUMBER LOSS RATE NORM SCALE    of each step; NORM null: not finite
    eval STEP LOSS TOP1 SAMPLES

The program's float32 makes losses and norms differ by some 1e-7 of their size, and by 4e-6 where 54 steps have
made the loss small.  NEAR leaves room for other compilers and libraries; what a wrong rule changes is larger by
orders of magnitude.  In half precision the two round at different places, and are 2e-4 apart: FP16_NEAR.
"""
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Callable

import h5py
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

HERE = os.path.dirname(os.path.abspath(__file__))
DIGITS = os.path.join(HERE, "../../examples/digits")
NEAR, FP16_NEAR = 2e-5, 1e-3
WEIGHTS = [1, 2, 1, 3, 1, 0.5, 1, 1.5, 0.25, 0]
NORMALIZE = "{normalize: {mean: [4.88], std: [6.02]}}"
# one shard of 360 samples, 360 others to evaluate on; 100 in a batch of evaluation: uneven at 3 ranks, and the last 60
COMMON = ["run.log_every=1", "data.train=train-000.h5", "data.eval_batch=100", "schedule={kind: constant}"]


# ---- models, with the names that the program gives the parameters ----

class Mlp(nn.Module):
    keys = ["model={family: mlp, hidden: [16]}"]

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(64, 16), nn.Linear(16, 10)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Deep(nn.Module):
    """A hidden matrix with more columns than rows, and one with more rows than columns."""

    keys = ["model={family: mlp, hidden: [16, 24]}"]

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(64, 16), nn.Linear(16, 24), nn.Linear(24, 10)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


class Net(nn.Module):
    """Convolutions with batch normalisation."""

    keys = ["model={layers: [{conv2d: {out: 6, kernel: 3, padding: 1, bias: false}, name: conv1}, "
            "{batchnorm: {}, name: bn1}, relu, {maxpool: {kernel: 2}}, {conv2d: {out: 8, kernel: 3}, name: conv2}, "
            "{batchnorm: {momentum: 0.3}, name: bn2}, relu, flatten, {linear: {out: 10}, name: fc}]}"]

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.conv2, self.bn2 = nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8, momentum=0.3)
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        return self.fc(F.relu(self.bn2(self.conv2(x))).flatten(1))


# ---- losses of a batch: its labels, and with mixup the second labels and the share of the first ones ----

def cross_entropy(weight=None, smoothing=0.0, ignored=-100):
    """The weighted mean; a sample of two labels weighs what its parts weigh."""
    def loss(out, y, y2=None, share=None):
        of = torch.tensor(weight or [1.0] * 10, dtype=out.dtype)
        options = dict(weight=of, label_smoothing=smoothing, ignore_index=ignored)
        if y2 is None:
            return F.cross_entropy(out, y, **options)
        each = [F.cross_entropy(out, labels, reduction="none", **options) for labels in (y, y2)]
        return (share * each[0] + (1 - share) * each[1]).sum() / (share * of[y] + (1 - share) * of[y2]).sum()

    loss.counts = lambda y: y != ignored
    return loss


def bce(out, y):
    return F.binary_cross_entropy_with_logits(out, F.one_hot(y, 10).to(out.dtype))


bce.counts = lambda y: torch.ones_like(y, dtype=torch.bool)


# ---- rules ----

def sgd(lr=0.05, **more):
    return lambda net: torch.optim.SGD(net.parameters(), lr=lr, **{"momentum": 0.9, **more})


class InFloat64:
    """The module torch as torch.optim.Muon sees it, whose iterations are in bfloat16 otherwise."""

    bfloat16 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


class Muon(torch.optim.AdamW):
    """Muon for the given matrices, at the same rate, and AdamW for the other parameters."""

    def __init__(self, net, matrices, lr, weight_decay, **options):
        torch.optim._muon.torch = InFloat64()
        self.matrices = torch.optim.Muon(matrices, lr=lr, weight_decay=weight_decay, **options)
        others = [p for p in net.parameters() if not any(p is m for m in matrices)]
        super().__init__(others, lr=lr, weight_decay=weight_decay)

    def zero_grad(self):
        super().zero_grad()
        self.matrices.zero_grad()

    def step(self):
        super().step()
        self.matrices.param_groups[0]["lr"] = self.param_groups[0]["lr"]
        self.matrices.step()


def clip_norm(largest, p=2.0):
    return lambda params: nn.utils.clip_grad_norm_(params, largest, norm_type=p)


def clip_value(largest):
    def clip(params):
        norm = total_norm(params)
        nn.utils.clip_grad_value_(params, largest)
        return norm
    return clip


def total_norm(params):
    return torch.linalg.vector_norm(torch.cat([p.grad.flatten() for p in params]))


def warm_cosine(warmup, total, lowest):
    def schedule(optim):
        warm = lr_scheduler.LinearLR(optim, start_factor=1 / warmup, total_iters=warmup - 1)
        cosine = lr_scheduler.CosineAnnealingLR(optim, T_max=total - warmup, eta_min=lowest)
        return lr_scheduler.SequentialLR(optim, [warm, cosine], milestones=[warmup])
    return schedule


@dataclass
class Run:
    name: str
    on: list
    keys: list
    model: type = Mlp
    epochs: int = 2
    steps: int = 0  # 0: the epochs decide
    batch: int = 64
    loss: Callable = cross_entropy()
    optim: Callable = sgd()
    schedule: Callable = None
    plateau: dict = None
    clip: Callable = None
    transforms: list = field(default_factory=list)
    parts: tuple = (1, 1)  # of a batch, each with statistics of its own; how many of them are rank 0's
    frozen: tuple = ()
    overflow: int = 0  # mixed precision, and in this step a gradient is infinite
    ema: float = 0  # of averaged weights, which are evaluated
    resumed: int = 0  # the program ends after so many epochs, and goes on from its checkpoint
    near: float = NEAR

    def all_keys(self):
        sizes = [f"data.batch={self.batch}", f"train.epochs={self.resumed or self.epochs}", f"train.steps={self.steps}"]
        transforms = "transforms=[" + ", ".join([NORMALIZE] + self.transforms) + "]"
        return COMMON + self.model.keys + sizes + self.keys + [transforms]


def runs():
    adam = lambda net: torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=0.01)
    weights = f"loss.class_weights={WEIGHTS}"
    # the last batch of an epoch has 3 samples: at 4 ranks one has none
    yield Run("class_weights", ["ref 1", "cpu 4", "cpu 3 parallel.mode=dp", "cpu 2 train.accumulate=3"],
              [weights, "optim={lr: 0.05}"], batch=51, loss=cross_entropy(WEIGHTS))
    yield Run("ignored", ["cpu 1", "ref 3"], [weights, "loss.ignore_index=3", "optim={lr: 0.05}"],
              loss=cross_entropy(WEIGHTS, ignored=3))
    yield Run("bce", ["ref 1", "cpu 3"], ["loss.kind=bce", "optim={lr: 0.05}"], loss=bce)
    yield Run("mixup", ["ref 1", "cpu 3"],
              [weights, "loss.label_smoothing=0.1", "optim={kind: adamw, lr: 0.01, weight_decay: 0.1}"],
              transforms=["{mixup: {alpha: 0.8}}"], loss=cross_entropy(WEIGHTS, 0.1),
              optim=lambda net: torch.optim.AdamW(net.parameters(), lr=0.01, weight_decay=0.1))
    yield Run("mixup_cutmix", ["ref 2", "cpu 3"],
              [weights, "optim={kind: rmsprop, lr: 2e-3, centered: true, momentum: 0.5}"],
              transforms=["{cutmix: {alpha: 1}}", "{mixup: {alpha: 0.3}}"], loss=cross_entropy(WEIGHTS),
              optim=lambda net: torch.optim.RMSprop(net.parameters(), lr=2e-3, centered=True, momentum=0.5))

    yield Run("batchnorm_each_rank", ["ref 3", "cpu 3"], ["optim={lr: 0.05}"], model=Net, parts=(3, 1))
    yield Run("batchnorm_pieces", ["cpu 2"], ["optim={lr: 0.05}", "train.accumulate=2"], model=Net, parts=(4, 2))
    yield Run("batchnorm_groups", ["cpu 4"], ["optim={lr: 0.06}", "train.sync_bn=2"], model=Net, parts=(2, 1),
              optim=sgd(0.06))
    yield Run("batchnorm_all", ["cpu 1", "ref 2", "cpu 3"], ["optim={lr: 0.05}", "train.sync_bn=world"], model=Net)

    yield Run("cosine", ["ref 1", "cpu 2"],
              ["optim={lr: 0.1}", "schedule={kind: cosine, warmup_epochs: 0.5, min_lr: 0.01}"],
              epochs=9, steps=14, optim=sgd(0.1), schedule=warm_cosine(3, 14, 0.01))
    yield Run("one_cycle", ["cpu 2"], ["optim={lr: 0.1}", "schedule={kind: one_cycle}"], optim=sgd(0.1),
              schedule=lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=12))
    yield Run("plateau", ["ref 1", "cpu 3"],
              ["optim={lr: 0.2, nesterov: true}",
               "schedule={kind: plateau, patience: 1, threshold: 0.5, gamma: 0.3, min_lr: 0.01}"],
              epochs=9, optim=sgd(0.2, nesterov=True), resumed=3,
              plateau=dict(patience=1, threshold=0.5, factor=0.3, min_lr=0.01))

    yield Run("clip_norm", ["ref 1", "cpu 3", "cpu 3 parallel.zero=1"], ["train.clip_norm=0.7", "optim={lr: 0.2}"],
              optim=sgd(0.2), clip=clip_norm(0.7))
    yield Run("clip_inf", ["ref 1", "cpu 3"], ["train.clip_norm=0.1", "train.clip_norm_type=inf", "optim={lr: 0.2}"],
              optim=sgd(0.2), clip=clip_norm(0.1, math.inf))
    yield Run("clip_value", ["ref 1", "cpu 2 parallel.zero=1"], ["train.clip_value=0.05", "optim={lr: 0.2}"],
              optim=sgd(0.2), clip=clip_value(0.05))
    yield Run("zero", ["ref 3", "cpu 4"],
              ["parallel.zero=1", "train.clip_norm=0.1", "train.clip_norm_type=inf",
               "optim={kind: adam, lr: 0.01, weight_decay: 0.01}"],
              optim=adam, clip=clip_norm(0.1, math.inf))
    yield Run("groups", ["cpu 1", "ref 2 parallel.zero=1"],
              ["train.sync_bn=world", "optim={lr: 0.05, weight_decay: 0.1, no_decay_bias_norm: true, groups: "
               "[{match: conv2, lr: 0.02, weight_decay: 0.3}, {match: fc.weight, weight_decay: 0, momentum: 0.5}, "
               "{match: ['conv*', fc], lr: 0.03}]}"],
              model=Net, optim=grouped)
    yield Run("frozen", ["ref 1", "cpu 2"],
              ["train.freeze=[conv1, bn1]", "train.freeze_bn=true", "train.sync_bn=world", "optim={lr: 0.05}"],
              model=Net, frozen=("conv1", "bn1"))
    yield Run("ema", ["ref 1", "cpu 2", "cpu 3 parallel.zero=1"],
              ["train.ema=0.8", "train.sync_bn=world", "optim={lr: 0.05}"], model=Net, ema=0.8, epochs=3, resumed=1)
    yield Run("ema_pieces", ["cpu 2 train.accumulate=2", "ref 2 parallel.shards=4", "cpu 2 parallel.mode=dp"],
              ["train.ema=0.95", "optim={kind: adam, lr: 0.01, weight_decay: 0.01}"], ema=0.95, optim=adam)
    yield Run("muon", ["ref 1", "cpu 1", "cpu 2", "cpu 3 parallel.zero=1 parallel.bucket_mb=0.001", "ref 2 parallel.mode=dp",
                       "cpu 2 train.accumulate=2"],
              ["optim={kind: muon, lr: 0.02, momentum: 0.95, nesterov: true, weight_decay: 0.1}", "train.clip_norm=0.4",
               "schedule={unit: steps, warmup: 3, warmup_factor: 0.25, list: [{kind: linear, length: 4}, "
               "{kind: cosine}]}"],
              model=Deep, clip=clip_norm(0.4),
              optim=lambda net: Muon(net, [net.fc1.weight, net.fc2.weight], 0.02, 0.1),
              schedule=lambda o: lr_scheduler.SequentialLR(
                  o, [lr_scheduler.LinearLR(o, 0.25, total_iters=3), lr_scheduler.LinearLR(o, total_iters=4),
                      lr_scheduler.CosineAnnealingLR(o, 5)], [3, 7]))
    yield Run("muon_options", ["ref 2 parallel.zero=1", "cpu 2 parallel.zero=1"],
              ["optim={kind: muon, lr: 0.01, momentum: 0.8, ns_steps: 6, ns_coefficients: [2, -1.5, 0.5], "
               "adjust_lr_fn: match_rms_adamw, groups: [{match: fc1, muon: false}, {match: fc3, muon: true}]}"],
              model=Deep, resumed=1, optim=lambda net: Muon(
                  net, [net.fc2.weight, net.fc3.weight], 0.01, 0, momentum=0.8, nesterov=False, ns_steps=6,
                  ns_coefficients=(2, -1.5, 0.5), adjust_lr_fn="match_rms_adamw"))
    yield Run("maximize", ["ref 1", "cpu 2 parallel.zero=1"],
              ["optim={kind: nadam, lr: 2e-4, maximize: true}", "train.clip_norm=0.5"], clip=clip_norm(0.5),
              optim=lambda net: torch.optim.NAdam(net.parameters(), lr=2e-4, maximize=True))
    yield Run("overflow", ["ref 1", "ref 2"], ["train.amp=fp16", "train.clip_norm=1", "optim={kind: adam, lr: 0.02}"],
              optim=lambda net: torch.optim.Adam(net.parameters(), lr=0.02), clip=clip_norm(1.0),
              overflow=3, near=FP16_NEAR)


def grouped(net):
    return torch.optim.SGD([
        dict(params=[net.bn1.weight, net.bn1.bias, net.bn2.weight, net.bn2.bias]),
        dict(params=net.conv2.parameters(), lr=0.02, weight_decay=0.3),
        dict(params=[net.fc.weight], momentum=0.5),
        dict(params=[net.conv1.weight], lr=0.03, weight_decay=0.1),
        dict(params=[net.fc.bias], lr=0.03),
    ], lr=0.05, momentum=0.9, weight_decay=0)


# ---- what comes from the program ----

def initial_weights(build, run, net):
    with tempfile.TemporaryDirectory() as dir:
        keys = run.all_keys() + [f"run.dir={dir}/run", "optim={lr: 0}", "train={steps: 1}", "transforms=[]"]
        command = [os.path.abspath(f"{build}/ctrain-hpc"), "train", f"{DIGITS}/train.yaml"]
        subprocess.run(command + [a for k in keys for a in ("--set", k)], check=True, capture_output=True,
                       cwd=DIGITS)
        with h5py.File(f"{dir}/run/checkpoints/step-00000001.h5") as f:
            for name, p in net.named_parameters():
                p.data = torch.from_numpy(f[f"model/{name}"][...]).to(p.dtype)


def draws(build, run, samples):
    """Of each epoch and place: sample, partner, share, and cutmix' box (top, left, height, width)."""
    command = [f"{build}/tests/golden/draws", "1", str(samples), str(run.epochs)]
    text = subprocess.run(command + (["[" + ", ".join([NORMALIZE] + run.transforms) + "]"] if run.transforms else []),
                          check=True, capture_output=True, text=True).stdout
    rows = np.array([line.split() for line in text.splitlines()], dtype=np.float64).reshape(run.epochs, samples, 7)
    assert all((np.sort(epoch[:, 0]) == np.arange(samples)).all() for epoch in rows)
    return rows


# ---- a run ----

def load(name):
    with h5py.File(f"{DIGITS}/{name}") as f:
        x = (torch.from_numpy(f["images"][...]).to(torch.get_default_dtype()) - 4.88) / 6.02
        return x, torch.from_numpy(f["labels"][...]).long()


def batch_of(data, rows):
    """Samples and labels; with mixes the second labels and the shares of the first ones too."""
    x, y = data[0][rows[:, 0]], data[1][rows[:, 0]]
    if (rows[:, 1] < 0).all():
        return x, (y,)
    x, share, partner = x.clone(), torch.tensor(rows[:, 2], dtype=x.dtype), rows[:, 1].astype(int)
    for i, (top, left, h, w) in enumerate(rows[:, 3:].astype(int)):
        other = data[0][partner[i]]
        if partner[i] < 0:
            assert share[i] == 1
        elif w:
            assert abs(share[i] - (1 - h * w / 64)) < 1e-6
            x[i, :, top:top + h, left:left + w] = other[:, top:top + h, left:left + w]
        else:
            x[i] = share[i] * x[i] + (1 - share[i]) * other
    return x, (y, data[1][np.maximum(partner, 0)], share)


def forward(run, net, x):
    """Parts one after another; the running statistics are those of rank 0."""
    outs, norms = [], [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    kept = [m.momentum for m in norms]
    for i, part in enumerate(torch.tensor_split(x, run.parts[0])):
        for m, momentum in zip(norms, kept):
            m.momentum = momentum if i < run.parts[1] else 0
        outs.append(net(part))
    for m, momentum in zip(norms, kept):
        m.momentum = momentum
    return torch.cat(outs)


def evaluate(run, net, step):
    x, y = load("val-000.h5")
    net.eval()
    with torch.no_grad(), torch.autocast("cpu", torch.float16, enabled=bool(run.overflow)):
        out = net(x).to(torch.get_default_dtype())
    loss, counts = run.loss(out, y).item(), run.loss.counts(y)
    own, others = out.gather(1, y[:, None])[:, 0], out.scatter(1, y[:, None], -math.inf).amax(1)
    assert (own - others)[counts].abs().min() > run.near, "top-1 depends on rounding"
    hits = int((own > others)[counts].sum())
    print(f"eval {step} {loss:.9g} {hits / int(counts.sum()):.12g} {int(counts.sum())}")
    return loss


def trained(run, net):
    """Into training mode, but for what is frozen."""
    net.train()
    for name in run.frozen:
        net.get_submodule(name).eval().requires_grad_(False)
    return [p for p in net.parameters() if p.requires_grad]


def one_step(run, net, optim, scaler, step, x, answers):
    params = trained(run, net)
    optim.zero_grad()
    with torch.autocast("cpu", torch.float16, enabled=bool(run.overflow)):
        out = forward(run, net, x)
    loss = run.loss(out.to(torch.get_default_dtype()), *answers)
    scaler.scale(loss).backward()
    scale, rate = scaler.get_scale(), optim.param_groups[0]["lr"]
    if run.overflow and step == run.overflow:
        params[0].grad.view(-1)[0] = math.inf
    scaler.unscale_(optim)
    norm = (run.clip or total_norm)(params).item()
    scaler.step(optim)
    scaler.update()
    print(f"step {step} {loss.item():.9g} {rate:.12g} {f'{norm:.9g}' if math.isfinite(norm) else 'null'} {scale:g}")


def train(build, run):
    torch.set_default_dtype(torch.float32 if run.overflow else torch.float64)
    net, data = run.model(), load("train-000.h5")
    initial_weights(build, run, net)
    optim, scaler = run.optim(net), torch.amp.GradScaler("cpu", enabled=bool(run.overflow))
    schedule = run.schedule(optim) if run.schedule else None
    plateau = run.plateau and lr_scheduler.ReduceLROnPlateau(optim, **run.plateau)
    average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(run.ema), use_buffers=True) if run.ema else None
    step, total = 0, run.steps or run.epochs * math.ceil(len(data[0]) / run.batch)
    for rows in draws(build, run, len(data[0])):
        for begin in range(0, len(rows), run.batch):
            step += 1
            x, answers = batch_of(data, rows[begin:begin + run.batch])
            one_step(run, net, optim, scaler, step, x, answers)
            if average:
                average.update_parameters(net)
            if schedule:
                schedule.step()
            if step == total:
                break
        loss = evaluate(run, average.module if average else net, step)
        if plateau:
            assert abs(loss / (plateau.best * (1 - plateau.threshold)) - 1) > 1e-3, "the plateau depends on rounding"
            plateau.step(loss)
        if step == total:
            break


def main(build, only):
    torch.set_num_threads(1)
    if not only:
        print(f"# Made by make_runs.py with PyTorch {torch.__version__.split('+')[0]}.")
    for run in runs():
        if only and run.name not in only:
            continue
        print(f"run {run.name}\nnear {run.near:g}")
        for key in run.all_keys():
            print("set", key)
        for launch in run.on:
            print("on", launch)
        if run.resumed:
            print(f"then train.epochs={run.epochs}")
        if run.overflow:
            print(f"fault step.overflow@0:{run.overflow}")
        train(build, run)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "build", sys.argv[2:])
