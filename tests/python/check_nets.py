"""Drawn networks of 5 to 15 layers, three steps each, beside PyTorch in float64.

    check_nets.py CTRAIN [NUMBER] [SEED] [DEVICE...]      prints TAP; NUMBER networks from SEED on (200, 1; cpu and ref)
    check_nets.py CTRAIN 1 SEED DEVICE --keep DIR         one of them, whose files stay in DIR

Layers, shapes, losses and numbers are drawn; compared are the losses of the steps, all gradients of the first one,
all weights and running statistics after the last, and the loss of an evaluation.
"""
import random
import sys

import torch
import torch.nn.functional as F
from torch import nn

from beside_torch import Case, Refused, compare

ACTS = {"relu": nn.ReLU, "relu6": nn.ReLU6, "gelu": nn.GELU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "silu": nn.SiLU}


class Sum(nn.Module):
    def forward(self, a, b):
        return a + b


class Join(nn.Module):
    def forward(self, a, b):
        return torch.cat((a, b), 2 if a.dim() == 3 else 1)


class Rows(nn.Module):
    """`sequence`"""

    def forward(self, x):
        return x.squeeze(1)


class Select(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.index = index

    def forward(self, x):
        return x[:, self.index]


class States(nn.LSTM):
    def forward(self, x):
        return super().forward(x)[0]


class GruStates(nn.GRU):
    def forward(self, x):
        return super().forward(x)[0]


class Attention(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)[0]


class Tokens(nn.Module):
    def __init__(self, features, places):
        super().__init__()
        self.class_token = nn.Parameter(torch.randn(1, 1, features))
        self.pos_embedding = nn.Parameter(torch.randn(1, 1 + places, features) / 4)

    def forward(self, x):
        x = x.flatten(2).transpose(1, 2)
        return torch.cat((self.class_token.expand(len(x), -1, -1), x), 1) + self.pos_embedding


class Net(nn.Module):
    """Layers by name; each reads the one before it, or those that it names."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def append(self, name, module, sources):
        self.add_module(name, module)
        self.steps.append((name, sources))

    def forward(self, x):
        outs = {None: x}
        for name, sources in self.steps:
            x = getattr(self, name)(*(outs[s] for s in sources))
            outs[name] = x
        return x


class Do(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *x):
        return self.function(*x)


class Drawing:
    def __init__(self, seed):
        self.r = random.Random(seed)
        torch.manual_seed(seed)
        self.net, self.layers, self.shapes, self.last, self.rename = Net(), [], {}, None, {}
        self.batch = self.r.choice([2, 3, 4, 7])
        self.kind = self.r.choices(["row", "image", "volume", "sequence"], [2, 5, 2, 3])[0]
        size = lambda low, high: self.r.randint(low, high)
        shape = {"row": (size(1, 20),), "image": (size(1, 6), size(3, 14), size(3, 14)),
                 "volume": (size(1, 4), size(2, 6), size(3, 7), size(3, 7)), "sequence": (1, size(1, 7), size(1, 12))}
        self.x = torch.randn(self.batch, *shape[self.kind]).float()
        self.now = tuple(self.x.shape)

    def add(self, kind, module, keys=None, sources=None):
        """A layer, if its output has a size that is not too large."""
        sources = sources or [self.last]
        inputs = [torch.zeros(self.shapes[s] if s else self.x.shape).double() for s in sources]
        module.eval()
        out = tuple(module(*inputs).shape)
        module.train()
        if min(out) < 1 or torch.Size(out).numel() > 6000 * self.batch:
            return False
        name = f"l{len(self.layers)}"
        entry = {kind: keys or {}, "name": name}
        if len(sources) > 1:
            entry["from"] = sources
        self.net.append(name, module.double(), sources)
        self.layers.append(entry)
        if kind == "tokens":  # whose class token has no layer before its name
            self.rename[name + ".class_token"] = "class_token"
        self.shapes[name], self.last, self.now = out, name, out
        return True

    def windows(self, axes, most=3):
        """Kernel, stride, padding of each axis, padding at most half of the kernel."""
        k = [self.r.randint(1, min(most, n)) for n in self.now[2:]]
        s = [self.r.choice([1, 1, 2, 3, a]) for a in k]
        return k, s, [self.r.randint(0, a // 2) for a in k]

    def conv(self):
        axes, c = len(self.now) - 2, self.now[1]
        k, s, p = self.windows(axes, 5 if self.r.random() < 0.3 else 3)
        p = [self.r.randint(0, a) for a in k] if self.r.random() < 0.2 else p
        d = [self.r.choice([1, 1, 1, 2]) if n + 2 * q > 2 * (a - 1) else 1 for n, a, q in zip(self.now[2:], k, p)]
        groups = self.r.choice([g for g in range(1, c + 1) if c % g == 0])
        out, bias = groups * self.r.randint(1, max(1, 12 // groups)), self.r.random() < 0.6
        make = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[axes]
        return self.add(f"conv{axes}d", make(c, out, k, s, p, d, groups, bias),
                        dict(out=out, kernel=k, stride=s, padding=p, dilation=d, groups=groups, bias=bias))

    def transposed(self):
        axes, c = len(self.now) - 2, self.now[1]
        k = [self.r.randint(1, 4) for _ in range(axes)]
        s, d = [self.r.choice([1, 2, 2, 3]) for _ in k], [self.r.choice([1, 1, 1, 2]) for _ in k]
        p, extra = [self.r.randint(0, a // 2) for a in k], [self.r.randrange(a) for a in s]
        groups = self.r.choice([g for g in range(1, c + 1) if c % g == 0])
        out, bias = groups * self.r.randint(1, max(1, 12 // groups)), self.r.random() < 0.6
        make = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}[axes]
        if any((n - 1) * b - 2 * q + e * (a - 1) + x < 0 for n, a, b, q, e, x in zip(self.now[2:], k, s, p, d, extra)):
            return False
        return self.add(f"conv_transpose{axes}d", make(c, out, k, s, p, extra, groups, bias, d),
                        dict(out=out, kernel=k, stride=s, padding=p, output_padding=extra, dilation=d, groups=groups,
                             bias=bias))

    def norm(self):
        if torch.Size(self.now).numel() // self.now[1] < 2 or len(self.now) == 3:
            return False
        eps, momentum = self.r.choice([1e-5, 1e-3]), self.r.choice([0.1, 0.3])
        m = {2: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(self.now)](self.now[1], eps, momentum)
        for tensor, low in ((m.weight, 0.5), (m.bias, -0.5), (m.running_mean, -0.5), (m.running_var, 0.5)):
            nn.init.uniform_(tensor, low, low + 1)
        return self.add("batchnorm", m, dict(eps=eps, momentum=momentum))

    def act(self):
        kind = self.r.choice([*ACTS, "leaky_relu"])
        if kind == "leaky_relu":
            return self.add(kind, nn.LeakyReLU(0.2), dict(negative_slope=0.2))
        return self.add(kind, ACTS[kind]())

    def group(self):
        values = torch.Size(self.now[1:]).numel()
        groups = self.r.choice([g for g in range(1, self.now[1] + 1) if self.now[1] % g == 0])
        if len(self.now) == 3 or values // groups < 4:
            return False
        affine = self.r.random() < 0.7
        each = len(self.now) > 3 and groups == self.now[1]
        kind, keys = ("instancenorm", {}) if each else ("groupnorm", dict(num_groups=groups))
        make = nn.InstanceNorm2d if len(self.now) == 4 else nn.InstanceNorm3d
        m = make(self.now[1], affine=affine) if each else nn.GroupNorm(groups, self.now[1], affine=affine)
        for tensor, low in ((m.weight, 0.5), (m.bias, -0.5)) if affine else ():
            nn.init.uniform_(tensor, low, low + 1)
        return self.add(kind, m, dict(keys, affine=affine))

    def pool(self):
        axes = len(self.now) - 2
        k, s, p = self.windows(axes)
        keys, maximum = dict(padding=p, ceil_mode=self.r.random() < 0.3), self.r.random() < 0.6
        if maximum:
            keys["dilation"] = [1 if n + 2 * q < 2 * a - 1 else self.r.choice([1, 1, 2])
                                for n, a, q in zip(self.now[2:], k, p)]
        else:
            keys["count_include_pad"] = self.r.random() < 0.5
            if axes > 1 and self.r.random() < 0.2:
                keys["divisor_override"] = self.r.randint(1, 5)
        m = getattr(nn, f"{'Max' if maximum else 'Avg'}Pool{axes}d")(k, s, **keys)
        word = {1: "pool1d", 2: "pool", 3: "pool3d"}[axes]
        return self.add(("max" if maximum else "avg") + word, m, dict(keys, kernel=k, stride=s))

    def whole(self):
        axes, word = len(self.now) - 2, self.r.choice(["Avg", "Max"])
        if self.r.random() < 0.6:
            out = [self.r.randint(1, n + 1) for n in self.now[2:]]
            return self.add(f"adaptive_{word.lower()}pool", getattr(nn, f"Adaptive{word}Pool{axes}d")(out), dict(out=out))
        return self.add("global_avgpool", getattr(nn, f"AdaptiveAvgPool{axes}d")(1))

    def upsample(self):
        axes, sized = len(self.now) - 2, self.r.random() < 0.5
        mode = self.r.choice(["nearest", "nearest-exact", "linear", "linear", "area"] + ["bicubic"] * (axes == 2))
        keys = {"size": [self.r.randint(1, 2 * n) for n in self.now[2:]]} if sized else {"scale": self.r.choice([2, 1.5])}
        names = {"linear": ["linear", "bilinear", "trilinear"][axes - 1]}
        corners = {"align_corners": self.r.random() < 0.4} if mode in ("linear", "bicubic") else {}
        torch_keys = {"scale_factor" if k == "scale" else k: v for k, v in keys.items()}
        return self.add("upsample", nn.Upsample(mode=names.get(mode, mode), **torch_keys, **corners),
                        dict(keys, mode=mode, **corners))

    def linear(self):
        out, bias = self.r.randint(1, 24), self.r.random() < 0.7
        return self.add("linear", nn.Linear(self.now[-1], out, bias), dict(out=out, bias=bias))

    def layernorm(self):
        if self.now[-1] < 2:
            return False
        return self.add("layernorm", nn.LayerNorm(self.now[-1]))

    def over(self):
        """An op over some dims that keeps the number of dims."""
        axes = range(1, len(self.now))
        dim, some = self.r.choice(axes), self.r.sample(axes, self.r.randint(1, len(axes)))
        kind = self.r.choice(["softmax", "log_softmax", "cumsum", "mean", "logsumexp", "norm"])
        if kind in ("softmax", "log_softmax", "cumsum"):
            return self.add(kind, Do(lambda x: getattr(torch, kind)(x, dim)), dict(dim=dim))
        if min(self.now[d] for d in some) < 2:
            return False
        norm = lambda x: torch.linalg.vector_norm(x, 2, some, keepdim=True)
        make = norm if kind == "norm" else lambda x: getattr(torch, kind)(x, some, keepdim=True)
        return self.add(kind, Do(make), dict(dims=some, keepdim=True))

    def product(self):
        """The products of a sequence's steps with each other, or attention of it with itself."""
        pair = [self.last, self.last]
        if self.r.random() < 0.5:
            return self.add("matmul", Do(lambda a, b: a @ b.transpose(1, 2)), dict(transpose_b=True), pair)
        causal = self.r.random() < 0.5
        attend = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.add("sdpa", Do(attend), dict(causal=causal), pair + [self.last])

    def attention(self):
        heads = self.r.choice([h for h in (1, 2, 3, 4) if self.now[2] % h == 0])
        return self.add("attention", Attention(self.now[2], heads, batch_first=True), dict(heads=heads))

    def lstm(self):
        hidden, bias = self.r.randint(1, 12), self.r.random() < 0.7
        kind, make = self.r.choice([("lstm", States), ("gru", GruStates)])
        return self.add(kind, make(self.now[2], hidden, batch_first=True, bias=bias), dict(hidden=hidden, bias=bias))

    def select(self):
        index = self.r.choice([-1, self.r.randrange(self.now[1])])
        return self.add("select", Select(index), dict(index=index))

    def tokens(self):
        return not self.rename and self.add("tokens", Tokens(self.now[1], self.now[2] * self.now[3]))

    def two(self, kind, module, fits, keys=None):
        others = [n for n, s in self.shapes.items() if n != self.last and len(s) == len(self.now) and fits(s)]
        if not others:
            return False
        pair = [self.r.choice(others), self.last]
        self.r.shuffle(pair)
        return self.add(kind, module, keys, sources=pair)

    def sum(self):
        return self.two("add", Sum(), lambda s: s == self.now)

    def join_along(self):
        dim = self.r.randrange(1, len(self.now))
        return self.two("concat", Do(lambda *x: torch.cat(x, dim)), lambda s: all(a == b for i, (a, b) in enumerate(zip(s, self.now)) if i != dim),
                        dict(dim=dim))

    def join(self):
        along = 2 if len(self.now) == 3 else 1
        return self.two("concat", Join(), lambda s: all(a == b for i, (a, b) in enumerate(zip(s, self.now)) if i != along))

    def flatten(self):
        return self.add("flatten", nn.Flatten())

    def move(self):
        """Elements at other places: every kind keeps the number of dims, and the batch its place."""
        dims, r = len(self.now), self.r
        dim = r.randrange(1, dims)
        n = self.now[dim]
        kind = r.choice(["permute", "slice", "pad", "roll", "flip", "repeat", "windows"])
        if kind == "permute":
            order = [0] + r.sample(range(1, dims), dims - 1)
            return self.add(kind, Do(lambda x: x.permute(order)), dict(dims=order))
        if kind == "slice":
            start, step = r.randrange(n), r.randint(1, 3)
            end = r.randint(start + 1, n + 2)
            return self.add(kind, Do(lambda x: x.movedim(dim, 0)[start:end:step].movedim(0, dim)),
                            dict(dim=r.choice([dim, dim - dims]), start=start, end=end, step=step))
        if kind == "pad":
            mode = r.choice(["constant", "reflect", "replicate", "circular"]) if dims > 2 else "constant"
            most = [2 if mode in ("constant", "replicate") else m - (mode == "reflect") for m in self.now[:1:-1] or self.now[:0:-1]]
            pad = [r.randint(0, min(2, m)) for m in most for _ in range(2)]
            more = dict(value=r.choice([0, -1.5])) if mode == "constant" else {}
            return self.add(kind, Do(lambda x: F.pad(x, pad, mode, **more)), dict(pad=pad, mode=mode, **more))
        if kind == "roll":
            shift = r.randint(-n, n)
            return self.add(kind, Do(lambda x: x.roll(shift, dim)), dict(shifts=shift, dims=dim))
        if kind == "flip":
            return self.add(kind, Do(lambda x: x.flip(dim)), dict(dims=dim))
        if kind == "repeat":
            counts = [1] + [r.choice([1, 1, 2]) for _ in self.now[1:]]
            return self.add(kind, Do(lambda x: x.repeat(counts)), dict(counts=counts))
        if dims == 5:
            return False
        size, step = r.randint(1, n), r.randint(1, 2)
        return self.add(kind, Do(lambda x: x.unfold(dim, size, step)), dict(dim=dim, size=size, step=step))

    def grow(self):
        image = [self.conv] * 4 + [self.transposed, self.norm, self.norm, self.group, self.act, self.act, self.pool, self.pool, self.upsample, self.sum,
                                                     self.sum, self.join]
        choices = {
            2: [self.linear, self.linear, self.norm, self.group, self.act, self.act, self.layernorm, self.sum, self.join],
            3: [self.linear, self.layernorm, self.attention, self.attention, self.lstm, self.lstm, self.act, self.sum,
                self.sum, self.join, self.join, self.conv, self.conv, self.transposed, self.pool, self.whole, self.upsample,
                self.over, self.product],
            4: image + [self.over] * (len(self.layers) > 3) + [self.whole, self.tokens] * (len(self.layers) > 3),
            5: image + [self.whole] * (len(self.layers) > 3),
        }
        if self.r.random() < 0.25:
            self.r.choice([self.move, self.move, self.join_along])()
        else:
            self.r.choice(choices[len(self.now)])()

    def head(self):
        """Down to rows of outputs."""
        if len(self.now) == 3 and self.r.random() < 0.5:
            self.select()
        if len(self.now) > 2:
            self.flatten()
        kind, k = self.r.choice(["cross_entropy", "cross_entropy", "mse", "l1", "bce"]), self.r.randint(2, 9)
        self.add("linear", nn.Linear(self.now[1], k), dict(out=k))
        if kind == "cross_entropy":
            labels = torch.randint(0, k, (self.batch,))
            labels[0] = 0
            weights = [self.r.choice([0.5, 1.0, 2.0, 0.0]) if c else 1.0 for c in range(k)]
            keys = {"kind": kind, "label_smoothing": self.r.choice([0, 0, 0.1, 1]), "class_weights": weights}
            return keys, labels, lambda y, t: F.cross_entropy(y, t, torch.tensor(weights, dtype=y.dtype),
                                                              label_smoothing=keys["label_smoothing"])
        target = (torch.rand if kind == "bce" else torch.randn)(self.batch, k).float().double()
        loss = {"mse": F.mse_loss, "l1": F.l1_loss, "bce": F.binary_cross_entropy_with_logits}[kind]
        return {"kind": kind}, target, loss

    def case(self):
        layers = self.r.randint(5, 15)
        if self.kind == "sequence":
            self.add("sequence", Rows())
        while len(self.layers) < layers - 2:
            self.grow()
        keys, target, loss = self.head()
        return Case(self.layers, self.net, self.x, target, keys, loss, rename=self.rename,
                    keys={"model": {"classes": self.now[1]}} if keys["kind"] == "cross_entropy" else {})


def main(program, number=200, seed=1, *devices):
    keep = None
    if "--keep" in devices:
        *devices, _, keep = devices
    print(f"1..{number}")
    for i in range(int(seed), int(seed) + int(number)):
        case = Drawing(i).case()
        words = " ".join(next(iter(layer)) for layer in case.layers)
        ok = True
        for device in devices or ("cpu", "ref"):
            try:
                wrong = compare(case, program, device, keep=keep)
            except Refused as e:
                wrong = str(e)
            if wrong:
                ok = False
                print(f"# {device}: {wrong}")
        print(f"{'ok' if ok else 'not ok'} {i - int(seed) + 1} - network {i}: {words}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
