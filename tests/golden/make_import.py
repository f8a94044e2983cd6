"""Makes tests/golden/import/*.pt2, small models whose translation tests/unit/t_import.c checks.

    make_import.py [DIR]
"""

import json
import os
import sys
import warnings
import zipfile

import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.simplefilter("ignore")


class Vit(nn.Module):
    """A vision transformer as torchvision's: class token, positions, MultiheadAttention on T x N x D."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, 8))
        self.place = nn.Parameter(torch.zeros(1, 5, 8))
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.conv(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        y = self.norm(x)
        return self.head((x + self.attention(y, y, y, need_weights=False)[0])[:, 0])


class Packed(nn.Module):
    """Attention with one projection that is split by chunk, and queries and keys exchanged if `wrong`."""

    def __init__(self, wrong):
        super().__init__()
        self.qkv, self.out, self.wrong = nn.Linear(8, 24), nn.Linear(8, 8), wrong

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = [p.view(n, t, 2, 4).transpose(1, 2) for p in self.qkv(x).chunk(3, -1)]
        if self.wrong:
            q, k = k, q
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, d))


class Depth(nn.Module):
    """Stochastic depth, and x * sigmoid(x)."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        y = self.a(x)
        keep = torch.empty(x.shape[0], 1).bernoulli_(0.75).div_(0.75)
        return x + y * torch.sigmoid(y) * keep


class Tied(nn.Module):
    """An embedding whose weight is the last linear layer's, too."""

    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, x):
        return self.head(self.tok(x).mean(1))


class Rnn(nn.Module):
    """Two levels in both directions, the last state of all."""

    def __init__(self):
        super().__init__()
        self.r = nn.LSTM(3, 4, 2, bidirectional=True)

    def forward(self, x):
        return self.r(x.transpose(0, 1))[1][0][-1]


class Dense(nn.Module):
    """Joins that share their beginnings; a shared layer; a pad before a convolution."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(2, 2, 1), nn.Conv2d(4, 2, 3)
        self.c = nn.Conv2d(6, 2, 1)

    def forward(self, x):
        y = self.a(self.a(x))
        z = self.b(F.pad(torch.cat([x, y], 1), (1, 1, 1, 1)))
        return self.c(torch.cat([x, y, z], 1)).mean((2, 3))


class Fourier(nn.Module):
    def forward(self, x):
        return torch.tanh(torch.fft.rfft(x)).abs()


class Spectral(nn.Module):
    """A Fourier layer of one dim: three frequencies times complex weights; a complex parameter that is not used."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(2, 2, 3, dtype=torch.cfloat))
        self.unused = nn.Parameter(torch.zeros(5, dtype=torch.cfloat))

    def forward(self, x):
        f = torch.fft.rfft(x)
        g = torch.zeros_like(f)
        g[..., :3] = torch.einsum("bix,iox->box", f[..., :3], self.w)
        return torch.fft.irfft(g, n=x.shape[-1])


class Refused(nn.Module):
    """Ops that have no layer, in a module with a name."""

    def __init__(self):
        super().__init__()
        self.spectrum = Fourier()

    def forward(self, x):
        return self.spectrum(x), x.mean(0)


def strip(path):
    """Takes out what depends on where this script ran: stack traces."""
    with zipfile.ZipFile(path) as z:
        entries = [(i, z.read(i)) for i in z.namelist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        for name, data in entries:
            if name.endswith("models/model.json"):
                program = json.loads(data)
                for node in program["graph_module"]["graph"]["nodes"]:
                    node["metadata"].pop("stack_trace", None)
                data = json.dumps(program).encode()
            z.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), data)


def save(folder, name, model, *inputs, fixed=False):
    torch.manual_seed(0)
    n = torch.export.Dim("n", min=2, max=4096)
    shapes = None if fixed else tuple({0: n} for _ in inputs)
    program = torch.export.export(model.train(), inputs, dynamic_shapes=shapes)
    path = os.path.join(folder, name + ".pt2")
    torch.export.save(program, path)
    strip(path)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "import")
    save(folder, "vit", Vit(), torch.randn(2, 3, 8, 8))
    save(folder, "packed", Packed(False), torch.randn(2, 5, 8))
    save(folder, "swapped", Packed(True), torch.randn(2, 5, 8))
    save(folder, "depth", Depth(), torch.randn(2, 4))
    save(folder, "tied", Tied(), torch.tensor([[1, 2, 3], [4, 5, 6]]))
    save(folder, "rnn", Rnn(), torch.randn(2, 5, 3))
    save(folder, "dense", Dense(), torch.randn(2, 2, 4, 4))
    save(folder, "spectral", Spectral(), torch.randn(2, 2, 8))
    save(folder, "refused", Refused(), torch.randn(2, 8))
    save(folder, "fixed", nn.Linear(3, 2), torch.randn(2, 3), fixed=True)


if __name__ == "__main__":
    main()
