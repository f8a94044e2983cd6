"""Entries of PyTorch's tables as networks that a configuration can express; or the reason why not."""
import copy
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from beside_torch import Case

STEPS = 3


class Missing(Exception):
    """What the program would have to have."""


class NotMeant(Exception):
    """Why this is nothing that one trains with."""


# ---- the layer before: its weights are the entry's input, so that their gradient is the input's ----


class Front(nn.Module):
    """A convolution, or linear layer, of one-hot samples."""

    def __init__(self, x, pixels=False):
        super().__init__()
        n, self.size = len(x), list(x.shape[2:]) if x.dim() > 3 else []
        self.axes, self.pad = len(self.size), [a - 1 for a in self.size]
        kernel = self.size
        if self.axes:
            self.data, w = torch.eye(n).reshape(n, n, *[1] * self.axes), x.flip(list(range(2, x.dim()))).transpose(0, 1)
            if pixels:  # samples as large as the output, as masks need it: one pixel at a corner
                kernel, data, wide = [2 * a - 1 for a in self.size], torch.zeros(n, n, *self.size), w
                data.view(n, n, -1)[range(n), range(n), 0] = 1
                w = torch.zeros(*wide.shape[:2], *kernel)
                w[(slice(None), slice(None), *[slice(0, a) for a in self.size])] = wide
                self.data = data
            keys = dict(out=x.shape[1], kernel=kernel, padding=self.pad, bias=False)
            self.layers = [{f"conv{self.axes}d": keys, "name": "p"}]
        elif x.dim() == 3:
            rows = x.shape[0] * x.shape[1]
            self.data, w = torch.eye(rows).reshape(n, 1, x.shape[1], rows), x.reshape(rows, -1).t()
            self.layers = [{"sequence": {}}, {"linear": {"out": x.shape[2], "bias": False}, "name": "p"}]
        else:
            self.data, w = torch.eye(n), x.t()
            self.layers = [{"linear": {"out": x.shape[1], "bias": False}, "name": "p"}]
        self.weight = nn.Parameter(w.detach().clone().contiguous())

    def forward(self, x):
        if self.axes:
            return (F.conv2d if self.axes == 2 else F.conv3d)(x, self.weight, padding=self.pad)
        return F.linear(x.squeeze(1) if x.dim() == 4 else x, self.weight)


class Net(nn.Module):
    def __init__(self, front, m, function):
        super().__init__()
        self.p, self.m, self.function = front, m, function

    def forward(self, x):
        return self.function(self.m, self.p(x))


def layer_case(x, layers, m, function=lambda m, v: m(v), frozen=None, shapes=None, rename=None, keys=None):
    """One layer, or several, on x."""
    if not x.numel():
        raise NotMeant("an empty batch")
    front = Front(x.double())
    net = Net(front, copy.deepcopy(m).double(), lambda m, v: function(m, v).flatten(1))
    with torch.no_grad():
        outputs = copy.deepcopy(net)(front.data)
    target = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(11)).float().double()
    return Case(front.layers + layers + [{"flatten": {}, "name": "f"}], net, front.data, target, {"kind": "mse"},
                F.mse_loss, frozen=frozen, shapes=shapes, rename=rename, keys=keys, steps=STEPS)


def loss_case(x, target, keys, loss, classes=0):
    front = Front(x.double(), pixels=True)
    more = {"model": {"classes": classes}} if classes else {}
    return Case(front.layers, Net(front, nn.Identity(), lambda m, v: v), front.data, target, keys, loss, keys=more, steps=1)


# ---- layers ----


def each(v, n):
    v = list(v) if isinstance(v, (tuple, list)) else [v]
    return [int(a) for a in (v * n if len(v) == 1 else v)]


def high(m, x, axes):
    """One-dimensional: images of height 1."""
    if axes > 1:
        return x, lambda m, v: m(v)
    return x.unsqueeze(2), lambda m, v: m(v.squeeze(2)).unsqueeze(2)


def lead(what, n, axes):
    """A window's numbers, with that of the height in front if there is none."""
    return what if axes > 1 else [n] + what


