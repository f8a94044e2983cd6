#!/usr/bin/env python3
"""Makes tests/golden/models/op-*.gold: one kind of layer per file, forward and gradients of PyTorch in float64.

    pip install torch numpy; tests/golden/make_ops.py tests/golden/models [NAME...]

It makes all cases, or those whose name or kind is NAME.  The format is make_golden.py's, so t_golden.c runs the files.
`--list` prints the names.

A case is a model for samples of a small drawn shape: one or more layers `in`, `in2`, ... with weights of their own (a
linear layer, or a convolution with a kernel of 1), the layers of the case, and a linear layer to 10 outputs.  If the
gradients of `in.weight`, `in2.weight`, ... are right, so are the op's gradients with respect to its inputs.

The configuration and the PyTorch function of a case are written separately.  A case whose function has kinks (`relu`,
`maximum`, `floor`) takes the batch whose inputs stay farthest away from them: of SEEDS batches that for which PyTorch's
gradients in float32 and in float64 are nearest.  They must be within NEAR, ten times less than t_golden allows.
"""
import sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

sys.dont_write_bytecode = True
from make_golden import PROJ, SGD, batch, head, noise, write

ON = "ref cpu emu gpu san-ref san-cpu"
CAP, SEEDS, STEPS, NEAR = 8, 60, 4, 1e-5
CASES = {}


# ---- what a case is made of ------------------------------------------------------------------
def flow(v):
    """A value of YAML in one line."""
    if isinstance(v, dict):
        return "{" + ", ".join(f"{k}: {flow(w)}" for k, w in v.items()) + "}"
    if isinstance(v, (list, tuple)):
        return "[" + ", ".join(map(flow, v)) + "]"
    return {True: "true", False: "false"}[v] if isinstance(v, bool) else str(v)


def layer(kind, name=None, of=None, **options):
    """An item of `model.layers`."""
    text = f"- {kind}:" + (f" {flow(options)}" if options else "") + "\n"
    text += f"  name: {name}\n" if name else ""
    return text + (f"  from: {flow(of)}\n" if of else "")


class Start:
    """What the layers `in` are, for samples of a shape."""

    def __init__(self, kind, shape, out):
        self.kind, self.shape, self.out = kind, shape, out

    def module(self):
        make = {"row": nn.Linear, "sequence": nn.Linear, "image": nn.Conv2d, "volume": nn.Conv3d}[self.kind]
        width = self.shape[-1] if make is nn.Linear else self.shape[0]
        return make(width, self.out) if make is nn.Linear else make(width, self.out, 1)

    def read(self, x):
        return x.squeeze(1) if self.kind == "sequence" else x

    def text(self, count):
        kind, options = {"row": ("linear", {}), "sequence": ("linear", {}), "image": ("conv2d", {"kernel": 1}),
                         "volume": ("conv3d", {"kernel": 1})}[self.kind]
        first = layer("sequence", "rows") if self.kind == "sequence" else ""
        of = "rows" if first else "input"
        return first + "".join(layer(kind, branch(i), of, out=self.out, **options) for i in range(count))


def branch(i):
    return f"in{i + 1}" if i else "in"


def row(features=5, out=6):
    return Start("row", (features,), out)


def sequence(steps=4, features=3, out=5):
    """N x steps x out."""
    return Start("sequence", (1, steps, features), out)


def image(channels=2, height=5, width=6, out=3):
    """N x out x height x width."""
    return Start("image", (channels, height, width), out)


def volume(channels=1, depth=3, height=4, width=5, out=2):
    return Start("volume", (channels, depth, height, width), out)


class Net(nn.Module):
    def __init__(self, start, branches, function, modules, parameters):
        super().__init__()
        self.start, self.branches, self.function = start, branches, function
        for i in range(branches):
            setattr(self, branch(i), start.module())
        for name, m in modules.items():
            setattr(self, name, m)
        for name, shape in parameters.items():
            setattr(self, name, nn.Parameter(torch.zeros(shape)))
        self.fc = nn.Linear(self.features(torch.ones(2, *start.shape)).shape[1], 10)

    def features(self, x):
        self.given = x = self.start.read(x)
        inputs = [getattr(self, branch(i))(x) for i in range(self.branches)] or [x]
        return self.function(self, *inputs).flatten(1)

    def forward(self, x):
        return self.fc(self.features(x))


