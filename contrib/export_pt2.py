#!/usr/bin/env python3
"""Exports a PyTorch model as a .pt2 file, from which ctrain-hpc trains it (`model: {from: net.pt2}`).

    python export_pt2.py mypackage.mymodule:make_model --input 3,224,224 --out net.pt2

make_model is a function (or a class) that is called without arguments and returns the module. Give one
--input per argument of forward(): the shape of one sample, without the batch. `--input 128,int64` is an
input of whole numbers (the example is zeros). Or call it from the program that makes the model, with an
example of its inputs:

    from export_pt2 import export
    export(model, (images, columns), "net.pt2")

Both need PyTorch 2.9 or newer.

- The batch, dim 0 of every input, has any size in the file. If the code of a model fixes it, PyTorch's
  error says where; a frequent reason is `len(x)` in forward(): write `x.shape[0]` instead.
- Outputs that are a dict, a namedtuple or a class become a tuple of their tensors, in their order.
- The model is exported in train mode, with dropout and the batch normalization of training.
- Parameters and buffers keep their names in state_dict(). The file is read again to compare them.
"""
import argparse
import functools
import importlib
import inspect
import os
import sys

import torch
from torch.utils import _pytree


def export(model, example, path):
    """Writes the model to path. example: what forward() takes, a tensor or a tuple of tensors with the batch in dim 0."""
    example = (example,) if isinstance(example, torch.Tensor) else tuple(example)
    example = tuple(x if x.shape[0] > 1 else torch.cat([x, x]) for x in example)  # 1 would become part of the program
    training, kind = model.training, type(model)

    @functools.wraps(kind.forward)
    def forward(self, *inputs):
        tensors = [t for t in _pytree.tree_leaves(kind.forward(self, *inputs)) if isinstance(t, torch.Tensor)]
        return tensors[0] if len(tensors) == 1 else tuple(tensors)

    names = list(inspect.signature(kind.forward).parameters.values())[1:]
    star = next((i for i, p in enumerate(names) if p.kind is p.VAR_POSITIONAL), len(example))
    shapes = [{0: torch.export.Dim("batch")} for _ in example]
    shapes = (*shapes[:star], tuple(shapes[star:])) if star < len(example) else tuple(shapes)
    try:
        model.__class__ = type(kind.__name__, (kind,), {"forward": forward})  # a wrapper would change the names
        torch.export.save(torch.export.export(model.train(), example, dynamic_shapes=shapes), path)
    finally:
        model.__class__ = kind
        model.train(training)
    got = torch.export.load(path).state_dict
    wrong = [k for k, v in model.state_dict().items() if k not in got or not torch.equal(got[k], v)]
    if wrong:
        raise RuntimeError(f"{path}: {len(wrong)} tensors are missing or differ: {', '.join(wrong[:5])}")


def example(text):
    words = text.split(",")
    kind = words.pop() if not words[-1].isdigit() else "float32"
    shape = [2, *map(int, words)]
    return torch.randn(shape) if kind == "float32" else torch.zeros(shape, dtype=getattr(torch, kind))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", help="MODULE:FUNCTION, or FILE.py:FUNCTION")
    p.add_argument("--input", action="append", required=True, type=example, metavar="SHAPE[,TYPE]")
    p.add_argument("--out", required=True, metavar="NET.pt2")
    a = p.parse_args()
    module, colon, function = a.model.rpartition(":")
    if not colon:
        p.error(f"{a.model}: expected MODULE:FUNCTION")
    if module.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(module)))
        module = os.path.basename(module)[:-3]
    else:
        sys.path.insert(0, os.getcwd())
    model = getattr(importlib.import_module(module), function)()
    export(model, tuple(a.input), a.out)
    print(f"{a.out}: {sum(v.numel() for v in model.parameters())} parameters")


if __name__ == "__main__":
    main()
