#!/usr/bin/env python3
"""What a memory budget costs: peak memory, time and bits of training under train.memory, beside PyTorch's ways.

    pip install torch torchvision; bench/memory.py [--case NAME]... [--smaller] [--budgets 100,60,40,25] [--rounds 3]
    bench/memory.py --results r.jsonl --case gpt2     # keeps each run; a second call continues, or prints the table again
    bench/memory.py --only ctrain-hpc                 # or PyTorch

A run is a process that trains a few steps (SGD with momentum, float32, synthetic data).  Its peak is the kernel's count,
ru_maxrss of wait4().  A budget is a percentage of the peak of ctrain-hpc without one; one that cannot be met is replaced by
the least that the program's error names.  The weights and states after the run are compared bit by bit with those of the run
without a limit.  PyTorch's ways are eager; torch.utils.checkpoint around whole blocks; memory_efficient of torchvision's
DenseNet; with --compile torch.compile with each activation_memory_budget (minutes each).  Of compiled runs the memory and time of compiling are left out:
their peak is VmHWM after the first step.  Each round runs all of them one after the other; times are medians of rounds, and
increases medians of the ratio within a round.

The verdict of a row compares it with all of PyTorch's: less memory than each that is as fast (to 2%), or less time than each
that needs as little memory.
"""
import argparse
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from cases import add_case_option, chosen, machine, memory_cases
from compare import ms, torch_batch, torch_format, torch_model, torch_steps

HERE = os.path.dirname(os.path.abspath(__file__))
EQUAL = 1.02

# ---- PyTorch ----


def blocks_of(net, family):
    """The modules that users wrap."""
    from torch import nn

    kinds = {"resnet": "Bottleneck", "densenet": "_DenseBlock", "vit": "EncoderBlock", "gpt2": "Block"}
    if family in kinds:
        return [m for m in net.modules() if type(m).__name__ == kinds[family]]
    if family == "cosmoflow":
        return list(net.stages)
    return [m for m in net.modules() if any(isinstance(c, nn.Sequential) for c in m.children()) and m is not net]


def checkpointed(net, family):
    from torch.utils.checkpoint import checkpoint

    def wrap(forward):
        return lambda *x: checkpoint(forward, *x, use_reentrant=False)

    for block in blocks_of(net, family):
        block.forward = wrap(block.forward)
    return net


def status_kb(field):
    with open("/proc/self/status") as f:
        return int(re.search(rf"^{field}:\s*(\d+)", f.read(), re.M).group(1))


def digest(net):
    h = hashlib.sha256()
    for value in net.state_dict().values():
        h.update(value.contiguous().numpy().tobytes())
    return h.hexdigest()


def torch_worker(case, way):
    """Prints a line of JSON."""
    import torch
    import torch._functorch.config as functorch

    torch.set_num_threads(case.threads)
    torch.manual_seed(0)
    form, family = torch_format(case, case.layouts[0]), case.model["family"]
    net = torch_model(case.model, case.shape, case.classes).to(memory_format=form)
    if way == "memory_efficient":
        for layer in net.modules():
            layer.memory_efficient = True
    run = net
    if way == "checkpoint":
        run = checkpointed(net, family)
    elif way.startswith("compile"):
        functorch.activation_memory_budget = float(way.split()[1])
        run = torch.compile(net)

    def after(step):
        if step == 0:
            with open("/proc/self/clear_refs", "w") as f:
                f.write("5")  # VmHWM begins again

    times = torch_steps(case, run, *torch_batch(case, form), 1 + case.steps, after=after)
    print(json.dumps({"first_s": times[0], "step_s": statistics.median(times[1:]), "bytes": status_kb("VmHWM") * 1024,
                      "digest": digest(net)}))


def torch_ways(case, a):
    ways = ["eager", "checkpoint"] + ["memory_efficient"] * (case.model["family"] == "densenet")
    return ways + [f"compile {b}" for b in ("1.0", "0.6", "0.4", "0.25")] * a.compile


# ---- runs ----


