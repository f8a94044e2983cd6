"""Writes images of all kinds of PNG and JPEG that Pillow has, packs them, and compares the pixels with Pillow's;
and images of drawn sizes, resized by pack.

    check_images.py CTRAIN DIR [SEED]

What is meant is Pillow 13.0: `convert("RGB")`, `convert("L")`, no rotation by Exif, no gamma, no colour profile,
transparency dropped.  PNG of 16 bits a channel becomes uint16, with all its bits.
"""
import os
import struct
import subprocess
import sys
import zlib
import h5py
import numpy as np
import PIL
from PIL import Image, ImageCms

program, folder = sys.argv[1], sys.argv[2]
H, W = 29, 37


def picture(channels, g=None):
    y, x = np.mgrid[0:H, 0:W]
    planes = [128 + 110 * np.sin(0.3 * x + c) * np.cos(0.2 * y * (c + 1)) for c in range(channels)]
    return np.stack(planes, -1).round().astype(np.uint8).squeeze()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def raw_png(colour, bits, rows, interlaced=0, before=b""):
    """A PNG of any kind: rows are packed bytes.  Interlaced: rows of each pass."""
    head = struct.pack(">IIBBBBB", W, H, bits, colour, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + before +
            chunk(b"IDAT", zlib.compress(b"".join(b"\0" + r for r in rows))) + chunk(b"IEND", b""))


def packed(values, bits):
    """Rows of values of 1, 2, 4, 8 or 16 bits, as PNG packs them."""
    for row in values.reshape(values.shape[0], -1):
        if bits == 16:
            yield row.astype(">u2").tobytes()
            continue
        b = np.unpackbits(row.astype(np.uint8)[:, None], axis=1)[:, 8 - bits:]
        yield np.packbits(b.ravel()).tobytes()


def passes(values, bits):
    """Adam7."""
    for y, x, dy, dx in ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)):
        part = values[y::dy, x::dx]
        if part.size:
            yield from packed(part, bits)


def raw_kinds():
    """Kinds that Pillow reads: each colour type and depth, plain and interlaced."""
    palette = chunk(b"PLTE", np.random.default_rng(0).integers(0, 256, 768, dtype=np.uint8).tobytes())
    g = np.random.default_rng(1)
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
    for colour, depths in ((0, (1, 2, 4, 8, 16)), (2, (8, 16)), (3, (1, 2, 4, 8)), (4, (8, 16)), (6, (8, 16))):
        for bits in depths:
            values = g.integers(0, 1 << bits, (H, W, channels[colour]))
            pal = palette[:8 + 3 * (1 << bits)] if colour == 3 else b""
            if colour == 3:
                pal = chunk(b"PLTE", palette[8:8 + 3 * (1 << bits)])
            for interlaced in (0, 1):
                rows = list(passes(values, bits) if interlaced else packed(values, bits))
                name = f"raw-{colour}-{bits}{'-interlaced' if interlaced else ''}.png"
                yield name, raw_png(colour, bits, rows, interlaced, pal), values if bits == 16 else None
    values = g.integers(0, 256, (H, W, 3))
    rows = list(packed(values, 8))
    gamma = chunk(b"gAMA", struct.pack(">I", 220000)) + chunk(b"cHRM", struct.pack(">8I", *[30000] * 8))
    yield "gamma.png", raw_png(2, 8, rows, 0, gamma), None
    yield "trns-rgb.png", raw_png(2, 8, rows, 0, chunk(b"tRNS", struct.pack(">3H", *values[0, 0]))), None
    grey = g.integers(0, 256, (H, W, 1))
    yield "trns-grey.png", raw_png(0, 8, list(packed(grey, 8)), 0, chunk(b"tRNS", struct.pack(">H", 77))), None
    yield "sbit.png", raw_png(2, 8, rows, 0, chunk(b"sBIT", b"\5\6\5")), None


def pillow_kinds():
    rgb, grey, inks = Image.fromarray(picture(3)), Image.fromarray(picture(1)), Image.fromarray(picture(4), "CMYK")
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("XYZ")).tobytes()
    exif = Image.Exif()
    exif[0x112] = 6  # to be turned by 90 degrees
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
        image = Image.fromarray(picture(4), "RGBA").convert(mode) if mode in ("LA", "RGBA") else rgb.convert(mode)
        for name, how in (("", {}), ("-best", {"optimize": True}), ("-fast", {"compress_level": 0}),
                          ("-profile", {"icc_profile": srgb}), ("-exif", {"exif": exif}), ("-dpi", {"dpi": (72, 72)})):
            yield f"{mode}{name}.png", image, how
    for bits in (1, 2, 4, 8):
        yield f"palette-{bits}.png", rgb.quantize(1 << bits), {"bits": bits}
        yield f"palette-{bits}-clear.png", rgb.quantize(1 << bits), {"bits": bits, "transparency": 1}
    yield "rgb-clear.png", rgb, {"transparency": tuple(int(v) for v in picture(3)[0, 0])}
    yield "grey-clear.png", grey, {"transparency": 77}
    for mode, image in (("L", grey), ("RGB", rgb), ("CMYK", inks), ("1", rgb.convert("1")), ("YCbCr", rgb.convert("YCbCr"))):
        for name, how in (("", {}), ("-progressive", {"progressive": True}), ("-best", {"optimize": True, "quality": 95}),
                          ("-worst", {"quality": 3}), ("-exif", {"exif": exif}), ("-profile", {"icc_profile": srgb}),
                          ("-restart", {"restart_marker_rows": 1})):
            yield f"{mode}{name}.jpg", image, how
    for sampling in ("4:4:4", "4:2:2", "4:2:0"):
        for progressive in (False, True):
            how = {"subsampling": sampling, "progressive": progressive, "quality": 60}
            yield f"{sampling.replace(':', '')}{'-progressive' if progressive else ''}.jpg", rgb, how
    yield "keep-rgb.jpg", rgb, {"keep_rgb": True}
    yield "tables.jpg", rgb, {"qtables": "web_high"}


