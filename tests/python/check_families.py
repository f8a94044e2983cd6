#!/usr/bin/env python3
"""Model families that predict fields, beside PyTorch in float64: forward pass, losses of three steps, gradients, weights.

    check_families.py CTRAIN [DEVICE...] [WORD...]      prints TAP

It makes the cases of CASES, or with words those of CASES and LARGE whose names have one of them.
"""
import sys

import torch
import torch.nn.functional as F
from torch import nn

from beside_torch import Case, Refused, compare
from field_nets import DeepLab, UNet, VitField

def drawn(net):
    """Norms whose parameters are not 1 and 0; few inputs of ReLUs are near zero, where gradients may differ."""
    for m in net.modules():
        if hasattr(m, "weight") and m.weight is not None and m.weight.dim() == 1:
            nn.init.uniform_(m.weight, 0.5, 1.5)
            nn.init.uniform_(m.bias, 1, 2)
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(m.running_mean, -0.5, 0.5)
            nn.init.uniform_(m.running_var, 0.5, 1.5)
    return net.double()


def case(net, model, x, classes, field=False):
    target = torch.randn(len(x), classes, *x.shape[2:]) if field else torch.randint(0, classes, (len(x), *x.shape[2:]))
    if field:
        target = target.float().double()
    keys = {"model": dict(model) if field else dict(model, classes=classes)}
    if x.dim() == 3:
        keys["data"] = {"shape": list(x.shape[1:])}
    loss = {"kind": "mse"} if field else {"kind": "cross_entropy", "class_weights": [1 + k / 2 for k in range(classes)]}
    weight = torch.tensor(loss.get("class_weights", [0.0]))
    of = F.mse_loss if field else lambda y, t: F.cross_entropy(y, t, weight.to(y))
    return Case(None, drawn(net), x.float(), target, loss, of, keys=keys)


def unet(space, size, widths, batch=2, field=False, channels=2, classes=3, linear=False, **keys):
    model = {"family": "unet", "widths": widths, "upsample": "linear" if linear else "transposed", **keys}
    net = UNet(space, channels, classes, widths, keys.get("norm", "batch"), keys.get("groups", 8), linear,
               keys.get("padding_mode", "zeros"))
    return case(net, model, torch.randn(batch, channels, *size), classes, field)


def doubling():
    """A base width and a number of levels."""
    return case(UNet(2, 1, 2, [4, 8, 16, 32]), {"family": "unet", "widths": 4, "depth": 3}, torch.randn(2, 1, 16, 24), 2)


def deeplab(middle, size):
    made = case(DeepLab(4, 3, middle), {"family": "deeplabv3plus", "depth": middle}, torch.randn(2, 4, *size), 3)
    made.steps = 1  # a checkpoint of 300 MB each
    return made


def vit(field):
    model = {"family": "vit", "head": "field", "patch": [2, 4], "depth": 2, "dim": 16, "heads": 2}
    return case(VitField(3, 2, (8, 12), (2, 4), 2, 16, 2), model, torch.randn(3, 3, 8, 12), 2, field)


CASES = {
    "U-Net 2-D": lambda: unet(2, (16, 32), [6, 12, 24]),
    "U-Net 2-D, interpolation, fields": lambda: unet(2, (16, 8), [6, 8, 20], linear=True, field=True),
    "U-Net 2-D, a base width": doubling,
    "U-Net 2-D, groups": lambda: unet(2, (8, 12), [4, 8], norm="group", groups=2, padding_mode="circular"),
    "U-Net 3-D": lambda: unet(3, (8, 8, 16), [4, 8, 16]),
    "U-Net 3-D, interpolation, instances, fields": lambda: unet(3, (8, 4, 4), [4, 8, 12], linear=True, norm="instance",
                                                               field=True),
    "U-Net 1-D, no normalisation": lambda: unet(1, (32,), [4, 8], norm="none"),
    "DeepLabv3+": lambda: deeplab(1, (32, 48)),
    "vision transformer, classes": lambda: vit(False),
    "vision transformer, fields": lambda: vit(True),
}
LARGE = {
    "DeepLabv3+, whole": lambda: deeplab(16, (64, 96)),
}


def main(program, *devices):
    cases, only = {**CASES}, [d for d in devices if d not in ("cpu", "ref", "cuda")]
    devices = [d for d in devices if d not in only]
    cases = {k: v for k, v in {**CASES, **LARGE}.items() if any(w in k for w in only)} if only else CASES
    tests = [(name, d) for name in cases for d in devices or ("cpu", "ref") if d == "cpu" or "DeepLab" not in name]
    print(f"1..{len(tests)}")
    for i, (name, device) in enumerate(tests):
        torch.manual_seed(1 + i)
        try:
            wrong = compare(cases[name](), program, device, 1e-5)
        except Refused as e:
            wrong = str(e)
        if wrong:
            print(f"# {wrong}")
        print(f"{'not ok' if wrong else 'ok'} {i + 1} - {name}, {device}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
