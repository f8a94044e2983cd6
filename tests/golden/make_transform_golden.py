#!/usr/bin/env python3
"""Makes tests/golden/transforms.gold: what torchvision's transforms make of images that both sides can make.

    pip install torch torchvision numpy; tests/golden/make_transform_golden.py tests/golden

trivial_augment_wide and rand_augment are those of uint8 tensors, all others of float32.  The images come from `noise` of make_golden.py, moved to [0, 1).  Records are as there: a line "name count",
then so many little-endian float32 values.  tests/unit/t_transforms.c has the parameters again.
"""
import sys
import torch
import torchvision.transforms.v2 as T
import torchvision.transforms.v2.functional as F
from make_golden import noise

RECORDS = []


def image(seed, c, h, w):
    return torch.from_numpy(noise(seed, c * h * w) + 0.5).view(c, h, w)


def record(name, x):
    x = x.contiguous().float().view(-1)
    RECORDS.append(f"{name} {x.numel()}\n".encode() + x.numpy().astype("<f4").tobytes())


class Fixed:
    """mixup and cutmix with a lambda (and the centre of the box) that is given."""

    def __init__(self, kind, lam, centre=(0, 0)):
        self.transform, self.lam, self.draws = kind(alpha=1.0, num_classes=2), lam, list(centre)

    def __call__(self, x):
        self.transform._dist.sample = lambda shape: torch.tensor(self.lam, dtype=torch.float64)
        randint, torch.randint = torch.randint, lambda *a, **k: torch.tensor([self.draws.pop(0)])
        try:
            return self.transform(x, torch.tensor([1, 0]))
        finally:
            torch.randint = randint


AUGMENTS = list(T.TrivialAugmentWide._AUGMENTATION_SPACE)


def augments():
    """The 14 operations on uint8, as TrivialAugmentWide and RandAugment apply them, and their magnitudes."""
    for kind in T.TrivialAugmentWide, T.RandAugment:
        rows = [f(31, 18, 16) for f, _ in kind._AUGMENTATION_SPACE.values()]
        assert list(kind._AUGMENTATION_SPACE) == AUGMENTS
        rows = [torch.zeros(31) if r is None else r for r in rows]
        record("magnitudes_" + kind.__name__, torch.stack([r.float() for r in rows]))
    for c in 1, 3:
        # not the whole range, so that autocontrast has to stretch it
        x = (image(5, c, 18, 16) * 180 + 40).to(torch.uint8)
        for name, (f, signed) in T.TrivialAugmentWide._AUGMENTATION_SPACE.items():
            if c == 1 and name not in ("Color", "Contrast", "AutoContrast"):
                continue
            all_magnitudes = f(31, 18, 16)
            for sign in (1, -1) if signed else (1,):
                m = 0.0 if all_magnitudes is None else sign * float(all_magnitudes[17])
                apply = T.TrivialAugmentWide()._apply_image_or_video_transform
                y = apply(x, name, m, F.InterpolationMode.NEAREST, {torch.Tensor: None})
                record(f"augment_{name}{sign}_{c}", y)
    y = apply(x, "Rotate", 33.0, F.InterpolationMode.BILINEAR, {torch.Tensor: [10.0, 20.0, 30.0]})
    record("augment_bilinear", y)
    record("augment_few", F.equalize(x[:, :10, :10]))  # too few pixels to equalize
    record("augment_flat", F.autocontrast(torch.full((1, 4, 4), 7, dtype=torch.uint8)))


