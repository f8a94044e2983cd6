"""Runs entries of PyTorch's test tables through `model.from`: a .pt2 file of many entries at a time.

    imported.py CTRAIN [--device cpu] [--only TEXT] [--part I/N] [--most 10] [--group 40]

Each entry is a module whose tensors of real numbers are parameters; a net concatenates the outputs of a group of them.
The program translates the net, predicts and makes one step of SGD; outputs and gradients are compared with PyTorch's in
float64.  --most: entries taken of each operator.  Entries that cannot be exported or translated are counted by reason.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

try:
    import expecttest  # torch.testing imports it
    import h5py
    import numpy as np
    import torch
    import yaml
    from torch import nn
    from torch.utils import _pytree
except ModuleNotFoundError as e:
    print(f"skipped: {e}", file=sys.stderr)
    sys.exit(77)

LARGEST, TOLERANCE = 20000, 5e-5


class Entry(nn.Module):
    """A call of a function or module: tensors of real numbers are parameters, others are buffers.

    batch: 0, or how many samples the first tensor is, for layers that take a batch: the product of one-hot samples and
    the parameter.  blamed: ops that are decomposed, since there is no layer for them.
    """

    def __init__(self, name, call, args, kwargs):
        super().__init__()
        self.name, self.call, self.batch, self.blamed, self.rounds = name, call, 0, set(), 0
        leaves, self.spec = _pytree.tree_flatten((args, kwargs))
        self.leaves, self.first = [], None
        for i, v in enumerate(leaves):
            if torch.is_tensor(v):
                v = v.detach().clone().contiguous()
                if v.is_floating_point():
                    setattr(self, f"x{i}", nn.Parameter(v.float().double()))
                    self.first = self.first or f"x{i}"
                else:
                    self.register_buffer(f"x{i}", v)
                v = f"x{i}"
            self.leaves.append((torch.is_tensor(leaves[i]), v))

    def value(self, name, x):
        v = getattr(self, name)
        if not self.batch or name != self.first:
            return v
        return nn.functional.linear(x, v.reshape(self.batch, -1).t()).reshape(-1, *v.shape[1:])

    def forward(self, x):
        args, kwargs = _pytree.tree_unflatten([self.value(v, x) if tensor else v for tensor, v in self.leaves], self.spec)
        found = [y for y in _pytree.tree_leaves(self.call(*args, **kwargs)) if torch.is_tensor(y) and y.is_floating_point()]
        if self.batch:
            return torch.cat([y.reshape(x.shape[0], -1) for y in found], 1)
        return torch.cat([y.flatten() for y in found]) * x

    def samples(self):
        return torch.eye(max(self.batch, 1), dtype=next(self.parameters()).dtype)


class Net(nn.Module):
    def __init__(self, entries):
        super().__init__()
        self.e = nn.ModuleList(entries)

    def forward(self, x):
        return torch.cat([e(x) for e in self.e], 1)


# ---- the tables ----


def op_entries(most):
    from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db:
        if info.name in ("half", "bfloat16", "nn.functional.linear_cross_entropy"):
            continue  # of 16 bits; entries that differ in how the work is cut up
        name = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
        try:
            torch.manual_seed(5)
            for i, one in zip(range(most), info.sample_inputs("cpu", torch.float64)):
                yield "op_db", f"{name}[{i}]", info.op, (one.input, *one.args), one.kwargs
        except Exception:  # no real numbers
            continue


def module_entries():
    from torch.testing._internal.common_modules import module_db

    for k, info in enumerate(module_db):
        if info.name == "nn.LinearCrossEntropyLoss":
            continue
        torch.manual_seed(k)
        given = info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=False, training=True)
        for i, one in enumerate(given):
            make, call = one.constructor_input, one.forward_input
            torch.manual_seed(i)
            m = info.module_cls(*make.args, **make.kwargs).double()
            yield "module_db", f"{info.name}[{i}]", m, call.args, call.kwargs


def test_entries():
    from torch.testing._internal import common_nn

    for table in ("module_tests", "get_new_module_tests", "criterion_tests"):
        list_of = getattr(common_nn, table, [])
        for i, one in enumerate(list_of() if callable(list_of) else list_of):
            torch.manual_seed(i)
            kind = one.get("constructor") or (lambda one=one: getattr(nn, one["module_name"])(*one.get("constructor_args", ())))
            draw = lambda key: one[f"{key}_fn"]() if f"{key}_fn" in one else torch.randn(one[f"{key}_size"])
            name = one.get("fullname") or one.get("module_name", "") + "_" + one.get("desc", "")
            try:
                args = (draw("input"), *([draw("target")] if table == "criterion_tests" else []))
                yield table, f"{name}[{i}]", kind().double(), _pytree.tree_map_only(torch.Tensor, as_double, args), {}
            except Exception:
                continue


def as_double(v):
    return v.double() if v.is_floating_point() else v


# ---- one entry alone ----


def judge(entry):
    """Why an entry is nothing that one trains with, or ''; sets what is expected of it."""
    leaves = list(entry.parameters())
    if not leaves:
        return "no real numbers as input"
    if sum(v.numel() for v in [*leaves, *entry.buffers()]) > LARGEST or any(v.numel() == 0 for v in leaves):
        return "no numbers, or many"
    torch.manual_seed(1)
    y = entry(entry.samples())
    torch.manual_seed(2)
    set_seed, torch.manual_seed = torch.manual_seed, lambda _: None  # the table's random ops set a seed of their own
    try:
        again = entry(entry.samples())
    finally:
        torch.manual_seed = set_seed
    if y.numel() == 0 or y.numel() > LARGEST or not y.isfinite().all() or not torch.equal(y, again):
        return "random, empty, or not finite"
    if not y.requires_grad:
        return "no gradient"
    entry.want = y.detach()
    entry.scale = max(1.0, float(y.abs().max()))
    entry.pull = torch.rand(y.shape, generator=torch.Generator().manual_seed(3)) * entry.scale
    entry.grads = gradients(entry, torch.float64)
    return "" if all(g.isfinite().all() for g in entry.grads.values()) else "a gradient that is not finite"


def gradients(entry, dtype):
    """Of the sum of the outputs times `pull`."""
    entry.to(dtype).zero_grad()
    (entry(entry.samples()) * entry.pull.to(dtype)).sum().backward()
    found = {k: p.grad.double().clone() for k, p in entry.named_parameters() if p.grad is not None}
    entry.double().zero_grad(set_to_none=True)
    return found


# ---- a group ----


class Refused(Exception):
    """The program's message."""


