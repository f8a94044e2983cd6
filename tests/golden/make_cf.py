#!/usr/bin/env python3
"""Makes tests/golden/cf.nc: packed and missing numbers as netCDF-4 stores them, and what netCDF4-python makes of them.

    pip install netCDF4 numpy
    tests/golden/make_cf.py tests/golden/cf.nc

For each variable NAME there is NAME_is, float32 without attributes, NaN where a number is missing.
"""
import sys
import netCDF4
import numpy as np

N, SHAPE = 7, (7, 3, 4)
KINDS = {
    "scaled": ("i2", {"_FillValue": -32767, "scale_factor": 0.01, "add_offset": 273.0}, {"zlib": True}),
    "scale_alone": ("i4", {"scale_factor": -0.5}, {}),
    "offset_alone": ("u1", {"add_offset": 0.25}, {"zlib": True, "chunksizes": (2, 2, 4)}),
    "unsigned": ("i1", {"_Unsigned": "true", "_FillValue": -1, "scale_factor": 0.1}, {}),
    "unsigned_short": ("i2", {"_Unsigned": "true", "_FillValue": -1, "valid_range": np.array([0, -2], "i2")}, {}),
    "several": ("i2", {"missing_value": np.array([-99, 5], "i2"), "scale_factor": 2.0}, {"endian": "big"}),
    "range": ("i4", {"valid_range": np.array([-50, 60], "i4"), "add_offset": 1.0}, {"zlib": True, "shuffle": True}),
    "least": ("i2", {"valid_min": np.int16(-10), "scale_factor": 1.0}, {}),
    "most": ("f4", {"valid_max": np.float32(40), "_FillValue": -1e30}, {"zlib": True}),
    "wide": ("f8", {"missing_value": -999.0, "scale_factor": 1e-3}, {}),
    "wide_chunks": ("f8", {"missing_value": -999.0, "add_offset": -1.0}, {"zlib": True, "chunksizes": (3, 3, 2)}),
    "large": ("i8", {"_FillValue": -(2**63) + 1, "scale_factor": 1e-12}, {}),
    "largest": ("u8", {"_FillValue": 2**64 - 1, "scale_factor": 1e-12}, {}),
    "by_default": ("i2", {"scale_factor": 0.5}, {"chunksizes": (2, 3, 4)}),
}


def draw(g, dtype, attributes):
    if dtype[0] == "f":
        x = g.normal(0, 50, SHAPE).astype(dtype)
    elif dtype[1] == "8":
        x = g.integers(-(2**62) if dtype == "i8" else 0, 2**62, SHAPE).astype(dtype)
    else:
        x = g.integers(-100 if dtype[0] == "i" else 0, 100, SHAPE).astype(dtype)
    for name in ("_FillValue", "missing_value"):
        for v in np.atleast_1d(attributes.get(name, [])):
            x[g.random(SHAPE) < 0.1] = v
    return x


with netCDF4.Dataset(sys.argv[1], "w") as f:
    for name, size in zip("nyx", SHAPE):
        f.createDimension(name, size)
    for k, (name, (dtype, attributes, how)) in enumerate(KINDS.items()):
        g = np.random.default_rng(k)
        a = dict(attributes)
        fill = a.pop("_FillValue", None)
        v = f.createVariable(name, dtype, ("n", "y", "x"), fill_value=fill, **how)
        v.set_auto_maskandscale(False)
        v.setncatts(a)
        x = draw(g, dtype, attributes)
        rows = N if name != "by_default" else 4  # the others are never written
        v[:rows] = x[:rows]
        v.set_auto_maskandscale(True)
        is_ = np.ma.filled(np.ma.asarray(v[...]).astype("f8"), np.nan).astype("f4")
        w = f.createVariable(name + "_is", "f4", ("n", "y", "x"), fill_value=False)
        w[...] = is_
