#!/usr/bin/env python3
"""Makes tests/unit/resize_gold.h: the pixels of images that Pillow resized (any version: the order of
its two directions changes a pixel by 1 at most, which t_pack_resize.c allows)."""
import textwrap

import numpy as np
import PIL
from PIL import Image

H, W = 23, 34
SIZES = {1: [(7, 5), (12, 9), (13, 27), (38, 3), (1, 1), (23, 17), (6, 34), (23, 34), (30, 40)],
         3: [(7, 5), (13, 27), (6, 34)]}


def picture(height, width, channels):
    """t_pack_resize.c makes the same."""
    i = np.arange(height * width * channels, dtype=np.uint64)
    return ((i * i * 7 + i * 13) // 5 % 251).astype(np.uint8).reshape(height, width, channels)


print(f"/* Made by tests/golden/make_resize.py with Pillow {PIL.__version__}. */")
print(f"enum {{ RESIZE_H = {H}, RESIZE_W = {W} }};")
cases, pixels = [], []
for channels, sizes in SIZES.items():
    image = picture(H, W, channels)
    image = Image.fromarray(image if channels == 3 else image[..., 0])
    for height, width in sizes:
        cases.append(f"    {{{channels}, {height}, {width}}},")
        pixels += image.resize((width, height), Image.BILINEAR).tobytes()
print("static const struct {\n  int channels, height, width;\n} resized[] = {", *cases, "};", sep="\n")
print("/* of all of them, one after the other */\nstatic const unsigned char resized_pixels[] = {")
print(textwrap.fill(", ".join(map(str, pixels)), 96, initial_indent="    ", subsequent_indent="    "), "};", sep="\n")
