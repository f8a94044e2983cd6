"""Models that compute with Fourier transforms and complex numbers."""

import torch
import torch.nn.functional as F
from torch import nn


class Spectral2d(nn.Module):
    """The low frequencies of two dims, both signs of the first, times complex weights."""

    def __init__(self, c, m):
        super().__init__()
        self.m = m
        self.w1 = nn.Parameter(torch.rand(c, c, m, m, dtype=torch.cfloat) / c)
        self.w2 = nn.Parameter(torch.rand(c, c, m, m, dtype=torch.cfloat) / c)

    def forward(self, x):
        n, c, h, w = x.shape
        m, f = self.m, torch.fft.rfft2(x)
        out = torch.zeros(n, c, h, w // 2 + 1, dtype=torch.cfloat, device=x.device)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, :m, :m], self.w1)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, -m:, :m], self.w2)
        return torch.fft.irfft2(out, s=(h, w))


class Fno2d(nn.Module):
    """A Fourier neural operator of two blocks."""

    def __init__(self, c=4, m=3):
        super().__init__()
        self.lift, self.out = nn.Conv2d(1, c, 1), nn.Conv2d(c, 1, 1)
        self.spectral = nn.ModuleList(Spectral2d(c, m) for _ in range(2))
        self.skip = nn.ModuleList(nn.Conv2d(c, c, 1) for _ in range(2))

    def forward(self, x):
        x = self.lift(x)
        for spectral, skip in zip(self.spectral, self.skip):
            x = F.gelu(spectral(x) + skip(x))
        return self.out(x)


class Fno1d(nn.Module):
    """One dim; the weights in a loop, another norm."""

    def __init__(self, c=2, m=4):
        super().__init__()
        self.m = m
        self.w = nn.Parameter(torch.randn(c, c, m, dtype=torch.cfloat) / c)
        self.skip = nn.Conv1d(c, c, 1)

    def forward(self, x):
        f = torch.fft.rfft(x, norm="ortho")
        g = torch.zeros_like(f)
        g[..., : self.m] = torch.einsum("bix,iox->box", f[..., : self.m], self.w)
        return torch.tanh(torch.fft.irfft(g, n=x.shape[-1], norm="ortho") + self.skip(x))


class FNet(nn.Module):
    """Transforms over tokens and features in place of attention."""

    def __init__(self, d=8):
        super().__init__()
        self.e, self.n, self.l, self.o = nn.Embedding(11, d), nn.LayerNorm(d), nn.Linear(d, d), nn.Linear(d, 3)

    def forward(self, i):
        x = self.e(i)
        x = self.n(x + torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real)
        return self.o((x + F.gelu(self.l(x))).mean(1))


class GlobalFilter(nn.Module):
    """Weights for all frequencies, stored as pairs; the channels come last."""

    def __init__(self, h=4, w=6, c=5):
        super().__init__()
        self.w, self.o = nn.Parameter(torch.randn(h, w // 2 + 1, c, 2) / 2), nn.Linear(c, 3)

    def forward(self, x):
        f = torch.fft.rfft2(x, dim=(1, 2), norm="ortho") * torch.view_as_complex(self.w)
        return self.o(torch.fft.irfft2(f, s=x.shape[1:3], dim=(1, 2), norm="ortho"))


class Complex(nn.Module):
    """Complex arithmetic: products, quotients, sizes, angles, a complex buffer, a parameter that is not used."""

    def __init__(self, t=6, d=4):
        super().__init__()
        turn = torch.outer(torch.arange(t).float(), torch.arange(1, d // 2 + 1) / 3)
        self.register_buffer("turn", torch.polar(torch.ones_like(turn), turn))
        self.w = nn.Parameter(torch.randn(d, d, dtype=torch.cfloat) / 3)
        self.b = nn.Parameter(torch.randn(d, dtype=torch.cfloat))
        self.unused = nn.Parameter(torch.randn(3, dtype=torch.cfloat))
        self.one = nn.Parameter(torch.tensor(0.5 + 1j))
        self.o = nn.Linear(3 * d, 2)

    def forward(self, x):
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * self.turn
        x = torch.view_as_real(z).flatten(-2)
        z = torch.fft.fft(x, dim=1) @ self.w + self.b
        y = torch.complex(torch.tanh(z.real), torch.tanh(z.imag)) * self.one
        y = y / (2 + z.conj() * z) + torch.polar(x.abs(), x) - torch.exp(0.1j * x)
        return self.o(torch.cat([y.real, y.imag, (y + 3).abs() + torch.angle(y + 3)], -1))
