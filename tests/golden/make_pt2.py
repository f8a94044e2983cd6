#!/usr/bin/env python3
"""Programs of torch.export for the tests of src/pt2: make_pt2.py tests/golden/pt2

The paths and code that PyTorch stores of its caller are taken out.  In the files fold_*.pt2, each
output is a constant that the program computes, and the buffer want_NAME has what PyTorch computes
for the output NAME of one sample.
"""
import io
import json
import math
import sys
import zipfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


# ---- reading ----


class Graph(nn.Module):
    """Inputs of two types, a dict of outputs, tied and shared weights, buffers, constants."""

    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(7, 4, padding_idx=0)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.tok.weight
        self.block = nn.Sequential(nn.Linear(4, 4), nn.GELU(approximate="tanh"))
        self.frozen = nn.Parameter(torch.full((4,), 2.0), requires_grad=False)
        self.register_buffer("pe", torch.arange(20.0).view(5, 4))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("ids", torch.arange(5), persistent=False)
        self.scale = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, ids, x):
        n = ids.shape[0]
        self.steps.add_(1)
        with torch.no_grad():
            mean = (self.tok.weight * 2).mean(0, keepdim=True)
        h = self.tok(ids) + self.tok(self.ids) + self.pe[:5] * self.frozen
        h = self.block(self.block(h)) * self.scale + mean
        h = F.dropout(h, 0.25, self.training)
        y = x.reshape(n * 3, -1).softmax(-1).view(n, 3, 2)
        return {"logits": self.head(h), "aux": [y, y.sum()], "none": None, "three": 3}


class Arguments(nn.Module):
    """Arguments of each kind."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, (3, 2), stride=2, padding=(1, 0))

    def forward(self, x):
        y = self.conv(x)
        y = F.max_pool2d(y, 2, padding=1, ceil_mode=True)
        y = F.interpolate(y, scale_factor=(2.0, 3.0), mode="nearest")
        y = y.masked_fill(y == 0, float("-inf")).clamp(min=-1e30) + math.pi
        y = torch.where(torch.isnan(y), float("nan"), y)
        y = y.to(torch.float64).to(dtype=torch.float32, memory_format=torch.contiguous_format)
        a, b = y.split([1, 1], dim=1)
        y = torch.cat([a, b, a], -3).flip([2, 3])
        return y[:, torch.tensor([0, 2])], y.std((1, 2), correction=0), y.amax(1, keepdim=True) / x.shape[0]


class Attention(nn.Module):
    """T x N x D, and N multiplied with the number of heads."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.MultiheadAttention(6, 3, batch_first=True)])

    def forward(self, x):
        return self.layers[0](x, x, x, need_weights=False)[0]


