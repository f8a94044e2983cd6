#!/usr/bin/env python3
"""Writes tests/unit/sample_gold.h: the distributions that transformers draws the next token from.

    tests/golden/make_sample.py tests/unit/sample_gold.h
"""
import sys
import textwrap

import torch
import transformers
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

V = 40
CASES = [(1, 0, 1), (0.7, 0, 1), (1.5, 5, 1), (1, 1, 1), (1, 0, 0.9), (0.8, 0, 0.5), (1, 0, 1e-9),
         (2, 12, 0.8), (0.3, 40, 0.95), (1, 100, 0.999), (0.9, 3, 0.3)]


def distribution(logits, temperature, k, p):
    scores = logits[None]
    steps = [TemperatureLogitsWarper(float(temperature))]
    if k:
        steps.append(TopKLogitsWarper(k))
    if p < 1:
        steps.append(TopPLogitsWarper(p))
    for step in steps:
        scores = step(None, scores)
    return torch.softmax(scores, -1)[0].tolist()


def numbers(values):
    return "\n".join(textwrap.wrap(", ".join(f"{x:.9g}" for x in values), 95,
                                   initial_indent="     ", subsequent_indent="     ")) + "}"


def main():
    torch.manual_seed(0)
    logits = (torch.randn(V, dtype=torch.float64) * 2).float().double()
    logits[7] = logits[11] = logits.topk(5)[0][-1]  # equal to the fifth
    rows = [(c, distribution(logits, *c)) for c in CASES]
    with open(sys.argv[1], "w") as f:
        f.write(f"/* Made by tests/golden/make_sample.py with transformers "
                f"{transformers.__version__}. */\n/* clang-format off */\nenum {{ V = {V} }};\n")
        f.write("static const float logits[V] = {\n" + numbers(logits.tolist()) + ";\n")
        f.write("static const struct {\n  double temperature;\n  int64_t top_k;\n  double top_p;\n"
                "  double p[V];\n} gold[] = {\n")
        for (t, k, p), values in rows:
            f.write(f"    {{{t}, {k}, {p}, {{\n" + numbers(values) + "},\n")
        f.write("};\n")


main()
