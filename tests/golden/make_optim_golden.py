#!/usr/bin/env python3
"""Makes tests/golden/optim.gold: what PyTorch's optimizers, schedules, clipping and loss scaling do.

    pip install torch numpy timm; tests/golden/make_optim_golden.py tests/golden

Problem, gradients and options are written down here and in tests/unit/t_optim_gold.c; the format and `noise`
are those of make_golden.py.  LARS, LAMB and Lion are those of timm, LAMB without its own clipping.

    rule/NAME          40 weights after each of the steps of SHOWN
    state/NAME/STATE   a state after the last step
    schedule/NAME      the rate of each step of a run; schedule/NAME/momentum
    clip/NAME          the norm, then the clipped gradient
    plateau/loss, plateau/rate
    scaler             the scale after each of the steps whose gradient is infinite or which is doubled
"""
import math
import sys
import warnings
import numpy as np
import torch
from timm.optim.lamb import Lamb
from timm.optim.lars import Lars
from timm.optim.lion import Lion
from torch.optim import lr_scheduler as L
from make_golden import noise

warnings.filterwarnings("ignore")
SIZES, STEPS, SHOWN = (20, 5, 15), 50, (1, 2, 5, 10, 20, 35, 50)
COUNT = sum(SIZES)
MATRIX = np.eye(COUNT) + 0.3 * noise(1, COUNT * COUNT).astype(np.float64).reshape(COUNT, COUNT)
RULES = {
    "sgd": (torch.optim.SGD, dict(lr=0.02, momentum=0.9)),
    "sgd-nesterov": (torch.optim.SGD, dict(lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01)),
    "sgd-dampening": (torch.optim.SGD, dict(lr=0.05, momentum=0.8, dampening=0.3, weight_decay=0.1)),
    "adam": (torch.optim.Adam, dict(lr=0.01)),
    "adam-decay": (torch.optim.Adam, dict(lr=0.02, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.05)),
    "adamw": (torch.optim.AdamW, dict(lr=0.01, weight_decay=0.01)),
    "adamw-decay": (torch.optim.AdamW, dict(lr=0.02, betas=(0.85, 0.98), eps=1e-4, weight_decay=0.5)),
    "rmsprop": (torch.optim.RMSprop, dict(lr=0.01)),
    "rmsprop-momentum": (torch.optim.RMSprop, dict(lr=0.002, alpha=0.9, momentum=0.9, weight_decay=0.05)),
    "rmsprop-centered": (torch.optim.RMSprop, dict(lr=0.005, centered=True, eps=1e-3)),
    "rmsprop-all": (torch.optim.RMSprop, dict(lr=0.001, alpha=0.95, momentum=0.8, centered=True, eps=1e-3, weight_decay=0.05)),
    "lars": (Lars, dict(lr=1.0, momentum=0.9, weight_decay=0.01)),
    "lars-nesterov": (Lars, dict(lr=0.5, momentum=0.8, weight_decay=0.1, nesterov=True, trust_coeff=0.02, eps=1e-3)),
    "lars-plain": (Lars, dict(lr=0.1, momentum=0.0, weight_decay=0.05, trust_coeff=0.1)),
    "lamb": (Lamb, dict(lr=0.02, weight_decay=0.01, max_grad_norm=None)),
    "lamb-decay": (Lamb, dict(lr=0.05, betas=(0.8, 0.99), eps=1e-4, weight_decay=0.2, max_grad_norm=None)),
    "sgd-maximize": (torch.optim.SGD, dict(lr=0.0002, momentum=0.9, weight_decay=0.1, maximize=True)),
    "adam-amsgrad": (torch.optim.Adam, dict(lr=0.02, betas=(0.9, 0.8), weight_decay=0.05, amsgrad=True)),
    "adamw-amsgrad": (torch.optim.AdamW, dict(lr=0.01, betas=(0.8, 0.9), weight_decay=0.1, amsgrad=True, maximize=True)),
    "nadam": (torch.optim.NAdam, dict()),
    "nadam-decay": (torch.optim.NAdam, dict(lr=0.01, betas=(0.8, 0.99), weight_decay=0.1, momentum_decay=6e-2)),
    "nadam-decoupled": (torch.optim.NAdam, dict(lr=0.02, eps=1e-3, weight_decay=0.2, decoupled_weight_decay=True)),
    "radam": (torch.optim.RAdam, dict()),
    "radam-decay": (torch.optim.RAdam, dict(lr=0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1)),
    "radam-decoupled": (torch.optim.RAdam, dict(lr=0.02, weight_decay=0.2, decoupled_weight_decay=True)),
    "adamax": (torch.optim.Adamax, dict()),
    "adamax-decay": (torch.optim.Adamax, dict(lr=0.01, betas=(0.8, 0.9), eps=1e-4, weight_decay=0.9)),
    "adagrad": (torch.optim.Adagrad, dict()),
    "adagrad-all": (torch.optim.Adagrad, dict(
        lr=0.1, lr_decay=0.5, weight_decay=0.1, initial_accumulator_value=0.3, eps=1e-3)),
    "adadelta": (torch.optim.Adadelta, dict()),
    "adadelta-rho": (torch.optim.Adadelta, dict(lr=0.5, rho=0.95, eps=1e-4, weight_decay=0.9)),
    "lion": (Lion, dict(lr=0.01, betas=(0.9, 0.99))),
    "lion-decay": (Lion, dict(lr=0.02, betas=(0.8, 0.95), weight_decay=0.5)),
}


