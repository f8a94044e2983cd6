"""Files of a sample each, windows of trajectories and joined arrays: what read_batches makes of them beside numpy.

    check_fields.py READ_BATCHES DIR CASE

Makes HDF5 files in DIR and compares every sample, by its number, at 1 to 3 ranks: values, each once, and the rest of
an epoch from its middle.
"""
import json
import os
import subprocess
import sys
import h5py
import numpy as np

program, folder, case = sys.argv[1:4]
rng = np.random.default_rng(5)
failures = 0


def check(what, good):
    global failures
    failures += not good
    print(f"{'same' if good else 'DIFFERENT'}: {what}")


def read(config, ranks=1, epoch=0, cursor=0, sets=()):
    """Returns [(number, input, target)] of a feed; or the message of an error."""
    out = os.path.join(folder, "out.bin")
    path = os.path.join(folder, "c.yaml")
    with open(path, "w") as f:
        f.write(config)
    done = subprocess.run([program, path, out, str(ranks), str(epoch), str(cursor), *sets], capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip()
    v, at, samples = np.fromfile(out), 0, []
    while at < len(v):
        n = int(v[at + 1])
        m = int(v[at + 2 + n])
        samples.append((int(v[at]), v[at + 2:at + 2 + n], v[at + 3 + n:at + 3 + n + m]))
        at += 3 + n + m
    return samples


def config(data, transforms="[]", model="{layers: [flatten, {linear: {out: 2}}]}", loss="{kind: mse}"):
    return f"run: {{seed: 3}}\ndata: {{{data}}}\ntransforms: {transforms}\nmodel: {model}\nloss: {loss}\n"


def same(samples, expected, exact=True):
    """Compares a whole epoch with the list of (input, target) by number."""
    if isinstance(samples, str):
        print(samples)
        return False
    if sorted(s[0] for s in samples) != list(range(len(expected))):
        print("numbers", sorted(s[0] for s in samples)[:20], len(samples), len(expected))
        return False
    for number, x, y in samples:
        for got, want in ((x, expected[number][0]), (y, expected[number][1])):
            want = np.asarray(want, np.float64).ravel()
            if got.shape != want.shape or not (np.array_equal(got, want) if exact else np.allclose(got, want, 1e-5, 1e-5)):
                print("sample", number, got.shape, want.shape, got[:4], want[:4])
                return False
    return True


def check_all(what, text, expected, sets=(), exact=True):
    """An epoch at 1 to 3 ranks, and its rest from the middle, with and without a cache and threads."""
    whole = read(text, 1, 1, 0, sets)
    check(f"{what}: values", same(whole, expected, exact))
    if isinstance(whole, str):
        return
    order = [s[0] for s in whole]
    check(f"{what}: shuffled", order != sorted(order))
    for ranks in 2, 3:
        check(f"{what}: {ranks} ranks", same(read(text, ranks, 1, 0, [*sets, "data.cache_mb=0", "data.workers=2"]), expected, exact))
    middle = read(text, 2, 1, 8, [*sets, "data.readahead=0"])
    check(f"{what}: the rest", sorted(s[0] for s in middle) == sorted(order[8:]))
    blocks = read(text, 2, 1, 0, [*sets, "data.shuffle=blocks"])
    check(f"{what}: blocks", same(blocks, expected, exact))


def chw(a):
    return np.moveaxis(a, -1, 0)


def files():
    """A file a sample."""
    n, expected, numbers = 37, [], []
    os.makedirs(f"{folder}/s", exist_ok=True)
    ways = [{}, {"chunks": (12, 16, 16)}, {"chunks": (5, 16, 4), "compression": "gzip"}]
    for i in range(n):
        x = rng.normal(0, 1, (12, 16, 16)).astype("f4")
        y = rng.integers(0, 3, (12, 16)).astype("i4")
        with h5py.File(f"{folder}/s/data-{i:03d}.h5", "w") as f:
            f.create_dataset("climate/data", data=x, **ways[0 if i == 5 else 2])  # one file is stored in another way
            f.create_dataset("climate/labels_0", data=y)
            f["label"] = i % 7 if i % 2 else np.array([i % 7])
            f["pair"] = [i + 0.5, -i]
        expected.append((chw(x), y))
        numbers.append(x)
    with open(f"{folder}/s/README", "w") as f:
        f.write("not data\n")
    base = f"train: {folder}/s, files: sample, layout: nhwc, input: climate/data, batch: 8"
    xent = "{kind: cross_entropy}"
    model = "{classes: 3, layers: [{conv2d: {out: 3, kernel: 1}}]}"
    check_all("masks", config(f"{base}, target: climate/labels_0", model=model, loss=xent), expected)
    labels = [(e[0], i % 7) for i, e in enumerate(expected)]
    check_all("labels", config(f"{base}, target: label", loss=xent, model="{classes: 7, layers: [flatten, {linear: {out: 7}}]}"), labels)
    pairs = [(e[0], [i + 0.5, -i]) for i, e in enumerate(expected)]
    check_all("targets", config(f"{base}, target: pair"), pairs)
    check_all("a pattern", config(f"{base}, target: pair".replace("/s,", "/s/data-*.h5,")), pairs)

    def bad(what, i, change, words, text=config(f"{base}, target: climate/labels_0, retry_s: 0", model=model, loss=xent)):
        path = f"{folder}/s/data-{i:03d}.h5"
        with open(path, "rb") as f:
            kept = f.read()
        change(path)
        got = read(text)
        good = isinstance(got, str) and all(w in got for w in words) and len(got.splitlines()) == 1
        check(f"{what}: {got if isinstance(got, str) else 'no error'}", good)
        skipped = read(text, sets=["data.on_error=skip"])
        check(f"{what}: skipped", not isinstance(skipped, str) and len(skipped) == n and i not in [s[0] for s in skipped])
        with open(path, "wb") as f:
            f.write(kept)

    def other(**arrays):
        def change(path):
            with h5py.File(path, "w") as f:
                for name, value in arrays.items():
                    f[name.replace("__", "/")] = value
        return change
    x = numbers[20]
    bad("another shape", 20, other(climate__data=x[:, :9], climate__labels_0=np.zeros((12, 16), "i4")),
        ["data-020.h5: array 'climate/data' is float32 1x16x12x9", "expected float32 1x16x12x16", "data-000.h5"])
    bad("another mask", 20, other(climate__data=x, climate__labels_0=np.zeros((12, 17), "i4")),
        ["data-020.h5: array 'climate/labels_0'", "expected"])
    bad("another type", 20, other(climate__data=x.astype("f8"), climate__labels_0=np.zeros((12, 16), "i4")),
        ["data-020.h5: array 'climate/data' is float64", "expected float32"])
    bad("no array", 20, other(climate__data=x), ["data-020.h5", "climate/labels_0", "not found"])
    bad("truncated", 20, lambda path: os.truncate(path, 3000), ["data-020.h5"])
    none = read(config(f"train: {folder}/none-*.h5, files: sample, input: a, target: b"))
    check(f"an empty pattern: {none}", isinstance(none, str) and "no file matches" in none and "none-*.h5" in none)


def windows():
    """Trajectories N x T x ..., several files, arrays of scalars and vectors, every way of storing."""
    ways = [{}, {"chunks": True, "compression": "gzip"}, {"vector": (1, 1, 12, 10, 2), "scalar": (1, 1, 12, 10)},
            {"vector": (2, 3, 12, 5, 2), "scalar": (2, 4, 6, 10), "compression": "lzf"}, {"vector": (3, 4, 12, 10, 2), "scalar": (2, 4, 12, 10)}]
    for w, way in enumerate(ways):
        all_of = []
        for i, (n, t) in enumerate(((3, 9), (2, 7), (1, 3), (1, 12))):
            d = rng.normal(0, 1, (n, t, 12, 10)).astype("f4")
            v = rng.normal(0, 1, (n, t, 12, 10, 2)).astype("f4")
            with h5py.File(f"{folder}/w{w}-{i}.hdf5", "w") as f:
                for name, a, key in (("t0_fields/density", d, "scalar"), ("t1_fields/velocity", v, "vector")):
                    how = dict(way)
                    if key in how:
                        how["chunks"] = tuple(min(c, s) for c, s in zip(how[key], a.shape))
                    how = {k: q for k, q in how.items() if k in ("chunks", "compression")}
                    f.create_dataset(name, data=a, **how)
            all_of += [(d[k], v[k]) for k in range(n)]

        def expect(span, context, stride, make_x, make_y):
            return [(make_x(d, v, slice(t, t + context)), make_y(d, v, slice(t + context, t + span)))
                    for d, v in all_of for t in range(0, len(d) - span + 1, stride)]

        def joined(d, v, s):  # frame by frame: density, velocity
            return np.concatenate([d[s][:, None], np.moveaxis(v[s], -1, 1)], 1)

        def density(d, v, s):
            return d[s]
        base = f"train: {folder}/w{w}-*.hdf5, batch: 4"
        fields = "input: [t0_fields/density, t1_fields/velocity]"
        check_all(f"way {w}, fields", config(f"{base}, {fields}, window: {{context: 3, target: 2}}"), expect(5, 3, 1, joined, joined))
        check_all(f"way {w}, a field", config(f"{base}, input: t0_fields/density, window: {{context: 4, stride: 2}}"),
                  expect(5, 4, 2, density, density))
        check_all(f"way {w}, other targets", config(f"{base}, {fields}, target: t0_fields/density, window: {{context: 2}}"),
                  expect(3, 2, 1, joined, density))
    mean, std = [1, 2, 3], [2, 4, 8]
    normalize = f"[{{normalize: {{mean: {mean}, std: {std}}}}}]"

    def normal(d, v, s):
        return (joined(d, v, s) - np.array(mean)[:, None, None]) / np.array(std)[:, None, None]
    text = config(f"{base}, {fields}, window: {{context: 3, target: 2}}", normalize)
    check_all("normalized inputs", text, expect(5, 3, 1, normal, joined), exact=False)
    check_all("normalized targets", text, expect(5, 3, 1, normal, normal), ["data.normalize_targets=true"], exact=False)
    # T x ... in files of a trajectory each
    plain = []
    for i, t in enumerate((6, 9, 5)):
        a = rng.normal(0, 1, (t, 6, 8)).astype("f8")
        with h5py.File(f"{folder}/t-{i}.h5", "w") as f:
            f["u"] = a
        plain += [(a[k:k + 2], a[k + 2:k + 3]) for k in range(t - 2)]
    check_all("T first", config(f"train: {folder}/t-*.h5, files: sample, input: u, batch: 4, window: {{context: 2}}"),
              [(x.astype("f4"), y.astype("f4")) for x, y in plain])
    long = read(config(f"{base}, {fields}, window: {{context: 12}}"))
    check(f"too long: {long}", isinstance(long, str) and "longest trajectory has 12 frames" in long and "has 13" in long)
    missing = read(config(f"{base}, input: t0_fields/pressure, window: {{context: 1}}"))
    check(f"missing: {missing}", isinstance(missing, str) and "t0_fields/pressure" in missing and "not found" in missing)
    other = read(config(f"{base}, {fields}, window: {{contex: 1}}"))
    check(f"misspelt: {other}", isinstance(other, str) and "did you mean 'context'" in other)


def joined():
    """Inputs of the same pixels, with and without a dim of channels, first and last."""
    n = 11
    a, b = rng.normal(0, 1, (n, 8, 9)).astype("f4"), rng.normal(0, 1, (n, 8, 9, 2)).astype("f4")
    c, y = rng.normal(0, 1, (n, 3, 8, 9)).astype("f4"), rng.normal(0, 1, (n, 2)).astype("f4")
    with h5py.File(f"{folder}/j.h5", "w") as f:
        f["u"], f["v"], f["p"], f["y"] = a, b, c, y
    expected = [(np.concatenate([a[i][None], chw(b[i]), c[i]]), y[i]) for i in range(n)]
    base = f"train: {folder}/j.h5, target: y, batch: 4"
    check_all("u, v, p", config(f"{base}, input: [u, v, p]"), expected)
    check_all("u, u", config(f"{base}, input: [u, u]"), [(np.stack([a[i], a[i]]), y[i]) for i in range(n)])
    d, e = rng.normal(0, 1, (n, 4, 8, 9)).astype("f4"), rng.normal(0, 1, (n, 4, 8, 9, 3)).astype("f4")
    with h5py.File(f"{folder}/k.h5", "w") as f:
        f["u"], f["v"], f["y"] = d[:, None], e, y
    expected = [(np.concatenate([d[i][None], chw(e[i])]), y[i]) for i in range(n)]
    check_all("volumes", config(f"train: {folder}/k.h5, target: y, batch: 4, input: [u, v]"), expected)
    with h5py.File(f"{folder}/l.h5", "w") as f:
        f["u"], f["w"], f["v"], f["y"] = d, d[:, None], e, y
    thrice = [(np.concatenate([d[i][None], d[i][None], chw(e[i])]), y[i]) for i in range(n)]
    check_all("volumes without channels", config(f"train: {folder}/l.h5, target: y, batch: 4, input: [u, w, v], shape: [1, 4, 8, 9]"), thrice)
    mean = "[{normalize: {mean: [1, 2, 3, 4], std: [1, 2, 4, 8]}}]"
    scale = np.array([1, 2, 4, 8])[:, None, None, None]
    normal = [((x - np.array([1, 2, 3, 4])[:, None, None, None]) / scale, t) for x, t in expected]
    check_all("normalized", config(f"train: {folder}/k.h5, target: y, batch: 4, input: [u, v]", mean), normal, exact=False)


def stats():
    """The command stats, and normalize from its file, from DeepCAM's and from attributes."""
    d, v = rng.normal(3, 2, (9, 7, 12, 10)).astype("f4"), rng.normal(-1e3, 0.5, (9, 7, 12, 10, 2)).astype("f4")
    with h5py.File(f"{folder}/n.h5", "w") as f:
        f["t0/d"], f["t1/v"] = d, v
        f["t0/d"].attrs["mean"], f["t0/d"].attrs["std"] = 2.0, 4.0
        f["t1/v"].attrs["min"], f["t1/v"].attrs["max"] = [-1e3, -1001], [-999, -997]
    with h5py.File(f"{folder}/beside.h5", "w") as f:
        f["t0/minval"], f["t0/maxval"] = np.array([1.5]), np.array([4.0])
        f["t1/v/mean"], f["t1/v/std"] = np.array([-1e3, -999]), np.array([2.0, 3.0])
    data = f"train: {folder}/n.h5, input: [t0/d, t1/v], batch: 4, window: {{context: 2}}, normalize_targets: true"
    path = f"{folder}/n.yaml"
    with open(path, "w") as f:
        f.write(config(data, f"[{{normalize: {{from: {folder}/made1.h5}}}}]"))
    made = []
    for ranks in 1, 2, 3:
        run = (os.environ["CT_MPIEXEC"].split() + ["-n", str(ranks)]) if ranks > 1 else []
        done = subprocess.run([*run, os.environ["CTRAIN"], "stats", path, "--output", f"{folder}/made{ranks}.h5"], capture_output=True, text=True)
        check(f"stats at {ranks} ranks: {done.stdout.splitlines()[:1]} {done.stderr[-200:] if done.returncode else ''}", done.returncode == 0)
        with h5py.File(f"{folder}/made{ranks}.h5") as f:
            made.append({k: f[k][:] for k in ("t0/d/mean", "t0/d/std", "t1/v/mean", "t1/v/std", "t0/d/min", "t1/v/max")})
        if not os.environ.get("CT_MPIEXEC"):
            break
    check("the same bits at all ranks", all(np.array_equal(m[k], made[0][k]) for m in made for k in m))
    d8, v8 = d.astype("f8"), v.astype("f8").reshape(-1, 2)
    want = {"t0/d/mean": d8.mean(), "t0/d/std": d8.std(), "t1/v/mean": v8.mean(0), "t1/v/std": v8.std(0), "t0/d/min": d8.min(), "t1/v/max": v8.max(0)}
    check("numpy's numbers", all(np.allclose(made[0][k], want[k], 1e-10) for k in want))

    def expect(mean, std):
        x = (np.concatenate([d[:, :, None], np.moveaxis(v, -1, 2)], 2) - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
        return [(x[n, t:t + 2], x[n, t + 2]) for n in range(9) for t in range(5)]
    m = made[0]
    for what, where, mean, std in (
            ("stats", "made1.h5", [*m["t0/d/mean"], *m["t1/v/mean"]], [*m["t0/d/std"], *m["t1/v/std"]]),
            ("beside", "beside.h5", [1.5, -1e3, -999], [2.5, 2, 3]), ("attributes", None, [2, -1e3, -1001], [4, 1, 4])):
        where = f"{folder}/{where}" if where else "attributes"
        samples = read(config(data, f"[{{normalize: {{from: {where}}}}}]"))
        # float32 rounds a * x + b once for x of 1000
        good = not isinstance(samples, str) and all(np.allclose(g, np.ravel(w), 1e-4, 1e-3) for n, *got in samples
                                                    for g, w in zip(got, expect(mean, std)[n]))
        check(f"normalize from {what}: {samples if isinstance(samples, str) else ''}", good)
    for what, sets, words in (
            ("no file", ["transforms=[{normalize: {from: none.h5}}]"], "none.h5"),
            ("no numbers", [f"transforms=[{{normalize: {{from: {folder}/n.h5}}}}]"], "expected t0/d/mean and t0/d/std"),
            ("both", ["transforms=[{normalize: {from: attributes, mean: 1, std: 1}}]"], "takes the place of mean and std"),
            ("to_tensor", ["transforms=[to_tensor, {normalize: {from: attributes}}]"], "to_tensor before it")):
        got = read(config(data), sets=sets)
        check(f"{what}: {got}", isinstance(got, str) and words in got and len(got.splitlines()) == 1)


def train(ranks, path, *sets):
    run = (os.environ["CT_MPIEXEC"].split() + ["-n", str(ranks)]) if ranks > 1 else []
    sets = [w for s in sets for w in ("--set", s)]
    return subprocess.run([*run, os.environ["CTRAIN"], "train", path, *sets], capture_output=True, text=True)


def losses(run):
    with open(f"{folder}/{run}/metrics.jsonl") as f:
        lines = [json.loads(line) for line in f]
    return {v["step"]: v["loss"] for v in lines if v["event"] == "step"}


def runs():
    """Whole runs at 1 to 3 ranks, one of them goes on within an epoch; copies and caches on the node."""
    os.makedirs(f"{folder}/r", exist_ok=True)
    for i in range(23):
        with h5py.File(f"{folder}/r/{i:02d}.nc", "w") as f:
            f["g/x"], f["g/y"] = rng.normal(0, 1, (8, 9, 3)).astype("f4"), rng.integers(0, 2, (8, 9)).astype("i1")
    for i in range(2):
        with h5py.File(f"{folder}/v{i}.h5", "w") as f:
            f["d"], f["v"] = rng.normal(0, 1, (3, 8, 6, 7)).astype("f4"), rng.normal(0, 1, (3, 8, 6, 7, 2)).astype("f4")
    both = {
        "files": (f"train: {folder}/r, files: sample, input: g/x, target: g/y", "{kind: cross_entropy}",
                  "{classes: 2, layers: [{conv2d: {out: 2, kernel: 3, padding: 1}}]}", 3),
        "windows": (f"train: {folder}/v*.h5, input: [d, v], window: {{context: 2}}", "{kind: mse}",
                    "{layers: [{conv2d: {out: 3, kernel: 3, padding: 1}}]}", 5)}
    for name, (data, loss, model, steps) in both.items():
        path = f"{folder}/{name}.yaml"
        with open(path, "w") as f:
            f.write(f"run: {{seed: 2, log_every: 1}}\ndevice: cpu\ndata: {{{data}, batch: 8}}\nmodel: {model}\nloss: {loss}\n"
                    "train: {epochs: 3}\noptim: {lr: 0.05}\ncheckpoint: {every_steps: 2, keep: 0}\n")
        most = 3 if os.environ.get("CT_MPIEXEC") else 1
        done = train(1, path, f"run.dir={folder}/{name}1")
        check(f"{name}: a run {done.stderr[-300:] if done.returncode else ''}", done.returncode == 0)
        want = losses(f"{name}1")
        check(f"{name}: three epochs", sorted(want) == list(range(1, 3 * steps + 1)))

        def near(run):
            got = losses(run)
            return sorted(got) == sorted(want) and all(abs(got[s] - want[s]) < 1e-5 * abs(want[s]) for s in want)
        ways = {"two": [2], "three": [3], "stage": [2, f"data.stage={folder}"], "cache": [1, f"data.cache_dir={folder}", "data.cache_mb=0"]}
        for way, (ranks, *sets) in ways.items():
            done = train(min(ranks, most), path, f"run.dir={folder}/{name}-{way}", *sets)
            check(f"{name}: {way} {done.stderr[-300:] if done.returncode else ''}", done.returncode == 0 and near(f"{name}-{way}"))
        stop = train(most, path, f"run.dir={folder}/{name}-again", f"train.steps={steps + 1}")
        done = train(min(2, most), path, f"run.dir={folder}/{name}-again")
        check(f"{name}: goes on within an epoch", stop.returncode == done.returncode == 0 and near(f"{name}-again"))
    trace = subprocess.run(["strace", "-V"], capture_output=True).returncode == 0 if os.path.exists("/usr/bin/strace") else False
    if trace:
        done = subprocess.run(["strace", "-f", "-e", "trace=open,openat", os.environ["CTRAIN"], "train", f"{folder}/files.yaml", "--set",
                               f"run.dir={folder}/opens", "--set", "train.epochs=2"], capture_output=True, text=True)
        opens = sum(f"{folder}/r/" in line and ".nc" in line for line in done.stderr.splitlines())
        check(f"each file is opened once: {opens} opens of 23 files", done.returncode == 0 and opens <= 26)


{"files": files, "runs": runs, "stats": stats, "windows": windows, "joined": joined}[case]()
sys.exit(failures > 0)
