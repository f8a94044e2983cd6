"""Runs entries of op_db through `model.from` with the batch in dim 0 or 1 of the input.

    batched.py CTRAIN [--device cpu] [--only REGEX] [--part I/N] [--most 10] [--group 40]

As imported.py, which tries an entry with a batch only if it needs one.  The input, and other tensors of the same size in
that dim if PyTorch takes them so, are products of one-hot samples and parameters; so gradients of inputs are compared.
Entries that pass, but whose result for a sample depends on the others, are reported: they must be refused.
"""

import collections
import re
import tempfile
import warnings

import imported
import torch
from torch import nn
from torch.utils import _pytree


class Batched(imported.Entry):
    """axis: the dim of the batch; every: all tensors that can have the batch have it, not only the first."""

    def __init__(self, name, call, args, kwargs, axis, every):
        super().__init__(name, call, args, kwargs)
        first = getattr(self, self.first)
        if first.dim() <= axis or first.shape[axis] < 2:
            raise ValueError("no batch")
        self.axis, self.batch = axis, first.shape[axis]
        tensors = {v: getattr(self, v) for is_tensor, v in self.leaves if is_tensor}
        fits = lambda t: t.dim() == first.dim() and t.shape[axis] == self.batch
        self.lead = {v for v, t in tensors.items() if every and fits(t)} | {self.first}
        x = self.samples()
        self.out = [self.batch_dim(a, b) for a, b in zip(self.results(x), self.results(torch.cat([x, x])))]

    def batch_dim(self, y, twice):
        """The only dim that doubles with the batch."""
        dims = [i for i in range(y.dim()) if y.shape[i] != twice.shape[i]]
        if len(dims) != 1 or (y.shape[dims[0]], twice.shape[dims[0]]) != (self.batch, 2 * self.batch):
            raise ValueError("no batch in the result")
        return dims[0]

    def value(self, name, x):
        v = getattr(self, name)
        if name not in self.lead:
            return v
        v = v.movedim(self.axis, 0)
        y = nn.functional.linear(x, v.reshape(self.batch, -1).t().to(x.dtype)).reshape(-1, *v.shape[1:])
        return y.movedim(0, self.axis).to(v.dtype if not v.is_floating_point() else y.dtype)

    def results(self, x):
        args, kwargs = _pytree.tree_unflatten([self.value(v, x) if t else v for t, v in self.leaves], self.spec)
        y = _pytree.tree_leaves(self.call(*args, **kwargs))
        return [t for t in y if torch.is_tensor(t) and t.is_floating_point()]

    def forward(self, x):
        return torch.cat([y.movedim(d, 0).reshape(x.shape[0], -1) for y, d in zip(self.results(x), self.out)], 1)

    def mixes(self):
        """Whether a sample alone has another result."""
        for i in range(self.batch):
            try:
                alone = self(self.samples()[i : i + 1])[0]
            except Exception:  # PyTorch wants more than one
                continue
            if not torch.allclose(alone, self.want[i], rtol=1e-6, atol=1e-9):
                return True
        return False


def form(name, call, args, kwargs, axis):
    """The entry with as many tensors of a batch as PyTorch takes; None: it takes no batch."""
    for every in (True, False):
        try:
            entry = Batched(name, call, args, kwargs, axis, every)
            if not imported.judge(entry):
                return entry
        except Exception:
            continue
    return None


def main():
    options = imported.OPTIONS
    count, why, groups = collections.Counter(), collections.Counter(), collections.defaultdict(list)

    def flush(key):
        for entry, verdict, words in imported.group_verdicts(groups.pop(key)):
            if verdict == "again":
                groups[entry.batch, True].append(entry)
                continue
            if verdict == "pass" and entry.mixes():
                verdict, words = "fail", "samples depend on each other"
            count["detour" if verdict == "pass" and entry.blamed else verdict] += 1
            if verdict in ("missing", "not exported"):
                why[f"{verdict}: {words}"] += 1
            if verdict in ("fail", "refused"):
                print(f"{verdict}: {entry.name[1]}, batch in dim {entry.axis}: {words}", flush=True)

    chosen = [e for e in imported.op_entries(options.most) if re.search(options.only, e[1])]
    for table, name, call, args, kwargs in chosen[options.part[0] - 1 :: options.part[1]]:
        for axis in (0, 1):
            entry = form((table, name), call, args, kwargs, axis)
            if not entry:
                count["not meant"] += 1
                continue
            groups[entry.batch, False].append(entry)
            if len(groups[entry.batch, False]) >= options.group:
                flush((entry.batch, False))
    while groups:
        flush(next(iter(groups)))
    print(dict(count))
    for words, entries in why.most_common():
        print(entries, words, sep="\t")
    return count["fail"] > 0


if __name__ == "__main__":
    imported.OPTIONS = imported.parse_options(__doc__)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as imported.WORK:
        raise SystemExit(main())