class Scale(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        if bias:
            self.bias = nn.Parameter(torch.zeros(width))


def case(name, start, layers, function, modules=None, parameters=None, branches=1, init=None):
    """layers: items of the configuration between `in` and the end; function(net, in, in2, ...): the same in PyTorch.

    modules, parameters: further members of the net {name: module}, {name: shape}, whose names are those of the
    program's parameters.  init: {name: (scale, shift)} where the usual ones do not do."""
    if name in CASES:
        raise ValueError(f"two cases {name}")
    CASES[name] = (start, layers, function, modules or {}, parameters or {}, branches, init or {})


# ---- making one ------------------------------------------------------------------------------
def fill(net, own):
    """A scale, a shift and a seed for each parameter, and its values."""
    table = {}
    for k, (name, p) in enumerate(net.named_parameters()):
        scale, shift = (np.sqrt(12.0 / p[0].numel()), 0) if p.dim() > 1 else (0.2, 0)
        if p.dim() == 1 and name.endswith("weight"):
            scale, shift = 0.5, 1
        scale, shift = own.get(name, (scale, shift))
        table[name] = (np.float32(scale), np.float32(shift), 1000 + k)
        value = np.float32(scale) * noise(1000 + k, p.numel()) + np.float32(shift)
        p.data = torch.from_numpy(value.astype(np.float32)).view_as(p).clone()
    return table


def gradients(net, x, y):
    net.zero_grad()
    out = net(x)
    loss = F.cross_entropy(out, y)
    loss.backward()
    for p in net.parameters():  # those that nothing depends on decay all the same
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
    return out, loss, {k: p.grad.detach().double().numpy().ravel() for k, p in net.named_parameters()}


def spread(net, twin, seed, n, shape):
    """How far the gradients in float32 are from those in float64."""
    x, y = batch(seed, n, shape)
    want, got = gradients(net, x.double(), y)[2], gradients(twin, x, y)[2]
    norm = {k: np.linalg.norm(v) for k, v in want.items()}
    far = [np.linalg.norm(got[k] - v) / norm[k] for k, v in want.items() if norm[k] >= 1e-5]
    return max(far) if far and np.all(np.isfinite(far)) else float("inf")


def make_case(path, name):
    start, layers, function, modules, parameters, branches, own = CASES[name]
    torch.manual_seed(0)
    twin = Net(start, branches, function, modules, parameters)
    init = fill(twin, own)
    net = Net(start, branches, function, modules, parameters)
    net.load_state_dict(twin.state_dict())
    twin, net, n = twin.float(), net.double(), 3
    if modules:  # which the two share: the float32 net gets copies
        import copy
        twin = copy.deepcopy(net).float()
    far, seed = min((spread(net, twin, s, n, start.shape), s) for s in range(100, 100 + SEEDS))
    if not far <= NEAR:
        raise SystemExit(f"{name}: the gradients in float32 are {far} away: choose another shape")
    text = "layers:\n" + start.text(branches) + "".join(layers) + layer("flatten", "flat") + layer("linear", "fc", out=10)
    records = head(ON, text, start.shape, 6, np.float32(0.01)) + [("init/" + k, v) for k, v in init.items()]
    x, y = batch(seed, n, start.shape)
    out, loss, grad = gradients(net, x.double(), y)
    records += [("batch", [seed, n]), ("cap", [CAP]), ("logits", out.detach().numpy().ravel()), ("loss", [loss.item()])]
    for k, g in grad.items():
        if np.linalg.norm(g) < 1e-5:
            records.append(("zero/" + k, [0]))
            continue
        records.append(("grad/" + k, g[:: -(-g.size // CAP)]))
        signs = [np.where(noise(5000 + j, g.size) < 0, -1.0, 1.0) for j in range(PROJ)]
        records.append(("proj/" + k, [s @ g / np.linalg.norm(g) for s in signs]))
    optim, losses = torch.optim.SGD(net.parameters(), lr=float(np.float32(0.01)), **SGD), []
    for step in range(STEPS):
        x, y = batch(step, 6, start.shape)
        loss = gradients(net, x.double(), y)[1]
        optim.step()
        losses.append(loss.item())
    if not np.all(np.isfinite(losses)):
        raise SystemExit(f"{name}: the losses are not finite")
    write(path, records + [("losses", losses)])
    print(path, "torch", torch.__version__, "float32", f"{far:.1e}", "losses", losses[0], "->", losses[-1])


# ---- elementwise, one input ------------------------------------------------------------------
def unary(kind, function, start=None, name=None, before=None, **options):
    """before: (kind, options, function) of a layer that brings the numbers where the op is defined."""
    layers = ([layer(before[0], **before[1])] if before else []) + [layer(kind, **options)]
    case(name or kind, start or row(6, 8), layers, lambda net, x: function(before[2](x) if before else x))


SIGMOID = ("sigmoid", {}, torch.sigmoid)
TANH = ("tanh", {}, torch.tanh)
for kind, function, before in [
    ("exp", torch.exp, None), ("expm1", torch.expm1, None), ("log", torch.log, SIGMOID), ("log1p", torch.log1p, SIGMOID),
    ("sin", torch.sin, None), ("cos", torch.cos, None), ("tan", torch.tan, TANH), ("asin", torch.asin, TANH),
    ("acos", torch.acos, TANH), ("atan", torch.atan, None), ("sinh", torch.sinh, None), ("cosh", torch.cosh, None),
    ("sqrt", torch.sqrt, SIGMOID), ("rsqrt", torch.rsqrt, SIGMOID), ("abs", torch.abs, None), ("neg", torch.neg, None),
    ("reciprocal", torch.reciprocal, SIGMOID), ("square", torch.square, None), ("erf", torch.erf, None),
    ("selu", F.selu, None), ("mish", F.mish, None), ("hardswish", F.hardswish, None),
    ("hardsigmoid", F.hardsigmoid, None), ("logsigmoid", F.logsigmoid, None), ("softsign", F.softsign, None),
    ("tanhshrink", F.tanhshrink, None), ("gelu", F.gelu, None), ("silu", F.silu, None),
    ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), None),
]:
    unary(kind, function, before=before)
# derivative zero: the product with the input shows the values
for kind, function in [("sign", torch.sign), ("floor", torch.floor), ("ceil", torch.ceil), ("round", torch.round),
                       ("logical_not", lambda x: torch.logical_not(x).to(x.dtype))]:
    clipped = kind == "logical_not"  # half of the numbers are zero
    case(kind, row(6, 8),
         ([layer("relu", "r", "in")] if clipped else []) + [layer(kind, "k", "r" if clipped else "in"),
                                                            layer("mul", of=["k", "in"])],
         lambda net, x, f=function, c=clipped: f(F.relu(x) if c else x) * x)
unary("softplus", lambda x: F.softplus(x, 3, 2), beta=3, threshold=2)
unary("softplus", F.softplus, name="softplus-default")
unary("elu", lambda x: F.elu(x, 0.7), alpha=0.7)
unary("celu", lambda x: F.celu(x, 0.7), alpha=0.7)
unary("hardtanh", lambda x: F.hardtanh(x, -0.5, 0.8), min=-0.5, max=0.8)
unary("clamp", lambda x: x.clamp(-0.3, 0.9), min=-0.3, max=0.9)
unary("clamp", lambda x: x.clamp(min=-0.3), name="clamp-min", min=-0.3)
unary("clamp", lambda x: x.clamp(max=0.4), name="clamp-max", max=0.4)
unary("hardshrink", lambda x: F.hardshrink(x, 0.4), **{"lambda": 0.4})
unary("softshrink", lambda x: F.softshrink(x, 0.4), **{"lambda": 0.4})
unary("threshold", lambda x: F.threshold(x, 0.2, -0.6), threshold=0.2, value=-0.6)
case("prelu-1", image(), [layer("prelu", "act", channels=1)], lambda net, x: net.act(x), {"act": nn.PReLU(1)},
     init={"act.weight": (0.2, 0.3)})
case("prelu-channels", image(), [layer("prelu", "act", channels=3)], lambda net, x: net.act(x), {"act": nn.PReLU(3)},
     init={"act.weight": (0.5, 0.3)})
case("prelu-rows", row(), [layer("prelu", "act", channels=6)], lambda net, x: net.act(x), {"act": nn.PReLU(6)},
     init={"act.weight": (0.5, 0.3)})

for name, start, width, shape, options, init in (("scale", image(), 3, (3, 1, 1), {"init": 1e-6}, {}),
                                                 ("scale-rows", row(), 6, (6,), {"bias": True}, {"act.bias": (1, 0)}),
                                                 ("scale-bias", volume(), 2, (2, 1, 1, 1), {"bias": True}, {}),
                                                 ("scale-last", sequence(), 5, (5,), {"dim": -1, "bias": True}, {})):
    case(name, start, [layer("scale", "act", **options)],
         lambda net, x, s=shape: x * net.act.weight.view(s) + (net.act.bias.view(s) if hasattr(net.act, "bias") else 0),
         {"act": Scale(width, options.get("bias"))}, init={"act.weight": (0.5, 1), **init})

# ---- elementwise, two inputs -----------------------------------------------------------------
POSITIVE = [layer("sigmoid", "a", "in")]
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "minimum": torch.minimum, "maximum": torch.maximum,
          "atan2": torch.atan2}
for kind, function in BINARY.items():
    case(kind, row(), [layer(kind, of=["in", "in2"])], lambda net, a, b, f=function: f(a, b), branches=2)
case("div", row(), [layer("sigmoid", "b", "in2"), layer("div", of=["in", "b"])],
     lambda net, a, b: a / torch.sigmoid(b), branches=2)
case("pow", row(), POSITIVE + [layer("pow", of=["a", "in2"])], lambda net, a, b: torch.sigmoid(a) ** b, branches=2)
case("fmod", row(), [layer("sigmoid", "b", "in2"), layer("fmod", of=["in", "b"])],
     lambda net, a, b: torch.fmod(a, torch.sigmoid(b)), branches=2)
for kind in ("eq", "ne", "lt", "le", "gt", "ge"):
    function = getattr(torch, kind)
    if kind in ("eq", "ne"):  # of numbers that are often equal
        case(kind, row(), [layer("relu", "a", "in"), layer("relu", "b", "in2"), layer(kind, "k", ["a", "b"]),
                           layer("mul", of=["k", "in"])],
             lambda net, a, b, f=function: f(F.relu(a), F.relu(b)).to(a.dtype) * a, branches=2)
    else:
        case(kind, row(), [layer(kind, "k", ["in", "in2"]), layer("mul", of=["k", "in"])],
             lambda net, a, b, f=function: f(a, b).to(a.dtype) * a, branches=2)
    case(f"{kind}-value", row(), [layer(kind, "k", "in", value=0.25), layer("mul", of=["k", "in"])],
         lambda net, a, f=function: f(a, 0.25).to(a.dtype) * a)
for kind in ("logical_and", "logical_or"):
    function = getattr(torch, kind)
    case(kind, row(), [layer("relu", "a", "in"), layer("relu", "b", "in2"), layer(kind, "k", ["a", "b"]),
                       layer("mul", of=["k", "in"])],
         lambda net, a, b, f=function: f(F.relu(a), F.relu(b)).to(a.dtype) * a, branches=2)
for kind, function in {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}.items():
    case(f"{kind}-value", row(), [layer(kind, of="in", value=1.7)], lambda net, a, f=function: f(a, 1.7))
case("maximum-value", row(), [layer("maximum", of="in", value=0.3)], lambda net, a: a.clamp(min=0.3))
case("minimum-value", row(), [layer("minimum", of="in", value=0.3)], lambda net, a: a.clamp(max=0.3))
case("sub-reverse", row(), [layer("sub", of="in", value=1.7, reverse=True)], lambda net, a: 1.7 - a)
case("div-reverse", row(), [layer("sigmoid", "a"), layer("div", of="a", value=1.7, reverse=True)],
     lambda net, a: 1.7 / torch.sigmoid(a))
case("pow-2", row(), [layer("pow", of="in", value=2)], lambda net, a: a ** 2)
case("pow-3", row(), [layer("pow", of="in", value=3)], lambda net, a: a ** 3)
case("pow-half", row(), POSITIVE + [layer("pow", of="a", value=-0.5)], lambda net, a: torch.sigmoid(a) ** -0.5)
case("pow-reverse", row(), [layer("pow", of="in", value=2, reverse=True)], lambda net, a: 2.0 ** a)
case("atan2-value", row(), [layer("atan2", of="in", value=0.5)], lambda net, a: torch.atan2(a, torch.full_like(a, 0.5)))
case("fmod-value", row(), [layer("fmod", of="in", value=0.75)], lambda net, a: torch.fmod(a, 0.75))
# broadcasting: over pixels, over channels, of an expression of weights, both ways at once, with fewer dims
case("mul-pixels", image(), [layer("mean", "m", "in2", dims=[2, 3], keepdim=True), layer("mul", of=["in", "m"])],
     lambda net, a, b: a * b.mean((2, 3), keepdim=True), branches=2)
case("add-channels", image(), [layer("mean", "m", "in2", dims=[1], keepdim=True), layer("add", of=["in", "m"])],
     lambda net, a, b: a + b.mean(1, keepdim=True), branches=2)
case("sub-outer", image(), [layer("mean", "r", "in", dims=[2], keepdim=True), layer("mean", "c", "in2", dims=[3], keepdim=True),
                            layer("sub", of=["r", "c"])],
     lambda net, a, b: a.mean(2, keepdim=True) - b.mean(3, keepdim=True), branches=2)
case("mul-parameter", image(), [layer("parameter", "gamma", shape=[3, 1, 1]), layer("mul", of=["in", "gamma"])],
     lambda net, a: a * net.gamma, parameters={"gamma": (3, 1, 1)})
case("mul-scalar-parameter", sequence(), [layer("parameter", "alpha", shape=[1]), layer("mul", of=["alpha", "in"])],
     lambda net, a: net.alpha * a, parameters={"alpha": (1,)}, init={"alpha": (0.5, 1)})
case("add-positions", sequence(), [layer("parameter", "pos", shape=[1, 4, 5]), layer("add", of=["in", "pos"])],
     lambda net, a: a + net.pos, parameters={"pos": (1, 4, 5)})
case("div-parameter", sequence(), [layer("parameter", "s", shape=[5]), layer("exp", "e", "s"), layer("div", of=["in", "e"])],
     lambda net, a: a / net.s.exp(), parameters={"s": (5,)})
case("maximum-parameter", sequence(), [layer("parameter", "m", shape=[4, 1]), layer("maximum", of=["m", "in"])],
     lambda net, a: torch.maximum(net.m, a), parameters={"m": (4, 1)}, init={"m": (1, 0)})
case("pow-parameter", image(), [layer("sigmoid", "a", "in"), layer("parameter", "p", shape=[3, 1, 1]),
                                layer("pow", of=["a", "p"])],
     lambda net, a: torch.sigmoid(a) ** net.p, parameters={"p": (3, 1, 1)}, init={"p": (1, 2)})
case("where", row(), [layer("gt", "c", "in", value=0.1), layer("where", of=["c", "in", "in2"])],
     lambda net, a, b: torch.where(a > 0.1, a, b), branches=2)
case("where-broadcast", image(), [layer("mean", "m", "in", dims=[1], keepdim=True), layer("gt", "c", "m", value=0),
                                  layer("parameter", "p", shape=[3, 1, 1]), layer("where", of=["c", "p", "in2"])],
     lambda net, a, b: torch.where(a.mean(1, keepdim=True) > 0, net.p, b), branches=2, parameters={"p": (3, 1, 1)})
case("where-value", row(), [layer("gt", "c", "in2", value=0.1), layer("where", of=["c", "in"], value=-2.5)],
     lambda net, a, b: a.masked_fill(b > 0.1, -2.5), branches=2)

case("where-masked", sequence(), [layer("gt", "c", "in2", value=1), layer("where", of=["c", "in"], value="-inf"),
                                  layer("softmax", dim=1)],
     lambda net, a, b: a.masked_fill(b > 1, -float("inf")).softmax(1), branches=2)
case("detach", row(), [layer("detach", "d", "in"), layer("mul", of=["d", "in2"])], lambda net, a, b: a.detach() * b,
     branches=2)

# ---- reductions ------------------------------------------------------------------------------
for kind, function in {"sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "amin": torch.amin,
                       "logsumexp": torch.logsumexp}.items():
    for name, dims, keepdim in [("", [2, 3], False), ("-middle", [1], True), ("-outer", [1, 3], False), ("-last", [-1], False)]:
        if name == "-outer" and kind in ("amin", "logsumexp"):
            continue
        case(kind + name, image(), [layer(kind, dims=dims, keepdim=keepdim)],
             lambda net, x, f=function, d=dims, k=keepdim: f(x, d, keepdim=k))
case("prod", image(), [layer("prod", dims=[2], keepdim=False)], lambda net, x: x.prod(2))
for p in (1, 2, 3, "inf"):
    case(f"norm-{p}", image(), [layer("norm", p=p, dims=[1], keepdim=True)],
         lambda net, x, p=float(p): torch.linalg.vector_norm(x, p, 1, keepdim=True))
case("norm-dims", image(), [layer("norm", p=2, dims=[2, 3], keepdim=False)],
     lambda net, x: torch.linalg.vector_norm(x, 2, (2, 3)))
for kind in ("var", "std"):
    function = getattr(torch, kind)
    case(kind, image(), [layer(kind, correction=1, dims=[2, 3], keepdim=True)],
         lambda net, x, f=function: f(x, (2, 3), correction=1, keepdim=True))
    case(f"{kind}-0", image(), [layer(kind, correction=0, dims=[1], keepdim=False)],
         lambda net, x, f=function: f(x, 1, correction=0))
for kind in ("max", "min"):
    function = getattr(torch, kind)
    case(kind, image(), [layer(kind, dim=2, keepdim=False)], lambda net, x, f=function: f(x, 2)[0])
    case(f"{kind}-keepdim", sequence(), [layer(kind, dim=1, keepdim=True)], lambda net, x, f=function: f(x, 1, True)[0])
case("max-equal", row(), [layer("relu", "r"), layer("max", dim=1, keepdim=True)], lambda net, x: F.relu(x).max(1, True)[0])
case("weight-mean", image(), [layer("parameter", "w", shape=[3, 4]), layer("mean", "m", "w", dims=[1], keepdim=False),
                              layer("reshape", "r", "m", shape=[3, 1, 1]), layer("mul", of=["in", "r"])],
     lambda net, x: x * net.w.mean(1).reshape(3, 1, 1), parameters={"w": (3, 4)})
for kind, function in {"softmax": torch.softmax, "log_softmax": torch.log_softmax}.items():
    for name, dim in [("", -1), ("-channels", 1), ("-middle", 2)]:
        case(kind + name, image(), [layer(kind, dim=dim)], lambda net, x, f=function, d=dim: f(x, d))
for name, dim in [("", 1), ("-last", -1)]:
    case("cumsum" + name, image(), [layer("cumsum", dim=dim)], lambda net, x, d=dim: x.cumsum(d))

# ---- shapes ----------------------------------------------------------------------------------
case("reshape", image(out=4), [layer("reshape", shape=["N", 2, 2, 30]), layer("softmax", dim=2)],
     lambda net, x: x.reshape(-1, 2, 2, 30).softmax(2))
case("reshape-batch", image(out=4), [layer("reshape", shape=["4N", 5, 6]), layer("softmax", dim=1),
                                     layer("reshape", shape=["N", -1])],
     lambda net, x: x.reshape(-1, 5, 6).softmax(1).reshape(len(x), -1))
case("reshape-8", image(out=4), [layer("reshape", shape=["N", 2, 2, 5, 1, 3, 2, 1]), layer("softmax", dim=5)],
     lambda net, x: x.reshape(-1, 2, 2, 5, 1, 3, 2, 1).softmax(5))
for name, dims in [("", [0, 3, 1, 2]), ("-last", [0, 1, 3, 2]), ("-all", [0, 3, 2, 1])]:
    case("permute" + name, image(), [layer("permute", dims=dims)], lambda net, x, d=dims: x.permute(d))
case("permute-batch", sequence(), [layer("permute", dims=[1, 0, 2]), layer("tanh"), layer("permute", dims=[1, 2, 0])],
     lambda net, x: x.permute(1, 0, 2).tanh().permute(1, 2, 0))
case("permute-6", image(out=4), [layer("reshape", shape=["N", 2, 2, 5, 2, 3]), layer("permute", dims=[0, 4, 1, 3, 5, 2])],
     lambda net, x: x.reshape(-1, 2, 2, 5, 2, 3).permute(0, 4, 1, 3, 5, 2))
case("permute-weight", row(5, 6), [layer("parameter", "w", shape=[4, 6]), layer("permute", "t", dims=[1, 0]),
                                   layer("matmul", of=["in", "t"])],
     lambda net, x: x @ net.w.t(), parameters={"w": (4, 6)})
for name, options in [("", dict(dim=2, start=1, end=4, step=1)), ("-step", dict(dim=3, start=1, end=6, step=2)),
                      ("-negative", dict(dim=-1, start=-3, end=-1, step=1)),
                      ("-beyond", dict(dim=1, start=1, end=9223372036854775807, step=1))]:
    case("slice" + name, image(), [layer("slice", **options)],
         lambda net, x, o=options: torch.ops.aten.slice(x, o["dim"], o["start"], o["end"], o["step"]))
PADS = [("constant", [1, 2]), ("constant", [2, 1, 0, 3]), ("constant", [-1, 2, 1, -2]), ("reflect", [2, 1, 3, 0]),
        ("replicate", [3, 1, 0, 2]), ("circular", [2, 3, 1, 1])]
for k, (mode, pad) in enumerate(PADS):
    options = dict(pad=pad, mode=mode, **({"value": 0.5} if mode == "constant" else {}))
    case(f"pad-{mode}" + (f"-{k}" if mode == "constant" else ""), image(), [layer("pad", **options)],
         lambda net, x, o=options: F.pad(x, o["pad"], o["mode"], o.get("value", None)))
for mode in ("reflect", "replicate", "circular"):
    case(f"pad-{mode}-1d", sequence(), [layer("pad", pad=[2, 1], mode=mode)], lambda net, x, m=mode: F.pad(x, [2, 1], m))
    case(f"pad-{mode}-3d", volume(), [layer("pad", pad=[2, 1, 0, 2, 1, 1], mode=mode)],
         lambda net, x, m=mode: F.pad(x, [2, 1, 0, 2, 1, 1], m))
case("pad-constant-3d", volume(), [layer("pad", pad=[2, 1, 0, 2, 1, 0, 1, 1], mode="constant", value=0)],
     lambda net, x: F.pad(x, [2, 1, 0, 2, 1, 0, 1, 1]))
case("roll", image(), [layer("roll", shifts=[1, -2], dims=[2, 3])], lambda net, x: x.roll((1, -2), (2, 3)))
case("flip", image(), [layer("flip", dims=[1, 3])], lambda net, x: x.flip(1, 3))
case("expand", image(), [layer("mean", dims=[2], keepdim=True), layer("expand", shape=["N", 3, 4, -1])],
     lambda net, x: x.mean(2, keepdim=True).expand(-1, 3, 4, -1))
case("expand-token", sequence(), [layer("parameter", "cls", shape=[1, 1, 5]), layer("expand", "e", "cls", shape=["N", -1, -1]),
                                  layer("concat", of=["e", "in"], dim=1)],
     lambda net, x: torch.cat([net.cls.expand(len(x), -1, -1), x], 1), parameters={"cls": (1, 1, 5)})
case("repeat", image(), [layer("repeat", counts=[1, 2, 1, 3])], lambda net, x: x.repeat(1, 2, 1, 3))
case("repeat-more-dims", row(), [layer("parameter", "w", shape=[6]), layer("repeat", "r", "w", counts=[2, 3]),
                                 layer("reshape", "s", "r", shape=[6, 6]), layer("matmul", of=["in", "s"])],
     lambda net, x: x @ net.w.repeat(2, 3).reshape(6, 6), parameters={"w": (6,)})
case("pixel_shuffle", image(out=12), [layer("pixel_shuffle", factor=2)], lambda net, x: F.pixel_shuffle(x, 2))
case("pixel_unshuffle", image(2, 4, 6), [layer("pixel_unshuffle", factor=2)], lambda net, x: F.pixel_unshuffle(x, 2))
case("unfold", image(), [layer("unfold", kernel=[3, 2], dilation=1, padding=[1, 0], stride=[2, 1])],
     lambda net, x: F.unfold(x, (3, 2), 1, (1, 0), (2, 1)))
case("unfold-dilation", image(), [layer("unfold", kernel=[2, 2], dilation=[2, 3], padding=1, stride=2)],
     lambda net, x: F.unfold(x, (2, 2), (2, 3), 1, 2))
for name, dim in [("", 1), ("-last", 3), ("-negative", -2)]:
    case("concat" + name, image(), [layer("concat", of=["in", "in2", "in3"], dim=dim)],
         lambda net, a, b, c, d=dim: torch.cat([a, b, c], d), branches=3)

# ---- products and tables ---------------------------------------------------------------------
T = lambda x: x.transpose(-1, -2)
for name, ta, tb in [("", False, False), ("-a", True, False), ("-b", False, True), ("-ab", True, True)]:
    start = image(2, 4, 4, 3) if ta == tb else image(2, 4, 6, 3)
    case("matmul" + name, start, [layer("matmul", of=["in", "in2"], transpose_a=ta, transpose_b=tb)],
         lambda net, a, b, p=ta, q=tb: (T(a) if p else a) @ (T(b) if q else b), branches=2)
case("matmul-3d", sequence(), [layer("matmul", of=["in", "in2"], transpose_b=True)],
     lambda net, a, b: a @ T(b), branches=2)
case("matmul-weight", image(), [layer("parameter", "w", shape=[6, 4]), layer("matmul", of=["in", "w"])],
     lambda net, a: a @ net.w, parameters={"w": (6, 4)})
case("matmul-weight-left", image(), [layer("parameter", "w", shape=[4, 5]), layer("matmul", of=["w", "in"])],
     lambda net, a: net.w @ a, parameters={"w": (4, 5)})
case("matmul-weights", image(), [layer("parameter", "w", shape=[3, 6, 4]), layer("matmul", of=["in", "w"])],
     lambda net, a: a @ net.w, parameters={"w": (3, 6, 4)})
case("matmul-broadcast", image(), [layer("mean", "m", "in", dims=[1], keepdim=True),
                                   layer("matmul", of=["m", "in2"], transpose_b=True)],
     lambda net, a, b: a.mean(1, keepdim=True) @ T(b), branches=2)
case("matmul-heads", sequence(4, 3, 6), [
    layer("reshape", "q", "in", shape=["N", 4, 2, 3]), layer("permute", "qh", dims=[0, 2, 1, 3]),
    layer("reshape", "k", "in2", shape=["N", 4, 2, 3]), layer("permute", "kh", dims=[0, 2, 1, 3]),
    layer("matmul", "s", ["qh", "kh"], transpose_b=True), layer("softmax", "p", dim=-1), layer("matmul", of=["p", "qh"])],
    lambda net, a, b: (lambda q, k: (q @ T(k)).softmax(-1) @ q)(a.view(-1, 4, 2, 3).transpose(1, 2),
                                                                b.view(-1, 4, 2, 3).transpose(1, 2)), branches=2)
case("matmul-product-of-weights", row(), [layer("parameter", "u", shape=[6, 2]), layer("parameter", "v", shape=[2, 6]),
                                          layer("matmul", "w", ["u", "v"]), layer("matmul", of=["in", "w"])],
     lambda net, x: x @ (net.u @ net.v), parameters={"u": (6, 2), "v": (2, 6)})


# ---- attention -------------------------------------------------------------------------------
def attend(q, k, v, heads, kv, **options):
    """Attention of tensors with the features of all heads."""
    q, k, v = [x.view(*x.shape[:2], n, -1).transpose(1, 2) for x, n in ((q, heads), (k, kv), (v, kv))]
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options).transpose(1, 2).flatten(2)


def packed(x, heads, kv, **options):
    d = x.shape[2] // (heads + 2 * kv)
    return attend(*x.split([heads * d, kv * d, kv * d], 2), heads, kv, **options)


class Attend(nn.Module):
    """Attention with projections of its own: four, or two if `packed`."""

    def __init__(self, width, heads, kv, d, bias=True, out_bias=True, packed=False, norm=None):
        super().__init__()
        self.heads, self.kv, self.d, self.packed, self.norm = heads, kv, d, packed, norm
        if packed:
            self.c_attn = nn.Linear(width, (heads + 2 * kv) * d, bias)
        else:
            self.q_proj = nn.Linear(width, heads * d, bias)
            self.k_proj, self.v_proj = nn.Linear(width, kv * d, bias), nn.Linear(width, kv * d, bias)
        if norm:
            self.q_norm, self.k_norm = norm(d, eps=1e-6), norm(d, eps=1e-6)
        setattr(self, "c_proj" if packed else "o_proj", nn.Linear(heads * d, width, out_bias))

    def forward(self, x, memory=None, **options):
        memory = x if memory is None else memory
        if self.packed:
            q, k, v = self.c_attn(x).split([self.heads * self.d] + [self.kv * self.d] * 2, 2)
        else:
            q, k, v = self.q_proj(x), self.k_proj(memory), self.v_proj(memory)
        if self.norm:
            q, k = [f(y.unflatten(2, (-1, self.d))).flatten(2) for f, y in ((self.q_norm, q), (self.k_norm, k))]
        return (self.c_proj if self.packed else self.o_proj)(attend(q, k, v, self.heads, self.kv, **options))


FLAGS = [layer("slice", "flag", "rows", dim=2, end=1), layer("gt", "open", value=0), layer("reshape", "keys", shape=["N", 6])]
flags = lambda x: (x[..., 0] > 0)
LATER = [layer("slice", "start", "rows", dim=2, end=1), layer("mul", "large", value=3), layer("floor", "whole"),
         layer("clamp", "near", min=0, max=4), layer("reshape", "first", shape=["N", 6])]
QKVO = ["q_proj", "k_proj", "v_proj", "o_proj"]
for name, causal in [("", False), ("-causal", True)]:
    case("sdpa" + name, sequence(6, 3, 4), [layer("sdpa", of=["in", "in2", "in3"], causal=causal)],
         lambda net, q, k, v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c), branches=3)