class Changes(nn.Module):
    """Ops in place on data: whole, and through views."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        y = self.fc(x)
        z = F.relu(y, inplace=True)
        y = y + z  # both are the new value
        t = y.view(-1, 2, 2).transpose(1, 2)
        t[:, 0].mul_(3.0)
        y[:, 1:3] += 1
        b = y[:, 2:]
        b.zero_()
        return y * 2, t, b


class Random(nn.Module):
    """Stochastic depth, and noise."""

    def forward(self, x):
        keep = torch.empty((x.shape[0], 1), dtype=x.dtype).bernoulli_(0.75)
        return x * keep.div_(0.75) + torch.randn_like(x)


class Cast(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.fc(x)
        return y.float()


class SharedMemory(nn.Module):
    """A reshape whose strides decide whether it is a view; then an op in place."""

    def forward(self, x):
        t = (x * 2).transpose(1, 2)
        r = t.reshape(t.shape[0], 2, 6)
        t.add_(1)
        return r, t


class Parameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(4))

    def forward(self, x):
        with torch.no_grad():
            self.w.clamp_(-1, 1)
        return x * self.w


class Position(nn.Module):
    """A constant that is not the same for all samples."""

    def forward(self, x):
        return x + torch.arange(x.shape[0])[:, None]


class Twice(nn.Module):
    def forward(self, x):
        return x.repeat(2, 1)[: x.shape[0] + 1]


# ---- constants ----


def swin_mask(size=6, window=3, shift=1):
    m = torch.zeros(size, size)
    h = ((0, -window), (-window, -shift), (-shift, None))
    count = 0
    for a in h:
        for b in h:
            m[a[0] : a[1], b[0] : b[1]] = count
            count += 1
    n = size // window
    m = m.view(n, window, n, window).permute(0, 2, 1, 3).reshape(n * n, window * window)
    m = m.unsqueeze(1) - m.unsqueeze(2)
    return m.masked_fill(m != 0, float(-100.0)).masked_fill(m == 0, float(0.0))


def sinusoids(n=5, d=6):
    pe = torch.zeros(n, d)
    position = torch.arange(n).unsqueeze(1).float()
    rate = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
    pe[:, 0::2] = torch.sin(position * rate)
    pe[:, 1::2] = torch.cos(position * rate)
    return pe


def rotary(n=4, d=6):
    rate = 1.0 / (10000 ** (torch.arange(0, d, 2).float() / d))
    angle = torch.outer(torch.arange(n).float(), rate)
    return torch.cat([angle, angle], -1).cos(), torch.einsum("i,j->ij", torch.arange(3.0), rate)


def relative(h=2, w=3):
    c = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")).flatten(1)
    r = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0).contiguous()
    r[:, :, 0] += h - 1
    r[:, :, 1] += w - 1
    r[:, :, 0] *= 2 * w - 1
    return r.sum(-1)


def whole():
    a, b = torch.arange(-4, 5), torch.tensor([3, -3, 2, -2, 5, -5, 1, -1, 7])
    return {
        "floor": a // b,
        "floor_mode": torch.div(a, b, rounding_mode="floor"),
        "trunc_mode": torch.div(a, b, rounding_mode="trunc"),
        "true": a / b,
        "remainder": a % b,
        "fmod": torch.fmod(a, b),
        "bits": (a & 6) ^ (b | 1),
        "flip_bits": ~a,
        "compare": (a >= b) & (a != 0) | ~(b < 1),
        "power": a**2 - 2**3,
        "alpha": torch.add(a, b, alpha=-2),
        "reverse": 10 - a * 2,
    }


def types():
    x = torch.arange(0, 2, 0.25)
    return {
        "half": (x / 3).half(),
        "brain": (x / 3).to(torch.bfloat16) * 1.1,
        "to_whole": (x * 3 - 2).to(torch.int64),
        "to_bool": (x - 0.5).bool(),
        "double": x.double() / 3,
        "one": torch.full((), 7.5) * torch.ones(2, dtype=torch.int32),
    }


def real():
    x = torch.linspace(-1.5, 2.0, 8)
    p = x.abs() + 0.1
    return {
        "linspace": x,
        "odd": torch.linspace(0, 1, 7),
        "powers": torch.pow(p, 0.3) + torch.pow(2, x),
        "logs": p.log() + p.log2() + p.log1p() + p.log10(),
        "roots": p.sqrt() + p.rsqrt() + p.reciprocal(),
        "angles": x.sin() + x.cos() * x.tan() + torch.atan2(x, p),
        "hyperbolic": x.sinh() + x.cosh() + x.tanh(),
        "exps": x.exp() + x.expm1() + x.exp2() + x.erf(),
        "steps": x.floor() * 100 + x.ceil() * 10 + x.trunc() + x.sign(),
        "logistic": x.sigmoid() - x.relu() + x.square(),
    }


def real_lists():
    x = torch.linspace(-1.5, 2.0, 8)
    p = x.abs() + 0.1
    return {
        "extremes": torch.maximum(x, -x) - torch.minimum(x, x * 2),
        "clamp": x.clamp(-0.5, 0.7) + x.clamp(min=0),
        "where": torch.where(x > 0, x, 0.1),
        "infinite": torch.isinf(1 / (x - x[0])) | torch.isnan(x),
        "sums": x.cumsum(0) + x.mean() + x.sum() + x.amax() - x.amin(),
        "products": p.cumprod(0) + p.prod(),
    }


def moved():
    x = torch.arange(24).view(2, 3, 4)
    y = torch.arange(6.0).view(2, 3)
    a, b, c = x.unbind(1)
    d, e = x.split([1, 3], 2)
    f, g = x.chunk(2, -1)
    return {
        "permute": x.permute(2, 0, 1).reshape(4, 6),
        "transpose": y.t() + y.transpose(0, 1),
        "expand": y[:, None].expand(2, 4, 3).reshape(-1),
        "repeat": y.repeat(1, 2),
        "slice": x[:, 1:, ::2],
        "negative": x[..., -3:-1],
        "select": x[1, -1],
        "narrow": x.narrow(2, 1, 2),
        "unbind": a + b * c,
        "split": d + e,
        "chunk": f - g,
        "flip": x.flip(0, 2),
        "roll": x.roll((1, -3), (1, 2)),
    }


def moved_parts():
    x = torch.arange(24).view(2, 3, 4)
    y = torch.arange(6.0).view(2, 3)
    return {
        "pad": F.pad(y, (1, -1, 0, 2), value=9.0),
        "tril": y.tril(-1) + x.triu(1)[0, :2, :3],
        "eye": torch.eye(3) + torch.eye(3, 3),
        "squeeze": y[:1].squeeze(0).unsqueeze(-1),
        "any": (x > 5).any(1) & (x < 20).all(1),
    }


def chosen():
    t = torch.arange(12.0).view(3, 4)
    i, j = torch.tensor([2, 0]), torch.tensor([[1], [-1]])
    u = torch.arange(24).view(2, 3, 4)
    return {
        "rows": t[i],
        "pairs": t[i, j],
        "columns": t[:, i],
        "middle": u[:, i],
        "apart": u[i // 2, :, i],
        "index_select": t.index_select(1, i),
        "embedding": F.embedding(j.abs(), t),
        "cat": torch.cat([t, t[:1] * 2], 0),
        "stack": torch.stack([t, -t], 1),
        "xy": torch.meshgrid(torch.arange(2), torch.arange(3), indexing="xy")[1],
        "means": t.mean(1, keepdim=True) + t.sum(0),
        "gather": t.gather(1, torch.tensor([[3, 0], [1, 1]])),
        "diff": torch.diff(u, dim=1, prepend=u[:, :1] - 1, append=u[:, :2]),
    }


def changed():
    a = torch.zeros(3, 4)
    a[1] = 1
    a[:, 2].add_(5)
    a.t()[0, :2] = torch.tensor([7.0, 8.0])
    b = torch.ones(6)
    v = b.view(2, 3)
    w = v[1]
    b.mul_(3)
    v[0].sub_(1)
    c = torch.arange(6).reshape(2, 3)
    d = c.reshape(3, 2)
    d[0, 1] = 50
    e, f = torch.ones(2, 4).split(2, 1)
    f.fill_(4.0)
    e.copy_(f[:, :1])
    g = torch.ones(4)
    h = g.clone()
    g.neg_()
    k = torch.zeros(2, 2, dtype=torch.int64)
    k.unsqueeze(0)[0, 1].copy_(torch.tensor([1.7, 2.7]))
    m = torch.ones(3, 3).triu_(1).masked_fill_(torch.eye(3) > 0, 9)
    return {"rows": a, "view": w, "base": b, "reshape": c, "parts": e + f, "clone": g + h, "cast": k, "mask": m}


def masks():
    causal = torch.full((4, 4), float("-inf")).triu(1)
    ones = torch.ones(3, 3, dtype=torch.bool).tril()
    scores = torch.zeros(3, 3)
    scores.masked_fill_(ones.logical_not(), float("-inf"))
    cos, outer = rotary()
    return {
        "sinusoids": sinusoids(),
        "causal": causal,
        "scores": scores,
        "rotary": cos,
        "outer": outer,
    }


def swin():
    return {"swin": swin_mask(), "relative": relative()}


class Fold(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.make = make
        for name, value in make().items():
            self.register_buffer("want_" + name, value)

    def forward(self, x):
        return {"x": x * 2, **self.make()}


class FoldBatch(nn.Module):
    """Constants whose shape depends on the batch size; buffers that are folded or stay."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.tril(torch.ones(3, 3)))
        self.register_buffer("pe", torch.arange(12.0).view(1, 4, 3))
        self.fixed = torch.tensor([1.0, 2.0])
        self.register_buffer("want_cat", torch.tensor([[0.0, 0.0, 1.0]]))
        self.register_buffer("want_ids", torch.arange(3)[None])
        self.register_buffer("want_like", torch.full((1, 3), 2.5))
        self.register_buffer("want_eq", self.mask == 0)
        self.register_buffer("want_scaled", self.pe * 2)
        self.register_buffer("want_fixed", self.fixed * 3)
        self.register_buffer("want_heads", torch.ones(1, 2))
        self.register_buffer("want_own", torch.tensor([[0, 10, 20]])[:, None, [2, 0]])

    def forward(self, x):
        n = x.shape[0]
        return {
            "x": x * 2,
            "cat": torch.cat([torch.zeros(n, 2), torch.ones(n, 1)], 1),
            "ids": torch.arange(3).unsqueeze(0).expand(n, -1),
            "like": torch.full_like(x, 2.5),
            "eq": self.mask[:3, :3] == 0,
            "scaled": self.pe * 2,
            "fixed": self.fixed * 3,
            "heads": torch.ones(n * 4, 2),
            "own": (torch.arange(3) * 10).expand(n, -1)[torch.arange(n)[:, None, None], torch.tensor([2, 0])],
            "view": self.pe[:, 1:],
            "mixed": torch.ones(n, 2).sum(),
        }


