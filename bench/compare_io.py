#!/usr/bin/env python3
"""Reading samples by ctrain-hpc and by h5py with PyTorch's DataLoader, side by side on this machine, in samples/s.

    pip install torch h5py
    bench/compare_io.py [--case images]... [--workers 2] [--rounds 5] [--seconds 3] [--program build/ctrain-hpc]

Makes its own files, below --dir.  Each round runs the sides one after the other, each in a process of its own; the
table gives medians over rounds, and of the ratio also the smallest and largest round.  Both sides read in random order
what does not fit in their caches (data.cache_mb: 1), from the page cache of the system, and make float32 batches.  The
peer keeps a file open in each worker, as its users are told to.

--slow SHIM is tests/tools/slow_shim.so, or another library that makes each pread of files named slow-* last 5 ms: then
there is a case more, of a busy file system, with 1 and with 8 threads.
--prefix COMMAND stands before each measured command, such as 'chrt -r 1'.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

from loaders import loader_rate

# name: (what, shape, type, samples, chunk (samples, channels), filters, batch)
CASES = {
    "images": ("uint8 3x256x256, gzip + shuffle, a chunk each", (3, 256, 256), "u1", 600, (1, 3), "gzip", 32),
    "volumes": ("float32 4x64x64x64, gzip + shuffle, a chunk each", (4, 64, 64, 64), "f4", 64, (1, 4), "gzip", 4),
    "channels": ("float32 4x64x64x64, gzip + shuffle, a channel a chunk", (4, 64, 64, 64), "f4", 64, (1, 1), "gzip", 4),
    "many": ("uint8 3x64x64, gzip + shuffle, 16 a chunk", (3, 64, 64), "u1", 8192, (16, 3), "gzip", 64),
    "blocks": ("the same, data.shuffle: blocks", (3, 64, 64), "u1", 8192, (16, 3), "gzip", 64),
    "plain": ("float32 3x256x256, contiguous", (3, 256, 256), "f4", 300, None, None, 32),
    "slow": ("uint8 3x256x256, gzip, a chunk each, 5 ms per read", (3, 256, 256), "u1", 600, (1, 3), "gzip", 32),
}
SAME_FILE = {"blocks": "many"}


def make_file(path, case):
    import h5py
    import numpy as np
    _, shape, kind, samples, chunk, filters, _ = CASES[case]
    rng = np.random.default_rng(1)
    options = {}
    if chunk:
        options = {"chunks": chunk + shape[1:], "compression": filters, "compression_opts": 4, "shuffle": True}
    with h5py.File(path + ".tmp", "w") as f:
        x = f.create_dataset("images", (samples,) + shape, kind, **options)
        step = 16
        for i in range(0, samples, step):
            n = min(step, samples - i)
            if kind == "u1":  # six bits of noise: about the ratio of photographs
                x[i:i + n] = rng.integers(0, 64, (n,) + shape, dtype="u1")
            else:  # counts of particles
                x[i:i + n] = rng.poisson(0.1, (n,) + shape).astype(kind)
        f["labels"] = rng.integers(0, 10, samples).astype("i4")
        f.attrs["classes"] = 10
    os.rename(path + ".tmp", path)


def peer(path, batch, workers, seconds):
    """A process: samples/s of h5py and DataLoader."""
    import warnings
    import h5py
    import torch
    warnings.filterwarnings("ignore", "This DataLoader will create")

    class Samples(torch.utils.data.Dataset):
        def __init__(self):
            self.file = None
            with h5py.File(path) as f:
                self.n = len(f["images"])

        def __len__(self):
            return self.n

        def __getitem__(self, i):
            if self.file is None:
                self.file = h5py.File(path)
            return torch.from_numpy(self.file["images"][i]).float(), int(self.file["labels"][i])

    def batches():
        while True:
            yield from torch.utils.data.DataLoader(Samples(), batch, shuffle=True, num_workers=workers)

    torch.set_num_threads(1)
    print(loader_rate(batches(), workers, seconds))


def pread_rate(path, seconds):
    """A process: bytes/s of pread alone, samples in random order, to memory as large as a feed's batches."""
    import random
    import h5py
    with h5py.File(path) as f:
        x = f["images"]
        first, size, n = x.id.get_offset(), x.dtype.itemsize * x[0].size, len(x)
    fd, room, done = os.open(path, os.O_RDONLY), 3 * CASES["plain"][6], 0
    buffers = [bytearray(size) for _ in range(room)]
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        done += os.preadv(fd, [buffers[done // size % room]], first + random.randrange(n) * size)
    print(done / (time.perf_counter() - begin))


def measured(a, command, env=None):
    out = subprocess.run(shlex.split(a.prefix) + command, env=dict(os.environ, **(env or {})), check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)


def ours(a, path, case, workers, env=None):
    config = path + ".yaml"
    with open(config, "w") as f:
        f.write(f"data: {{train: {path}, batch: {CASES[case][6]}, cache_mb: 1}}\n"
                "model: {layers: [{flatten: {}}, {linear: {out: 10}}]}\n")
    options = ["--set", "data.shuffle=blocks", "--set", "data.cache_mb=64"] if case == "blocks" else []
    return measured(a, [a.program, "bench", "io", config, "--seconds", str(a.seconds), "--workers", str(workers),
                        "--json"] + options, env)


def theirs(a, path, case, workers, env=None):
    return measured(a, [sys.executable, __file__, "--peer", path, "--batch", str(CASES[case][6]), "--workers",
                        str(workers), "--seconds", str(a.seconds)], env)


def line(what, mine, other, note=""):
    ratios = sorted(m / o for m, o in zip(mine, other))
    print(f"{what:56} {statistics.median(mine):10.1f} {statistics.median(other):10.1f} "
          f"{statistics.median(ratios):7.2f}  {ratios[0]:.2f} to {ratios[-1]:.2f}  {note}", flush=True)


def run_slow(a, path):
    env = {"LD_PRELOAD": os.path.abspath(a.slow), "SLOW_SHIM_FILE": "/slow-", "SLOW_SHIM_MS": "5"}
    one, eight, them = [], [], []
    for _ in range(a.rounds):
        one.append(ours(a, path, "slow", 1, env)["samples_per_s"])
        eight.append(ours(a, path, "slow", 8, env)["samples_per_s"])
        them.append(theirs(a, path, "slow", 8, env))
    line(CASES["slow"][0] + ", 8", eight, them)
    line("  8 threads against 1", eight, one)


def run(a, case):
    path = os.path.join(a.dir, ("slow-" if case == "slow" else "") + SAME_FILE.get(case, case) + ".h5")
    if not os.path.exists(path):
        make_file(path, case)
    if case == "slow":
        return run_slow(a, path)
    mine, them, share = [], [], []
    for _ in range(a.rounds):
        told = ours(a, path, case, a.workers)
        mine.append(told["samples_per_s"])
        them.append(theirs(a, path, case, a.workers))
        if case == "plain":
            read = ours(a, path, case, 1)["phases"]["read"]
            alone = measured(a, [sys.executable, __file__, "--pread", path, "--seconds", str(a.seconds)])
            share.append(read["bytes"] / read["seconds"] / alone)
    line(CASES[case][0], mine, them, f"reads at {100 * statistics.median(share):.0f} % of pread alone" if share else "")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--case", action="append", choices=CASES)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=int, default=3)
    p.add_argument("--program", default="build/ctrain-hpc")
    p.add_argument("--dir", default="")
    p.add_argument("--slow", default="")
    p.add_argument("--prefix", default="")
    p.add_argument("--peer", help=argparse.SUPPRESS)
    p.add_argument("--pread", help=argparse.SUPPRESS)
    p.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.slow and not os.path.exists(a.slow):
        sys.exit(f"{a.slow}: is not there")
    if a.peer:
        return peer(a.peer, a.batch, a.workers, a.seconds)
    if a.pread:
        return pread_rate(a.pread, a.seconds)
    with tempfile.TemporaryDirectory() as made:
        a.dir = a.dir or made
        print(f"{'':56} {'ctrain-hpc':>10} {'h5py':>10} {'ratio':>7}  {a.workers} threads or workers")
        for case in a.case or [c for c in CASES if c != "slow" or a.slow]:
            run(a, case)


if __name__ == "__main__":
    main()