def conv(m, x):
    axes = len(m.kernel_size)
    x = x if x.dim() == axes + 2 else x.unsqueeze(0)
    if m.padding_mode != "zeros":
        raise Missing(f"conv: padding mode {m.padding_mode}")
    k, s, d = list(m.kernel_size), list(m.stride), list(m.dilation)
    if m.padding == "same" and any(b * (a - 1) % 2 for a, b in zip(k, d)):
        raise Missing("conv: more padding at one side (same)")
    p = {"same": [b * (a - 1) // 2 for a, b in zip(k, d)], "valid": [0] * axes}.get(str(m.padding)) or m.padding
    keys = dict(out=m.out_channels, kernel=lead(k, 1, axes), stride=lead(s, 1, axes), padding=lead(each(p, axes), 0, axes),
                dilation=lead(d, 1, axes), groups=m.groups, bias=m.bias is not None)
    x, function = high(m, x, axes)
    shapes = {"m.weight": (*m.weight.shape[:2], 1, m.weight.shape[2])} if axes == 1 else {}
    return layer_case(x, [{f"conv{max(axes, 2)}d": keys, "name": "m"}], m, function, shapes=shapes)


def norm_frozen(m, n):
    """Weights and biases that a layer is without here, and the program has: they are not trained."""
    frozen = {} if m.weight is not None else {"m.weight": torch.ones(n)}
    return frozen if m.bias is not None else {**frozen, "m.bias": torch.zeros(n)}


def batchnorm(m, x, keys=None):
    if m.momentum is None or not m.track_running_stats:
        raise Missing("batchnorm: momentum None, or no running statistics")
    if x.shape[0] * x[0, 0].numel() < 2 and not keys:
        raise NotMeant("one value for each channel")
    for tensor, low in ((m.weight, 0.5), (m.bias, -0.5), (m.running_mean, -0.5), (m.running_var, 0.5)):
        if tensor is not None:
            nn.init.uniform_(tensor, low, low + 1)
    x, function = high(m, x, 1 if x.dim() == 3 else 2)
    return layer_case(x, [{"batchnorm": {"eps": m.eps, "momentum": m.momentum}, "name": "m"}], m, function,
                      norm_frozen(m, m.num_features), keys=keys)


def groupnorm(m, x):
    each = not isinstance(m, nn.GroupNorm)
    if each and m.track_running_stats:
        raise Missing("instancenorm: running statistics")
    axes = int(type(m).__name__[-2]) if each else x.dim() - 2
    x = x.unsqueeze(0) if x.dim() == axes + 1 else x
    for tensor, low in ((m.weight, 0.5), (m.bias, -0.5)):
        if tensor is not None:
            nn.init.uniform_(tensor, low, low + 1)
    keys = {"eps": m.eps, "affine": m.affine} | ({} if each else {"num_groups": m.num_groups})
    x, function = high(m, x, 1 if axes == 1 else 2)
    frozen = norm_frozen(m, x.shape[1]) if m.affine else None
    return layer_case(x, [{"instancenorm" if each else "groupnorm": keys, "name": "m"}], m, function, frozen)


def layernorm(m, x):
    shape, n = m.normalized_shape, torch.Size(m.normalized_shape).numel()
    one = x.dim() == len(shape) + 1
    rows = x.reshape(len(x), n) if one else x.reshape(len(x), -1, n)
    frozen = norm_frozen(m, n)
    function = lambda m, v: m(v.reshape(*v.shape[:-1], *shape)).reshape(v.shape)
    shapes = {"m.weight": (n,), "m.bias": (n,)}
    return layer_case(rows, [{"layernorm": {"eps": m.eps}, "name": "m"}], m, function, frozen, shapes)


def pool(m, x):
    name = type(m).__name__
    axes = int(name[-2])
    x = x if x.dim() == axes + 2 else x.unsqueeze(0)
    if "Adaptive" in name:
        out = m.output_size if isinstance(m.output_size, (tuple, list)) else [m.output_size] * axes
        out = [s if o is None else int(o) for o, s in zip(out, x.shape[2:])]
        if axes == 3 and set(out) != {1}:
            raise Missing("adaptive average pool of volumes")
        layer = {"global_avgpool": {}} if axes == 3 else {"adaptive_avgpool": {"out": lead(out, 1, axes)}}
    else:
        if m.ceil_mode:
            raise Missing("pool: ceil_mode")
        if getattr(m, "divisor_override", None) or set(each(getattr(m, "dilation", 1), axes)) != {1}:
            raise Missing("pool: divisor_override, dilation")
        keys = dict(kernel=lead(each(m.kernel_size, axes), 1, axes), stride=lead(each(m.stride, axes), 1, axes),
                    padding=lead(each(m.padding, axes), 0, axes))
        if hasattr(m, "count_include_pad"):
            keys["count_include_pad"] = m.count_include_pad
        m.return_indices = False
        layer = {("max" if name[0] == "M" else "avg") + ("pool3d" if axes == 3 else "pool"): keys}
    x, function = high(m, x, axes)
    return layer_case(x, [{**layer, "name": "m"}], m, function)


def point(layer):
    def make(m, x):
        x = x.reshape(1, -1) if x.dim() < 2 else x
        return layer_case(x, [{**layer(m), "name": "m"}], m)

    return make


def linear(m, x):
    x = x.unsqueeze(0) if x.dim() == 1 else x
    x = x if x.dim() == 2 else x.reshape(len(x), -1, x.shape[-1])
    return layer_case(x, [{"linear": {"out": m.out_features, "bias": m.bias is not None}, "name": "m"}], m)


def flatten(m, x):
    if m.start_dim != 1 or m.end_dim != -1 or x.dim() < 2:
        raise Missing("flatten: some of the dims")
    return layer_case(x, [{"flatten": {}, "name": "m"}], m)


def steps_first(m, x, batch_first):
    """A sequence as N x steps x features, whatever the module wants."""
    x = x.unsqueeze(0) if x.dim() == 2 else x if batch_first else x.transpose(0, 1)
    if batch_first:
        return x, lambda f: f
    return x, lambda f: lambda m, v: f(m, v.transpose(0, 1)).transpose(0, 1)


def lstm(m, x, hx=None):
    if m.bidirectional or m.proj_size or hx is not None:
        raise Missing("lstm: both directions, projection, or a first state")
    x, turned = steps_first(m, x, m.batch_first)
    layers = [{"lstm": {"hidden": m.hidden_size, "level": i, "params": "m"}, "name": f"m{i}"} for i in range(m.num_layers)]
    frozen = {f"m.bias_{w}_l{i}": torch.zeros(4 * m.hidden_size) for i in range(m.num_layers) for w in ("ih", "hh") if not m.bias}
    return layer_case(x, layers, m, turned(lambda m, v: m(v)[0]), frozen)


def attention(m, x):
    """To the first of the three inputs alone."""
    if m.bias_k is not None or m.add_zero_attn or m.kdim != m.embed_dim or m.vdim != m.embed_dim:
        raise Missing("attention: bias_k, add_zero_attn, kdim")
    x, turned = steps_first(m, x, m.batch_first)
    frozen = {} if m.in_proj_bias is not None else {"m.in_proj_bias": torch.zeros(3 * m.embed_dim),
                                                    "m.out_proj.bias": torch.zeros(m.embed_dim)}
    return layer_case(x, [{"attention": {"heads": m.num_heads}, "name": "m"}], m,
                      turned(lambda m, v: m(v, v, v, need_weights=False)[0]), frozen)


PARTS = {"self_attn": "a", "linear1": "l1", "linear2": "l2", "norm1": "n1", "norm2": "n2"}


def encoder(m, x):
    """Eight layers for each of TransformerEncoderLayer."""
    ms = list(m.layers) if isinstance(m, nn.TransformerEncoder) else [m]
    layers, rename, frozen, source = [], {}, {}, "p"
    x, turned = steps_first(m, x, ms[0].self_attn.batch_first)
    for i, one in enumerate(ms):
        prefix = f"m.layers.{i}." if len(ms) > 1 or isinstance(m, nn.TransformerEncoder) else "m."
        relu = one.activation is F.relu or isinstance(one.activation, nn.ReLU)
        for k in one.state_dict():
            part, rest = k.split(".", 1)
            rename[prefix + k] = f"e{i}{PARTS[part]}.{rest}"
        if one.linear1.bias is None:
            d = one.linear1.in_features
            for k, n in (("a.in_proj_bias", 3 * d), ("a.out_proj.bias", d), ("n1.bias", d), ("n2.bias", d)):
                frozen[f"e{i}{k}"] = torch.zeros(n)

        def layer(name, kind, of=None, **keys):
            layers.append({kind: keys, "name": f"e{i}{name}", **({"from": of} if of else {})})
            return f"e{i}{name}"

        def attend(of):
            return layer("s1", "add", [source, layer("a", "attention", of, heads=one.self_attn.num_heads)])

        def forward(of):
            bias = one.linear1.bias is not None
            layer("l1", "linear", of, out=one.linear1.out_features, bias=bias)
            layer("r", "relu" if relu else "gelu")
            return layer("s2", "add", [of if not one.norm_first else f"e{i}s1", layer("l2", "linear", None, out=one.linear1.in_features, bias=bias)])

        eps = dict(eps=one.norm1.eps)
        if one.norm_first:
            attend(layer("n1", "layernorm", source, **eps))
            source = forward(layer("n2", "layernorm", None, **eps))
        else:
            attend(source)
            forward(layer("n1", "layernorm", None, **eps))
            source = layer("n2", "layernorm", None, **eps)
    return layer_case(x, layers, m, turned(lambda m, v: m(v)), frozen, rename=rename)


LAYERS = {
    nn.ReLU: point(lambda m: {"relu": {}}), nn.ReLU6: point(lambda m: {"relu6": {}}), nn.SiLU: point(lambda m: {"silu": {}}),
    nn.Sigmoid: point(lambda m: {"sigmoid": {}}), nn.Tanh: point(lambda m: {"tanh": {}}),
    nn.LeakyReLU: point(lambda m: {"leaky_relu": {"negative_slope": float(m.negative_slope)}}),
    nn.GELU: point(lambda m: {"gelu": {}}), nn.Linear: linear, nn.Flatten: flatten, nn.LayerNorm: layernorm,
    **{getattr(nn, f"Conv{n}d"): conv for n in (1, 2, 3)}, **{getattr(nn, f"BatchNorm{n}d"): batchnorm for n in (1, 2, 3)},
    nn.GroupNorm: groupnorm, **{getattr(nn, f"InstanceNorm{n}d"): groupnorm for n in (1, 2, 3)},
    **{getattr(nn, f"{k}Pool{n}d"): pool for n in (1, 2, 3) for k in ("Max", "Avg", "AdaptiveAvg")},
    nn.LSTM: lstm, nn.MultiheadAttention: attention, nn.TransformerEncoderLayer: encoder, nn.TransformerEncoder: encoder,
}


def layer(m, x, **more):
    """A module of torch.nn on x."""
    name = type(m).__name__
    if not torch.is_tensor(x) or not x.is_floating_point() or not x.numel():
        raise NotMeant("an input that is no real numbers, or an empty batch")
    if name.startswith("Lazy"):
        m(x.to(next((p.dtype for p in m.parameters() if not isinstance(p, nn.parameter.UninitializedParameter)), x.dtype)))
    make = LAYERS.get(type(m))
    more = {k: v for k, v in more.items() if v is not None}
    if make is None:
        raise Missing(f"layer {name}")
    if isinstance(m, nn.GELU) and m.approximate != "none" or isinstance(m, nn.LeakyReLU) and m.negative_slope < 0:
        raise Missing(f"{name}: approximate, or a slope below 0")
    if more and make is not lstm:
        raise Missing(f"{name}: {', '.join(sorted(more))}")
    return make(copy.deepcopy(m).double(), x.detach().double(), **more)


# ---- losses ----

POINTS = {"MSELoss": "mse", "L1Loss": "l1", "BCEWithLogitsLoss": "bce", "BCELoss": "bce"}


def loss(name, m, x, target):
    reduction = getattr(m, "reduction", "mean")
    if reduction == "none" or x.is_complex() or not x.numel():
        raise NotMeant("no number to minimise, or complex ones, or none")
    if name not in POINTS and name not in ("CrossEntropyLoss", "NLLLoss"):
        raise Missing(f"loss {name}")
    if reduction == "sum":
        raise Missing("loss: reduction sum")
    x, target = x.detach().double(), target.double() if target.is_floating_point() else target
    if name in POINTS:
        if getattr(m, "weight", None) is not None or getattr(m, "pos_weight", None) is not None:
            raise Missing("bce: weights of outputs")
        if name == "BCELoss":  # behind a sigmoid
            x, m = torch.logit(x.clamp(1e-6, 1 - 1e-6)), nn.BCEWithLogitsLoss()
        if x.dim() < 2 or x.dim() == 3:
            x, target = (v.reshape(1, -1) if v.dim() < 2 else v.unsqueeze(1) for v in (x, target))
        return loss_case(x, target.float().double(), {"kind": POINTS[name]}, m.double())
    if target.is_floating_point():
        raise Missing("cross_entropy: probabilities as targets")
    if x.dim() == 1:
        x, target = x.unsqueeze(0), target.unsqueeze(0)
    if x[0, 0].numel() == 1:  # a mask of one pixel is a label
        x, target = x.flatten(1), target.flatten()
    classes, n = x.shape[1], len(x)
    if x.dim() == 3 or x.dim() > 5:  # of a row, or of more than three axes
        x = x.unsqueeze(2) if x.dim() == 3 else x.reshape(*x.shape[:4], -1)
    target = target.reshape(n, *x.shape[2:])
    w = None if m.weight is None else m.weight.detach().float().double()
    if w is not None and float(w.min()) < 0:
        raise Missing("cross_entropy: class weights below 0")
    keys = {"kind": "cross_entropy", "ignore_index": int(m.ignore_index), "label_smoothing": getattr(m, "label_smoothing", 0.0)}
    if w is not None:
        keys["class_weights"] = w.tolist()
    return loss_case(x, target, keys, lambda y, t: F.cross_entropy(
        y, t, None if w is None else w.to(y.dtype), ignore_index=m.ignore_index, label_smoothing=keys["label_smoothing"]), classes)
