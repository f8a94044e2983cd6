"""Runs the entries of PyTorch's test tables that a configuration can express (README.md).

    run.py CTRAIN [--device cpu] [--only TEXT] [--part I/N] [--jobs 1]

--part takes every Nth entry from the Ith on.  Interrupted (SIGINT), it still prints the table of those that it tried.
"""
import argparse
import collections
import multiprocessing
import signal
import sys
import warnings

try:
    import expecttest  # torch.testing imports it
    import torch
    import torch.nn.functional as F
    from torch import nn

    from express import Missing, NotMeant, batchnorm, layer, layer_case, loss

    from beside_torch import Case, Refused, compare
except ModuleNotFoundError as e:
    print(f"skipped: {e}", file=sys.stderr)
    sys.exit(77)

# ---- module_db, criterion_tests ----


def module_entry(info, given, seed):
    torch.manual_seed(seed)
    make, call = given.constructor_input, given.forward_input
    name = info.name.removeprefix("nn.")
    if name == "LinearCrossEntropyLoss":
        raise NotMeant("entries that differ in how the work is cut up")
    m = info.module_cls(*make.args, **make.kwargs)
    keys = {k: v for k, v in call.kwargs.items() if v is not None}
    args = [*call.args, *([keys.pop("input")] if "input" in keys else [])]
    if "Loss" in name:
        return loss(name, m, *args[:2])
    if isinstance(m, nn.LSTM) and len(args) > 1:
        keys["hx"] = args[1]
    if isinstance(m, nn.MultiheadAttention):
        keys.pop("need_weights", None)
    return layer(m, args[0], **keys)


def module_entries():
    from torch.testing._internal.common_modules import module_db

    for k, info in enumerate(module_db):
        for training in (True, False) if info.train_and_eval_differ else (True,):
            torch.manual_seed(k)
            given = info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=False, training=training)
            for i, one in enumerate(given):
                name = f"{info.name}[{i}]" + ("" if training else " eval")
                yield "module_db", name, lambda info=info, one=one, i=i: module_entry(info, one, i)


def criterion_entry(entry, name, seed):
    torch.manual_seed(seed)
    m = entry["constructor"]() if "constructor" in entry else getattr(nn, entry["module_name"])()
    m.reduction = name.rsplit("_", 1)[-1]  # the table's loop binds its variable late: all are 'sum' there
    x = entry["input_fn"]() if "input_fn" in entry else torch.randn(entry["input_size"])
    target = entry["target_fn"]() if "target_fn" in entry else torch.randn(entry["target_size"])
    return loss(name.split("_")[0], m, x if torch.is_tensor(x) else x[0], target)


def criterion_entries():
    from torch.testing._internal.common_nn import criterion_tests

    for i, entry in enumerate(criterion_tests):
        name = entry.get("fullname") or entry["module_name"]
        yield "criterion_tests", name, lambda entry=entry, name=name, i=i: criterion_entry(entry, name, i)


# ---- op_db: functions that a layer corresponds to ----


def filled(m, *values):
    """A module whose weights are these."""
    with torch.no_grad():
        for parameter, value in zip((m.weight, m.bias), values):
            if value is not None:
                parameter.copy_(value)
    return m


def op_linear(x, w, b=None):
    if w.dim() != 2:
        raise NotMeant("weights of one dim")
    return layer(filled(nn.Linear(w.shape[1], w.shape[0], b is not None), w, b), x)


def op_conv(axes):
    def make(x, w, b=None, bias=None, groups=1, **keys):
        b = b if b is not None else bias
        keys = {k: v[0] if isinstance(v, (tuple, list)) and len(v) == 1 else v for k, v in keys.items()}
        m = getattr(nn, f"Conv{axes}d")(w.shape[1] * groups, w.shape[0], tuple(w.shape[2:]), groups=groups,
                                        bias=b is not None, **keys)
        return layer(filled(m, w, b), x)

    return make


def op_pool(cls, *names):
    def make(x, *args, **keys):
        keys = {k: v for k, v in {**dict(zip(names, args)), **keys}.items() if v is not None and v != ()}
        keys = {k: v[0] if isinstance(v, (tuple, list)) and len(v) == 1 else v for k, v in keys.items()}
        return layer(cls(**keys), x)

    return make


def op_batch_norm(x, mean, var, w=None, b=None, training=False, momentum=0.1, eps=1e-5):
    if mean is None or x.dim() < 2 or not training:
        raise Missing("batchnorm: no running statistics, or as a constant map")
    m = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[x.dim()]
    return batchnorm(m(x.shape[1], eps, momentum, affine=w is not None), x.detach())


