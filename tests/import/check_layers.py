"""Runs the layers that ct_import_open() makes of .pt2 files in PyTorch, and compares them with the programs.

    check_layers.py PT2_LAYERS FILE.pt2...

It prints TAP, a line for each file.  The layers are run by their documented meaning, one PyTorch expression a kind, so
it is the translation that is checked, not the program that trains.  Outputs and the gradients of all parameters must
agree, for a batch of another size than at export.  Draws are taken out: dropout has p = 0, random numbers are zero.
"""

import os
import re
import subprocess
import sys
import tempfile
import warnings

import torch
import torch.nn.functional as F
import yaml

warnings.simplefilter("ignore")
BATCH = 3
UNARY = {
    "relu": F.relu, "relu6": F.relu6, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "silu": F.silu, "gelu": F.gelu,
    "exp": torch.exp, "expm1": torch.expm1, "log": torch.log, "log1p": torch.log1p, "sin": torch.sin, "cos": torch.cos,
    "tan": torch.tan, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh,
    "cosh": torch.cosh, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "abs": torch.abs, "neg": torch.neg,
    "reciprocal": torch.reciprocal, "square": torch.square, "sign": torch.sign, "floor": torch.floor,
    "ceil": torch.ceil, "round": torch.round, "erf": torch.erf, "selu": F.selu, "mish": F.mish,
    "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "logsigmoid": F.logsigmoid, "softsign": F.softsign,
    "tanhshrink": F.tanhshrink, "detach": torch.detach, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "logical_not": lambda x: (x == 0).float(), "flatten": lambda x: x.flatten(1),
    "global_avgpool": lambda x: x.mean(tuple(range(2, x.ndim)), True),
}  # fmt: skip
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
    "minimum": torch.minimum, "maximum": torch.maximum, "atan2": torch.atan2, "fmod": torch.fmod,
    "eq": lambda a, b: (a == b).float(), "ne": lambda a, b: (a != b).float(), "lt": lambda a, b: (a < b).float(),
    "le": lambda a, b: (a <= b).float(), "gt": lambda a, b: (a > b).float(), "ge": lambda a, b: (a >= b).float(),
    "logical_and": lambda a, b: ((a != 0) & (b != 0)).float(), "logical_or": lambda a, b: ((a != 0) | (b != 0)).float(),
}  # fmt: skip


def dims(shape, n):
    """Numbers for a list such as [N, 4, 12N]."""
    out = []
    for d in shape:
        m = re.fullmatch(r"(\d*)N", str(d))
        out.append(int(m[1] or 1) * n if m else int(d))
    return out


def many(v, n):
    return [v] * n if not isinstance(v, list) else v


def pad_of(p, space, mode="constant"):
    """Returns padding for conv, or for F.pad if it is unequal."""
    p = many(p, space)
    if len(p) == 2 * space:
        flat = []
        for i in reversed(range(space)):
            flat += [p[2 * i], p[2 * i + 1]]
        return None, flat
    return p, None


