"""Models of tables, graphs, points and functions."""

import torch
import torch.nn.functional as F
from torch import nn


class TabTransformer(nn.Module):
    """Columns as tokens."""

    def __init__(self, d=8):
        super().__init__()
        self.e = nn.Embedding(30, d)
        self.register_buffer("off", torch.tensor([0, 10, 20]))
        self.w = nn.Parameter(torch.randn(4, d))
        self.b = nn.Parameter(torch.randn(4, d))
        self.cls = nn.Parameter(torch.randn(d))
        self.t = nn.TransformerEncoderLayer(d, 2, 16, 0.1, batch_first=True, norm_first=True, activation=F.gelu)
        self.o = nn.Linear(d, 1)

    def forward(self, c, x):
        z = torch.cat([self.cls.expand(x.size(0), 1, -1), x[:, :, None] * self.w + self.b, self.e(c + self.off)], 1)
        return self.o(self.t(z)[:, 0])


class EsmContact(nn.Module):
    """A pair representation: outer products and a triangle update."""

    def __init__(self, d=8, p=4):
        super().__init__()
        self.e = nn.Embedding(21, d)
        self.n = nn.LayerNorm(d)
        self.a = nn.Linear(d, p)
        self.b = nn.Linear(d, p)
        self.o = nn.Linear(p * p, d)
        self.l = nn.Linear(d, d)
        self.r = nn.Linear(d, d)
        self.g = nn.Linear(d, d)
        self.z = nn.LayerNorm(d)
        self.q = nn.Linear(d, 1)

    def forward(self, i):
        x = self.n(self.e(i))
        p = torch.einsum("nia,njb->nijab", self.a(x), self.b(x)).flatten(-2)
        p = self.o(p)
        t = torch.einsum("nikc,njkc->nijc", self.l(p), self.r(p))
        p = p + torch.sigmoid(self.g(p)) * self.z(t)
        return self.q(p + p.transpose(1, 2)).squeeze(-1)


class AttPool(nn.Module):
    """Attention pooling with a mask as input."""

    def __init__(self):
        super().__init__()
        self.f = nn.Linear(10, 8)
        self.a = nn.Linear(8, 4)
        self.b = nn.Linear(8, 4)
        self.w = nn.Linear(4, 1)
        self.o = nn.Linear(8, 2)

    def forward(self, x, m):
        h = F.relu(self.f(x))
        a = self.w(torch.tanh(self.a(h)) * torch.sigmoid(self.b(h))).squeeze(-1).masked_fill(~m, float("-inf"))
        return self.o((a.softmax(1)[..., None] * h).sum(1))


