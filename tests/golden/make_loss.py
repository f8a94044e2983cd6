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
from torchvision.ops import sigmoid_focal_loss
from make_golden import noise

N, K = 6, 7
SMOOTHING, IGNORED = 0.1, -100
POINTS = {"MSE": F.mse_loss, "L1": F.l1_loss, "BCE": F.binary_cross_entropy_with_logits}


def spec(kind, **more):
    return "{" + ", ".join([f".kind = CT_LOSS_{kind}"] + [f".{k} = {v:g}" for k, v in more.items() if v]) + "}"


def put(record):
    print(textwrap.fill(" ".join(record.split()), 100, initial_indent=" " * 4, subsequent_indent=" " * 5,
                        break_on_hyphens=False))


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
    name = spec("CROSS_ENTROPY", weighted=weighted, has_ignored=ignore, ignored=IGNORED if ignore else 0,
                label_smoothing=SMOOTHING * smooth)
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
    show(spec(kind, one_hot=one_hot), mixed, x, loss, N, (out - target).abs().mean(1).sum().item())


def show(spec, mixed, x, loss, by, abs_error):
    loss.backward()
    numbers = ", ".join(f"{v:.9g}" for v in x.grad.flatten().tolist())
    put(f"{{{spec}, {int(mixed)}, {loss.item():.12g}, {float(by):.12g}, {abs_error:.12g}, {{{numbers}}}}},")


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
    of = spec(kind, one_hot=one_hot, weighted=weighted, sample_weighted=int(weighed > 0), has_ignored=int(ignored > 0),
              ignored=IGNORED if ignored else 0, label_smoothing=smoothing)
    put("    {%d, %d, %s, %d, %d, %d,\n     %.12g, %.12g, %.12g, {%.12g, %.12g}}," % (classes, places, of, ignored, weighed, counted, loss.item(), by, g.norm(), (g * t(6, count)).sum(), (g * t(7, count)).sum()))


# ---- losses of other kinds, focal factors, weights of places, missing targets ----

M = 4  # samples


def focal(out, y, gamma, weight, **more):
    """(1 - p)^gamma by the weighted loss of each label, as in most implementations for segmentation."""
    p = out.log_softmax(1).gather(1, y.clamp(min=0)[:, None]).squeeze(1).exp()
    return (1 - p) ** gamma * F.cross_entropy(out, y, weight=weight, reduction="none", **more)


def dice(p, t, counts, weight, smooth):
    """MONAI's DiceLoss with smooth_nr = smooth_dr = smooth, per sample and class; p, t: n x classes x places."""
    both, base = (counts * p * t).sum(2), (counts * (p + t)).sum(2)
    return ((1 - (2 * both + smooth) / (base + smooth)) * weight).sum(1) / weight.sum()


def relative(x, t, counts):
    norm = lambda v: (counts * v * v).flatten(1).sum(1).sqrt()
    return norm(x - t) / norm(t)


def targets_of(kind, classes, places, logs, t):
    share = (0.5 + t(5, M * classes * places)).float().double().view(M, classes, places)
    if kind in ("SOFT_MARGIN", "HINGE_EMBEDDING"):
        return torch.where(share < 0.5, -1.0, 1.0).double()
    if kind == "SOFT_CROSS_ENTROPY":
        return share * 2 / classes
    if kind in ("BCE", "KL", "POISSON", "SIGMOID_DICE"):
        return -share if kind == "KL" and logs else share
    return 4 * t(4, M * classes * places).view(M, classes, places)