def op_layer_norm(x, shape, w=None, b=None, eps=1e-5):
    if eps <= 0:
        raise Missing("layernorm: eps below 0")
    m = nn.LayerNorm(shape, eps, elementwise_affine=w is not None)
    return layer(filled(m, w, b) if w is not None else m, x if x.dim() > len(shape) else x.unsqueeze(0))


def op_group_norm(x, groups, weight=None, bias=None, eps=1e-5):
    if eps <= 0 or (weight is None) != (bias is None):
        raise Missing("groupnorm: eps below 0, or a weight without a bias")
    return layer(nn.GroupNorm(groups, x.shape[1], eps, affine=weight is not None), x)


def op_instance_norm(x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1,
                     eps=1e-5):
    if running_mean is not None or not use_input_stats or (weight is None) != (bias is None):
        raise Missing("instancenorm: running statistics, or a weight without a bias")
    make = getattr(nn, f"InstanceNorm{x.dim() - 2}d")
    return layer(make(x.shape[1], eps, affine=weight is not None), x)


def op_loss(cls):
    return lambda x, target, **keys: loss(cls.__name__, cls(**keys), x, target)


def op_interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None, **keys):
    axes = x.dim() - 2
    size = size[0] if isinstance(size, (tuple, list)) and len(size) == 1 else size
    factors = {scale_factor} if scale_factor else {s / n for s, n in zip([size] * axes if isinstance(size, int) else size, x.shape[2:])}
    if align_corners or mode not in ("nearest", "bilinear", "trilinear") or axes == 1:
        raise Missing("upsample: align_corners, bicubic, area, or one axis")
    if len(factors) > 1 or min(factors) < 1 or min(factors) % 1:
        raise Missing("upsample: to a size, or by a fraction")
    keys = {"scale": int(min(factors)), "mode": "nearest" if mode == "nearest" else "linear"}
    return layer_case(x.detach(), [{"upsample": keys, "name": "m"}], nn.Upsample(scale_factor=min(factors), mode=mode))


WINDOW = ("kernel_size", "stride", "padding")
AVERAGE = (*WINDOW, "ceil_mode", "count_include_pad", "divisor_override")
OPS = {
    "linear": op_linear, "batch_norm": op_batch_norm, "layer_norm": op_layer_norm, "group_norm": op_group_norm,
    "instance_norm": op_instance_norm, "interpolate": op_interpolate,
    **{f"conv{n}d": op_conv(n) for n in (1, 2, 3)},
    **{f"max_pool{n}d": op_pool(getattr(nn, f"MaxPool{n}d"), *WINDOW) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": op_pool(getattr(nn, f"AvgPool{n}d"), *AVERAGE[:5 + (n > 1)]) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": op_pool(getattr(nn, f"AdaptiveAvgPool{n}d"), "output_size") for n in (1, 2, 3)},
    **{k: lambda x, *a, m=m, **keys: layer(m(*a, **keys), x) for k, m in {
        "relu": nn.ReLU, "relu6": nn.ReLU6, "leaky_relu": nn.LeakyReLU, "gelu": nn.GELU, "silu": nn.SiLU,
        "sigmoid": nn.Sigmoid, "tanh": nn.Tanh}.items()},
    **{k: op_loss(m) for k, m in {
        "cross_entropy": nn.CrossEntropyLoss, "nll_loss": nn.NLLLoss, "mse_loss": nn.MSELoss, "l1_loss": nn.L1Loss,
        "binary_cross_entropy": nn.BCELoss, "binary_cross_entropy_with_logits": nn.BCEWithLogitsLoss}.items()},
}


def op_entries():
    from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db:
        name = info.name.removeprefix("nn.functional.")
        if name not in OPS or info.variant_test_name:
            continue
        torch.manual_seed(5)
        for i, one in enumerate(info.sample_inputs("cpu", torch.float64)):
            if name == "max_pool" + name[8:] and one.kwargs.get("return_indices"):
                continue  # the same numbers as the entry without
            yield "op_db", f"{name}[{i}]", lambda name=name, one=one: OPS[name](one.input, *one.args, **one.kwargs)


# ---- optim_db ----

OPTIMIZERS = {"SGD": {"lr": 1e-3, "momentum": 0}, "Adam": {"lr": 1e-3}, "AdamW": {"lr": 1e-3, "weight_decay": 0.01},
              "RMSprop": {"lr": 1e-2, "momentum": 0}, "NAdam": {"lr": 2e-3}, "RAdam": {"lr": 1e-3}, "Adamax": {"lr": 2e-3},
              "Adagrad": {"lr": 1e-2}, "Adadelta": {"lr": 1.0},
              "Muon": {"lr": 1e-3, "weight_decay": 0.1, "momentum": 0.95, "nesterov": True, "groups": [{"match": "*", "muon": True}]}}