def warps(x):
    near, linear = F.InterpolationMode.NEAREST, F.InterpolationMode.BILINEAR
    for name, mode in ("nearest", near), ("bilinear", linear):
        for angle in 0.0, 33.0, 90.0, -123.4, 180.0:
            record(f"rotate_{name}_{angle:g}", F.rotate(x, angle, interpolation=mode, fill=0))
        record(f"rotate_{name}_centre", F.rotate(x, 20, interpolation=mode, center=[3, 5], fill=[0.5, -1, 2]))
        for i, (angle, shift, scale, shear) in enumerate(
            [(0, [0, 0], 1, [0, 0]), (25, [3, -2], 0.8, [10, 0]), (-70, [-1, 4], 1.3, [-20, 15])]
        ):
            y = F.affine(x, angle, shift, scale, shear, interpolation=mode, fill=0.25)
            record(f"affine_{name}_{i}", y)
        record(f"affine_{name}_none", F.affine(x, 25, [3, -2], 0.8, [10, 0], interpolation=mode, fill=None))
        y = F.affine(x, 25, [0, 0], 0.8, [10, 15], interpolation=mode, fill=0.25, center=[5, 6])
        record(f"affine_{name}_kind", y)
        corners = [[2, 1], [14, 0], [16, 9], [0, 12]]
        y = F.perspective(x, [[0, 0], [16, 0], [16, 12], [0, 12]], corners, interpolation=mode, fill=0)
        record(f"perspective_{name}", y)
        grid = torch.stack([image(6, 13, 1, 17)[:, 0] * 6 / 17, image(7, 13, 1, 17)[:, 0] * 6 / 13], -1)[None]
        record(f"elastic_{name}", F.elastic(x, grid - 0.2, interpolation=mode, fill=0.5))


def main(folder):
    x = image(1, 3, 13, 17)
    record("vertical", F.vertical_flip(x))
    warps(x)
    for i, (kernel, sigma) in enumerate([([3, 3], 0.8), ([5, 9], 2.0), ([1, 25], 0.1)]):
        record(f"blur{i}", F.gaussian_blur(x, kernel, [sigma, sigma]))
    record("gray1", F.rgb_to_grayscale(x, 1))
    record("gray3", F.rgb_to_grayscale(x, 3))
    augments()
    record("crop", F.crop(F.pad(x, [2, 3, 1, 4]), 1, 4, 11, 15))
    record("flip", F.horizontal_flip(x))
    record("centre", F.center_crop(x, [8, 6]))
    record("centre_odd", F.center_crop(x, [10, 4]))
    record("centre_pad", F.center_crop(x, [16, 22]))
    record("centre_both", F.center_crop(x, [20, 9]))
    for name, size in [("down", [5, 7]), ("up", [29, 31]), ("mixed", [6, 40]), ("tiny", [1, 1]), ("short", [9])]:
        record("resize_" + name, F.resize(x, size, antialias=True))
    record("resized_crop_down", F.resized_crop(x, 2, 3, 9, 12, [4, 5], antialias=True))
    record("resized_crop_up", F.resized_crop(x, 1, 0, 5, 7, [12, 11], antialias=True))
    for c in 1, 3:
        y = image(2, c, 13, 17)
        for i, f in enumerate([0.0, 0.4, 1.7]):
            record(f"brightness{c}{i}", F.adjust_brightness(y, f))
            record(f"contrast{c}{i}", F.adjust_contrast(y, f))
            record(f"saturation{c}{i}", F.adjust_saturation(y, f))
        for i, f in enumerate([-0.5, -0.2, 0.1, 0.45]):
            record(f"hue{c}{i}", F.adjust_hue(y, f))
    gray = image(3, 1, 4, 4).repeat(3, 1, 1)
    gray[0, 0] = gray[1, 0] + 0.25  # a tie of green and blue
    record("hue_ties", F.adjust_hue(gray.clamp(0, 1), 0.3))
    record("erase", F.erase(x, 2, 5, 6, 3, torch.tensor([0.5, -1.0, 2.0])[:, None, None]))
    two = torch.stack([x, image(4, 3, 13, 17)])
    record("mixup", Fixed(T.MixUp, 0.3)(two)[0][0])
    # the centre is drawn as x, y
    for i, (lam, centre) in enumerate([(0.3, (8, 6)), (0.5, (0, 0)), (0.1, (16, 12)), (0.99, (5, 5)), (0.0, (3, 9))]):
        mixed, labels = Fixed(T.CutMix, lam, centre)(two)
        record(f"cutmix{i}", mixed[0])
        record(f"cutmix_share{i}", labels[0, 1])
    with open(f"{folder}/transforms.gold", "wb") as f:
        f.write(b"".join(RECORDS))


if __name__ == "__main__":
    main(sys.argv[1])