case("sdpa-packed", sequence(6, 3, 24), [layer("sdpa", heads=4, causal=True)],
     lambda net, x: packed(x, 4, 4, is_causal=True))
case("sdpa-groups", sequence(6, 3, 24), [layer("sdpa", heads=4, kv_heads=2, causal=True, scale=0.5)],
     lambda net, x: packed(x, 4, 2, is_causal=True, scale=0.5))
case("sdpa-three", sequence(6, 3, 24), [layer("sdpa", of=["in", "in2", "in3"], heads=4)],
     lambda net, q, k, v: attend(q, k, v, 4, 4), branches=3)
case("sdpa-two", sequence(6, 3, 24), [layer("sdpa", of=["in", "in2"], heads=4, kv_heads=2, causal=True)],
     lambda net, q, kv: attend(q, *kv.split(12, 2), 4, 2, is_causal=True), branches=2)
case("sdpa-keys", sequence(6, 3, 24), FLAGS + [layer("sdpa", of=["in", "keys"], heads=4, mask="keys")],
     lambda net, x: packed(x, 4, 4, attn_mask=flags(net.given)[:, None, None]))
case("sdpa-first", sequence(6, 3, 24), LATER + [layer("sdpa", of=["in", "first"], heads=4, kv_heads=2, mask="first")],
     lambda net, x: packed(x, 4, 2, attn_mask=torch.arange(6) >= (net.given[..., :1] * 3).floor().clamp(0, 4)[:, None]))