# ---- files ----


def strip(model):
    """Removes what PyTorch stores of the caller, also in subgraphs."""
    if isinstance(model, dict):
        for key in "stack_trace", "torch_fn", "from_node", "custom":
            model.pop(key, None)
        for value in model.values():
            strip(value)
    if isinstance(model, list):
        for value in model:
            strip(value)


def program(model, inputs, shapes):
    exported = torch.export.export(model, inputs, dynamic_shapes=shapes)
    before, after = io.BytesIO(), io.BytesIO()
    torch.export.save(exported, before)
    with zipfile.ZipFile(before) as a, zipfile.ZipFile(after, "w", zipfile.ZIP_STORED) as b:
        for info in a.infolist():
            data = a.read(info)
            if "sample_inputs" in info.filename or "serialization_id" in info.filename:
                continue
            if info.filename.endswith(".json"):
                tree = json.loads(data)
                strip(tree)
                data = json.dumps(tree, separators=(",", ":")).encode()
            name = "program/" + info.filename.split("/", 1)[1]
            b.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return after.getvalue()


def main():
    out = Path(sys.argv[1])
    batch = torch.export.Dim("batch", min=2)
    any_size = torch.export.Dim.DYNAMIC
    x = torch.randn
    one = ({0: batch},)
    torch.manual_seed(0)
    models = {
        "graph": (Graph(), (torch.ones(2, 5, dtype=torch.long), x(2, 6)), ({0: batch}, {0: batch})),
        "arguments": (Arguments(), (x(2, 1, 7, 6),), one),
        "attention": (Attention(), (x(2, 5, 6),), one),
        "changes": (Changes(), (x(2, 4),), one),
        "random": (Random(), (x(2, 4),), one),
        "cast": (Cast(), (x(2, 4),), one),
        "fixed": (nn.Linear(4, 2), (x(3, 4),), None),
        "two": (nn.Linear(4, 2), (x(3, 5, 4),), ({0: any_size, 1: any_size},)),
        "memory": (SharedMemory(), (x(2, 4, 3),), one),
        "parameter": (Parameter(), (x(2, 4),), one),
        "position": (Position(), (x(3, 4),), one),
        "plus": (Twice(), (x(3, 4),), one),
        "fold_batch": (FoldBatch(), (x(2, 3),), one),
    }
    for make in whole, types, real, real_lists, moved, moved_parts, chosen, changed, masks, swin:
        models["fold_" + make.__name__] = (Fold(make), (x(2, 3),), one)
    for name, (model, inputs, shapes) in models.items():
        (out / f"{name}.pt2").write_bytes(program(model, inputs, shapes))


main()