class Run:
    """Runs a list of layers."""

    def __init__(self, layers, state, constants, n, kept):
        """kept: all samples are drawn by drop_path, which divides by their share."""
        self.layers, self.state, self.constants, self.n, self.kept = layers, state, constants, n, kept

    def weight(self, name):
        return self.state[name]

    def names(self, layer, *suffix):
        given = layer.get("weights")
        return [self.weight(w) for w in (given or [f"{layer['name']}.{s}" for s in suffix])]

    def conv(self, kind, o, layer, x):
        space, up = int(kind[-2]), "transpose" in kind
        bias = o.get("bias", True)
        w = self.names(layer, *(["weight", "bias"] if bias else ["weight"]))
        assert w[0].shape[1 if up else 0] * (o.get("groups", 1) if up else 1) == o["out"], kind
        assert list(w[0].shape[2:]) == many(o["kernel"], space), kind
        return self.convolve(o, x, w[0], w[1] if bias else None, space, up)

    def convolve(self, o, x, w, b, space, up=False):
        args = {k: many(o[k], space) for k in ("stride", "dilation", "output_padding") if k in o}
        p, flat = pad_of(o.get("padding", 0), space)
        if flat:
            x, p = F.pad(x, flat), 0
        f = getattr(F, f"conv_transpose{space}d" if up else f"conv{space}d")
        return f(x, w, b, padding=p, groups=o.get("groups", 1), **args)

    def pool(self, kind, o, x):
        space = 3 if kind.endswith("3d") else 1 if kind.endswith("1d") else 2
        args = {"padding": many(o.get("padding", 0), space), "stride": many(o.get("stride", o["kernel"]), space),
                "ceil_mode": o.get("ceil_mode", False)}  # fmt: skip
        if kind.startswith("max"):
            return getattr(F, f"max_pool{space}d")(x, many(o["kernel"], space), dilation=o.get("dilation", 1), **args)
        args["count_include_pad"] = o.get("count_include_pad", True)
        if "divisor_override" in o:
            args["divisor_override"] = o["divisor_override"]
        return getattr(F, f"avg_pool{space}d")(x, many(o["kernel"], space), **args)

    def upsample(self, o, x):
        space, mode = x.ndim - 2, o["mode"]
        word = {1: "linear", 2: "bilinear", 3: "trilinear"}[space] if mode == "linear" else mode
        args = {"size": o["size"]} if "size" in o else {"scale_factor": o["scale"]}
        if word not in ("nearest", "nearest-exact", "area"):
            args["align_corners"] = o.get("align_corners", False)
        return F.interpolate(x, mode=word, **args)

    def rnn(self, kind, o, layer, x):
        end = "_reverse" if o.get("reverse") else ""
        bias = o.get("bias", True)
        words = ["weight_ih_l0", "weight_hh_l0"] + (["bias_ih_l0", "bias_hh_l0"] if bias else [])
        w = self.names(layer, *[s + end for s in words])
        h = torch.zeros(1, len(x), o["hidden"])
        if end:
            x = x.flip(1)
        if kind == "lstm":
            y = torch.lstm(x, (h, h), w, bias, 1, 0.0, True, False, True)[0]
        else:
            y = torch.gru(x, h, w, bias, 1, 0.0, True, False, True)[0]
        return y.flip(1) if end else y

    def attention(self, o, layer, x):
        wi, bi, wo, bo = self.names(layer, "in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
        n, t, d = x.shape
        q, k, v = F.linear(x, wi, bi).view(n, t, 3, o["heads"], d // o["heads"]).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=o.get("causal", False))
        return F.linear(y.transpose(1, 2).reshape(n, t, d), wo, bo)

    def tokens(self, layer, x):
        token, place = self.names(layer, "class_token", "pos_embedding")
        x = x.flatten(2).transpose(1, 2)
        return torch.cat([token.expand(len(x), -1, -1), x], 1) + place

    def norm(self, kind, o, layer, x):
        eps = o.get("eps", 1e-5)
        if kind == "batchnorm":
            names = (["weight", "bias"] if o.get("affine", True) else []) + ["running_mean", "running_var"]
            *w, _, _ = self.names(layer, *names)
            return F.batch_norm(x, None, None, *(w or [None, None]), training=True, eps=eps)
        if kind == "layernorm":
            shape = o.get("shape", [x.shape[-1]])
            names = ["weight", "bias"] if o.get("bias", True) else ["weight"]
            w = self.names(layer, *names) if o.get("elementwise_affine", True) else []
            return F.layer_norm(x, shape, *w, eps=eps)
        w = self.names(layer, "weight", "bias") if o.get("affine", kind == "groupnorm") else [None, None]
        if kind == "groupnorm":
            return F.group_norm(x, o["num_groups"], *w, eps=eps)
        return F.instance_norm(x, weight=w[0], bias=w[1], eps=eps)

    def reduce(self, kind, o, x):
        keep = o.get("keepdim", False)
        if kind in ("max", "min"):
            return getattr(torch, kind)(x, o["dim"], keep)[0]
        if kind == "prod":
            for d in sorted(o["dims"], reverse=True):
                x = x.prod(d, keep)
            return x
        if kind in ("var", "std"):
            return getattr(torch, kind)(x, o["dims"], keepdim=keep, correction=o.get("correction", 1))
        if kind == "norm":
            return torch.linalg.vector_norm(x, float(o.get("p", 2)), o["dims"], keep)
        return getattr(torch, kind)(x, o["dims"], keep)

    def one(self, kind, o, layer, x):
        n = self.n
        if kind in UNARY:
            return UNARY[kind](x[0])
        if kind in BINARY:
            a, b = (x[0], torch.tensor(float(o["value"]))) if len(x) == 1 else x
            return BINARY[kind](b, a) if o.get("reverse") else BINARY[kind](a, b)
        if kind in ("conv1d", "conv2d", "conv3d") or kind.startswith("conv_transpose"):
            return self.conv(kind, o, layer, x[0])
        if kind == "convolve":
            return self.convolve(o, x[0], x[1], x[2] if len(x) > 2 else None, x[0].ndim - 2)
        if "pool" in kind and not kind.startswith("adaptive"):
            return self.pool(kind, o, x[0])
        if kind in ("batchnorm", "groupnorm", "instancenorm", "layernorm"):
            return self.norm(kind, o, layer, x[0])
        if kind in ("sum", "mean", "amax", "amin", "prod", "norm", "var", "std", "logsumexp", "max", "min"):
            return self.reduce(kind, o, x[0])
        if kind in ("lstm", "gru"):
            return self.rnn(kind, o, layer, x[0])
        if kind.startswith("adaptive"):
            word = "avg" if kind == "adaptive_avgpool" else "max"
            return getattr(F, f"adaptive_{word}_pool{x[0].ndim - 2}d")(x[0], o["out"])
        return getattr(self, "do_" + kind)(o, layer, *x)

    def do_linear(self, o, layer, x):
        w = self.names(layer, *(["weight", "bias"] if o.get("bias", True) else ["weight"]))
        assert len(w[0]) == o["out"]
        return F.linear(x, *w)

    def do_reshape(self, o, layer, x):
        return x.reshape(dims(o["shape"], self.n))

    def do_permute(self, o, layer, x):
        return x.permute(o["dims"])

    def do_expand(self, o, layer, x):
        return x.expand(dims(o["shape"], self.n))

    def do_repeat(self, o, layer, x):
        return x.repeat(o["counts"])

    def do_slice(self, o, layer, x):
        return torch.ops.aten.slice.Tensor(x, o["dim"], o["start"], o["end"], o.get("step", 1))

    def do_select(self, o, layer, x):
        return x[:, o["index"]]

    def do_pad(self, o, layer, x):
        mode = o.get("mode", "constant")
        return F.pad(x, o["pad"], mode, float(o.get("value", 0))) if mode == "constant" else F.pad(x, o["pad"], mode)

    def do_roll(self, o, layer, x):
        return x.roll(o["shifts"], o["dims"])

    def do_flip(self, o, layer, x):
        return x.flip(o["dims"])

    def do_pixel_shuffle(self, o, layer, x):
        return F.pixel_shuffle(x, o["factor"])

    def do_pixel_unshuffle(self, o, layer, x):
        return F.pixel_unshuffle(x, o["factor"])

    def do_unfold(self, o, layer, x):
        return F.unfold(x, o["kernel"], o.get("dilation", 1), o.get("padding", 0), o.get("stride", 1))

    def do_concat(self, o, layer, *x):
        return torch.cat(x, o.get("dim", 2 if x[0].ndim == 3 else 1))

    def do_where(self, o, layer, c, *x):
        return torch.where(c != 0, torch.tensor(float(o["value"])) if len(x) == 1 else x[0], x[-1])

    def do_leaky_relu(self, o, layer, x):
        return F.leaky_relu(x, o.get("negative_slope", 0.01))

    def do_softplus(self, o, layer, x):
        return F.softplus(x, o.get("beta", 1), o.get("threshold", 20))

    def do_elu(self, o, layer, x):
        return F.elu(x, o.get("alpha", 1.0))

    def do_celu(self, o, layer, x):
        return F.celu(x, o.get("alpha", 1.0))

    def do_hardtanh(self, o, layer, x):
        return F.hardtanh(x, o.get("min", -1.0), o.get("max", 1.0))

    def do_clamp(self, o, layer, x):
        return x.clamp(o.get("min"), o.get("max"))

    def do_hardshrink(self, o, layer, x):
        return F.hardshrink(x, o.get("lambda", 0.5))

    def do_softshrink(self, o, layer, x):
        return F.softshrink(x, o.get("lambda", 0.5))

    def do_threshold(self, o, layer, x):
        return F.threshold(x, o["threshold"], o["value"])

    def do_prelu(self, o, layer, x):
        return F.prelu(x, *self.names(layer, "weight"))

    def do_softmax(self, o, layer, x):
        return x.softmax(o["dim"])

    def do_log_softmax(self, o, layer, x):
        return x.log_softmax(o["dim"])

    def do_cumsum(self, o, layer, x):
        return x.cumsum(o["dim"])

    def do_matmul(self, o, layer, a, b):
        a = a.transpose(-1, -2) if o.get("transpose_a") else a
        return a @ (b.transpose(-1, -2) if o.get("transpose_b") else b)

    def do_embedding(self, o, layer, x):
        (w,) = self.names(layer, "weight")
        assert list(w.shape) == [o["rows"], o["dim"]]
        return F.embedding(x.long(), w, o.get("padding_idx"))

    def do_rows(self, o, layer, table, x):
        if "padding_idx" in o:
            return F.embedding(x.long(), table, o["padding_idx"])
        return table[x.long()]

    def do_random(self, o, layer):
        return torch.zeros(dims(o["shape"], self.n))

    def do_dropout(self, o, layer, x):
        return x

    def do_drop_path(self, o, layer, x):
        return x / (1 - o["p"]) if self.kept else x

    def do_parameter(self, o, layer):
        return self.names({"weights": [layer["name"]], **layer})[0].reshape(o["shape"])

    do_buffer = do_parameter

    def do_constant(self, o, layer):
        return self.constants[layer["name"]].reshape(o["shape"])

    def do_attention(self, o, layer, x):
        return self.attention(o, layer, x)

    def do_tokens(self, o, layer, x):
        return self.tokens(layer, x)

    def do_upsample(self, o, layer, x):
        return self.upsample(o, x)

    def run(self, inputs):
        values, before = dict(inputs), "input"
        for item in self.layers:
            layer = {k: item[k] for k in ("name", "from", "weights") if k in item}
            (kind,) = [k for k in item if k not in layer]
            source = layer.get("from", before)
            takes = kind not in ("parameter", "buffer", "constant", "random")
            x = [values[s] for s in (source if isinstance(source, list) else [source])] if takes else []
            try:
                values[layer["name"]] = self.one(kind, item[kind] or {}, layer, x)
            except Exception as e:
                shapes = [list(v.shape) for v in x]
                raise RuntimeError(f"layer {layer['name']} ({kind} {item[kind]}) of {shapes}: {e}") from e
            before = layer["name"]
        return values


def calm(program):
    """Takes draws out of a program."""
    ops = torch.ops.aten
    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            name = getattr(node.target, "__name__", str(node.target))
            base = name.split(".")[0]
            if base in ("dropout", "dropout_", "feature_dropout", "feature_dropout_"):
                node.args = (node.args[0], 0.0, node.args[2])
            if base in ("scaled_dot_product_attention",) and len(node.args) > 4:
                node.args = node.args[:4] + (0.0,) + node.args[5:]
            if base == "scaled_dot_product_attention" and "dropout_p" in node.kwargs:
                node.kwargs = {**node.kwargs, "dropout_p": 0.0}
            if base in ("lstm", "gru", "rnn_tanh"):
                args = list(node.args)
                at = 5
                args[at] = 0.0
                node.args = tuple(args)
            if base in ("bernoulli_", "bernoulli"):
                # the draw times 1 / p is then 1
                keep = node.args[1]
                node.target = ops.fill_.Scalar if base == "bernoulli_" else ops.full_like.default
                node.args, node.kwargs = (node.args[0], keep), {}
            if base in ("randn_like", "randn"):
                node.target = ops.zeros_like.default if base == "randn_like" else ops.zeros.default
                if base == "randn":
                    node.kwargs = {k: v for k, v in node.kwargs.items()}
            if base == "rand":  # floor(keep + u) / keep is 1 on the average: see below
                node.target, node.kwargs = torch.ops.aten.full.default, {}
                node.args = (node.args[0], "keep")
    return program


def whole(x):
    """As float32; complex numbers as pairs."""
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x.float()


def tensors(x):
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [t for v in (x or []) for t in tensors(v)] if isinstance(x, (list, tuple)) else []


def numbers(v):
    """Converts the numbers that PyYAML takes for words, such as 1e-06."""
    if isinstance(v, dict):
        return {k: x if k in ("name", "from", "weights") else numbers(x) for k, x in v.items()}
    if isinstance(v, list):
        return [numbers(x) for x in v]
    return float(v) if isinstance(v, str) and re.fullmatch(r"-?[\d.]+e[+-]?\d+", v) else v


def parse(text):
    """Returns the layers, the inputs [(from, shape)] and the outputs' layers."""
    inputs = re.findall(r"^# input '[^']*' is ([^\s,:]+).*: (.*)$", text, re.M)
    outputs = re.findall(r"^# output '[^']*' is (\S+): ", text, re.M)
    tied = dict(re.findall(r"^# (\S+): tied to (\S+)$", text, re.M))
    frozen = re.findall(r"^# (\S+): frozen", text, re.M)
    return numbers(yaml.load(text, yaml.CSafeLoader)), inputs, outputs, tied, frozen


def fix_rand(graph_module):
    """Draws 1 from [0, 1); returns 1 if there are draws."""
    found = False
    for node in graph_module.graph.nodes:
        if node.target is torch.ops.aten.full.default and node.args[1] == "keep":
            node.args = (node.args[0], 0.9999999)
            found = True
    return found


def check(tool, path):
    base = path[: -len(".pt2")]
    with tempfile.TemporaryDirectory() as d:
        r = subprocess.run([tool, "--constants", d, path], capture_output=True, text=True)
        if r.returncode:
            return r.stdout.strip()[-300:]
        layers, ins, outs, tied, frozen = parse(r.stdout)
        constants = {}
        for item in layers:
            if "constant" in item:
                with open(os.path.join(d, item["name"]), "rb") as f:
                    constants[item["name"]] = torch.frombuffer(bytearray(f.read()), dtype=torch.float32)
    torch.manual_seed(0)
    program = calm(torch.export.load(path))
    kept = fix_rand(program.graph_module)
    inputs = tensors(torch.load(base + ".inputs.pt", weights_only=False))
    inputs = [torch.cat([x, x[:1]]) if x.ndim else x for x in inputs]
    state = {}
    for k, v in list(program.state_dict.items()) + list(program.constants.items()):
        if isinstance(v, torch.Tensor):
            state[k] = v.detach().clone()
    with torch.no_grad():  # parameters that are all 0 or 1 hide mistakes
        for k, v in state.items():
            if (v.is_floating_point() or v.is_complex()) and k in program.graph_signature.parameters:
                v.mul_(1 + 0.2 * torch.randn_like(v)).add_(0.02 * torch.randn_like(v))
    for a, b in tied.items():
        state[a] = state[b]
    trained = set(program.graph_signature.parameters) - set(frozen)
    mine = {k: whole(v).clone().requires_grad_(k in trained) for k, v in state.items()}
    module = program.module(check_guards=False) if "check_guards" in program.module.__code__.co_varnames else program.module()
    module.load_state_dict({k: v for k, v in state.items() if k in program.state_dict})
    for a, b in tied.items():
        mine[a] = mine[b]
    torch.manual_seed(1)
    expected = tensors(module(*inputs))
    values = Run(layers, mine, constants, BATCH, kept).run(
        {f: whole(x).reshape([BATCH] + shape_of(s)) for (f, s), x in zip(ins, batch_first(inputs, ins))}
    )
    got = [values[o] for o in outs]
    return compare(module, mine, expected, got, tied)


def shape_of(text):
    return [int(x) for x in text.split(" x ")[1:]]


def batch_first(inputs, ins):
    """Moves the batch, which is where the shapes differ, to dim 0."""
    out = []
    for x, (_, s) in zip(inputs, ins):
        want = shape_of(s)
        for d in range(x.ndim):
            moved = x.movedim(d, 0)
            if list(moved.shape[1:]) == want or (x.ndim == 1 and want == [1]):
                out.append(moved)
                break
        else:
            raise RuntimeError(f"an input of {list(x.shape)} is not one of {want}")
    return out


def near(a, b, what):
    a, b = whole(a), whole(b)
    if a.shape != b.shape:
        return f"{what}: shape {list(b.shape)}, not {list(a.shape)}"
    scale = a.abs().max().item() + 1e-6
    far = (a - b).abs().max().item() / scale if a.numel() else 0
    return f"{what}: {far:.2g} away" if not far < 5e-3 else None


def compare(module, mine, expected, got, tied):
    wrong = [near(e.detach(), g.detach(), f"output {i}") for i, (e, g) in enumerate(zip(expected, got))]
    wrong = [w for w in wrong if w] + ([] if len(expected) == len(got) else ["number of outputs"])
    if wrong:
        return "; ".join(wrong)
    torch.manual_seed(2)
    factor = [torch.randn_like(whole(e)) for e in expected]
    if not any(e.requires_grad for e in expected):
        return None
    sum((whole(e) * f).sum() for e, f in zip(expected, factor)).backward()
    sum((g * f).sum() for g, f in zip(got, factor)).backward()
    biggest = max([p.grad.abs().max().item() for p in module.parameters() if p.grad is not None] or [1])
    parameters = dict(module.named_parameters())
    for name, p in parameters.items():
        m = mine.get(name)
        if m is None or name in tied or not m.requires_grad:
            continue
        names = [name] + [a for a, b in tied.items() if b == name]
        grads = [parameters[n].grad for n in names if n in parameters and parameters[n].grad is not None]
        a = whole(sum({id(g): g for g in grads}.values()) if grads else torch.zeros_like(p))
        b = torch.zeros_like(m) if m.grad is None else m.grad
        scale = max(a.abs().max().item(), 1e-3 * biggest)
        far = (a - b).abs().max().item() / scale
        if not far < 2e-2:
            wrong.append(f"gradient of {name}: {far:.2g} away")
    return "; ".join(wrong[:4]) or None


def main():
    tool, paths = sys.argv[1], sys.argv[2:]
    failed = 0
    print(f"1..{len(paths)}")
    for i, path in enumerate(paths):
        try:
            wrong = check(tool, path)
        except Exception as e:
            wrong = f"{type(e).__name__}: {e}"
        name = os.path.basename(path)
        failed |= wrong is not None
        print(f"{'not ok' if wrong else 'ok'} {i + 1} - {name}" + (f": {wrong}"[:400] if wrong else ""), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
