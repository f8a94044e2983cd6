"""Draws arrays with attributes of the CF conventions and compares what the reader makes of them with netCDF4-python.

    check_cf.py READ_ARRAYS DIR SEED CASES

Every way of storing that the reader has: in a row, compact, chunks with and without filters, chunks across samples,
chunks never written, either byte order, virtual arrays (which HDF5 reads).  Each with and without a cache.
"""
import subprocess
import sys
import warnings
import h5py
import netCDF4
import numpy as np

program, folder, seed, cases = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
warnings.simplefilter("ignore")
WAYS = ["row", "compact", "chunks", "deflate", "shuffle", "split", "sparse", "virtual"]
TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


def draw_numbers(g, dtype, shape, special):
    if dtype.kind == "f":
        x = g.normal(0, 100, shape).astype(dtype)
        x[g.random(shape) < 0.02] = np.nan
    else:
        info = np.iinfo(dtype)
        low, high = (info.min, info.max) if g.random() < 0.5 else (max(info.min, -100), 100)
        x = g.integers(low, high, shape, dtype=dtype.newbyteorder("="), endpoint=True).astype(dtype)
    for v in special:
        x[g.random(shape) < 0.05] = v
    return x


def draw_value(g, dtype):
    """A number of the type: netCDF4-python passes over others."""
    if dtype.kind == "f":
        return dtype.type(g.choice([np.nan, -9999, 1e20, 0, 50.5]))
    info = np.iinfo(dtype)
    return dtype.type(g.choice([info.min, info.max, 0, 7, 99] + ([-1, -99] if dtype.kind == "i" else [])))


def draw_attributes(g, dtype):
    a, special = {}, []
    own = np.dtype(dtype).newbyteorder("=")
    if g.random() < 0.5:
        a["_FillValue"] = draw_value(g, own)
        special.append(a["_FillValue"])
    if g.random() < 0.4:
        n = g.integers(1, 4)
        v = np.array([draw_value(g, own) for _ in range(n)], own)
        a["missing_value"] = v if n > 1 or g.random() < 0.5 else v[0]
        special.extend(v)
    if g.random() < 0.3:
        v = np.sort(np.array([draw_value(g, own), draw_value(g, own)], own))
        if not np.isnan(v.astype("f8")).any():
            kind = g.integers(0, 3)
            if kind == 0:
                a["valid_range"] = v
            if kind == 1:
                a["valid_min"] = v[0]
            if kind == 2:
                a["valid_max"] = v[1]
    real = g.choice(["f4", "f8"])
    if g.random() < 0.6:
        a["scale_factor"] = np.dtype(real).type(g.choice([0.01, 0.5, 1, -2, 1e-3]))
    if g.random() < 0.5:
        a["add_offset"] = np.dtype(real).type(g.choice([273.15, -100, 0, 1e5]))
    if own.kind == "i" and "_FillValue" in a and g.random() < 0.4:  # without it netCDF4-python fails
        a["_Unsigned"] = str(g.choice(["true", "false", "True"]))
    return a, special


