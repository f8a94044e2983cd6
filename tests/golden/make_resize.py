#!/usr/bin/env python3
"""Makes tests/unit/resize_gold.h: CRC-32 of images that Pillow resized.

It takes Pillow 13 or newer: older ones always make the pass across first.
"""
import zlib

import numpy as np
import PIL
from PIL import Image

SIZES = [(7, 5), (32, 24), (33, 71), (100, 3), (61, 90), (1, 1), (61, 45), (16, 90)]
# The pass down comes first if it takes away more than twice as many rows as columns go: both sides of that.
SIZES += [(30, 100), (20, 85), (1, 80), (41, 80), (40, 80), (42, 80), (57, 89), (59, 89), (80, 100), (61, 100)]


def picture(height, width, channels):
    """What t_pack_resize.c makes too."""
    i = np.arange(height * width * channels, dtype=np.uint64)
    return ((i * i * 7 + i * 13) // 5 % 251).astype(np.uint8).reshape(height, width, channels)


if int(PIL.__version__.split(".")[0]) < 13:
    raise SystemExit(f"Pillow 13 or newer is needed, not {PIL.__version__}")
print(f"/* Made by tests/golden/make_resize.py with Pillow {PIL.__version__}. */")
print("enum { RESIZE_H = 61, RESIZE_W = 90 };")
print("static const struct {\n  int channels, height, width;\n  unsigned crc;\n} resized[] = {")
for channels in (1, 3):
    image = picture(61, 90, channels)
    image = Image.fromarray(image if channels == 3 else image[..., 0])
    for height, width in SIZES:
        out = image.resize((width, height), Image.BILINEAR)
        print(f"    {{{channels}, {height}, {width}, 0x{zlib.crc32(out.tobytes()):08x}}},")
print("};")