case("sdpa-bias", sequence(6, 3, 24), [layer("parameter", "b", shape=[4, 6, 6]),
                                       layer("sdpa", of=["in", "b"], heads=4, mask="bias")],
     lambda net, x: packed(x, 4, 4, attn_mask=net.b), parameters={"b": (4, 6, 6)})
case("sdpa-pairs", sequence(6, 3, 24), [layer("matmul", "m", ["in2", "in2"], transpose_b=True),
                                        layer("reshape", "b", shape=["N", 1, 6, 6]),
                                        layer("sdpa", of=["in", "b"], heads=4, kv_heads=2, mask="bias", causal=True)],
     lambda net, x, y: packed(x, 4, 2, attn_mask=(y @ T(y))[:, None] + torch.full((6, 6), -torch.inf, dtype=x.dtype).triu(1)),
     branches=2)
case("attention-groups", sequence(6, 3, 8),
     [layer("attention", "at", heads=4, kv_heads=2, head_dim=3, causal=True, names=QKVO, bias=False, out_bias=False)],
     lambda net, x: net.at(x, is_causal=True), {"at": Attend(8, 4, 2, 3, False, False)})
case("attention-packed", sequence(6, 3, 8), [layer("attention", "at", heads=2, causal=True, names=["c_attn", "c_proj"])],
     lambda net, x: net.at(x, is_causal=True), {"at": Attend(8, 2, 2, 4, packed=True)})
