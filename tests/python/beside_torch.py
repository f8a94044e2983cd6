"""Trains a small network with ctrain-hpc and with PyTorch in float64, and says how far apart they are."""
import copy
import json
import os
import shutil
import subprocess
import tempfile

import h5py
import numpy as np
import torch
import yaml
from safetensors.torch import save_file

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
MOMENTUM = 0.9


class Refused(Exception):
    """The program ends with an error: its message."""


class Case:
    """A network as `layers` of a configuration, and as a module whose state_dict has the same names.

    x is what the program reads (its arrays have x's shape), target likewise; loss(output, target) is PyTorch's mean.
    frozen: names of parameters that are not trained, and that the module need not have: {name: value}.
    """

    def __init__(self, layers, net, x, target, loss_keys, loss, frozen=None, keys=None, steps=3, shapes=None,
                 rename=None):
        self.layers, self.net, self.x, self.target, self.loss_keys, self.loss = layers, net, x, target, loss_keys, loss
        self.frozen, self.keys, self.steps, self.shapes = frozen or {}, keys or {}, steps, shapes or {}
        self.rename = rename or {}  # names of the module: the program's
        self.extra = {}  # extra inputs by name: arguments of the module behind x
        self.predict = ()  # further arguments of predict
        self.turned = ()  # names of weights that files hold transposed
        self.optim = None  # else PyTorch's of case.keys['optim'], a function of parameters; gradients are not compared
        for tensor in [*net.parameters(), *net.buffers()]:  # what float32 can hold: both begin from the same numbers
            if tensor.is_floating_point():
                tensor.data = tensor.data.float().double()


def run(program, directory, *command):
    done = subprocess.run([program, *command, "--log", "error"], cwd=directory, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"{command[0]}: " + (done.stderr.strip()[-400:] or f"status {done.returncode}"))


def off(got, want, floor=0.0):
    """The largest difference as a share of the largest number wanted, which counts as `floor` at least."""
    got, want = np.asarray(got, "f8").ravel(), np.asarray(want, "f8").ravel()
    if not want.size:
        return 0.0
    far = np.abs(got - want).max() / max(np.abs(want).max(), floor, 1e-30)
    return float(far) if np.isfinite(far) else float("inf")


def rate_of(case):
    """A learning rate with which a few steps do not run away."""
    net = copy.deepcopy(case.net)
    case.loss(net(case.x.double(), **case.extra), case.target).backward()
    return 0.05 / max(1.0, 4 * max([float(p.grad.abs().max()) for p in net.parameters() if p.grad is not None] or [1]))


def train_torch(case, rate, dtype=torch.float64):
    """Losses and outputs, the gradient of step 1, the state after the last step; in dtype."""
    net = copy.deepcopy(case.net).to(dtype)
    x, target = case.x.to(dtype), case.target.to(dtype) if case.target.is_floating_point() else case.target
    optim = (case.optim or (lambda p: torch.optim.SGD(p, lr=rate, momentum=MOMENTUM)))(net.parameters())
    out = {}
    with torch.no_grad():
        out["forward"] = copy.deepcopy(net).eval()(x, **case.extra).double().numpy()
    for step in range(case.steps):
        optim.zero_grad()
        loss = case.loss(net(x, **case.extra), target)
        loss.backward()
        out[f"loss {step + 1}"] = loss.item()
        if step == 0:
            out["grad"] = {k: p.grad.double().numpy() for k, p in net.named_parameters() if p.grad is not None}
        optim.step()
    out["state"] = {k: v.double().numpy() for k, v in net.state_dict().items()}
    with torch.no_grad():
        out["eval"] = case.loss(net.eval()(x, **case.extra), target).item()
    return out


