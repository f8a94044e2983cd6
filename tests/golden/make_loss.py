#!/usr/bin/env python3
"""Makes tests/unit/loss_gold.h: losses and gradients as PyTorch computes them.

    pip install torch numpy; tests/golden/make_loss.py > tests/unit/loss_gold.h

Outputs, labels and targets are made by `noise` and by the formulas in inputs() below, which t_loss.c has too.
Everything is the sum over samples, computed in float64; where PyTorch has a mean, that it is the sum divided
by the stored weight is checked here.

Of the corners (weights of 0, all labels ignored, all of a label spread, one class, a label for each place) the
gradient is not stored, but its norm and its sums with two rows of noise: see corner().
"""
import itertools
import textwrap
import torch
import torch.nn.functional as F
from make_golden import noise

N, K = 6, 7
SMOOTHING, IGNORED = 0.1, -100
POINTS = {"MSE": F.mse_loss, "L1": F.l1_loss, "BCE": F.binary_cross_entropy_with_logits}


def inputs(ignore):
    t = lambda seed, n: torch.from_numpy(noise(seed, n)).double()
    x = (8 * t(1, N * K)).view(N, K).requires_grad_()
    labels, labels2 = (torch.arange(N) * 5 + 2) % K, (torch.arange(N) * 3 + 1) % K
    if ignore:
        labels[1], labels[4], labels2[2], labels2[4] = IGNORED, IGNORED, IGNORED, IGNORED
    mix = (0.5 + t(2, N)).float().double()
    mix[3] = 1
    return x, labels, labels2, mix, (1.25 + t(3, K)).float().double(), (4 * t(4, N * K)).view(N, K), \
        (0.5 + t(5, N * K)).float().double().view(N, K)


def cross_entropy(smooth, weighted, ignore, mixed):
    x, l1, l2, mix, weight, _, _ = inputs(ignore)
    o = dict(weight=weight if weighted else None, label_smoothing=SMOOTHING if smooth else 0, ignore_index=IGNORED)
    each = lambda l: F.cross_entropy(x, l, reduction="none", **o)
    share = lambda l: torch.where(l == IGNORED, 0.0, (weight if weighted else torch.ones(K).double())[l.clamp(min=0)])
    if not mixed:
        loss, by = each(l1).sum(), share(l1).sum()
        assert abs(F.cross_entropy(x, l1, **o) - loss / by) < 1e-12
    else:
        loss = (mix * each(l1) + (1 - mix) * each(l2)).sum()
        by = (mix * share(l1) + (1 - mix) * share(l2)).sum()
    name = "{CT_LOSS_CROSS_ENTROPY, 0, %d, 0, %d, %d, %g}" % (weighted, ignore, IGNORED if ignore else 0, SMOOTHING * smooth)
    show(name, mixed, x, loss, by, 0)


def points(kind, one_hot, mixed):
    x, l1, l2, mix, _, real, share = inputs(0)
    target = share if kind == "BCE" else real
    if one_hot:
        target = F.one_hot(l1, K).double()
        if mixed:
            target = mix[:, None] * target + (1 - mix[:, None]) * F.one_hot(l2, K)
    loss = POINTS[kind](x, target, reduction="none").mean(1).sum()
    assert abs(POINTS[kind](x, target) - loss / N) < 1e-12
    out = torch.sigmoid(x) if kind == "BCE" else x
    show("{CT_LOSS_%s, %d, 0, 0, 0, 0, 0}" % (kind, one_hot), mixed, x, loss, N, (out - target).abs().mean(1).sum().item())


def show(spec, mixed, x, loss, by, abs_error):
    loss.backward()
    print(f"    {{{spec}, {int(mixed)}, {loss.item():.12g}, {float(by):.12g}, {abs_error:.12g},")
    numbers = ", ".join(f"{v:.9g}" for v in x.grad.flatten().tolist())
    print(textwrap.fill("{" + numbers + "}},", 100, initial_indent=" " * 5, subsequent_indent=" " * 6,
                        break_on_hyphens=False))