case("attention-memory", sequence(6, 3, 8), FLAGS + [
    layer("attention", "at", ["in", "in2", "keys"], heads=4, kv_heads=2, mask="keys", names=QKVO)],
    lambda net, x, m: net.at(x, m, attn_mask=flags(net.given)[:, None, None]), {"at": Attend(8, 4, 2, 2)}, branches=2)
case("attention-norm", sequence(6, 3, 8),
     [layer("attention", "at", heads=2, names=["c_attn", "c_proj"], qk_norm="layernorm")],
     lambda net, x: net.at(x), {"at": Attend(8, 2, 2, 4, packed=True, norm=nn.LayerNorm)})
MHA = lambda: nn.MultiheadAttention(8, 2, batch_first=True)
case("attention-causal", sequence(6, 3, 8), [layer("attention", "at", heads=2, causal=True)],
     lambda net, x: net.at(x, x, x, attn_mask=torch.ones(6, 6).triu(1).bool(), need_weights=False)[0], {"at": MHA()})
case("attention-cross", sequence(6, 3, 8), [layer("attention", "at", ["in", "in2"], heads=2)],
     lambda net, x, m: net.at(x, m, m, need_weights=False)[0], {"at": MHA()}, branches=2)

IDS = [layer("mul", "scaled", "input", value=2), layer("floor", "whole"), layer("clamp", "ids", min=-3, max=3),
       layer("add", "places", "ids", value=3)]
