#!/usr/bin/env python3
"""Makes tests/unit/resize_gold.h: CRC-32 of images that Pillow resized."""
import zlib

import numpy as np
import PIL
from PIL import Image

SIZES = [(7, 5), (32, 24), (33, 71), (100, 3), (61, 90), (1, 1), (61, 45), (16, 90)]


def picture(height, width, channels):
    """What t_pack_resize.c makes too."""
    i = np.arange(height * width * channels, dtype=np.uint64)
    return ((i * i * 7 + i * 13) // 5 % 251).astype(np.uint8).reshape(height, width, channels)


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