def write(case, directory, rate, device):
    state = {k: v.reshape(case.shapes.get(k, v.shape)) for k, v in {**case.net.state_dict(), **case.frozen}.items()}
    save_file({case.rename.get(k, k): (v.float() if v.is_floating_point() else v).contiguous() for k, v in state.items()},
              f"{directory}/init.safetensors")
    with h5py.File(f"{directory}/data.h5", "w") as h:
        h["images"] = case.x.float().numpy()
        h["labels"] = case.target.float().numpy() if case.target.is_floating_point() else case.target.int().numpy()
        for k, v in case.extra.items():
            h[k] = v[:, None].float().numpy()
        if case.x.dim() >= 4:
            h["images"].attrs["layout"] = "NCHW" if case.x.dim() == 4 else "NCDHW"
    keys = {
        "run": {"dir": "run", "log_every": 1},
        "device": device,
        "data": {"train": "data.h5", "val": "data.h5", "shuffle": False, "batch": len(case.x)},
        "model": {"layers": case.layers},
        "init": {"from": "init.safetensors"},
        "train": {"steps": case.steps, "epochs": case.steps, **({"freeze": list(case.frozen)} if case.frozen else {})},
        "loss": case.loss_keys,
        "optim": {"kind": "sgd", "lr": rate, "momentum": MOMENTUM},
        "eval": {"every_epochs": 0},
        "checkpoint": {"every_epochs": 0, "every_steps": 1, "keep": 0},
        "cpu": {"threads": 1},
    }
    if case.target.is_floating_point():
        keys["model"]["classes"] = case.target.shape[1]
    if case.extra:
        keys["data"]["input"] = ["images", *case.extra]
    for section, more in case.keys.items():
        if more.get("kind"):  # another optimizer, with its own keys alone
            keys[section] = {}
        keys[section].update(more)
    with open(f"{directory}/c.yaml", "w") as f:
        yaml.safe_dump(keys, f, sort_keys=False)


def train_program(case, program, directory, forward):
    """The same from the program; the gradient is the momentum buffer of step 1."""
    out = {}
    if forward:
        run(program, directory, "predict", "c.yaml", "--checkpoint", "init.safetensors", "--input", "data.h5", "--output",
            "out.h5", *case.predict)
        with h5py.File(f"{directory}/out.h5") as h:
            out["forward"] = h["outputs"][...]
    run(program, directory, "train", "c.yaml")
    with open(f"{directory}/run/metrics.jsonl") as f:
        for line in map(json.loads, f):
            if line["event"] == "step":
                out[f"loss {line['step']}"] = line["loss"]
    with open(f"{directory}/run/summary.json") as f:
        out["eval"] = json.load(f)["val_loss"]
    ckpt = f"{directory}/run/checkpoints/step-%08d.h5"
    with h5py.File(ckpt % 1) as first, h5py.File(ckpt % case.steps) as last:
        name = lambda k: case.rename.get(k, k)
        turn = lambda k, v: v.T if k in case.turned else v
        out["grad"] = None if case.optim else {k: turn(k, first["optim/momentum_buffer/" + name(k)][...]) for k, _ in case.net.named_parameters()}
        out["state"] = {k: turn(k, last["model/" + name(k)][...]) for k in case.net.state_dict()}
        for name, value in case.frozen.items():
            if off(last["model/" + name][...], value.float().numpy()) > 0:
                raise Refused(f"{name} is frozen and moved")
    return out


def distances(case, got, want):
    """How far `got` is from `want`: {quantity: share}."""
    far = {}
    largest = max([np.abs(g).max() for g in want["grad"].values() if g.size] or [1])
    for key, value in want.items():
        if key == "grad" and got["grad"] is None:
            continue
        if key == "grad":
            for k, g in value.items():
                far["grad " + k] = off(got[key][k], g, 1e-3 * largest)
        elif key == "state":
            for k, after in value.items():
                before = case.net.state_dict()[k].double().numpy()
                moved, rounding = after - before, 5e-7 * np.abs(before).max() if before.size else 0
                error = np.abs(np.asarray(got[key][k], "f8").reshape(after.shape) - after)
                floor = 1e-3 * max(np.abs(v - case.net.state_dict()[n].double().numpy()).max() for n, v in value.items()
                                   if v.size and "num_batches" not in n)
                far["state " + k] = float(max(0, error.max() - rounding) / max(np.abs(moved).max(), floor, 1e-30))
        elif key in got:
            same_nothing = value != value and got[key] in (None, 0) if np.isscalar(value) else False
            far[key] = 0.0 if same_nothing else off(float("nan") if got[key] is None else got[key], value, 1e-6)
    return far


def compare(case, program, device, tolerance=3e-5, forward=False, keep=None):
    """{} if all is within the tolerance, or within ten times what PyTorch itself is off in float32; else what is not."""
    directory = keep or tempfile.mkdtemp(dir=os.environ.get("TMPDIR"))
    try:
        rate = rate_of(case)
        write(case, directory, rate, device)
        want = train_torch(case, rate)
        far = distances(case, train_program(case, program, directory, forward), want)
        wrong = {k: v for k, v in far.items() if not v <= tolerance}
        if wrong:
            own = distances(case, train_torch(case, rate, torch.float32), want)
            wrong = {k: (v, own[k]) for k, v in wrong.items() if not v <= 10 * own[k]}
        return wrong
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)
