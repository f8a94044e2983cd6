#!/usr/bin/env python3
"""Makes h5/*.h5: arrays as h5py and hdf5plugin write them, one for each filter, type and layout.
Element k of all is value(k) of tests/unit/t_h5_matrix.c.  The raw file is looked
for where HDF5_EXTFILE_PREFIX says.

usage: make_h5.py [DIRECTORY]    (h5py, hdf5plugin, numpy)"""
import os
import sys

import h5py
import hdf5plugin
import numpy as np

N, C, H, W = 6, 2, 3, 5
out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "h5")
out = sys.argv[1] if len(sys.argv) > 1 else out
os.makedirs(out, exist_ok=True)


def values(dtype, n=N):
    k = np.arange(n * C * H * W, dtype=np.int64)
    return ((k * 7 + k // 11) % 101).astype(dtype).reshape(n, C, H, W)


def create(name, userblock=0, latest=False):
    """In the latest format of HDF5 1.10 chunks have small indexes, else B-trees of some KB."""
    plist = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    plist.set_userblock(userblock)
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    if latest:
        access.set_libver_bounds(h5py.h5f.LIBVER_V110, h5py.h5f.LIBVER_V110)
    path = os.path.join(out, name + ".h5").encode()
    f = h5py.File(h5py.h5f.create(path, h5py.h5f.ACC_TRUNC, plist, access))
    f.create_dataset("labels", data=np.arange(N, dtype="u1"))
    return f


def write(f, name, dtype="<f4", **how):
    f.create_dataset(name, data=values(dtype), **how).attrs["layout"] = "NCHW"


whole = (2, C, H, W)
B, Z = hdf5plugin.Blosc, hdf5plugin.Bitshuffle
f = create("matrix", latest=True)
filters = {
    "gzip": dict(compression="gzip"),
    "gzip-shuffle": dict(compression="gzip", shuffle=True),
    "shuffle": dict(shuffle=True),
    "fletcher": dict(fletcher32=True),
    "gzip-shuffle-fletcher": dict(compression="gzip", shuffle=True, fletcher32=True),
    "lzf": dict(compression="lzf"),
    "lzf-shuffle-fletcher": dict(compression="lzf", shuffle=True, fletcher32=True),
    "lz4": dict(**hdf5plugin.LZ4()),
    "lz4-blocks-shuffle": dict(shuffle=True, **hdf5plugin.LZ4(nbytes=128)),
    "zstd": dict(**hdf5plugin.Zstd()),
    "zstd-shuffle": dict(shuffle=True, **hdf5plugin.Zstd(clevel=9)),
    "bitshuffle": dict(**Z(cname="none")),
    "bitshuffle-lz4": dict(**Z(cname="lz4")),
    "bitshuffle-lz4-blocks": dict(**Z(nelems=16, cname="lz4")),
    "bitshuffle-zstd": dict(**Z(cname="zstd")),
    "blosc-blosclz": dict(**B(cname="blosclz", shuffle=B.SHUFFLE)),
    "blosc-lz4": dict(**B(cname="lz4", shuffle=B.BITSHUFFLE)),
    "blosc-lz4hc": dict(**B(cname="lz4hc", shuffle=B.NOSHUFFLE)),
    "blosc-zlib": dict(**B(cname="zlib", shuffle=B.SHUFFLE)),
    "blosc-zstd": dict(**B(cname="zstd", shuffle=B.SHUFFLE)),
    "scaleoffset": dict(scaleoffset=0),
    "szip": dict(compression="szip"),
}
for name, how in filters.items():
    write(f, "filter-" + name, dtype="<i4" if name in ("scaleoffset", "szip") else "<f4", chunks=whole, **how)

for t in ["u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8"]:
    write(f, "type-" + t.strip("<"), t, chunks=whole, compression="gzip", shuffle=True)
    if t[0] == "<":
        write(f, "type-big-" + t[1:], ">" + t[1:], chunks=whole, compression="gzip", shuffle=True)
write(f, "bits-i2", "<i2", chunks=whole, **Z(cname="lz4"))
write(f, "bits-f8", "<f8", chunks=whole, **Z(cname="lz4"))


def layouts(f):
    gzip = dict(compression="gzip", shuffle=True)
    write(f, "layout-contiguous")
    write(f, "layout-contiguous-big", ">f4")
    write(f, "layout-chunked", chunks=whole)
    write(f, "layout-edge", chunks=(4, C, H, W), **gzip)
    write(f, "layout-edge-all", chunks=(4, 2, 2, 4), **gzip)
    write(f, "layout-channel", chunks=(1, 1, H, W), **gzip)
    write(f, "layout-automatic", chunks=True, **gzip)
    write(f, "layout-single", chunks=(N, C, H, W), **gzip)
    write(f, "layout-unlimited", chunks=(4, C, H, W), maxshape=(None, C, H, W), **gzip)
    write(f, "layout-unlimited-two", chunks=(4, C, H, W), maxshape=(None, None, H, W), **gzip)
    low(f, "layout-compact", "compact")
    low(f, "layout-early", "early")
    low(f, "fill-late", "late", filled=False)
    low(f, "fill-early", "early", filled=False)
    f.create_dataset("group/data", data=values("<f4"), chunks=whole, **gzip)
    f["link-hard"] = f["group/data"]
    f["link-soft"] = h5py.SoftLink("/group/data")
    f["link-external"] = h5py.ExternalLink("user-block.h5", "/images")
    v = h5py.VirtualLayout((N, C, H, W), "<f4")
    v[...] = h5py.VirtualSource("user-block.h5", "images", (N, C, H, W))
    f.create_virtual_dataset("virtual", v)


def low(f, name, how, filled=True):
    """What only h5py's low interface says: when chunks are allocated, compact storage."""
    p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if how == "compact":
        p.set_layout(h5py.h5d.COMPACT)
    else:
        p.set_chunk(whole)
    if how == "late":
        p.set_deflate(4)
    if how == "early":
        p.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    p.set_fill_value(np.array(17, "<f4"))
    space = h5py.h5s.create_simple((N, C, H, W))
    d = h5py.Dataset(h5py.h5d.create(f.id, name.encode(), h5py.h5t.IEEE_F32LE, space, p))
    x = values("<f4")
    for i in [0, 4] if not filled else range(0, N, 2):
        d[i : i + 2] = x[i : i + 2]


f.close()
B2 = hdf5plugin.Blosc2
f = create("blosc2", latest=True)
for name in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]:
    write(f, "filter-" + name, chunks=whole, **B2(cname=name, filters=B2.SHUFFLE))
write(f, "filter-bits", chunks=whole, **B2(cname="zstd", filters=B2.BITSHUFFLE))
write(f, "filter-plain", chunks=whole, **B2(cname="lz4", clevel=0, filters=B2.NOFILTER))
write(f, "filter-delta", "<i4", chunks=whole, **B2(cname="zstd", filters=B2.DELTA))
write(f, "filter-one-dim", chunks=(N, C, H, W), **B2(cname="lz4"))
write(f, "filter-edge", chunks=(4, 2, 2, 4), **B2(cname="lz4"))
write(f, "filter-u1", "u1", chunks=whole, **B2(cname="zstd"))
rows = np.arange(3000 * 40, dtype=np.int64)
rows = ((rows * 7 + rows // 11) % 101).astype("<f4").reshape(3000, 40)
f.create_dataset("blocks", data=rows, chunks=(700, 13), **B2(cname="zstd"))
f.close()
old = create("old")
layouts(old)
old.close()
latest = create("latest", latest=True)
layouts(latest)
latest.close()
user = create("user-block", userblock=512)
write(user, "images", chunks=whole, compression="gzip")
write(user, "contiguous")
user.close()
raw = create("raw")
with open(os.path.join(out, "raw.bin"), "wb") as data:
    data.write(b"8 before" + values("<f4").tobytes())
raw.create_dataset("images", (N, C, H, W), "<f4", external=[("raw.bin", 8, N * C * H * W * 4)])
raw.close()
