#!/usr/bin/env python3
"""Two builds of ctrain-hpc against each other, step by step and op by op: two versions of oneDNN, or of the program.

    bench/builds.py --first build/ctrain-hpc --second 'chroot /srv/trixie /src/build/ctrain-hpc' [--case NAME]... [--ops]
    bench/builds.py --first build/ctrain-hpc --second build/ctrain-hpc --set-second train.amp=bf16

Each round runs first one build, then the other; the table gives the medians over rounds of their median steps, and the
ratio (above 1: the second is faster) with its smallest and largest round.  `differ` counts the ops that the two compute
in other ways.  --ops lists those, and ops whose times differ by more than a fifth, but for what is less than a hundredth
of the step.  A build may be several words; one in another root directory wants /proc there.  Only cases of one rank
are run.
"""
import argparse
import os
import statistics

from cases import CASES, add_case_option, chosen, machine, run_ctrain

HERE = os.path.dirname(os.path.abspath(__file__))


def by_op(runs):
    """(op, pass, how many with it are the same so far) → its way, and its median seconds."""
    found = {}
    for run in runs:
        seen = {}
        for op in run["ops"]:
            key = (op["op"].removesuffix(" bfloat16"), op["pass"])
            seen[key] = seen.get(key, 0) + 1
            found.setdefault((*key, seen[key]), []).append(op)
    return {key: (ops[0]["algorithm"], statistics.median(op["seconds"] for op in ops)) for key, ops in found.items()}


def ops_of(first, second):
    """For each op of either build: its pass and name, and of each build (way, seconds) or None."""
    a, b = by_op(first), by_op(second)
    return [(key[1], key[0], a.get(key), b.get(key)) for key in dict.fromkeys([*a, *b])]


def is_other_way(one, other):
    return not one or not other or one[0] != other[0]


def print_ops(ops, least):
    """Equal lines are counted, their times summed; not what takes less than `least` seconds."""
    lines = {}
    for which, op, one, other in ops:
        key = (which, op, one[0] if one else "none", other[0] if other else "none")
        times = lines.setdefault(key, [0, 0, 0])
        for i, t in enumerate([1, one[1] if one else 0, other[1] if other else 0]):
            times[i] += t
    for (which, op, way, other_way), (n, t, other_t) in sorted(lines.items(), key=lambda l: -abs(l[1][1] - l[1][2])):
        if max(t, other_t) < least or way == other_way and max(t, other_t) < 1.2 * min(t, other_t):
            continue
        ways = way if way == other_way else f"{way} -> {other_way}"
        print(f"    {t * 1e3:9.3f} {other_t * 1e3:9.3f} ms  {n} x {which} {op}  [{ways}]")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_case_option(p)
    p.add_argument("--first", default=os.path.join(HERE, "..", "build", "ctrain-hpc"))
    p.add_argument("--second", required=True)
    p.add_argument("--set-second", action="append", default=[], metavar="KEY=VALUE", help="for the second build only")
    p.add_argument("--ops", action="store_true", help="list ops that are computed in other ways or at another speed")
    a = p.parse_args()
    sides = [(a.first, a.set), (a.second, a.set + a.set_second)]
    told = False
    for name in chosen(a.case):
        if CASES[name].ranks > 1:
            continue
        runs = [[], []]
        for _ in range(a.rounds):
            for (program, options), done in zip(sides, runs):
                done.append(run_ctrain(CASES[name], program, options, ops=True))
        if not told:
            print(f"{machine()}; first: {runs[0][0]['library']}; second: {runs[1][0]['library']}")
            print(f"{'case':18} {'first ms':>9} {'second ms':>9}  ratio [min-max]    MB first, second  differ")
            told = True
        first, second = ([r["step_s"] for r in done] for done in runs)
        ratios = sorted(x / y for x, y in zip(first, second))
        memory = [statistics.median(r["peak_rss_bytes"] for r in done) / 2**20 for done in runs]
        ops = ops_of(*runs)
        print(f"{name:18} {statistics.median(first) * 1e3:9.2f} {statistics.median(second) * 1e3:9.2f}  "
              f"{statistics.median(ratios):5.2f} [{ratios[0]:.2f}-{ratios[-1]:.2f}]   {memory[0]:8.0f} {memory[1]:8.0f}"
              f"  {sum(is_other_way(one, other) for _, _, one, other in ops):3} of {len(ops)}", flush=True)
        if a.ops:
            print_ops(ops, statistics.median(first) / 100)


if __name__ == "__main__":
    main()
