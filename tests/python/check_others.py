#!/usr/bin/env python3
"""Weight files as other programs write them: what is taken of them, and what they compute.

    check_others.py CTRAIN DIR [SEED]      prints TAP

A drawn training checkpoint has its state dict under a usual name, or under any, beside stray tensors, averaged copies,
optimizers, and inside wrappers (DistributedDataParallel, AveragedModel, torch.compile); a model of timm has timm's
names.  In each case `predict` gives the probabilities of the model itself, and `convert` writes its tensors.
"""
import random
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import safetensors.torch
import torch
from torch import nn

ctrain, work = sys.argv[1], Path(sys.argv[2])
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 29
count = 0


def tap(fine, what, why=""):
    global count
    count += 1
    print(f"{'ok' if fine else 'not ok'} {count} - {what}", flush=True)
    if not fine:
        print("# " + str(why).replace("\n", "\n# "))


def run(*command):
    return subprocess.run([ctrain, *map(str, command)], text=True, capture_output=True, cwd=work)


SMALL = "layers: [{conv2d: {out: 4, kernel: 3}, name: conv}, {batchnorm: {}, name: norm}, {relu: {}}, {flatten: {}}, " \
        "{linear: {out: 5}, name: fc}]"


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4 * 36, 5)

    def forward(self, x):
        return self.fc(torch.relu(self.norm(self.conv(x))).flatten(1))


def trained(net, size):
    """Running statistics that are those of its layers."""
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.8, 1.2)
            nn.init.uniform_(layer.bias, -0.1, 0.1)
            layer.momentum = None
    with torch.no_grad():
        net.train()(torch.randn(4, 3, size, size))
    return net.eval()


def write_case(name, model, size, classes):
    x = np.random.default_rng(seed).standard_normal((3, 3, size, size), dtype=np.float32)
    with h5py.File(work / f"{name}.h5", "w") as f:
        f["images"], f["labels"] = x, np.zeros(3, np.int32)
    (work / f"{name}.yaml").write_text(
        f"run: {{dir: {name}}}\ndevice: cpu\ndata: {{train: {name}.h5, val: {name}.h5, batch: 3, layout: nchw}}\n"
        f"model: {{{model}, classes: {classes}, input: [3, {size}, {size}]}}\n")
    return torch.from_numpy(x)


def predicts(what, case, file, net, x, *options):
    done = run("predict", f"{case}.yaml", "--checkpoint", file, "--input", f"{case}.h5", "--output", "p.h5", *options)
    if done.returncode:
        return tap(False, what, done.stderr)
    with h5py.File(work / "p.h5") as f, torch.no_grad():
        away = np.abs(f["probabilities"][:] - net(x).softmax(1).numpy()).max()
    tap(away < 2e-5, what, f"{away}\n{done.stderr}")


def wrapped(draw, state):
    """Names as wrappers leave them."""
    kind = draw.choice(["plain", "ddp", "averaged", "compiled", "both", "inner"])
    if kind == "plain":
        return kind, state
    if kind == "averaged":
        return kind, {"n_averaged": torch.tensor(7), **{f"module.{k}": v for k, v in state.items()}}
    if kind == "inner":
        return kind, {k.replace("conv.", "conv._orig_mod."): v for k, v in state.items()}
    prefix = {"ddp": "module.", "compiled": "_orig_mod.", "both": draw.choice(["module._orig_mod.", "_orig_mod.module."])}
    return kind, {prefix[kind] + k: v for k, v in state.items()}


def checkpoint(draw, net):
    """A dict as a training script makes it, and the key of its model."""
    state = {k: v.clone() for k, v in net.state_dict().items()}
    other = {k: v + 1 if v.is_floating_point() else v for k, v in state.items()}
    kind, own = wrapped(draw, state)
    key = draw.choice(["state_dict", "model", "model_state_dict", "net", "my_model", "backbone"])
    items = [(key, own)]
    stray = [("best_acc1", torch.tensor(76.15)), ("epoch", torch.tensor(3)), ("rng_state", torch.zeros(5056).byte()),
             ("loss", torch.zeros(3)), ("epoch", 1), ("arch", "x")]
    items += draw.sample(stray, draw.randrange(len(stray)))
    if draw.random() < 0.5:
        items.append((draw.choice(["state_dict_ema", "ema", "model_ema", "swa_state_dict"]), wrapped(draw, other)[1]))
    if draw.random() < 0.5:
        moments = {k: torch.zeros_like(v) for k, v in state.items()}
        items.append((draw.choice(["optimizer", "optim"]), {"state": draw.choice([moments, {0: moments}])}))
    draw.shuffle(items)
    return kind, key, dict(items)


def checkpoints(rounds):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    net = trained(Small(), 8)
    x = write_case("small", SMALL, 8, 5)
    for i in range(rounds):
        kind, key, whole = checkpoint(draw, net)
        torch.save(whole, work / f"drawn{i}.pth", _use_new_zipfile_serialization=draw.random() < 0.7)
        what = f"{i}: {kind} in {list(whole)}"
        predicts(what, "small", f"drawn{i}.pth", net, x)
        done = run("convert", f"drawn{i}.pth", "out.safetensors")
        if done.returncode:
            tap(False, f"{what}: convert", done.stderr)
            continue
        got, want = safetensors.torch.load_file(work / "out.safetensors"), whole[key]
        tap(list(sorted(got)) == sorted(want) and all(torch.equal(got[k], want[k]) for k in got),
            f"{what}: convert", f"{list(got)}\n{done.stderr}")


