"""contrib/export_pt2.py: the batch is free, the names stay, outputs become tensors.

check_export.py CONTRIB DIR        prints TAP; leaves DIR/one.pt2 for the program to read
"""

import contextlib
import io
import sys
from collections import namedtuple

import torch
from torch import nn

contrib, directory = sys.argv[1:3]
sys.path.insert(0, contrib)
import export_pt2

Pair = namedtuple("Pair", "logits aux")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.bn, self.drop = nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.tied = nn.Linear(6, 4, bias=False)
        self.tied.weight = self.fc.weight

    def forward(self, x):
        return Pair(self.drop(self.bn(self.fc(x))), None)


class Dict(Net):
    def forward(self, x, ids):
        return {"y": self.fc(x), "none": None, "z": self.tied(x) + ids}


class Star(Net):
    def forward(self, x, *more):
        return self.fc(x + more[0] * more[1])


class Fixed(Net):
    def forward(self, x):
        return self.fc(x) + torch.zeros(len(x), 1)


class Lost(Net):
    """A state_dict that is not that of the module."""

    def state_dict(self, *args, **keys):
        return {**super().state_dict(*args, **keys), "other": torch.zeros(1)}


def ok(name, good):
    print(f"{'ok' if good else 'not ok'} {ok.number} - {name}", flush=True)
    ok.number += 1


ok.number = 1


def refusal(function):
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            function()
        return ""
    except BaseException as e:
        return f"{type(e).__name__}: {e}"


def command(name, *inputs):
    """The command's file."""
    path = f"{directory}/{name}.pt2"
    options = [a for i in inputs for a in ("--input", i)]
    sys.argv = ["export_pt2.py", f"{__file__}:{name}" if name == "Net" else f"__main__:{name}", *options, "--out", path]
    with contextlib.redirect_stdout(io.StringIO()):
        export_pt2.main()
    return path


def check(path, kind, inputs, outputs, dropout=False):
    """The file's program and tensors are those of the module, at another batch than at export."""
    program = torch.export.load(path)
    want = kind().state_dict()
    if {k: v.tolist() for k, v in program.state_dict.items()} != {k: v.tolist() for k, v in want.items()}:
        return False
    got = program.module()(*inputs)
    got = (got,) if isinstance(got, torch.Tensor) else got
    return len(got) == outputs and all(t.shape == (7, 4) for t in got) and ("dropout" in str(program.graph)) == dropout


if __name__ == "__main__":
    x, ids = torch.randn(7, 6), torch.ones(7, 4, dtype=torch.int64)
    ok("a namedtuple with one tensor, in train mode", check(command("Net", "6"), Net, [x], 1, True))
    ok("a dict, and an input of whole numbers", check(command("Dict", "6", "4,int64"), Dict, [x, ids], 2))
    ok("arguments after a star", check(command("Star", "6", "6", "6"), Star, [x, x, x], 1))
    ok("a fixed batch is refused by PyTorch, which says so", "batch" in refusal(lambda: command("Fixed", "6")))
    ok("a tensor that the file lacks is named", "other" in refusal(lambda: command("Lost", "6")))
    sys.argv = ["export_pt2.py", "nets", "--input", "6", "--out", "x"]
    ok("a model without a function is refused", "SystemExit" in refusal(export_pt2.main))
    net = Net().eval()
    export_pt2.export(net, torch.zeros(1, 6), f"{directory}/one.pt2")
    ok("an example of one sample", check(f"{directory}/one.pt2", Net, [x], 1, True))
    ok("the model is as before", not net.training and type(net) is Net)
