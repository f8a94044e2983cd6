#!/usr/bin/env python3
"""Writes the golden safetensors files, by the Python package safetensors (0.8) and PyTorch.

Usage: make_safetensors.py [DIRECTORY]     (default: the directory of this script)
"""
import os
import sys

import torch
from safetensors.torch import save_file, save_model


def numbers(n, dtype):
    """-1, -0.5, 0 … or whole numbers, which every type of the kind holds exactly."""
    if dtype == torch.bool:
        return torch.arange(n) % 3 == 0
    if dtype.is_floating_point:
        return (torch.arange(n, dtype=torch.float64) / 2 - 1).to(dtype)
    return torch.arange(n).to(dtype)


def types():
    names = ("float64 float32 float16 bfloat16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 "
             "bool float8_e4m3fn float8_e5m2 complex64").split()
    state = {"types." + n: numbers(3 + i, getattr(torch, n)) if n[:6] not in ("float8", "comple")
             else torch.ones(2).to(getattr(torch, n)) for i, n in enumerate(names)}
    state["scalar"] = torch.tensor(2.5)
    state["empty"] = torch.zeros(0, 7)
    state["conv.weight"] = torch.arange(2 * 3 * 3 * 3, dtype=torch.float32).reshape(2, 3, 3, 3) - 20
    state["ein \"Name\"\t\n\\ é\x01\x7f"] = torch.tensor([1], dtype=torch.int8)
    return state


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Linear(2, 3, bias=False)
        self.head = torch.nn.Linear(2, 3, bias=False)
        self.head.weight = self.embed.weight
        with torch.no_grad():
            self.embed.weight.copy_(torch.arange(6.0).reshape(3, 2))


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    save_file(types(), os.path.join(out, "types.safetensors"), metadata={"format": "pt"})
    save_model(Tied(), os.path.join(out, "tied.safetensors"), metadata={"format": "pt"})


if __name__ == "__main__":
    main()