class Gcn(nn.Module):
    """Graph convolutions with a dense adjacency."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 16)
        self.b = nn.Linear(16, 2)

    def forward(self, x, adj):
        adj = adj / adj.sum(-1, keepdim=True).clamp(min=1)
        return self.b(torch.bmm(adj, F.relu(self.a(torch.bmm(adj, x))))).max(dim=1)[0]


class Gat(nn.Module):
    """Graph attention with a dense adjacency."""

    def __init__(self, d=6, h=8):
        super().__init__()
        self.w = nn.Linear(d, h, bias=False)
        self.a1 = nn.Parameter(torch.randn(h, 1))
        self.a2 = nn.Parameter(torch.randn(h, 1))
        self.o = nn.Linear(h, 3)

    def forward(self, x, adj):
        z = self.w(x)
        e = F.leaky_relu(z @ self.a1 + (z @ self.a2).transpose(1, 2), 0.2)
        e = torch.where(adj > 0, e, torch.full_like(e, -9000000000000000.0))
        return self.o(F.elu(torch.softmax(e, -1) @ z)).amax(1)


class EdgeGnn(nn.Module):
    """As SchNet: distances, radial basis functions, messages between all pairs."""

    def __init__(self, d=8, k=10):
        super().__init__()
        self.e = nn.Embedding(10, d)
        self.register_buffer("mu", torch.linspace(0, 5, k))
        self.f = nn.Sequential(nn.Linear(k, d), nn.Softplus(), nn.Linear(d, d))
        self.l = nn.Linear(d, d)
        self.o = nn.Linear(d, 1)

    def forward(self, z, r):
        d = (r[:, :, None] - r[:, None]).pow(2).sum(-1).add(1e-08).sqrt()
        w = (
            self.f(torch.exp(-10 * (d[..., None] - self.mu) ** 2))
            * (0.5 * (torch.cos(d * 0.6) + 1) * (d < 5))[..., None]
        )
        h = self.e(z)
        h = h + (w * self.l(h)[:, None]).sum(2)
        return self.o(F.softplus(h) - 0.6931).sum(1)


class PointNet(nn.Module):
    """A transformation of points that is computed from them."""

    def __init__(self):
        super().__init__()
        self.t = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU())
        self.tf = nn.Linear(16, 9)
        self.f = nn.Sequential(
            nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1), nn.BatchNorm1d(32)
        )
        self.o = nn.Linear(32, 4)

    def forward(self, x):
        m = self.tf(torch.max(self.t(x), 2)[0]).view(-1, 3, 3) + torch.eye(3).view(1, 3, 3).repeat(x.size(0), 1, 1)
        x = torch.bmm(x.transpose(2, 1), m).transpose(2, 1)
        return F.log_softmax(self.o(torch.max(self.f(x), 2, keepdim=True)[0].view(-1, 32)), dim=1)


class Pinn(nn.Module):
    """SIREN with Fourier features."""

    def __init__(self):
        super().__init__()
        self.register_buffer("B", torch.randn(2, 16))
        self.l = nn.ModuleList([nn.Linear(32, 32), nn.Linear(32, 32)])
        self.o = nn.Linear(32, 1)

    def forward(self, x):
        p = 2 * torch.pi * x @ self.B
        x = torch.cat([p.sin(), p.cos()], -1)
        for l in self.l:
            x = torch.sin(3 * l(x))
        return self.o(x)


class PinnTanh(nn.Module):
    """Two inputs, and a boundary condition as a factor."""

    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1))
        self.a = nn.Parameter(torch.tensor([1.0]))

    def forward(self, x, t):
        return self.f(torch.cat([x, t], 1)) * (1 - x**2) * self.a + torch.sin(torch.pi * x)


class Nerf(nn.Module):
    """Positional encoding and a skip connection."""

    def __init__(self, L=4, d=32):
        super().__init__()
        self.L = L
        i = 3 + 6 * L
        self.a = nn.Linear(i, d)
        self.b = nn.Linear(d + i, d)
        self.s = nn.Linear(d, 1)
        self.f = nn.Linear(d, d)
        self.c = nn.Linear(d + 3, 16)
        self.o = nn.Linear(16, 3)

    def forward(self, p, v):
        e = torch.cat([p] + [f(2**k * p) for k in range(self.L) for f in (torch.sin, torch.cos)], -1)
        h = F.relu(self.b(torch.cat([F.relu(self.a(e)), e], -1)))
        c = torch.sigmoid(self.o(F.relu(self.c(torch.cat([self.f(h), v], -1)))))
        return torch.cat([c, F.relu(self.s(h))], -1)


class DeepONet(nn.Module):
    """Branch and trunk, joined by einsum."""

    def __init__(self, p=16):
        super().__init__()
        self.b = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.Linear(32, p))
        self.t = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, p), nn.Tanh())
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, u, y):
        return torch.einsum("np,nqp->nq", self.b(u), self.t(y)) + self.bias


class Tabular(nn.Module):
    """Embeddings of columns, batch norm of numbers."""

    def __init__(self):
        super().__init__()
        self.e = nn.ModuleList([nn.Embedding(7, 3), nn.Embedding(5, 2)])
        self.bn = nn.BatchNorm1d(4)
        self.f = nn.Sequential(nn.Linear(9, 16), nn.BatchNorm1d(16), nn.PReLU(), nn.Linear(16, 1))

    def forward(self, c, x):
        z = torch.cat([e(c[:, i]) for i, e in enumerate(self.e)] + [self.bn(x)], 1)
        return self.f(z).squeeze(-1)


class Dlrm(nn.Module):
    """Products of all pairs of embeddings, picked by constant indices."""

    def __init__(self, d=8):
        super().__init__()
        self.e = nn.ModuleList((nn.Embedding(10, d) for _ in range(3)))
        self.b = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, d), nn.ReLU())
        self.t = nn.Sequential(nn.Linear(d + 6, 16), nn.ReLU(), nn.Linear(16, 1))
        i, j = torch.tril_indices(4, 4, -1)
        self.register_buffer("i", i, persistent=False)
        self.register_buffer("j", j, persistent=False)

    def forward(self, x, c):
        b = self.b(x)
        z = torch.stack([b] + [e(c[:, k]) for k, e in enumerate(self.e)], 1)
        g = torch.bmm(z, z.transpose(1, 2))
        return self.t(torch.cat([b, g[:, self.i, self.j]], 1))


class Mdn(nn.Module):
    """A mixture density: its log-likelihood."""

    def __init__(self, k=3):
        super().__init__()
        self.f = nn.Linear(2, 16)
        self.p = nn.Linear(16, k)
        self.m = nn.Linear(16, k)
        self.s = nn.Linear(16, k)

    def forward(self, x, y):
        h = torch.tanh(self.f(x))
        lp = F.log_softmax(self.p(h), -1)
        sg = F.elu(self.s(h)) + 1 + 0.001
        return torch.logsumexp(lp - torch.log(sg) - 0.5 * ((y - self.m(h)) / sg) ** 2, -1)


class RealNvp(nn.Module):
    """A normalizing flow and its log-determinant."""

    def __init__(self):
        super().__init__()
        self.s = nn.ModuleList(
            (nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2), nn.Tanh()) for _ in range(2))
        )
        self.t = nn.ModuleList((nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2)) for _ in range(2)))

    def forward(self, x):
        a, b = (x[:, ::2], x[:, 1::2])
        ld = 0
        for S, T in zip(self.s, self.t):
            k = S(a)
            b = b * k.exp() + T(a)
            ld = ld + k.sum(1)
            a, b = (b, a)
        z = torch.cat([a, b], 1)
        return (0.5 * z.square().sum(1) - ld).unsqueeze(1)


class Unrolled(nn.Module):
    """Learned ISTA: soft thresholds, a buffer as matrix."""

    def __init__(self, n=16, m=8):
        super().__init__()
        self.register_buffer("A", torch.randn(m, n) / 3)
        self.t = nn.Parameter(torch.full((3, 1), 0.1))
        self.g = nn.Parameter(torch.full((3,), 0.3))

    def forward(self, y):
        x = torch.zeros(y.size(0), 16, device=y.device)
        for k in range(3):
            z = x - self.g[k] * F.linear(F.linear(x, self.A) - y, self.A.t())
            x = torch.sign(z) * F.relu(z.abs() - self.t[k])
        return x


class Iterate(nn.Module):
    """A network that computes the weights of another one."""

    def __init__(self):
        super().__init__()
        self.h = nn.Linear(3, 20)
        self.b = nn.Linear(3, 4)

    def forward(self, x, z):
        return torch.baddbmm(self.b(z).unsqueeze(1), x.unsqueeze(1), self.h(z).view(-1, 5, 4)).squeeze(1)


class Native(nn.Module):
    """Ops that programs have, but modules seldom: statistics of a norm, a softmax of rows that may be masked, no columns."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 6)
        self.w = nn.Parameter(torch.ones(6))
        self.b = nn.Parameter(torch.zeros(6))
        self.o = nn.Linear(6, 3)

    def forward(self, x, m):
        x = torch.cat([self.a(x), x[..., 6:]], -1)
        y, mean, rstd = torch.native_layer_norm(x, [6], self.w, self.b, 1e-5)
        p = torch.ops.aten._safe_softmax.default(y.masked_fill(m == 0, float("-inf")), -1)
        return self.o(p * rstd + y * mean + x)