ids = lambda x: ((x * 2).floor().clamp(-3, 3) + 3).long()
case("embedding", row(5), IDS + [layer("embedding", "table", "places", rows=7, dim=3)],
     lambda net, x: net.table(ids(x)), {"table": nn.Embedding(7, 3)}, branches=0)
case("embedding-padding", row(5), IDS + [layer("embedding", "table", "places", rows=7, dim=3, padding_idx=2)],
     lambda net, x: net.table(ids(x)), {"table": nn.Embedding(7, 3, padding_idx=2)}, branches=0)
case("rows-padding", row(5), IDS + [layer("parameter", "table", shape=[7, 3]),
                                   layer("rows", of=["table", "places"], padding_idx=2)],
     lambda net, x: F.embedding(ids(x), net.table, 2), parameters={"table": (7, 3)}, branches=0)
case("rows", row(5), IDS + [layer("parameter", "table", shape=[7, 2, 2]), layer("tanh", "t", "table"),
                            layer("rows", of=["t", "places"])],
     lambda net, x: net.table.tanh()[ids(x)], parameters={"table": (7, 2, 2)}, branches=0)

# ---- convolutions and windows ----------------------------------------------------------------
WINDOWS = {1: (sequence(4, 9, 7), "", "1d"), 2: (image(2, 7, 6, 4), "", ""), 3: (volume(1, 4, 5, 6, 2), "", "3d")}


def starts(axes, channels):
    return {1: sequence(channels, 5, 9), 2: image(2, 7, 6, channels), 3: volume(1, 4, 5, 4, channels)}[axes]


def conv(name, axes, channels, transposed=False, **keys):
    """keys: of the configuration; torch names three of them otherwise."""
    kind = f"conv{'_transpose' if transposed else ''}{axes}d"
    torch_keys = {{"out": "out_channels", "kernel": "kernel_size"}.get(k, k): v for k, v in keys.items()}
    make = getattr(nn, f"Conv{'Transpose' if transposed else ''}{axes}d")
    case(f"{kind}{name}", starts(axes, channels), [layer(kind, "conv", **keys)], lambda net, x: net.conv(x),
         {"conv": make(channels, **torch_keys)})


conv("", 1, 4, out=3, kernel=3, stride=2, padding=1)
conv("-groups", 1, 4, out=6, kernel=3, dilation=2, padding=2, groups=2, bias=False)
conv("-depthwise", 1, 4, out=4, kernel=5, padding=2, groups=4)
for mode in ("reflect", "replicate", "circular"):
    conv(f"-{mode}", 1, 2, out=3, kernel=5, padding=2, padding_mode=mode)
    conv(f"-{mode}", 2, 2, out=3, kernel=[3, 5], padding=[1, 2], padding_mode=mode)
    conv(f"-{mode}", 3, 2, out=2, kernel=3, padding=1, padding_mode=mode)
for axes, unequal, pad in [(1, [2, 1], [2, 1]), (2, [1, 0, 2, 1], [2, 1, 1, 0]), (3, [1, 0, 0, 1, 2, 1], [2, 1, 0, 1, 1, 0])]:
    make = getattr(nn, f"Conv{axes}d")  # padding: [before, after] of each dim, the first dim first
    case(f"conv{axes}d-unequal", starts(axes, 2), [layer(f"conv{axes}d", "conv", out=3, kernel=3, padding=unequal)],
         lambda net, x, p=pad: net.conv(F.pad(x, p)), {"conv": make(2, 3, 3)})
conv("-same", 1, 2, out=3, kernel=4, padding="same", dilation=2)
conv("-same", 2, 2, out=3, kernel=[3, 4], padding="same")
conv("-valid", 2, 2, out=3, kernel=3, padding="valid")
conv("-same-circular", 3, 2, out=2, kernel=[2, 3, 1], padding="same", padding_mode="circular")
# a sphere is periodic in longitude only; in torch both dims are padded by hand
case("conv2d-sphere", starts(2, 2), [layer("conv2d", "conv", out=3, kernel=3, padding=[1, 1],
                                           padding_mode=["zeros", "circular"])],
     lambda net, x: net.conv(F.pad(F.pad(x, (1, 1, 0, 0), mode="circular"), (0, 0, 1, 1))), {"conv": nn.Conv2d(2, 3, 3)})
case("conv3d-mixed", starts(3, 2), [layer("conv3d", "conv", out=2, kernel=3, padding=[1, 0, 1, 1, 1, 2],
                                          padding_mode=["replicate", "zeros", "circular"])],
     lambda net, x: net.conv(F.pad(F.pad(F.pad(x, (1, 2, 0, 0, 0, 0), mode="circular"), (0, 0, 0, 0, 1, 0), mode="replicate"),
                                   (0, 0, 1, 1, 0, 0))), {"conv": nn.Conv3d(2, 2, 3)})
for kind, function in (("add", torch.add), ("mul", torch.mul), ("maximum", torch.maximum)):
    case(f"{kind}-four", image(), [layer("tanh", "a", "in"), layer("mean", "b", "in", dims=[2, 3], keepdim=True),
                                   layer("sigmoid", "c", "in"), layer(kind, of=["a", "c", "b", "in"])],
         lambda net, x, f=function: f(f(f(x.tanh(), x.sigmoid()), x.mean((2, 3), keepdim=True)), x))
conv("-plain", 1, 3, True, out=4, kernel=3)
conv("-stride", 1, 3, True, out=4, kernel=4, stride=2, padding=1)
conv("-output-padding", 1, 4, True, out=2, kernel=3, stride=3, padding=1, output_padding=2, groups=2, bias=False)
conv("-stride", 2, 3, True, out=2, kernel=2, stride=2)
conv("-overlap", 2, 3, True, out=2, kernel=[4, 3], stride=[2, 1], padding=[1, 0])
conv("-output-padding", 2, 4, True, out=4, kernel=3, stride=2, padding=1, output_padding=1, groups=2)
conv("-dilation", 2, 2, True, out=3, kernel=3, stride=2, padding=2, output_padding=1, dilation=2, bias=False)
conv("-depthwise", 2, 4, True, out=4, kernel=4, stride=2, padding=1, groups=4)
conv("-stride", 3, 2, True, out=2, kernel=2, stride=2)
conv("-output-padding", 3, 2, True, out=2, kernel=3, stride=2, padding=1, output_padding=1)
case("convolve", image(2, 5, 6, 2), [layer("parameter", "w", shape=[3, 2, 3, 3]), layer("tanh", "t", "w"),
                                     layer("convolve", of=["in", "t"], stride=2, padding=1)],
     lambda net, x: F.conv2d(x, net.w.tanh(), None, 2, 1), parameters={"w": (3, 2, 3, 3)})
case("convolve-bias", image(2, 5, 6, 4), [layer("parameter", "w", shape=[4, 2, 3, 3]), layer("tanh", "t", "w"),
                                          layer("parameter", "b", shape=[4]), layer("exp", "e", "b"),
                                          layer("convolve", of=["in", "t", "e"], padding=2, dilation=2, groups=2)],
     lambda net, x: F.conv2d(x, net.w.tanh(), net.b.exp(), 1, 2, 2, 2), parameters={"w": (4, 2, 3, 3), "b": (4,)})