SAME = ("lr", "momentum", "weight_decay", "dampening", "nesterov", "centered", "alpha", "eps", "amsgrad", "maximize",
        "decoupled_weight_decay", "momentum_decay", "lr_decay", "initial_accumulator_value", "rho", "ns_steps",
        "ns_coefficients", "adjust_lr_fn")


class InFloat64:
    """The module torch for torch.optim.Muon, whose iterations are in bfloat16 otherwise."""

    bfloat16 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)



def optim_entry(name, given):
    """Three steps of a small network; \"optim\" is a function of parameters."""
    keys = {k: float(v) if torch.is_tensor(v) else v for k, v in given.items()}
    if name not in OPTIMIZERS:
        raise Missing(f"optimizer {name}")
    beside = {"kind": name.lower(), **OPTIMIZERS[name]}
    for k, v in keys.items():
        if k == "betas":
            beside["beta1"], beside["beta2"] = v
        elif k in SAME:
            beside[k] = list(v) if isinstance(v, tuple) else v
        elif v:
            raise Missing(f"optimizer: {k}")
    torch.manual_seed(21)
    bias = name != "Muon"  # which takes no vectors
    torch.optim._muon.torch = InFloat64()
    net = nn.Sequential(collections.OrderedDict(a=nn.Linear(5, 6, bias), b=nn.Tanh(), c=nn.Linear(6, 2, bias)))
    layers = [{"linear": {"out": 6, "bias": bias}, "name": "a"}, {"tanh": {}, "name": "b"},
              {"linear": {"out": 2, "bias": bias}, "name": "c"}]
    case = Case(layers, net, torch.randn(7, 5).float(), torch.randn(7, 2).float().double(), {"kind": "mse"}, F.mse_loss,
                keys={"optim": beside})
    case.optim = lambda parameters: getattr(torch.optim, name)(parameters, **keys)
    return case


def optim_entries():
    from torch.testing._internal.common_optimizers import optim_db

    for info in optim_db:
        for one in info.optim_inputs_func(device="cpu"):
            name = info.optim_cls.__name__
            yield "optim_db", f"{name} {one.desc}", lambda name=name, one=one: optim_entry(name, one.kwargs)


# ---- all of them ----

TABLES = (module_entries, criterion_entries, op_entries, optim_entries)


def judge(i):
    table, name, make = ENTRIES[i]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case = make()
            wrong = compare(case, OPTIONS.ctrain, OPTIONS.device, forward=case.steps > 1)  # predict gives probabilities of classes
        return table, name, "fail" if wrong else "pass", str(wrong)
    except Missing as e:
        return table, name, "missing", str(e)
    except NotMeant as e:
        return table, name, "not meant", str(e)
    except Refused as e:
        return table, name, "refused", str(e)
    except Exception as e:  # an entry that express.py does not understand
        return table, name, "not understood", repr(e)[:300]


def main():
    count, why = collections.defaultdict(collections.Counter), collections.Counter()
    try:
        with multiprocessing.Pool(OPTIONS.jobs, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
            for table, name, verdict, words in pool.imap(judge, range(len(ENTRIES))):
                count[table][verdict] += 1
                if verdict == "missing":
                    why[words] += 1
                elif verdict not in ("pass", "not meant"):
                    print(f"{verdict}: {table} {name}: {words}", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted: {sum(of.total() for of in count.values())} of {len(ENTRIES)} entries were tried")
    verdicts = ("pass", "fail", "refused", "missing", "not meant", "not understood")
    print("table", "entries", *verdicts, sep="\t")
    for table, of in count.items():
        print(table, sum(of.values()), *(of[v] for v in verdicts), sep="\t")
    for words, entries in why.most_common():
        print(entries, words, sep="\t")
    return any(of["fail"] + of["refused"] + of["not understood"] for of in count.values())


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("ctrain")
parser.add_argument("--device", default="cpu")
parser.add_argument("--only", default="")
parser.add_argument("--part", default="1/1", type=lambda text: tuple(map(int, text.split("/"))))
parser.add_argument("--jobs", type=int, default=1)
OPTIONS = parser.parse_args()
FIRST, STRIDE = OPTIONS.part
ENTRIES = [e for table in TABLES for e in table() if OPTIONS.only in f"{e[0]} {e[1]}"][FIRST - 1 :: STRIDE]
if __name__ == "__main__":
    raise SystemExit(main())