def gradient(params, step):
    """In double from the float32 weights, rounded once."""
    w = np.concatenate([p.detach().numpy() for p in params]).astype(np.float64)
    g = (MATRIX @ (w - 1) + 0.5 * noise(100 + step, COUNT).astype(np.float64)).astype(np.float32)
    return torch.from_numpy(g).split(SIZES)


def rules(put):
    for name, (kind, options) in RULES.items():
        params = [p.clone().requires_grad_() for p in torch.from_numpy(noise(2, COUNT)).split(SIZES)]
        bare = dict(params=[params[1]], weight_decay=0)  # as a bias
        optim = kind([dict(params=[params[0], params[2]]), bare], **options, foreach=False)
        shown = []
        for step in range(STEPS):
            for p, g in zip(params, gradient(params, step)):
                p.grad = g.clone()
            optim.step()
            if step + 1 in SHOWN:
                shown += [p.detach().numpy().copy() for p in params]
        put("rule/" + name, np.concatenate(shown))
        for key in optim.state[params[0]]:
            values = [optim.state[p][key] for p in params]
            if values[0] is not None and values[0].shape == params[0].shape:
                put(f"state/{name}/{key}", np.concatenate([v.detach().numpy() for v in values]))


EPOCHS, PER, TOTAL, WARM = 10, 6, 60, 9


def sgd():
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)


def trace(optim, scheduler, steps, every=1):
    rates, momenta = [], []
    for t in range(steps):
        group = optim.param_groups[0]
        rates.append(group["lr"])
        momenta.append(group.get("momentum", group.get("betas", (0,))[0]))
        optim.step()
        if (t + 1) % every == 0 and t + 1 < steps:
            scheduler.step()
    return rates, momenta


def schedules(put):
    kinds = {
        "step": lambda o, n: L.StepLR(o, round(1.5 * PER), 0.5),
        "multistep": lambda o, n: L.MultiStepLR(o, [2 * PER, 27, 7 * PER], 0.3),  # 27 steps: 4.5 epochs
        "cosine": lambda o, n: L.CosineAnnealingLR(o, n, 0.01),
        "polynomial": lambda o, n: L.PolynomialLR(o, n, 2.5),
        "one_cycle": lambda o, n: L.OneCycleLR(o, 0.1, n, pct_start=0.3, div_factor=25, final_div_factor=1e4),
        "one_cycle-steep": lambda o, n: L.OneCycleLR(
            o, 0.1, n, pct_start=0.05, div_factor=4, final_div_factor=100, base_momentum=0.7, max_momentum=0.99),
    }
    for name, make in kinds.items():
        optim = sgd()
        rates, momenta = trace(optim, make(optim, TOTAL), TOTAL)
        put(f"schedule/{name}", rates)
        if "one_cycle" in name:
            put(f"schedule/{name}/momentum", momenta)
        optim = sgd()
        warm = L.LambdaLR(optim, lambda t: (t + 1) / WARM)
        both = L.SequentialLR(optim, [warm, make(optim, TOTAL - WARM)], [WARM])
        put(f"schedule/{name}/warm", trace(optim, both, TOTAL)[0])
    optim = sgd()
    put("schedule/exponential", trace(optim, L.ExponentialLR(optim, 0.7), TOTAL, PER)[0])
    optim = torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=0.1)
    put("schedule/one_cycle/beta1", trace(optim, kinds["one_cycle"](optim, TOTAL), TOTAL)[1])


