"""Encoded images, what Pillow and torchvision make of them, and files of h5py that hold them:
tests/golden/encoded.  python3 make_encoded.py DIRECTORY"""
import io
import sys

import h5py
import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as F

SIDE, CROP = 24, 16


def picture(h, w):
    """Smooth, with edges: small when it is encoded."""
    y, x = np.mgrid[0:h, 0:w].astype(np.float64)
    disc = (y - h * 0.4) ** 2 + (x - w * 0.6) ** 2 < (h * 0.25) ** 2
    r = 127 + 120 * np.sin(x / w * 5) * np.cos(y / h * 4)
    g = 255 * x / w * (1 - disc)
    b = np.where(disc, 240, 60 + 90 * y / h)
    return Image.fromarray(np.stack([r, g, b], -1).clip(0, 255).astype(np.uint8))


def encode(image, form, **options):
    f = io.BytesIO()
    image.save(f, form, **options)
    return f.getvalue()


def wanted(data):
    x = torch.from_numpy(np.array(Image.open(io.BytesIO(data)).convert("RGB"))).permute(2, 0, 1)
    x = F.center_crop(F.resize(x, [SIDE], antialias=True), [CROP, CROP])
    return x.permute(1, 2, 0).contiguous().numpy()


def main(out):
    files = {
        "0-420.jpg": encode(picture(75, 97), "JPEG", quality=60, subsampling=2),
        "1-422.jpg": encode(picture(97, 75), "JPEG", quality=60, subsampling=1),
        "2-444.jpg": encode(picture(80, 80), "JPEG", quality=60, subsampling=0),
        "3-grey.jpg": encode(picture(60, 99).convert("L"), "JPEG", quality=60),
        "4-steps.jpg": encode(picture(76, 98), "JPEG", quality=60, subsampling=2, progressive=True),
        "5-cmyk.jpg": encode(picture(50, 70).convert("CMYK"), "JPEG", quality=60),
        "6-rgb.png": encode(picture(33, 40).quantize(16).convert("RGB"), "PNG"),
        "7-large.jpg": encode(picture(240, 320), "JPEG", quality=50, subsampling=2),
    }
    for name, data in files.items():
        with open(f"{out}/{name}", "wb") as f:
            f.write(data)
    with open(f"{out}/resized.rgb", "wb") as f:
        for data in files.values():
            f.write(wanted(data).tobytes())
    with h5py.File(f"{out}/apart.h5", "w", libver="latest") as f:
        kind = h5py.vlen_dtype(np.uint8)
        images = f.create_dataset("images", (len(files),), dtype=kind)
        for i, data in enumerate(files.values()):
            images[i] = np.frombuffer(data, np.uint8)
        f["labels"] = np.arange(len(files), dtype=np.int32) % 3
    sizes = [np.array(Image.open(io.BytesIO(data))).shape for data in files.values()]
    with h5py.File(f"{out}/joined.h5", "w", libver="latest", userblock_size=512) as f:
        images = f.create_dataset("images", data=np.frombuffer(b"".join(files.values()), np.uint8))
        images.attrs["encoding"] = "image"
        f["images.offsets"] = np.cumsum([0] + [len(data) for data in files.values()])
        f["images.sizes"] = np.array([[s[0], s[1], 3 if len(s) > 2 else 1] for s in sizes], np.int32)
        f["labels"] = np.arange(len(files), dtype=np.int32) % 3


if __name__ == "__main__":
    main(sys.argv[1])