def export(entries, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = Net(entries).float().train()
        shapes = ({0: torch.export.Dim("batch")},)
        columns = max(entries[0].batch, 1)
        program = torch.export.export(net, (torch.ones(max(columns, 2), columns).float(),), dynamic_shapes=shapes)
        table = decompositions(set().union(*[e.blamed for e in entries]))
        program = program.run_decompositions(table) if table else program
        torch.export.save(program, path)
    for e in entries:
        e.double()
    return program


def decompositions(ops):
    """Those of ops by name, as far as PyTorch has them."""
    found = {}
    for name in ops:
        space, op, overload = name.split(".")
        op = getattr(getattr(getattr(torch.ops, space), op), overload)
        if op in torch._decomp.decomposition_table:
            found[op] = torch._decomp.decomposition_table[op]
        elif op._can_decompose():
            found[op] = torch._export.utils._get_decomp_for_cia(op)
    return found


def run(*command):
    done = subprocess.run([OPTIONS.ctrain, *command, "--log", "error"], cwd=WORK, capture_output=True, text=True)
    if done.returncode:
        raise Refused(done.stderr.strip() or f"status {done.returncode}")


def off(got, want, floor):
    far = np.abs(np.asarray(got, "f8").ravel() - want.numpy().ravel()).max()
    return far / max(float(want.abs().max()), floor) if np.isfinite(far) else float("inf")


def compare(entries):
    """Trains a group; returns a list of what is wrong, '' for nothing."""
    # mean((y - t)^2) has the gradient 2 (y - t) / n = 2 pull / n
    y, pull = torch.cat([e.want for e in entries], 1), torch.cat([e.pull for e in entries], 1)
    with h5py.File(f"{WORK}/data.h5", "w") as h:
        h["images"], h["labels"] = entries[0].samples().float().numpy(), (y - pull).float().numpy()
    keys = {
        "run": {"dir": "run"}, "device": OPTIONS.device, "model": {"from": "net.pt2", "classes": y.shape[1]}, "loss": {"kind": "mse"},
        "data": {"train": "data.h5", "val": "data.h5", "batch": len(y)}, "train": {"steps": 1, "epochs": 1},
        "optim": {"kind": "sgd", "lr": 1e-6, "momentum": 0.9}, "eval": {"every_epochs": 0}, "cpu": {"threads": 1},
        "checkpoint": {"every_epochs": 0, "every_steps": 1}}
    with open(f"{WORK}/c.yaml", "w") as f:
        yaml.safe_dump(keys, f, sort_keys=False)
    run("predict", "c.yaml", "--checkpoint", "net.pt2", "--input", "data.h5", "--output", "out.h5")
    run("train", "c.yaml", "--resume", "never")
    found, at = [], 0
    with h5py.File(f"{WORK}/out.h5") as h:
        got = h["outputs"][...]
    with h5py.File(f"{WORK}/run/checkpoints/step-00000001.h5") as h:
        for i, e in enumerate(entries):
            n = e.want.shape[1]
            wrong = {"forward": off(got[:, at : at + n], e.want, 1e-6 * e.scale)}
            floor = 1e-3 * max([float(g.abs().max()) for g in e.grads.values()] or [1])
            for k, g in e.grads.items():
                key = f"optim/momentum_buffer/e.{i}.{k}"  # a parameter that no output needs is left out
                wrong[k] = off(h[key][...] * (y.numel() / 2) if key in h else np.zeros(g.shape), g, max(floor, 1e-12))
            found.append({k: v for k, v in wrong.items() if not v <= TOLERANCE})
            at += n
    return [pardon(e, wrong) for e, wrong in zip(entries, found)]


def pardon(entry, wrong):
    """Leaves out what PyTorch in float32 misses as far, up to a factor of ten."""
    if not wrong:
        return {}
    entry.float()
    own = {"forward": off(entry(entry.samples()).detach().double().numpy(), entry.want, 1e-6 * entry.scale)}
    floor = max(1e-12, 1e-3 * max([float(g.abs().max()) for g in entry.grads.values()] or [1]))
    own.update({k: off(g.numpy(), entry.grads[k], floor) for k, g in gradients(entry, torch.float32).items()})
    return {k: v for k, v in wrong.items() if not v <= 10 * own.get(k, 0)}


TAKES_BATCH = "takes a batch|batch is not the first dim|needs 2 dims or more|needs a batch in one dim"


def blamed(words, program):
    """{number of an entry: the ops without a layer that it has, or 'batch' and the reason of another refusal}."""
    found, without = collections.defaultdict(set), set()
    for op, i, reason in re.findall(r"([\w.]+) in module 'e\.(\d+)[^']*': ([^;]*)", words):
        if "there is no layer" in reason:
            without.add(op)
        else:
            found[int(i)] |= {"batch", f"{op}: {reason}"}
    for node in program.graph.nodes if program else ():
        stack = [re.search(r"\be\.(\d+)", str(v)) for v in (node.meta.get("nn_module_stack") or {}).values()]
        index = next((int(m.group(1)) for m in stack if m), None)
        if index is not None and str(node.target) in without:  # the message names an op once
            found[index].add(str(node.target))
    layer = re.search(r"layer 'e\.(\d+)\.", words)
    if layer and re.search(TAKES_BATCH, words):
        found[int(layer.group(1))] |= {"batch", words[-120:]}
    return found


def again(entry, ops):
    """Whether an entry can be tried in another form: with a batch, or with ops decomposed."""
    entry.rounds += 1
    if entry.rounds > 4:
        return False
    if "batch" in ops:
        x = getattr(entry, entry.first)
        if entry.batch or x.dim() < 2:
            return False
        entry.batch = len(x)
        try:
            return not judge(entry)
        except Exception:  # dim 0 is no batch
            return False
    new = ops - entry.blamed
    entry.blamed |= new
    return bool(decompositions(new))


def group_verdicts(entries):
    """Yields (entry, verdict, words); verdict 'again': in another form.  Halves a group that fails as a whole."""
    program = None
    try:
        program = export(entries, f"{WORK}/net.pt2")
        found = compare(entries)
    except Exception as e:
        for one in entries:
            one.double()
        words = str(e).strip().split("\n")
        hit = blamed(str(e), program) if isinstance(e, Refused) else {}
        if hit:
            for i, ops in hit.items():
                yield entries[i], "again" if again(entries[i], ops) else "missing", ", ".join(sorted(ops - {"batch"}))
            entries = [one for i, one in enumerate(entries) if i not in hit]
            if entries:
                yield from group_verdicts(entries)
        elif len(entries) > 1:
            yield from group_verdicts(entries[: len(entries) // 2])
            yield from group_verdicts(entries[len(entries) // 2 :])
        elif isinstance(e, Refused):
            yield entries[0], "refused", " ".join(words)[:300]
        else:
            yield entries[0], "not exported", type(e).__name__ + ": " + words[0][:80]
        return
    for one, wrong in zip(entries, found):
        yield one, "fail" if wrong else "pass", str({k: f"{v:.1e}" for k, v in wrong.items()})


def all_entries():
    yield from op_entries(OPTIONS.most)
    yield from module_entries()
    yield from test_entries()


def main():
    count, why, groups = collections.defaultdict(collections.Counter), collections.Counter(), collections.defaultdict(list)

    def note(table, name, verdict, words, detour=False):
        count[table][verdict] += 1
        count[table]["detour"] += detour and verdict == "pass"
        if verdict in ("missing", "not exported", "not meant"):
            why[f"{verdict}: {words}"] += 1
        if verdict in ("fail", "refused"):
            print(f"{verdict}: {table} {name}: {words}", flush=True)

    def flush(key):
        group = groups.pop(key)
        for entry, verdict, words in group_verdicts(group):
            if verdict == "again":
                groups[entry.batch, bool(entry.blamed)].append(entry)
            else:
                note(*entry.name, verdict, words, bool(entry.blamed))

    chosen = [e for e in all_entries() if OPTIONS.only in f"{e[0]} {e[1]}"][OPTIONS.part[0] - 1 :: OPTIONS.part[1]]
    for table, name, call, args, kwargs in chosen:
        try:
            entry = Entry((table, name), call, args, kwargs)
            reason = judge(entry)
        except Exception as e:
            reason = f"PyTorch: {type(e).__name__}: {str(e)[:60]}"
        if reason:
            note(table, name, "not meant", reason)
            continue
        groups[0, False].append(entry)
        for key in [k for k, group in groups.items() if len(group) >= OPTIONS.group]:
            flush(key)
    while groups:
        flush(next(iter(groups)))
    verdicts = ("pass", "detour", "fail", "refused", "missing", "not exported", "not meant")
    print("table", "entries", *verdicts, sep="\t")
    for table, of in count.items():
        print(table, sum(of.values()) - of["detour"], *(of[v] for v in verdicts), sep="\t")
    for words, entries in why.most_common():
        print(entries, words, sep="\t")
    return any(of["fail"] + of["refused"] for of in count.values())


def parse_options(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("ctrain", type=os.path.abspath)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="")
    parser.add_argument("--part", default="1/1", type=lambda text: tuple(map(int, text.split("/"))))
    parser.add_argument("--most", default=10, type=int)
    parser.add_argument("--group", default=40, type=int)
    return parser.parse_args()


if __name__ == "__main__":
    OPTIONS = parse_options(__doc__)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as WORK:
        raise SystemExit(main())