def schedules_in_steps(put):
    def put_trace(name, make, every=1):
        optim = sgd()
        put(f"schedule/{name}", trace(optim, make(optim), TOTAL, every)[0])
    put_trace("exponential-steps", lambda o: L.ExponentialLR(o, 0.97))
    put_trace("restarts", lambda o: L.CosineAnnealingWarmRestarts(o, 13, eta_min=0.01))
    put_trace("restarts-longer", lambda o: L.CosineAnnealingWarmRestarts(o, 6, 2))
    put_trace("linear", lambda o: L.LinearLR(o, total_iters=18))
    put_trace("linear-down", lambda o: L.LinearLR(o, 1.0, 0.1, TOTAL))
    put_trace("cosine-from", lambda o: L.SequentialLR(
        o, [L.LinearLR(o, 0.05, total_iters=WARM), L.CosineAnnealingLR(o, TOTAL - WARM)], [WARM]))
    put_trace("inverse_sqrt", lambda o: L.LambdaLR(o, lambda t: (t + 1) / WARM if t < WARM else math.sqrt(WARM / t)))
    put_trace("list", lambda o: L.SequentialLR(
        o, [L.LinearLR(o, 0.2, total_iters=6), L.CosineAnnealingLR(o, 24, 0.01), L.PolynomialLR(o, 12, 2),
            L.StepLR(o, 5, 0.5)], [6, 30, 42]))


def clipping(put):
    for norm in (0.05, 1.0, 100.0):
        for p in (1.0, 2.0, 3.0, math.inf):
            params = [torch.zeros(n, requires_grad=True) for n in SIZES]
            for q, g in zip(params, torch.from_numpy(noise(3, COUNT)).split(SIZES)):
                q.grad = g.clone()
            total = torch.nn.utils.clip_grad_norm_(params, norm, p)
            put(f"clip/{norm:g}/{p:g}", [total.item(), *torch.cat([q.grad for q in params]).numpy()])
    param = torch.zeros(COUNT, requires_grad=True)
    param.grad = torch.from_numpy(noise(3, COUNT))
    torch.nn.utils.clip_grad_value_([param], 0.2)
    put("clip/value", [0, *param.grad.numpy()])


def plateau(put):
    loss = (np.exp(-np.arange(60) / 8) + 0.02 * noise(4, 60)).astype(np.float32)
    loss[20] = np.nan
    optim = sgd()
    scheduler = L.ReduceLROnPlateau(optim, factor=0.5, patience=2, threshold=1e-2, min_lr=0.002)
    rates = []
    for v in loss:
        scheduler.step(float(v))
        rates.append(optim.param_groups[0]["lr"])
    put("plateau/loss", loss)
    put("plateau/rate", rates)


def scaler(put):
    """Steps whose gradient is infinite: 3, 4, 1000, 5500."""
    param = torch.zeros(1, requires_grad=True)
    optim, s = torch.optim.SGD([param], lr=0.1), torch.amp.GradScaler("cpu")
    changes, before = [], s.get_scale()
    for step in range(8000):
        s.scale((param * (math.inf if step in (3, 4, 1000, 5500) else 1)).sum()).backward()
        s.step(optim)
        s.update()
        optim.zero_grad()
        if s.get_scale() != before:
            before = s.get_scale()
            changes += [step, before]
    put("scaler", changes)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with open(f"{sys.argv[1] if len(sys.argv) > 1 else '.'}/optim.gold", "wb") as f:
        def put(name, v):
            v = np.asarray(v, dtype="<f4").ravel()
            f.write(f"{name} {v.size}\n".encode() + v.tobytes())
        for make in (rules, schedules, schedules_in_steps, clipping, plateau, scaler):
            make(put)