def without_adobe(data):
    """The same JPEG without the marker of Adobe's programs (APP14)."""
    at = data.find(b"\xff\xee")
    return data[:at] + data[at + 2 + struct.unpack(">H", data[at + 2:at + 4])[0]:] if at > 0 else data


def files():
    """Name, path; and of 16 bits the values that it was made of."""
    for name, image, how in pillow_kinds():
        path = f"{folder}/{name}"
        image.save(path, **how)
        yield name, path, None
        if image.mode == "CMYK":
            with open(path, "rb") as f:
                data = without_adobe(f.read())
            path = f"{folder}/plain-{name}"
            with open(path, "wb") as f:
                f.write(data)
            yield "plain-" + name, path, None
    for name, data, values in raw_kinds():
        path = f"{folder}/{name}"
        with open(path, "wb") as f:
            f.write(data)
        yield name, path, values


def pack(paths, channels, *options):
    with open(f"{folder}/list.csv", "w") as f:
        f.writelines(f"{os.path.basename(p)},0\n" for p in paths)
    out = f"{folder}/out.h5"
    subprocess.run(["rm", "-f", out], check=True)
    done = subprocess.run([program, "pack", "--list", f"{folder}/list.csv", "--root", folder, "--channels", str(channels),
                           "--output", out, *options], capture_output=True, text=True)
    if done.returncode:
        print(f"Bail out! pack: {done.stderr[-900:]}")
        sys.exit(1)
    with h5py.File(out) as f:
        return f["images"][...]


def grey_of(values):
    weights = np.array([19595, 38470, 7471], np.uint64)
    return ((values[..., :3].astype(np.uint64) * weights).sum(-1) + 0x8000) >> 16


def resized(image, height, width):
    """To these sides; width None: the shorter side becomes height, and the middle is kept (torchvision's CenterCrop)."""
    if width:
        return image.resize((width, height), Image.BILINEAR)
    w, h = image.size
    size = (height, int(height * h / w)) if w < h else (int(height * w / h), height)
    left, top = (round((side - height) / 2) for side in size)
    return image.resize(size, Image.BILINEAR).crop((left, top, left + height, top + height))


def check_resizes(seed, rounds=10, files=40):
    """Images of drawn sizes, brought to drawn sizes: Pillow rounds twice, so pixels may differ by 1."""
    g = np.random.default_rng(seed)
    bad = 0
    for n in range(rounds):
        paths = [f"{folder}/drawn-{i}.png" for i in range(files)]
        for path in paths:
            h, w = (int(v) for v in g.integers(2, 90, 2))
            Image.fromarray(g.integers(0, 256, (h, w, 3), dtype=np.uint8)).save(path)
        height, width = (int(v) for v in g.integers(1, 90, 2))
        width = width if n % 3 else None
        for path, x in zip(paths, pack(paths, 3, "--resize", f"{height},{width}" if width else str(height))):
            image = Image.open(path)
            want = np.asarray(resized(image, height, width)).transpose(2, 0, 1).astype(int)
            if x.shape != want.shape or abs(x.astype(int) - want).max() > 1:
                bad += 1
                print(f"# seed {seed}: {image.height}x{image.width} to {height}x{width or height}: other pixels")
    print(f"{'not ' if bad else ''}ok 2 - {rounds * files} resized images, {bad} more than 1 of 255 other than "
          f"Pillow {PIL.__version__}")
    return bad


def main():
    bad = 0
    made = list(files())
    narrow = [(n, p) for n, p, v in made if v is None]
    wide = [(n, p, v) for n, p, v in made if v is not None]
    for channels, mode in ((3, "RGB"), (1, "L")):
        got = pack([p for _, p in narrow], channels)
        for (name, path), x in zip(narrow, got):
            want = np.asarray(Image.open(path).convert("RGB") if mode == "RGB" else grey_seen(path))
            want = want.reshape(H, W, -1).transpose(2, 0, 1).astype(int)
            if x.dtype != np.uint8 or np.abs(x.astype(int) - want).max():
                bad += 1
                print(f"# {name} as {mode}: {x.dtype}, off by up to {np.abs(x.astype(int) - want).max()}")
        got = pack([p for _, p, _ in wide], channels)
        for (name, _, values), x in zip(wide, got):
            colour = values[..., :3] if values.shape[-1] > 2 else values[..., :1].repeat(3, -1)
            want = colour.transpose(2, 0, 1) if mode == "RGB" else grey_of(colour)[None]
            if values.shape[-1] < 3 and mode == "L":
                want = values[..., 0][None]
            if x.dtype != np.uint16 or (x != want).any():
                bad += 1
                print(f"# {name} as {mode}: {x.dtype}, other values")
    print(f"{'not ' if bad else ''}ok 1 - images: {len(made)} kinds, {bad} other than Pillow {PIL.__version__}")
    bad += check_resizes(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    print("1..2")
    sys.exit(bad != 0)


def grey_seen(path):
    """By way of colours where there are any: of a palette and of inks Pillow goes the same way."""
    image = Image.open(path)
    return image.convert("L") if image.mode in ("1", "L", "LA", "RGB", "RGBA") else image.convert("RGB").convert("L")


main()