case("convolve-1d", sequence(4, 5, 9), [layer("parameter", "w", shape=[3, 4, 3]), layer("tanh", "t", "w"),
                                        layer("convolve", of=["in", "t"], padding=1)],
     lambda net, x: F.conv1d(x, net.w.tanh(), None, 1, 1), parameters={"w": (3, 4, 3)})
POOLS = {1: "pool1d", 2: "pool", 3: "pool3d"}
for axes, kind in POOLS.items():
    maximum, average = getattr(F, f"max_pool{axes}d"), getattr(F, f"avg_pool{axes}d")
    for name, keys in [("", dict(kernel=3, stride=2, padding=1)), ("-ceil", dict(kernel=2, stride=2, ceil_mode=True)),
                       ("-ceil-padding", dict(kernel=3, stride=2, padding=1, ceil_mode=True)),
                       ("-dilation", dict(kernel=2, stride=1, padding=1, dilation=2))]:
        k = {("kernel_size" if q == "kernel" else q): v for q, v in keys.items()}
        case(f"max{kind}{name}", starts(axes, 2), [layer(f"max{kind}", **keys)], lambda net, x, f=maximum, k=k: f(x, **k))
    for name, keys in [("", dict(kernel=3, stride=2, padding=1, count_include_pad=True)),
                       ("-exclude", dict(kernel=3, stride=2, padding=1, count_include_pad=False)),
                       ("-ceil", dict(kernel=3, stride=2, padding=1, ceil_mode=True, count_include_pad=True)),
                       ("-ceil-exclude", dict(kernel=3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)),
                       ("-divisor", dict(kernel=2, stride=2, divisor_override=3))]:
        if "divisor_override" in keys and axes == 1:
            continue
        k = {("kernel_size" if q == "kernel" else q): v for q, v in keys.items()}
        case(f"avg{kind}{name}", starts(axes, 2), [layer(f"avg{kind}", **keys)], lambda net, x, f=average, k=k: f(x, **k))
for kind, word in [("adaptive_maxpool", "max"), ("adaptive_avgpool", "avg")]:
    for axes, out in [(1, [4]), (2, [3, 4]), (3, [2, 3, 3])]:
        function = getattr(F, f"adaptive_{word}_pool{axes}d")
        case(f"{kind}-{axes}d", starts(axes, 2), [layer(kind, out=out)], lambda net, x, f=function, o=out: f(x, o))
    case(f"{kind}-larger", image(2, 3, 4, 2), [layer(kind, out=[5, 4])],
         lambda net, x, w=word: getattr(F, f"adaptive_{w}_pool2d")(x, (5, 4)))

# ---- resize ----------------------------------------------------------------------------------
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
SIZES = {1: ([14], [5]), 2: ([11, 9], [4, 5]), 3: ([6, 7, 6], [3, 3, 2])}
for axes, sizes in SIZES.items():
    for word, size in zip(("up", "down"), sizes):
        for mode in ("nearest", "nearest-exact", "area"):
            case(f"upsample-{mode}-{axes}d-{word}", starts(axes, 2), [layer("upsample", size=size, mode=mode)],
                 lambda net, x, s=size, m=mode: F.interpolate(x, s, mode=m))
        for corners in (False, True):
            name = f"{axes}d-{word}" + ("-corners" if corners else "")
            case(f"upsample-linear-{name}", starts(axes, 2),
                 [layer("upsample", size=size, mode="linear", align_corners=corners)],
                 lambda net, x, s=size, m=LINEAR[axes], c=corners: F.interpolate(x, s, mode=m, align_corners=c))
            if axes == 2:
                case(f"upsample-bicubic-{word}" + ("-corners" if corners else ""), starts(axes, 2),
                     [layer("upsample", size=size, mode="bicubic", align_corners=corners)],
                     lambda net, x, s=size, c=corners: F.interpolate(x, s, mode="bicubic", align_corners=c))
case("upsample-scale", image(), [layer("upsample", scale=[1.5, 2], mode="linear")],
     lambda net, x: F.interpolate(x, scale_factor=(1.5, 2.0), mode="bilinear"))
case("upsample-scale-bicubic", image(), [layer("upsample", scale=[1.7, 0.8], mode="bicubic")],
     lambda net, x: F.interpolate(x, scale_factor=(1.7, 0.8), mode="bicubic"))
case("upsample-scale-nearest", image(), [layer("upsample", scale=[1.7, 0.8], mode="nearest")],
     lambda net, x: F.interpolate(x, scale_factor=(1.7, 0.8), mode="nearest"))


def same_size(kind, mode, **more):
    """An image resized to another's size, and added to it."""
    def function(net, x):
        small = F.max_pool2d(x, 2)
        return x + F.interpolate(small, x.shape[2:], mode=mode, **({"align_corners": False} if kind == "linear" else {}))
    return function


for kind, mode in (("nearest", "nearest"), ("linear", "bilinear")):
    case(f"upsample-like-{kind}", image(), [layer("maxpool", "small", "in", kernel=2),
                                            layer("upsample", "up", like="in", mode=kind),
                                            layer("add", of=["in", "up"])], same_size(kind, mode))

# ---- layers that are used twice --------------------------------------------------------------
def again(name, kind, of, owner):
    return layer(kind[0], name, of, **kind[1]) + f"  share: {owner}\n"


CONV, NORM = ("conv2d", {"out": 3, "kernel": 3, "padding": 1}), ("batchnorm", {})
case("share-conv", image(), [layer(CONV[0], "act", "in", **CONV[1]), layer("tanh", "between"),
                             again("second", CONV, "between", "act")],
     lambda net, x: net.act(torch.tanh(net.act(x))), {"act": nn.Conv2d(3, 3, 3, padding=1)})
case("share-batchnorm", image(), [layer("batchnorm", "norm", "in"), layer("tanh", "between"),
                                  again("second", NORM, "between", "norm")],
     lambda net, x: net.norm(torch.tanh(net.norm(x))), {"norm": nn.BatchNorm2d(3)})

# ---- norms and recurrent layers --------------------------------------------------------------
case("layernorm-2", image(out=4), [layer("layernorm", "norm", shape=[5, 6])], lambda net, x: net.norm(x),
     {"norm": nn.LayerNorm((5, 6))}, init={"norm.weight": (0.5, 1)})
case("layernorm-3", image(out=4), [layer("layernorm", "norm", shape=[4, 5, 6], eps=1e-3)], lambda net, x: net.norm(x),
     {"norm": nn.LayerNorm((4, 5, 6), 1e-3)}, init={"norm.weight": (0.5, 1)})
case("layernorm-no-bias", sequence(), [layer("layernorm", "norm", shape=[5], bias=False)], lambda net, x: net.norm(x),
     {"norm": nn.LayerNorm(5, bias=False)})
case("layernorm-plain", image(out=4), [layer("layernorm", shape=[5, 6], elementwise_affine=False)],
     lambda net, x: F.layer_norm(x, (5, 6)))
case("batchnorm-plain", image(out=4), [layer("batchnorm", "norm", affine=False)], lambda net, x: net.norm(x),
     {"norm": nn.BatchNorm2d(4, affine=False)})
case("batchnorm-untracked", image(out=4), [layer("batchnorm", "norm", track_running_stats=False)],
     lambda net, x: net.norm(x), {"norm": nn.BatchNorm2d(4, track_running_stats=False)})
case("batchnorm-untracked-plain", image(out=4), [layer("batchnorm", "norm", affine=False, track_running_stats=False)],
     lambda net, x: net.norm(x), {"norm": nn.BatchNorm2d(4, affine=False, track_running_stats=False)})
case("layernorm-channels", image(out=4), [layer("layernorm", "norm", dim=1)],
     lambda net, x: net.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), {"norm": nn.LayerNorm(4)},
     init={"norm.weight": (0.5, 1)})