def each_of(kind, x, y, t, w, pos, o):
    """The losses: n x places by label, n x classes x places of targets, n of samples."""
    gamma, alpha, param, logs, smoothing = (o.get(k, 0) for k in ("gamma", "alpha", "param", "logs", "label_smoothing"))
    counts = o["place"] if "place" in o else torch.ones(1).double()
    known = (y != IGNORED).double()[:, None]
    if kind == "CROSS_ENTROPY":
        z = o.get("z_loss", 0) * known.squeeze(1) * w[y.clamp(min=0)] * x.logsumexp(1) ** 2
        return (focal(x, y, gamma, w, ignore_index=IGNORED, label_smoothing=smoothing) + z) * counts
    if kind == "SOFT_CROSS_ENTROPY":
        return F.cross_entropy(x, t, weight=w, label_smoothing=smoothing, reduction="none") * counts
    if kind == "DICE":
        hot = F.one_hot(y.clamp(min=0), x.shape[1]).double().transpose(1, 2)
        return dice(x.softmax(1), hot, counts * known, w, param)
    if kind == "SIGMOID_DICE":
        return dice(x.sigmoid(), t, counts, w, param)
    seen = ~t.isnan()
    t = torch.where(seen, t, 0)
    if kind == "RELATIVE_L2":
        return relative(x, t, seen * counts.view(1, *t.shape[1:]) if "place" in o else seen)
    each = {
        "MSE": lambda: F.mse_loss(x, t, reduction="none"),
        "BCE": lambda: sigmoid_focal_loss(x, t, alpha or -1, gamma) if gamma or alpha
        else F.binary_cross_entropy_with_logits(x, t, pos_weight=pos, reduction="none"),
        "HUBER": lambda: F.huber_loss(x, t, delta=param, reduction="none"),
        "SMOOTH_L1": lambda: F.smooth_l1_loss(x, t, beta=param, reduction="none"),
        "KL": lambda: F.kl_div(x, t, log_target=bool(logs), reduction="none"),
        "POISSON": lambda: F.poisson_nll_loss(x, t, log_input=bool(logs), reduction="none"),
        "SOFT_MARGIN": lambda: torch.log1p(torch.exp(-t * x)),
        "HINGE_EMBEDDING": lambda: F.hinge_embedding_loss(x, t, margin=param, reduction="none"),
    }[kind]()
    if kind == "SOFT_MARGIN":
        assert abs(F.soft_margin_loss(x, t) - each.mean()) < 1e-12
    return each * seen * (counts.view(1, *t.shape[1:]) if "place" in o else 1)


def other(kind, classes, places, **o):
    """place_weighted, weighted, has_ignored, skips_nan as in the spec; the other inputs as t_loss.c makes them."""
    t = lambda seed, count: torch.from_numpy(noise(seed, count)).double()
    by_class = kind in ("CROSS_ENTROPY", "DICE", "SIGMOID_DICE", "SOFT_CROSS_ENTROPY")
    count = classes * places
    x = (8 * t(1, M * count)).view(M, classes, places)
    x = (x.abs() if kind == "POISSON" and not o.get("logs") else x).requires_grad_()
    out = x.view(M, places, classes).transpose(1, 2) if o.get("classes_last") else x
    y = (torch.arange(M * places) * 5 + 2).view(M, places) % classes
    if o.get("has_ignored"):
        y.view(-1)[::2] = IGNORED
    targets = targets_of(kind, classes, places, o.get("logs"), t)
    if o.get("skips_nan"):
        targets.view(-1)[1::3] = float("nan")
    w = torch.tensor([0.25 + 0.5 * c if o.get("weighted") else 1.0 for c in range(classes)]).double()
    pos = (0.5 + torch.arange(count) % 3).double().view(classes, places) if o.get("weighted") else None
    place = 0.5 + torch.arange(places if by_class else count) % 5
    use = dict(o, place=place.double()) if o.get("place_weighted") else o
    each = each_of(kind, out, y, targets, w, pos, use)
    known = (~targets.isnan()).double() * (place.view(classes, places) if o.get("place_weighted") and not by_class else 1)
    of_place = place.double() if o.get("place_weighted") else torch.ones(places).double()
    if kind == "CROSS_ENTROPY":
        loss, by = each.sum(), (torch.where(y == IGNORED, 0.0, w[y.clamp(min=0)]) * of_place).sum()
    elif kind == "SOFT_CROSS_ENTROPY":
        loss, by = each.sum(), M * of_place.sum()
    elif each.dim() == 1:
        loss, by = each.sum(), M
    else:
        loss, by = each.sum() / count, known.sum() / count
    loss.backward()
    g = x.grad.flatten()
    of = spec(kind, **dict(o, ignored=IGNORED) if o.get("has_ignored") else o)
    put("    {%d, %d, %s,\n     %.12g, %.12g, %.12g, {%.12g, %.12g}}," % (
        classes, places, of, loss.item(), float(by), g.norm(), (g * t(6, g.numel())).sum(), (g * t(7, g.numel())).sum()))


