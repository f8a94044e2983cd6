"""Losses and gradients of windows of tokens beside PyTorch in float64.

check_token_windows.py READ_BATCHES DIRECTORY eval|gradients|masked
"""
import itertools
import json
import math
import os
import shlex
import subprocess
import sys

import h5py
import numpy
import torch

VOCAB, DIM, CONTEXT, TAPS = 37, 8, 16, 5
LENGTHS = (211, 40)
program, mpiexec = os.environ["CTRAIN"], shlex.split(os.environ.get("CT_MPIEXEC", "mpiexec"))


def write_data(directory):
    """Two files of tokens; returns their ids and the places where documents begin."""
    draw = numpy.random.default_rng(3)
    files = []
    for i, n in enumerate(LENGTHS):
        ids = draw.integers(0, VOCAB, n)
        starts = numpy.array(sorted({0, *draw.integers(1, n, n // 9).tolist()}))
        with h5py.File(f"{directory}/tokens-{i}.h5", "w") as f:
            array = f.create_dataset("tokens", data=ids.astype("u2"))
            array.attrs["vocab"] = VOCAB
            array.attrs["bytes"] = 3 * n
            f["document_starts"] = starts.astype("i8")
        files.append((torch.tensor(ids), set(starts.tolist())))
    return files


class Net(torch.nn.Module):
    """Sees the last TAPS tokens, and with \a masked where their documents begin."""

    def __init__(self, masked):
        super().__init__()
        torch.manual_seed(1)
        self.table = torch.nn.Embedding(VOCAB, DIM)
        self.taps = torch.nn.Conv1d(DIM, VOCAB, TAPS)
        if masked:
            self.place = torch.nn.Embedding(CONTEXT, DIM)

    def forward(self, x, first):
        x = self.table(x)
        if hasattr(self, "place"):
            x = x + self.place(first)
        return self.taps(torch.nn.functional.pad(x.transpose(1, 2), (TAPS - 1, 0)))


BEGIN = "{layers: [{embedding: {rows: %d, dim: %d}, name: table}, " % (VOCAB, DIM)
PLACE = "{embedding: {rows: %d, dim: %d}, name: place, from: input.first}, " % (CONTEXT, DIM)
PLACE += "{add: {}, from: [table, place]}, "
END = "{permute: {dims: [0, 2, 1]}}, {conv1d: {out: %d, kernel: %d, padding: [%d, 0]}, name: taps}]}"
END %= (VOCAB, TAPS, TAPS - 1)


def write_config(directory, masked):
    net = Net(masked)
    torch.save(net.state_dict(), f"{directory}/w.pth")
    with open(f"{directory}/t.yaml", "w") as f:
        f.write(
            f"run: {{dir: run}}\n"
            f"data: {{train: 'tokens-*.h5', val: 'tokens-*.h5', input: tokens, context: {CONTEXT}, "
            f"documents: {'mask' if masked else 'stream'}, batch: 64}}\n"
            f"model: {BEGIN}{PLACE if masked else ''}{END}\ninit: {{from: w.pth}}\n"
            "optim: {kind: sgd, lr: 1, momentum: 0, weight_decay: 0}\n"
            "schedule: {kind: constant}\ntrain: {steps: 1}\n"
        )
    return net.double()


def windows_of(n, stride, once):
    """Begin of each window, and the number of its last labels that count."""
    last, before = n - 1 - CONTEXT, None
    for at in itertools.count(0, stride):
        first = min(at, last)
        if before is not None and (at > last and not once or before == last):
            return
        yield first, CONTEXT if before is None or not once else first - before
        before = first


def losses(net, files, stride, once, masked):
    """Loss of each label that counts."""
    out = []
    for ids, starts in files:
        for first, new in windows_of(len(ids), stride, once):
            x, y = ids[first : first + CONTEXT], ids[first + 1 : first + CONTEXT + 1]
            begins = [i if first + i in starts else 0 for i in range(CONTEXT)]
            begin = torch.tensor(begins).cummax(0).values
            each = torch.nn.functional.cross_entropy(
                net(x[None], begin[None]), y[None], reduction="none"
            )[0]
            keep = [
                i >= CONTEXT - new and not (masked and first + i + 1 in starts)
                for i in range(CONTEXT)
            ]
            out.append(each[torch.tensor(keep)])
    return torch.cat(out)


def run(ranks, *words):
    start = mpiexec + ["-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run(start + [program, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{words}: {done.stderr}")
    return done.stdout


def check(name, ours, theirs, most):
    error = float(abs(torch.as_tensor(ours) - torch.as_tensor(theirs)).max())
    if not error <= most:
        sys.exit(f"{name}: {ours} != {theirs}, error {error}")


def check_eval(directory):
    config = f"{directory}/t.yaml"
    files = write_data(directory)
    for stride, masked in ((CONTEXT, 0), (5, 0), (5, 1), (1, 1)):
        net, where = write_config(directory, masked), f"{directory}/run{masked}"
        there = ["--set", f"run.dir={where}"]
        run(1, "train", config, *there, "--set", "optim.lr=1e-30")
        words = ["--stride", str(stride), "--json", *there]
        texts = {run(ranks, "eval", config, *words) for ranks in (1, 2, 3)}
        if len(texts) != 1:
            sys.exit(f"stride {stride}: the number of ranks matters: {texts}")
        got = json.loads(texts.pop())
        with torch.no_grad():
            want = losses(net, files, stride, True, masked)
        mean = float(want.mean())
        if not masked and got["tokens"] != sum(LENGTHS) - len(LENGTHS):
            sys.exit(f"tokens: {got['tokens']}")
        check("tokens", got["tokens"], len(want), 0)
        check("loss", got["loss"], mean, 1e-6)
        check("perplexity", got["perplexity"], math.exp(mean), 1e-4)
        check("bits per byte", got["bits_per_byte"], mean / math.log(2) / 3, 1e-6)


def check_gradients(directory):
    """The mean is over the tokens that count, of all ranks and micro-batches."""
    files, net = write_data(directory), write_config(directory, 1)
    want = losses(net, files, 7, False, True)
    want.mean().backward()
    config = f"{directory}/t.yaml"
    for ranks, pieces in itertools.product((1, 2, 3), (1, 3)):
        where = f"{directory}/run{ranks}{pieces}"
        sets = [f"run.dir={where}", f"train.accumulate={pieces}"]
        sets += ["data.stride=7"]
        run(ranks, "train", config, *(word for s in sets for word in ("--set", s)))
        run(1, "convert", f"{where}/checkpoints/step-00000001.h5", f"{where}.pth")
        after = torch.load(f"{where}.pth", weights_only=True)
        for name, p in net.named_parameters():
            check(f"{name} at {ranks} x {pieces}", p.detach() - after[name].double(), p.grad, 1e-6)
        with open(f"{where}/summary.json") as f:
            check("loss", json.load(f)["train_loss"], want.detach().mean(), 1e-6)


def read_batches(directory, *words):
    """Ids and labels of each sample."""
    done = subprocess.run(
        [sys.argv[1], f"{directory}/m.yaml", f"{directory}/out", *words], capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{words}: {done.stderr}")
    numbers = numpy.fromfile(f"{directory}/out").reshape(-1, 3 + 2 * CONTEXT)
    return {int(n[0]): (n[2 : 2 + CONTEXT], n[3 + CONTEXT :]) for n in numbers}


def check_masked(directory):
    """15% of the tokens are predicted; of them 80% are masked, 10% random, 10% as they were."""
    mask, special, n = VOCAB - 1, (0, 5), 60000
    ids = numpy.random.default_rng(5).integers(0, VOCAB - 1, n)
    with h5py.File(f"{directory}/tokens.h5", "w") as f:
        f.create_dataset("tokens", data=ids.astype("u1")).attrs["vocab"] = VOCAB
    with open(f"{directory}/m.yaml", "w") as f:
        f.write(
            f"data: {{train: tokens.h5, input: tokens, context: {CONTEXT}, batch: 50}}\n"
            f"model: {LAYERS}\n"
            f"transforms: [{{mask_tokens: {{mask: {mask}, special: [0, 5]}}}}]\n"
        )
    first = read_batches(directory, "1", "0", "0")
    rows = ids[: n - n % CONTEXT].reshape(-1, CONTEXT)
    if sorted(first) != list(range(len(rows))):
        sys.exit("samples are missing")
    x = numpy.stack([first[i][0] for i in range(len(rows))])
    y = numpy.stack([first[i][1] for i in range(len(rows))])
    chosen = y != -100
    if not (y[chosen] == rows[chosen]).all() or not (x[~chosen] == rows[~chosen]).all():
        sys.exit("labels are not the tokens that were selected")
    if numpy.isin(rows[chosen], special).any():
        sys.exit("a special token was selected")
    usual = (~numpy.isin(rows, special)).sum()
    others = chosen & (x != mask) & (x != rows)
    for name, count, of, p in (
        ("selected", chosen.sum(), usual, 0.15),
        ("masked", (x[chosen] == mask).sum(), chosen.sum(), 0.8 + 0.1 / VOCAB),
        ("random", others.sum(), chosen.sum(), 0.1 * (1 - 2 / VOCAB)),
    ):
        check(name, count / of, p, 4 * math.sqrt(p * (1 - p) / of))
    if len(numpy.unique(x[others])) < VOCAB - 2:
        sys.exit("random tokens are not of the whole vocabulary")
    again = read_batches(directory, "3", "0", "0")
    same = [(first[i][0] == again[i][0]).all() and (first[i][1] == again[i][1]).all() for i in first]
    if not all(same):
        sys.exit("the number of ranks matters")
    later = read_batches(directory, "1", "1", "0")
    both = numpy.stack([later[i][1] for i in range(len(rows))]) != -100
    check("epochs are independent", (both & chosen).sum() / usual, 0.15**2, 0.004)


LAYERS = f"{BEGIN}{END}"
check_case = {"eval": check_eval, "gradients": check_gradients, "masked": check_masked}
check_case[sys.argv[3]](sys.argv[2])