def corner(kind, one_hot, classes, places, smoothing, weighted, ignored, weighed):
    """ignored, weighed: no sample (label) is ignored (has weight 0), every second, all."""
    n, t = 4, lambda seed, count: torch.from_numpy(noise(seed, count)).double()
    count = n * classes * places
    x = (8 * t(1, count)).view(n, classes, places).requires_grad_()
    labels = (torch.arange(n * places) * 5 + 2).view(n, places) % classes
    every = lambda which, i: which and (which == 2 or i % 2 == 0)
    for i in range(n * places):
        if every(ignored, i):
            labels.view(-1)[i] = IGNORED
    of_class = torch.tensor([0.0 if c % 2 == classes % 2 else 1.5 for c in range(classes)]).double()
    of_sample = torch.tensor([0.0 if every(weighed, i) else 0.5 + i if weighed else 1.0 for i in range(n)]).double()
    out = x.squeeze(2) if places == 1 else x
    if kind == "CROSS_ENTROPY":
        w = of_class if weighted else torch.ones(classes).double()
        y = labels.view(-1) if places == 1 else labels
        each = F.cross_entropy(out, y, weight=w, label_smoothing=smoothing, ignore_index=IGNORED, reduction="none")
        share = torch.where(labels == IGNORED, 0.0, w[labels.clamp(min=0)])
        loss, by = (of_sample[:, None] * each.view(n, places)).sum(), (of_sample[:, None] * share).sum().item()
    else:
        target = F.one_hot(labels.view(-1), classes).double() if one_hot else (0.5 + t(5, count)).float().double().view(n, classes)
        loss, by = (of_sample * POINTS[kind](out, target, reduction="none").mean(1)).sum(), of_sample.sum().item()
    loss.backward()
    g = x.grad.flatten()
    counted = int((labels != IGNORED).sum())
    print("    {%d, %d, {CT_LOSS_%s, %d, %d, %d, %d, %d, %g}, %d, %d, %d,\n     %.12g, %.12g, %.12g, {%.12g, %.12g}}," % (
        classes, places, kind, one_hot, weighted, int(weighed > 0), int(ignored > 0), IGNORED if ignored else 0, smoothing,
        ignored, weighed, counted, loss.item(), by, g.norm(), (g * t(6, count)).sum(), (g * t(7, count)).sum()))


if __name__ == "__main__":
    print(f"/* Made by tests/golden/make_loss.py with PyTorch {torch.__version__.split('+')[0]}. */")
    print("/* clang-format off */")
    print(f"enum {{ N = {N}, K = {K}, IGNORED = {IGNORED} }};")
    print("static const struct {\n  ct_loss_spec_t spec;\n  int mixed;\n  double sum, weight, abs_error;\n  float dx[N * K];\n} gold[] = {")
    for o in itertools.product((0, 1), repeat=4):
        cross_entropy(*o)
    for kind in POINTS:
        for one_hot, mixed in ((0, 0), (1, 0), (1, 1)):
            points(kind, one_hot, mixed)
    print("};\nstatic const struct {\n  int classes, places;\n  ct_loss_spec_t spec;\n  int ignored, weighed, counted;")
    print("  double sum, weight, norm, along[2];\n} corners[] = {")
    for (classes, places), *o in itertools.product(((1, 1), (4, 1), (4, 6)), (0, 0.3, 1), (0, 1), (0, 1, 2), (0, 1)):
        corner("CROSS_ENTROPY", 0, classes, places, *o)
    corner("CROSS_ENTROPY", 0, 4, 1, 0.3, 1, 0, 2)
    for kind, one_hot, classes, weighed in itertools.product(POINTS, (0, 1), (1, 4), (1, 2)):
        corner(kind, one_hot, classes, 1, 0, 0, 0, weighed)
    print("};\n/* clang-format on */")