case("layernorm-channels-3d", volume(), [layer("layernorm", "norm", dim=1, eps=1e-3, elementwise_affine=False)],
     lambda net, x: F.layer_norm(x.movedim(1, -1), (2,), eps=1e-3).movedim(-1, 1))
case("layernorm-channels-again", image(out=4), [layer("layernorm", "norm", dim=1), layer("tanh"),
                                                layer("layernorm", dim=1) + "  share: norm\n"],
     lambda net, x: net.norm(net.norm(x.movedim(1, -1)).tanh()).movedim(-1, 1), {"norm": nn.LayerNorm(4)},
     init={"norm.weight": (0.5, 1)})
for name, start, dim in (("rows", row(), -1), ("channels", image(out=4), 1), ("sequence", sequence(), 1)):
    case(f"glu-{name}", start, [layer("glu", dim=dim)], lambda net, x, d=dim: F.glu(x, d))


class Gated(nn.Module):
    def __init__(self, width, hidden, bias=False):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, hidden, bias), nn.Linear(width, hidden, bias)
        self.down_proj = nn.Linear(hidden, width, bias)


case("rmsnorm", sequence(), [layer("rmsnorm", "norm")], lambda net, x: net.norm(x), {"norm": nn.RMSNorm(5)},
     init={"norm.weight": (0.5, 1)})
case("rmsnorm-2", image(out=4), [layer("rmsnorm", "norm", shape=[5, 6], eps=1e-3)], lambda net, x: net.norm(x),
     {"norm": nn.RMSNorm((5, 6), 1e-3)}, init={"norm.weight": (0.5, 1)})
case("rmsnorm-plain", sequence(), [layer("rmsnorm", elementwise_affine=False, eps=1e-4)],
     lambda net, x: F.rms_norm(x, (5,), eps=1e-4))
case("swiglu", sequence(), [layer("swiglu", "mlp", hidden=7)],
     lambda net, x: net.mlp.down_proj(F.silu(net.mlp.gate_proj(x)) * net.mlp.up_proj(x)), {"mlp": Gated(5, 7)})
case("swiglu-gelu", row(), [layer("swiglu", "mlp", hidden=4, activation="gelu_tanh", bias=True)],
     lambda net, x: net.mlp.down_proj(F.gelu(net.mlp.gate_proj(x), approximate="tanh") * net.mlp.up_proj(x)),
     {"mlp": Gated(6, 4, True)})


def turn(x, places, theta, factor, pairs):
    """Rotates the pairs, [..., 2] of complex numbers, of x: N x T x heads x features."""
    angle = places[..., None] * torch.tensor([theta ** (-2 * i / x.shape[-1]) for i in range(x.shape[-1] // 2)]) / factor
    z = torch.view_as_complex(pairs(x).contiguous()) * torch.polar(torch.ones_like(angle), angle)[..., None, :]
    return torch.view_as_real(z)


def rope(x, heads, interleaved, places=None, theta=1e4, factor=1, dim=None):
    dim = dim or x.shape[2] // heads
    places = torch.arange(x.shape[1]).expand(x.shape[:2]) if places is None else places
    own, rest = x[..., : heads * dim].unflatten(2, (heads, dim)), x[..., heads * dim :]
    if interleaved:
        y = turn(own, places, theta, factor, lambda v: v.unflatten(-1, (-1, 2))).flatten(-2)
    else:
        y = turn(own, places, theta, factor, lambda v: torch.stack(v.chunk(2, -1), -1)).transpose(-1, -2).flatten(-2)
    return torch.cat([y.flatten(2), rest], 2)


case("rope", sequence(out=12), [layer("rope", heads=3)], lambda net, x: rope(x, 3, False))
case("rope-interleaved", sequence(out=12), [layer("rope", heads=2, head_dim=4, pairing="interleaved", theta=50)],
     lambda net, x: rope(x, 2, True, theta=50, dim=4))
case("rope-places", row(5), IDS + [layer("embedding", "table", "places", rows=7, dim=4),
                                   layer("positions", "at", "places", relative=True),
                                   layer("rope", of=["table", "at"], head_dim=2, scaling="linear", factor=4)],
     lambda net, x: rope(net.table(ids(x)), 2, False, torch.arange(5) - ids(x), factor=4),
     {"table": nn.Embedding(7, 4)}, branches=0)
case("position", sequence(), [layer("position", "at", rows=6)], lambda net, x: x + net.at.weight[:4],
     {"at": nn.Embedding(6, 5)})
waves = lambda i, k: [np.sin, np.cos][k % 2](i * 10000.0 ** (-(k // 2 * 2) / 5))
case("position-sinusoidal", sequence(), [layer("position", "at", rows=4, sinusoidal=True)],
     lambda net, x: x + torch.tensor([[waves(i, k) for k in range(5)] for i in range(4)]).to(x))
VALID = IDS + [layer("cumsum", "count", "places", dim=1), layer("le", "mask", "count", value=6),
               layer("embedding", "table", "places", rows=7, dim=3)]
valid = lambda x: (ids(x).cumsum(1) <= 6).to(x)[..., None]
pools = {"mean": lambda v, m: (v * m).sum(1) / m.sum(1), "max": lambda v, m: v.where(m > 0, -torch.inf).amax(1),
         "last": lambda v, m: v[torch.arange(len(v)), m[..., 0].sum(1).long() - 1]}
for mode, of in pools.items():
    case(f"pool_steps-{mode}", row(5), VALID + [layer("pool_steps", of="table", mode=mode, mask="mask")],
         lambda net, x, of=of: of(net.table(ids(x)), valid(x)), {"table": nn.Embedding(7, 3)}, branches=0)
    case(f"pool_steps-{mode}-all", sequence(), [layer("pool_steps", mode=mode)],
         lambda net, x, of=of: of(x, torch.ones_like(x[..., :1])))
case("identity", image(), [layer("identity", "same"), layer("add", of=["same", "in"])], lambda net, x: x + x)
for kind, make in {"gru": nn.GRU, "lstm": nn.LSTM}.items():
    start = sequence(5, 3, 4)
    case(kind, start, [layer(kind, "rnn", hidden=3)], lambda net, x: net.rnn(x)[0], {"rnn": make(4, 3, batch_first=True)})
    case(f"{kind}-no-bias", start, [layer(kind, "rnn", hidden=3, bias=False)], lambda net, x: net.rnn(x)[0],
         {"rnn": make(4, 3, batch_first=True, bias=False)})
    both = [layer(kind, "a", "in", hidden=3, params="rnn"), layer(kind, "b", "in", hidden=3, params="rnn", reverse=True),
            layer("concat", "level0", ["a", "b"], dim=2)]
    case(f"{kind}-bidirectional", start, both, lambda net, x: net.rnn(x)[0],
         {"rnn": make(4, 3, batch_first=True, bidirectional=True)})
    second = [layer(kind, "c", "level0", hidden=3, level=1, params="rnn"),
              layer(kind, "d", "level0", hidden=3, level=1, params="rnn", reverse=True),
              layer("concat", "level1", ["c", "d"], dim=2)]
    case(f"{kind}-bidirectional-2", start, both + second, lambda net, x: net.rnn(x)[0],
         {"rnn": make(4, 3, 2, batch_first=True, bidirectional=True)})

if __name__ == "__main__":
    if sys.argv[1:] in ([], ["--list"]):
        sys.exit(print("\n".join(CASES)))
    torch.set_num_threads(1)
    wanted = sys.argv[2:]
    made = [c for c in CASES if not wanted or any(c == w or c.startswith(w + "-") or f"- {w}:" in "".join(CASES[c][1])
                                                  for w in wanted)]
    for name in made or sys.exit(f"no case is called {' or '.join(wanted)}, and none has such a layer"):
        make_case(f"{sys.argv[1]}/op-{name}.gold", name)
