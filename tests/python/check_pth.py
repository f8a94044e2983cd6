#!/usr/bin/env python3
"""torch.save() and torch.load() beside this program's .pth files.

check_pth.py make DIR        writes DIR/NAME.pth (and -old.pth: the format before PyTorch 1.6)
check_pth.py check DIR       expects DIR/NAME.out.pth, which was made of them, to have the same tensors;
                             prints TAP
"""
import argparse
import sys
import warnings
from collections import OrderedDict
from pathlib import Path

import torch

warnings.simplefilter("ignore")
TYPES = """float16 bfloat16 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64
    float8_e4m3fn float8_e5m2""".split()


def views():
    table, flat = torch.randn(8, 6), torch.randn(100)
    table.note = "a tensor with an attribute"
    return OrderedDict(
        table=table,
        turned=table.t(),
        part=table[1:5, 2:4],
        expanded=torch.randn(3, 1).expand(3, 5),
        last=torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        moved=torch.randn(3, 4, 5, 6).permute(2, 0, 3, 1)[1:4],
        ones=torch.randn(1, 4, 1).transpose(0, 2),
        scalar=torch.tensor(3.5),
        empty=torch.zeros(0, 4),
        flat1=flat[10:20],
        flat2=flat[15:40:3],
        large=torch.randn(700, 300).t(),
        sparse=torch.randn(5000, 700)[::1000, ::699].t(),
        diagonal=torch.randn(50, 50).diagonal(),
        weight=torch.nn.Parameter(torch.randn(5)),
    )


def types():
    x = torch.randint(0, 2, (3, 5))
    return {name: x.to(getattr(torch, name)) for name in TYPES}


def net():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Linear(4, 5))


def training():
    n = net()
    sgd = torch.optim.SGD(n.parameters(), lr=0.1, momentum=0.9)
    return {"epoch": 1, "state_dict": n.state_dict(), "optimizer": sgd.state_dict(), "args": argparse.Namespace()}


CASES = {"views": views, "types": types, "net": lambda: net().state_dict(), "training": training}


def weights(loaded):
    return loaded.get("state_dict", loaded)


def raw(x):
    return bytes(x.detach().clone(memory_format=torch.contiguous_format).reshape(-1).untyped_storage())


def make(folder):
    torch.manual_seed(0)
    for name, case in CASES.items():
        what = case()
        torch.save(what, folder / f"{name}.pth")
        torch.save(what, folder / f"{name}-old.pth", _use_new_zipfile_serialization=False)
        torch.serialization.set_crc32_options(False)
        torch.save(what, folder / f"{name}-nosum.pth")
        torch.serialization.set_crc32_options(True)


def same(a, b):
    return list(a) == list(b) and all(
        a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and raw(a[k]) == raw(b[k]) for k in a
    )


def check(folder):
    n = 0
    for case, name in [(case, f"{case}{kind}") for case in CASES for kind in ("", "-old", "-nosum")]:
        # not its own file: PyTorch fails to load the types of today from the older format
        want = weights(torch.load(folder / f"{case}.pth", weights_only=False))
        for options in {}, {"mmap": True}:
            n += 1
            what = f"{n} - {name} {'with mmap' if options else ''}"
            try:
                got = torch.load(folder / f"{name}.out.pth", weights_only=True, **options)
                print("ok" if same(want, got) else "not ok", what)
                if name.startswith("net"):
                    net().load_state_dict(got, strict=True)
            except Exception as e:
                print(f"# {e}".replace("\n", " "))
                print("not ok", what)
    print(f"1..{n}")


{"make": make, "check": check}[sys.argv[1]](Path(sys.argv[2]))