class SeldomUsed(nn.Module):
    """Forms of ops that PyTorch's test tables have, and few models: padding below 0, pooling of inputs without channels,
    rows of attention that are hidden as a whole, sums of bools, dropout that is off."""

    def __init__(self):
        super().__init__()
        self.w, self.n = nn.Parameter(torch.randn(4, 6)), nn.BatchNorm1d(4)
        self.register_buffer("rows", torch.ones(4, 4).tril(-1) > 0)
        self.o = nn.Linear(104, 3)

    def forward(self, x, ids):
        x = x * self.w
        y = x[:, None]
        some = (ids > 0)[:, None, None]
        parts = [
            F.pad(y, (-1, 2, -2, 1), "circular"),
            F.adaptive_max_pool2d(x, (2, 3)),
            F.adaptive_avg_pool2d(x, (3, 2)),
            F.max_pool2d(x, 2),
            F.scaled_dot_product_attention(y, y, y, self.rows),
            F.scaled_dot_product_attention(y, y, y, some),
            ((ids > 0) + (ids == ids)).float() * x[..., 0],
            x[:, 0, :3].flip(()),
            F.dropout(self.n(x), 0.5, training=False)[:, 2],
            x[:, 1, :4],
        ]
        return self.o(torch.cat([p.flatten(1) for p in parts], 1))