def write(g, path, way, dtype, shape, x, attributes):
    fill = attributes.get("_FillValue")
    kwargs = {} if fill is None else {"fillvalue": fill}
    chunk = (min(3, shape[0]),) + shape[1:]
    with h5py.File(path, "w", track_order=True) as h:
        if way == "virtual":
            with h5py.File(path + ".source", "w") as s:
                s.create_dataset("v", data=x)
            layout = h5py.VirtualLayout(shape, dtype)
            layout[...] = h5py.VirtualSource(path + ".source", "v", shape)
            d = h.create_virtual_dataset("v", layout, **({} if fill is None else {"fillvalue": fill}))
        elif way == "compact":
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_layout(h5py.h5d.COMPACT)
            space = h5py.h5s.create_simple(shape)
            d = h5py.Dataset(h5py.h5d.create(h.id, b"v", h5py.h5t.py_create(dtype), space, plist))
            d[...] = x
        else:
            if way in ("chunks", "deflate", "shuffle", "sparse"):
                kwargs["chunks"] = chunk
            if way == "split":
                kwargs["chunks"] = (min(2, shape[0]),) + tuple((n + 1) // 2 for n in shape[1:])
            if way in ("deflate", "shuffle", "split"):
                kwargs["compression"] = "gzip"
            if way == "shuffle":
                kwargs["shuffle"] = True
            d = h.create_dataset("v", shape, dtype, **kwargs)
            if way == "sparse":
                x = x.copy()
                x[: chunk[0]] = d[: chunk[0]]
                d[chunk[0]:] = x[chunk[0]:]
            else:
                d[...] = x
        for key, value in attributes.items():
            d.attrs[key] = value


def expected(path):
    """As float64 with NaN for what is masked; the stored array; and one step of float32 at each number."""
    with netCDF4.Dataset(path) as n:
        v = n.variables["v"]
        masked = v[...]
        v.set_auto_maskandscale(False)
        raw = v[...]
    x = np.ma.filled(np.ma.asarray(masked).astype("f8"), np.nan)
    return x, raw


def numbers(f):
    n = int(np.fromfile(f, "f8", 1)[0])
    return None if n < 0 else np.fromfile(f, "f8", n)


def differ(got, want, step):
    if got is None or got.size != want.size:
        return "refused, or of another size"
    got = got.reshape(want.shape)
    if (np.isnan(got) != np.isnan(want)).any():
        i = np.unravel_index(np.argmax(np.isnan(got) != np.isnan(want)), want.shape)
        return f"{i}: {got[i]}, expected {want[i]}"
    bad = np.abs(got - want) > step
    return f"{got[bad][0]}, expected {want[bad][0]}" if bad.any() else ""


def main():
    bad, compared, made = 0, 0, []
    for case in range(cases):
        g = np.random.default_rng([seed, case])
        dtype = np.dtype(str(g.choice(TYPES))).newbyteorder(str(g.choice(["<", ">"])))
        shape = (int(g.integers(1, 12)),) + tuple(int(n) for n in g.integers(1, 7, g.integers(0, 4)))
        way = str(g.choice(WAYS))
        attributes, special = draw_attributes(g, dtype)
        x = draw_numbers(g, dtype, shape, special)
        path = f"{folder}/{case}.nc"
        write(g, path, way, dtype, shape, x, attributes)
        made.append((case, path, f"{way} {dtype} {shape} {attributes}", attributes))
    for cache in (0, 1 << 20):
        out = f"{folder}/out"
        args = [a for _, path, _, _ in made for a in (path, "v")]
        done = subprocess.run([program, str(cache), out] + args, capture_output=True, text=True)
        if done.returncode:
            print(f"Bail out! read_arrays: {done.returncode} {done.stderr[-500:]}")
            sys.exit(1)
        with open(out, "rb") as f:
            for case, path, text, attributes in made:
                want, raw = expected(path)
                got = numbers(f)
                labels = None if got is None else numbers(f)
                with np.errstate(all="ignore"):
                    # the arithmetic of netCDF4-python is float32 where the attributes are
                    low = any(np.asarray(attributes.get(k, 1.0)).dtype == "f4" for k in ("scale_factor", "add_offset"))
                    scale = abs(float(attributes.get("scale_factor", 1)))
                    size = np.abs(raw.astype("f8")) * scale + abs(float(attributes.get("add_offset", 0))) + np.abs(want)
                    step = np.where(np.isfinite(size), size, 0) * (4e-7 if low else 7e-8) + 1e-45
                if not attributes:
                    want = raw.astype("f8")
                why = differ(got, want, step)
                scaled = any(float(attributes.get(k, d)) != d for k, d in (("scale_factor", 1), ("add_offset", 0)))
                if not why and labels is not None and labels.size and (raw.dtype.kind == "f" or scaled):
                    why = differ(labels, want, step)
                elif not why and labels is not None and labels.size:
                    unsigned = attributes.get("_Unsigned") in ("true", "True")
                    plain = raw.view(raw.dtype.str.replace("i", "u")) if unsigned else raw
                    why = differ(labels, plain.astype("i8").astype("f8"), 0)
                compared += 1
                if why:
                    bad += 1
                    print(f"# SEED={seed}, case {case}, cache {cache}: {text}: {why}")
    print(f"{'not ' if bad else ''}ok 1 - cf: {compared} arrays, {bad} other than netCDF4 {netCDF4.__version__}\n1..1")
    sys.exit(bad != 0)


main()