def choices():
    net = trained(Small(), 8)
    state = net.state_dict()
    x = write_case("small", SMALL, 8, 5)
    two = {"netG": {k: v[:1] for k, v in state.items() if v.ndim}, "netD": state, "best": torch.tensor(1.0)}
    torch.save(two, work / "gan.pth")
    predicts("of two networks the one that fits", "small", "gan.pth", net, x)
    torch.save({"a": state, "b": {k: v * 2 for k, v in state.items()}}, work / "equal.pth")
    for command in (["convert", "equal.pth", "no.safetensors"],
                    ["predict", "small.yaml", "--checkpoint", "equal.pth", "--input", "small.h5"]):
        done = run(*command)
        tap(done.returncode and "'a', 'b'" in done.stderr and "--key" in done.stderr and "init.key" in done.stderr,
            f"{command[0]}: two that fit as well are an error that names both", done.stderr)
    tap(not (work / "no.safetensors").exists(), "and nothing is written")
    predicts("and one can be named", "small", "equal.pth", net, x, "--key", "a")
    torch.save({f"backbone.{k}": v for k, v in state.items()}, work / "prefix.pth")
    done = run("train", "small.yaml", "--set", "init.from=prefix.pth", "--set", "init.strict=false")
    tap("begin with 'backbone.': init.strip_prefix" in done.stderr, "a prefix of all names is proposed", done.stderr)
    torch.save({("backbone." if k == "fc.bias" else "other.") + k: v for k, v in state.items()}, work / "few.pth")
    done = run("train", "small.yaml", "--set", "init.from=few.pth", "--set", "init.strict=false")
    tap("begin with 'backbone.'" not in done.stderr, "that of one name is not", done.stderr)
    torch.save({f"x{i}": torch.zeros(1) for i in range(40)}, work / "many.pth")
    done = run("train", "small.yaml", "--set", "init.from=many.pth")
    tap("not in the model: x0, x1, x2, x3, x4 and 35 more" in done.stderr, "a long list ends", done.stderr)


def timm_models():
    try:
        import timm
    except ImportError as why:
        print(f"ok {count + 1} - timm's models # SKIP {why}")
        return
    torch.manual_seed(seed)
    for name, model, size in (
            ("vit_tiny_patch16_224", "family: vit, depth: 12, patch: 16, dim: 192, heads: 3", 224),
            ("mobilenetv2_100", "family: mobilenet_v2", 64),
            ("resnet18", "family: resnet, depth: 18", 64),
            ("densenet121", "family: densenet, depth: 121", 64)):
        net = trained(timm.create_model(name, num_classes=7), size)
        for p in net.parameters():
            if p.ndim == 1 or not p.abs().max():
                nn.init.normal_(p, 1.0 if p.abs().max() else 0.0, 0.05)
        x = write_case(name, model, size, 7)
        torch.save({"state_dict": net.state_dict(), "state_dict_ema": net.state_dict(), "metric": torch.tensor(1.0)},
                   work / "timm.pth")
        predicts(f"timm's {name}", name, "timm.pth", net, x)
        safetensors.torch.save_file(net.state_dict(), work / "timm.safetensors")
        predicts(f"timm's {name}, safetensors", name, "timm.safetensors", net, x)


def not_weights():
    junk = {
        "lfs.pth": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 100\n", "Git LFS"),
        "lfs.safetensors": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 100\n", "Git LFS"),
        "page.pth": (b"\n<!DOCTYPE html><html><head>", "page of the web"),
        "page.safetensors": (b"<HTML><body>", "page of the web"),
        "page.h5": (b"<?xml version='1.0'?><Error>", "page of the web"),
        "zipped.pth": (b"\x1f\x8b\x08\x00" + bytes(20), "gzip"),
        "model.onnx": (b"\x08\x08\x12\x07pytorch" + bytes(20), "ONNX"),
        "part.distcp": (b"PK" + bytes(40), "distributed checkpoint"),
    }
    for name, (data, _) in junk.items():
        (work / name).write_bytes(data)
    cases = {name: word for name, (_, word) in junk.items()}
    for folder, files, word in (
            ("hub", ["config.json", "model.safetensors"], "hub/model.safetensors"),
            ("sharded", ["config.json", "model.safetensors.index.json"], "sharded/model.safetensors.index.json"),
            ("dcp", [".metadata", "__0_0.distcp"], "dcp_to_torch"), ("zero", ["zero_to_fp32.py"], "zero_to_fp32.py")):
        (work / folder).mkdir(exist_ok=True)
        for file in files:
            (work / folder / file).write_text("{}")
        cases[folder] = word
    class Twice(nn.Module):
        def forward(self, x):
            return 2 * x
    torch.jit.trace(Twice(), torch.zeros(2)).save(str(work / "script.pt"))
    cases["script.pt"] = "TorchScript"
    torch.export.save(torch.export.export(Twice(), (torch.zeros(2),)), work / "program.pt2")
    cases["program.pt2"] = "torch.export that has no weights"
    np.savez(work / "arrays.npz", a=np.zeros(3))
    cases["arrays.npz"] = "NumPy"
    for name, word in cases.items():
        for command in (["convert", name, "none.safetensors"], ["inspect", name],
                        ["train", "small.yaml", "--set", f"init.from={name}", "--set", "run.dir=none"],
                        ["predict", "small.yaml", "--checkpoint", name],
                        ["eval", "small.yaml", "--checkpoint", name], ["predict", name, "small.h5"]):
            done = run(*command)
            errors = [line for line in done.stderr.splitlines() if "error:" in line]
            tap(done.returncode in (1, 2) and len(errors) == 1 and word in errors[0] and name in errors[0],
                f"{command[0]} of {name}", done.stderr)


if __name__ == "__main__":
    checkpoints(12)
    choices()
    timm_models()
    not_weights()
    print(f"1..{count}")