def waited(command, env):
    """Runs it; returns its status, output, errors, and peak memory as the kernel counts it."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(command, env=env, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        return child.returncode, out.read(), err.read(), usage.ru_maxrss * 1024


def why(err, code):
    return (err.strip().splitlines() or [f"status {code}"])[-1][:300]


def run_torch(name, case, way, a, _):
    command = [sys.executable, os.path.abspath(__file__), "--worker", name, way] + ["--smaller"] * a.smaller
    code, out, err, peak = waited(command, dict(os.environ, OMP_NUM_THREADS=str(case.threads)))
    if code:
        return {"failed": why(err, code)}
    r = json.loads(out.splitlines()[-1])
    compiled = way.startswith("compile")
    return {**r, "whole_bytes": peak, "bytes": r["bytes"] if compiled else peak}


def train(case, budget, a, directory):
    """A run of ctrain-hpc from the configuration to its last checkpoint."""
    os.makedirs(directory, exist_ok=True)
    config = os.path.join(directory, "train.yaml")
    with open(config, "w") as f:
        f.write(case.config())
    keys = [f"run.dir={directory}/run", "run.log_every=1", "train.epochs=1", f"data.samples={case.batch * (1 + case.steps)}",
            *([f"train.memory={budget}"] if budget else []), *a.set]
    command = [a.program, "train", config] + [word for key in keys for word in ("--set", key)]
    return waited(command, dict(os.environ, OMP_NUM_THREADS=str(case.threads)))


def steps_of(directory):
    with open(f"{directory}/run/metrics.jsonl") as f:
        return [e["samples"] / e["samples_per_s"] for e in map(json.loads, f) if e["event"] == "step"]


def run_ours(_, case, way, a, records):
    """`way`: "no budget", or a percentage of its peak."""
    first = last = f"{a.folder}/no-budget"
    budget, least = 0, None
    if way != "no budget":
        last, known = f"{a.folder}/budget", [r for r in records if r["case"] == case.title and r["way"] == "no budget"]
        budget = int(known[0]["bytes"] * int(way.rstrip("%")) / 100)
        if not os.path.exists(first):
            train(case, 0, a, first)
    shutil.rmtree(last, ignore_errors=True)
    code, _, err, peak = train(case, budget, a, last)
    found = re.search(r"needs at least (\d+)M", err)
    if code and budget and found:
        least = budget = (int(found.group(1)) + 2) << 20  # the process itself differs between runs
        shutil.rmtree(last)
        code, _, err, peak = train(case, budget, a, last)
    if code:
        return {"budget": budget, "least": least, "failed": why(err, code)}
    steps = steps_of(last)
    checkpoint = f"run/checkpoints/step-{len(steps):08d}.h5"
    differ = last != first and subprocess.run([a.same, f"{first}/{checkpoint}", f"{last}/{checkpoint}"]).returncode
    return {"budget": budget, "least": least, "bytes": peak, "step_s": statistics.median(steps[1:]), "same": not differ,
            "said": [line for line in err.splitlines() if "memory" in line]}


def ways_of(case, a):
    ours = [("ctrain-hpc", way, run_ours) for way in ["no budget"] + [f"{b}%" for b in a.budgets]]
    return [w for w in ours + [("PyTorch", way, run_torch) for way in torch_ways(case, a)] if a.only in (None, w[0])]


def measure(name, case, a, records):
    """Runs what `records` does not have yet, round by round, and stores each run at once."""
    for n in range(a.rounds):
        for side, way, run in ways_of(case, a):
            key = {"case": case.title, "side": side, "way": way, "round": n}
            if any(all(r[k] == v for k, v in key.items()) for r in records):
                continue
            r = {**key, **run(name, case, way, a, records), "load": round(os.getloadavg()[0], 1)}
            records.append(r)
            if a.results:
                with open(a.results, "a") as f:
                    f.write(json.dumps(r) + "\n")


# ---- the table ----


class Row:
    """A way of a side: over all rounds."""

    def __init__(self, side, way, runs, base):
        self.side, self.way, self.runs = side, way, runs
        self.good = [r for r in runs if "failed" not in r]
        if not self.good:
            return
        self.bytes = max(r["bytes"] for r in self.good)
        self.step_s = statistics.median(r["step_s"] for r in self.good)
        ratios = [r["step_s"] / b["step_s"] for r in self.good for b in base if b["round"] == r["round"] and "step_s" in b]
        self.more = statistics.median(ratios) - 1 if ratios else None

    def verdict(self, peers):
        """Two answers: against peers as fast, and against peers as small."""
        fast = [p for p in peers if p.step_s <= self.step_s * EQUAL]
        small = [p for p in peers if p.bytes <= self.bytes * EQUAL]
        words = []
        if all(self.bytes < p.bytes for p in fast):
            words.append("less memory at equal time" if fast else "none as fast")
        if all(self.step_s < p.step_s for p in small):
            words.append("less time at equal memory" if small else "none as small")
        return "; ".join(words) or "no"


def rows_of(case, a, records):
    of = [r for r in records if r["case"] == case.title]
    rows = []
    for side in ("ctrain-hpc", "PyTorch"):
        ways = list(dict.fromkeys(r["way"] for r in of if r["side"] == side))
        for way in ways:
            runs = [r for r in of if (r["side"], r["way"]) == (side, way)]
            rows.append(Row(side, way, runs, [r for r in of if (r["side"], r["way"]) == (side, ways[0])]))
    return rows


def same_bits(row, rows):
    if row.side == "ctrain-hpc":
        return all(r["same"] for r in row.good)
    like = "compile 1.0" if row.way.startswith("compile") else "eager"
    first = {r["digest"] for other in rows if other.way == like for r in other.good}
    return {r["digest"] for r in row.good} == first


def print_rows(case, a, records):
    rows = rows_of(case, a, records)
    peers = [r for r in rows if r.side == "PyTorch" and r.good]
    for row in rows:
        cells = [case.title, f"{row.side}, {row.way}"]
        budget = row.runs[0].get("budget")
        if budget:
            why = " cannot be met, the least" if row.runs[0]["least"] else ""
            cells[1] = f"{row.side}, {row.way}{why}: {budget / 2**20:.0f} MB"
        if not row.good:
            print(f"| {' | '.join(cells)} | {row.runs[0]['failed']} | | | | |")
            continue
        above = "**above it** " if budget and row.bytes > budget else ""
        compiling = f", compiled in {row.good[0]['first_s']:.0f} s" if row.way.startswith("compile") else ""
        cells += [f"{above}{row.bytes / 2**20:.0f} MB", ms(row.step_s) + compiling,
                  "" if row.more is None else f"{row.more * 100:+.1f}%", "yes" if same_bits(row, rows) else "**no**",
                  row.verdict(peers) if row.side == "ctrain-hpc" and peers else ""]
        print(f"| {' | '.join(cells)} |", flush=True)


def parsed():
    everything = memory_cases(False)
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_case_option(p, everything)
    p.add_argument("--smaller", action="store_true", help="sizes for 8 GB of memory")
    p.add_argument("--compile", action="store_true", help="torch.compile too (wants a C++ compiler)")
    p.add_argument("--budgets", type=lambda s: [int(b) for b in s.split(",")], default=[100, 60, 40, 25],
                   help="percent of the peak without a budget")
    p.add_argument("--only", choices=["ctrain-hpc", "PyTorch"])
    p.add_argument("--results", help="file of JSON lines, one a run; what it has is not run again")
    p.add_argument("--program", default=os.path.join(HERE, "..", "build", "ctrain-hpc"))
    p.add_argument("--same", default=os.path.join(HERE, "..", "build", "tests", "tools", "same_ckpt"),
                   help="program that compares two checkpoints")
    p.set_defaults(rounds=1)
    return p.parse_args(), everything


def main():
    if sys.argv[1:2] == ["--worker"]:
        return torch_worker(memory_cases("--smaller" in sys.argv)[sys.argv[2]], sys.argv[3])
    a, everything = parsed()
    cases, records = memory_cases(a.smaller), []
    if a.results and os.path.exists(a.results):
        with open(a.results) as f:
            records = [json.loads(line) for line in f]
    print(f"{machine()}; PyTorch {importlib.metadata.version('torch')}; {a.rounds} rounds, {time.strftime('%Y-%m-%d')}\n")
    print("| model | way | peak of the process | step | time | same bits | against PyTorch |\n" + "|---" * 7 + "|", flush=True)
    for name in chosen(a.case, everything):
        with tempfile.TemporaryDirectory() as a.folder:
            measure(name, cases[name], a, records)
        print_rows(cases[name], a, records)


if __name__ == "__main__":
    main()
