#!/usr/bin/env python3
"""Makes tests/golden/pth/*.pth: what torch.save() writes.

    pip install torch numpy; tests/golden/make_pth.py tests/golden/pth

All numbers count from 0, so that tests/unit/t_pth.c can say what each tensor has.
"""
import argparse
import io
import json
import struct
import sys
import zipfile
import zlib
from collections import OrderedDict
from pathlib import Path

import torch

TYPES = "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8_e4m3fn complex64"


def views():
    table = torch.arange(24.0).view(4, 6)
    images = torch.arange(48.0).view(2, 3, 2, 4)
    table.note = "a tensor with an attribute"
    return OrderedDict(
        table=table,
        turned=table.t(),
        part=table[1:3, 2:5],
        column=table[:, 4],
        expanded=table[:, :1].expand(4, 3),
        last=images.contiguous(memory_format=torch.channels_last),
        moved=images.permute(2, 0, 3, 1)[1:],
        scalar=table[2, 3],
        empty=table[4:],
        weight=torch.nn.Parameter(table[0]),
    )


def types():
    d = {name: torch.arange(5).to(getattr(torch, name)) for name in TYPES.split()}
    d["bool"] = torch.arange(5) % 2 == 1
    return d


def nested():
    """As training scripts have it: beside the weights an optimizer and things that are no tensors."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net(torch.ones(3, 2)).sum().backward()
    sgd.step()
    with torch.no_grad():
        for p in net.state_dict().values():
            p.copy_(torch.arange(p.numel()).view(p.shape))
    ema = {k: v + 1 for k, v in net.state_dict().items()}
    return {
        "epoch": 3,
        "best": 0.75,
        "args": argparse.Namespace(lr=0.1),
        "model": net.state_dict(),
        "optimizer": sgd.state_dict(),
        "averages": {"slow.ema": ema},
    }


def kinds():
    """One tensor like any other, and one of each kind that only PyTorch has."""
    return {"wide": torch.ones(2, dtype=torch.complex128), "w": torch.arange(3.0),
            "conjugate": torch.ones(1, dtype=torch.complex64).conj(), "sparse": torch.eye(2).to_sparse(),
            "half": torch.ones(2, dtype=torch.complex32),
            "int8": torch.quantize_per_tensor(torch.ones(3), 0.1, 3, torch.qint8)}


def zip64(whole):
    """The same archive with every number that may be in a zip64 part there."""
    out, lines, places = io.BytesIO(), [], []
    for info in zipfile.ZipFile(io.BytesIO(whole)).infolist():
        data = zipfile.ZipFile(io.BytesIO(whole)).read(info)
        name, crc, at = info.filename.encode(), zlib.crc32(data), out.tell()
        extra = struct.pack("<HHQQ", 1, 16, len(data), len(data))
        head = struct.pack("<HHHHHIIIHH", 45, 0, 0, 0, 33, crc, 0xFFFFFFFF, 0xFFFFFFFF, len(name), len(extra))
        out.write(struct.pack("<I", 0x04034B50) + head + name + extra + data)
        extra = struct.pack("<HHQQQ", 1, 24, len(data), len(data), at)
        head = struct.pack("<HHHHHIIIHH", 45, 0, 0, 0, 33, crc, 0xFFFFFFFF, 0xFFFFFFFF, len(name), len(extra))
        lines.append(struct.pack("<IH", 0x02014B50, 45) + head + struct.pack("<HHHII", 0, 0, 0, 0, 0xFFFFFFFF) + name + extra)
    at, size = out.tell(), sum(map(len, lines))
    out.write(b"".join(lines))
    out.write(struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, len(lines), len(lines), size, at))
    out.write(struct.pack("<IIQI", 0x07064B50, 0, at + size, 1))
    out.write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0))
    return out.getvalue()


def saved(what, **options):
    out = io.BytesIO()
    torch.save(what, out, **options)
    return out.getvalue()


class Program(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 1)
        self.bn = torch.nn.BatchNorm2d(2)
        self.head = torch.nn.Linear(2, 4, bias=False)
        self.tied = torch.nn.Linear(2, 4, bias=False)
        self.head.weight.data = torch.arange(8.0).view(4, 2)
        self.tied.weight = self.head.weight
        self.register_buffer("turned", torch.arange(24.0).view(4, 6).t())
        self.register_buffer("low", torch.arange(2.0).half())
        self.register_buffer("transient", torch.ones(2), persistent=False)

    def forward(self, x):
        x = self.bn(self.conv(x)).mean((2, 3)) + self.transient + self.low.float()
        return self.head(x) + self.tied(x) + self.turned.sum() + torch.tensor([1.0, 2.0, 3.0, 4.0])


def program():
    """A .pt2 archive. The paths and code that PyTorch stores of its caller are taken out."""
    batch = torch.export.Dim("batch")
    exported = torch.export.export(Program(), (torch.ones(2, 1, 3, 3),), dynamic_shapes=({0: batch},))
    before, after = io.BytesIO(), io.BytesIO()
    torch.export.save(exported, before)
    with zipfile.ZipFile(before) as a, zipfile.ZipFile(after, "w", zipfile.ZIP_STORED) as b:
        for info in a.infolist():
            data = a.read(info)
            if "sample_inputs" in info.filename:
                continue
            if info.filename.endswith("models/model.json"):
                model = json.loads(data)
                for node in model["graph_module"]["graph"]["nodes"]:
                    node["metadata"].pop("stack_trace", None)
                data = json.dumps(model).encode()
            name = "program/" + info.filename.split("/", 1)[1]
            b.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return after.getvalue()


def main():
    out = Path(sys.argv[1])
    small = {"w": torch.arange(3.0)}
    files = {
        "views": saved(views()),
        "views-old": saved(views(), _use_new_zipfile_serialization=False),
        "types": saved(types()),
        "nested": saved(nested()),
        "nested-old": saved(nested(), _use_new_zipfile_serialization=False),
        "zip64": zip64(saved(small)),
        "tensor": saved(small["w"]),
        "sparse": saved({"w": torch.eye(2).to_sparse()}),
        "complex128": saved({"w": torch.ones(1, dtype=torch.complex128)}),
        "conjugate": saved({"w": torch.ones(1, dtype=torch.complex64).conj()}),
        "kinds": saved(kinds()),
        "kinds-old": saved(kinds(), _use_new_zipfile_serialization=False),
        "protocol4": saved(small, pickle_protocol=4),
        "object": saved(torch.nn.Linear(1, 1)),
    }
    script = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.ReLU()), script)
    files["script"] = script.getvalue()
    for name, data in files.items():
        (out / f"{name}.pth").write_bytes(data)
    (out / "program.pt2").write_bytes(program())
    for name in "views", "views-old", "zip64", "types":
        torch.load(out / f"{name}.pth", weights_only=True)


main()