OTHERS = [
    ("CROSS_ENTROPY", 4, 6, dict(gamma=2)), ("CROSS_ENTROPY", 5, 1, dict(gamma=2, weighted=1)),
    ("CROSS_ENTROPY", 4, 300, dict(gamma=0.5, weighted=1, has_ignored=1, place_weighted=1)),
    ("CROSS_ENTROPY", 4, 6, dict(place_weighted=1, weighted=1)),
    ("CROSS_ENTROPY", 7, 30, dict(classes_last=1)), ("CROSS_ENTROPY", 4, 300, dict(z_loss=0.01, weighted=1, has_ignored=1)),
    ("CROSS_ENTROPY", 300, 7, dict(classes_last=1, z_loss=0.01, has_ignored=1, label_smoothing=0.1)),
    ("CROSS_ENTROPY", 5, 7, dict(classes_last=1, z_loss=0.1, weighted=1, place_weighted=1, has_ignored=1, gamma=2)),
    ("CROSS_ENTROPY", 9, 1, dict(z_loss=0.1, weighted=1)),
    ("BCE", 4, 1, dict(gamma=2, alpha=0.25)), ("BCE", 3, 7, dict(gamma=1.5)), ("BCE", 3, 7, dict(alpha=0.75)),
    ("BCE", 3, 7, dict(weighted=1)), ("BCE", 3, 7, dict(weighted=1, place_weighted=1, skips_nan=1)),
    ("MSE", 3, 7, dict(skips_nan=1)), ("MSE", 3, 700, dict(place_weighted=1)),
    ("MSE", 3, 7, dict(place_weighted=1, skips_nan=1)),
    ("HUBER", 3, 7, dict(param=1)), ("HUBER", 3, 7, dict(param=0.3)),
    ("SMOOTH_L1", 3, 7, dict(param=1)), ("SMOOTH_L1", 3, 7, dict(param=2.5)), ("SMOOTH_L1", 3, 7, dict()),
    ("KL", 3, 7, dict()), ("KL", 3, 7, dict(logs=1)), ("POISSON", 3, 7, dict(logs=1)), ("POISSON", 3, 7, dict()),
    ("SOFT_MARGIN", 3, 7, dict()), ("HINGE_EMBEDDING", 3, 7, dict(param=1)), ("HINGE_EMBEDDING", 3, 7, dict(param=2.5)),
    ("DICE", 4, 6, dict(param=1)), ("DICE", 4, 300, dict(param=1, weighted=1, has_ignored=1, place_weighted=1)),
    ("DICE", 2, 1, dict(param=0.1)), ("SIGMOID_DICE", 3, 300, dict(param=1)),
    ("SIGMOID_DICE", 1, 30, dict(param=1e-5, place_weighted=1)),
    ("RELATIVE_L2", 3, 300, dict()), ("RELATIVE_L2", 3, 7, dict(skips_nan=1, place_weighted=1)),
    ("SOFT_CROSS_ENTROPY", 4, 1, dict()), ("SOFT_CROSS_ENTROPY", 4, 300, dict(weighted=1, label_smoothing=0.2)),
    ("SOFT_CROSS_ENTROPY", 4, 6, dict(place_weighted=1)),
]


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
    print("};\nstatic const struct {\n  int classes, pixels;\n  ct_loss_spec_t spec;\n  int ignored, weighed, counted;")
    print("  double sum, weight, norm, along[2];\n} corners[] = {")
    for (classes, places), *o in itertools.product(((1, 1), (4, 1), (4, 6)), (0, 0.3, 1), (0, 1), (0, 1, 2), (0, 1)):
        corner("CROSS_ENTROPY", 0, classes, places, *o)
    corner("CROSS_ENTROPY", 0, 4, 1, 0.3, 1, 0, 2)
    for kind, one_hot, classes, weighed in itertools.product(POINTS, (0, 1), (1, 4), (1, 2)):
        corner(kind, one_hot, classes, 1, 0, 0, 0, weighed)
    print("};\nenum { OTHER_N = %d };" % M)
    print("static const struct {\n  int classes, places;\n  ct_loss_spec_t spec;\n  double sum, weight, norm, along[2];\n} others[] = {")
    for kind, classes, places, o in OTHERS:
        other(kind, classes, places, **o)
    print("};\n/* clang-format on */")
