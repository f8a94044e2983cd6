#!/usr/bin/env python3
"""Makes tests/unit/image_gold.h: small images of every kind, and CRCs of their pixels as Pillow decodes them.

    pip install pillow numpy
    tests/golden/make_images.py > tests/unit/image_gold.h; clang-format -i tests/unit/image_gold.h
"""
import io
import textwrap
import zlib
import numpy as np
from PIL import Image

H, W = 11, 13


def picture(channels):
    y, x = np.mgrid[0:H, 0:W]
    planes = [128 + 100 * np.sin(0.5 * x + c) * np.cos(0.3 * y * (c + 1)) for c in range(channels)]
    return np.stack(planes, -1).round().astype(np.uint8).squeeze()


def saved(image, **how):
    to = io.BytesIO()
    image.save(to, **how)
    return to.getvalue()


def png(image, **how):
    return saved(image, format="PNG", optimize=True, **how)


def jpeg(image, **how):
    return saved(image, format="JPEG", optimize=True, quality=60, **how)


def grey16():
    return np.minimum(picture(1).astype(np.uint16) * 256 + picture(2)[..., 1], 65535)


def without_adobe(data):
    """The same JPEG without the marker of Adobe's programs."""
    at = data.index(b"\xff\xee")
    return data[:at] + data[at + 2 + int.from_bytes(data[at + 2:at + 4], "big"):]


def crcs(seen):
    """Of its pixels as colours and as grey; 16 bits as they are (little-endian)."""
    if isinstance(seen, np.ndarray):
        return zlib.crc32(seen[..., None].repeat(3, -1).astype("<u2").tobytes()), zlib.crc32(seen.astype("<u2").tobytes())
    return [zlib.crc32(np.asarray(seen.convert(mode)).tobytes()) for mode in ("RGB", "L")]


def files():
    rgb, grey = Image.fromarray(picture(3)), Image.fromarray(picture(1))
    yield "rgb.png", png(rgb), rgb
    yield "grey.png", png(grey), grey
    yield "rgba.png", png(Image.fromarray(picture(4), "RGBA")), Image.fromarray(picture(4)[..., :3])
    yield "grey-alpha.png", png(Image.fromarray(picture(2), "LA")), Image.fromarray(picture(2)[..., 0])
    palette = rgb.quantize(7)
    yield "palette.png", png(palette), palette.convert("RGB")
    yield "palette-transparent.png", png(palette, transparency=2), palette.convert("RGB")
    bits = grey.convert("1")
    yield "bits.png", png(bits), bits.convert("L")
    yield "grey16.png", png(Image.fromarray(grey16())), grey16()
    for name, how in (("420", dict(subsampling=2)), ("444", dict(subsampling=0)),
                      ("progressive", dict(progressive=True))):
        data = jpeg(rgb, **how)
        yield name + ".jpg", data, Image.open(io.BytesIO(data))
    data = jpeg(grey)
    yield "grey.jpg", data, Image.open(io.BytesIO(data))
    data = jpeg(Image.fromarray(picture(4), "CMYK"))
    yield "cmyk.jpg", data, Image.open(io.BytesIO(data)).convert("RGB")
    data = without_adobe(data)
    yield "cmyk-plain.jpg", data, Image.open(io.BytesIO(data)).convert("RGB")


print("/* Made by tests/golden/make_images.py. */")
print("enum { IMAGE_H = %d, IMAGE_W = %d };" % (H, W))
print("/* The file, its channels and their bits, CRC-32 of its pixels as colours and as grey. */")
print("static const struct {\n  const char *name;\n  size_t bytes;\n  const unsigned char *file;\n"
      "  int channels, bits;\n  unsigned rgb, grey;\n} images[] = {")
for name, data, seen in files():
    wide = isinstance(seen, np.ndarray)
    numbers = textwrap.fill(", ".join(map(str, data)), 92, initial_indent=" " * 8, subsequent_indent=" " * 8)
    print('    {"%s", %d,\n     (const unsigned char[]){\n%s},\n     %d, %d, 0x%08x, 0x%08x},' %
          (name, len(data), numbers, 1 if wide or seen.mode == "L" else 3, 16 if wide else 8, *crcs(seen)))
print("};")
