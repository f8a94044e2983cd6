"""Models of signals, sequences and text."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class UNet1d(nn.Module):
    """Signals: instance norm, transposed convolution, average pool."""

    def __init__(self, c=8):
        super().__init__()
        self.a = nn.Sequential(nn.Conv1d(1, c, 5, padding=2), nn.BatchNorm1d(c), nn.ELU())
        self.b = nn.Sequential(nn.Conv1d(c, 2 * c, 5, padding=2), nn.InstanceNorm1d(2 * c), nn.ELU())
        self.u = nn.ConvTranspose1d(2 * c, c, 4, 2, 1)
        self.o = nn.Conv1d(2 * c, 1, 1)

    def forward(self, x):
        a = self.a(x)
        return self.o(torch.cat([self.u(self.b(F.avg_pool1d(a, 2))), a], 1))


class WeightNorm(nn.Module):
    """Weights that are expressions of parameters; causal padding."""

    def __init__(self):
        super().__init__()
        self.a = weight_norm(nn.Conv1d(2, 8, 3, dilation=2))
        self.b = nn.Conv1d(8, 4, 3)

    def forward(self, x):
        return self.b(F.pad(F.relu(self.a(F.pad(x, (4, 0)))), (2, 0)))


class Conv1d(nn.Module):
    """A classifier of signals."""

    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv1d(1, 8, 7, 2, 3),
            nn.BatchNorm1d(8),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(8, 16, 5),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(16, 4),
        )

    def forward(self, x):
        return self.f(x)


class Tcn(nn.Module):
    """Temporal convolutions with weight norm, cut to be causal."""

    class B(nn.Module):

        def __init__(self, i, o, d):
            super().__init__()
            self.c1 = weight_norm(nn.Conv1d(i, o, 3, padding=2 * d, dilation=d))
            self.c2 = weight_norm(nn.Conv1d(o, o, 3, padding=2 * d, dilation=d))
            self.d = nn.Conv1d(i, o, 1) if i != o else None
            self.p = 2 * d
            self.dr = nn.Dropout(0.1)

        def forward(self, x):
            y = self.dr(F.relu(self.c1(x)[:, :, : -self.p].contiguous()))
            y = self.dr(F.relu(self.c2(y)[:, :, : -self.p].contiguous()))
            return F.relu(y + (x if self.d is None else self.d(x)))

    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(self.B(2, 8, 1), self.B(8, 8, 2), self.B(8, 8, 4))
        self.o = nn.Linear(8, 3)

    def forward(self, x):
        return self.o(self.n(x)[:, :, -1])


class WaveNet(nn.Module):
    """Gated dilated convolutions, and the sum of skip connections."""

    def __init__(self, c=8, k=16):
        super().__init__()
        self.i = nn.Conv1d(1, c, 1)
        self.d = nn.ModuleList((nn.Conv1d(c, 2 * c, 2, dilation=2**i) for i in range(3)))
        self.r = nn.ModuleList((nn.Conv1d(c, c, 1) for _ in range(3)))
        self.k = nn.ModuleList((nn.Conv1d(c, k, 1) for _ in range(3)))
        self.o = nn.Conv1d(k, k, 1)

    def forward(self, x):
        x, skip = (self.i(x), 0)
        for i, (d, r, k) in enumerate(zip(self.d, self.r, self.k)):
            a, b = d(F.pad(x, (2**i, 0))).chunk(2, 1)
            z = torch.tanh(a) * torch.sigmoid(b)
            skip = skip + k(z)
            x = r(z) + x
        return self.o(F.relu(skip))


class Mixed1d(nn.Module):
    """Convolutions, a bidirectional LSTM, attention over time."""

    def __init__(self, c=8):
        super().__init__()
        self.a = nn.Conv1d(1, c, 15, 2, 7)
        self.bn = nn.BatchNorm1d(c)
        self.b = nn.Conv1d(c, c, 5, padding=2)
        self.bn2 = nn.BatchNorm1d(c)
        self.r = nn.LSTM(c, c, batch_first=True, bidirectional=True)
        self.w = nn.Linear(2 * c, 1)
        self.o = nn.Linear(2 * c, 4)

    def forward(self, x):
        x = F.max_pool1d(F.relu(self.bn(self.a(x))), 3, 2, 1)
        x = F.relu(self.bn2(self.b(x)) + x)
        y = self.r(x.permute(0, 2, 1))[0]
        return self.o((self.w(y).softmax(1) * y).sum(1))


class Lstm(nn.Module):
    """The last output of an LSTM or GRU."""

    def __init__(self, kind=nn.LSTM, layers=1, bi=False):
        super().__init__()
        self.rnn = kind(8, 16, layers, batch_first=True, bidirectional=bi, dropout=0.1 if layers > 1 else 0)
        self.fc = nn.Linear(16 * (1 + bi), 5)

    def forward(self, x):
        y, _ = self.rnn(x)
        return self.fc(y[:, -1])


class LstmAll(nn.Module):
    """Time before batch, three layers, states that are computed."""

    def __init__(self):
        super().__init__()
        self.r = nn.LSTM(6, 8, 3, dropout=0.1)
        self.h0 = nn.Linear(4, 8)
        self.o = nn.Linear(8, 2)

    def forward(self, x, c):
        x = x.transpose(0, 1)
        h = self.h0(c).unsqueeze(0).expand(3, -1, -1).contiguous()
        y, (h, _) = self.r(x, (h, torch.zeros_like(h)))
        return self.o(h[-1] + y[-1])


class BiGru(nn.Module):
    """Token numbers, two bidirectional layers, final states."""

    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(30, 8, padding_idx=0)
        self.r = nn.GRU(8, 8, 2, batch_first=True, bidirectional=True)
        self.o = nn.Linear(16, 3)

    def forward(self, i):
        y, h = self.r(self.e(i))
        return self.o(torch.cat([h[-2], h[-1]], 1) + y.mean(1) + y.max(1).values)


class CellLoop(nn.Module):
    """Cells in a loop over time."""

    def __init__(self):
        super().__init__()
        self.c = nn.LSTMCell(4, 8)
        self.g = nn.GRUCell(8, 8)
        self.o = nn.Linear(8, 2)

    def forward(self, x):
        h = x.new_zeros(x.size(0), 8)
        c = h
        g = h
        for t in range(x.size(1)):
            h, c = self.c(x[:, t], (h, c))
            g = self.g(h, g)
        return self.o(g)


class Seq2Seq(nn.Module):
    """Encoder, decoder with the encoder's state, additive attention."""

    def __init__(self, d=8, v=20):
        super().__init__()
        self.e = nn.Embedding(v, d)
        self.enc = nn.LSTM(d, d, batch_first=True)
        self.dec = nn.LSTM(d, d, batch_first=True)
        self.wq = nn.Linear(d, d)
        self.wk = nn.Linear(d, d, bias=False)
        self.v = nn.Linear(d, 1)
        self.o = nn.Linear(2 * d, v)

    def forward(self, a, b):
        k, st = self.enc(self.e(a))
        q, _ = self.dec(self.e(b), st)
        w = self.v(torch.tanh(self.wq(q)[:, :, None] + self.wk(k)[:, None])).squeeze(-1).softmax(-1)
        return self.o(torch.cat([q, w @ k], -1))


class ConvLstm(nn.Module):
    """A recurrent convolution, unrolled."""

    def __init__(self, c=4):
        super().__init__()
        self.c = c
        self.g = nn.Conv2d(1 + c, 4 * c, 3, padding=1)
        self.o = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        n, t, _, h, w = x.shape
        H = x.new_zeros(n, self.c, h, w)
        C = torch.zeros(n, self.c, h, w, device=x.device)
        out = []
        for k in range(t):
            i, f, o, g = self.g(torch.cat([x[:, k], H], 1)).chunk(4, 1)
            C = torch.sigmoid(f) * C + torch.sigmoid(i) * torch.tanh(g)
            H = torch.sigmoid(o) * torch.tanh(C)
            out.append(self.o(H))
        return torch.stack(out, 1)


class CausalBlock(nn.Module):

    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln1 = nn.LayerNorm(d)
        self.ln2 = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.proj = nn.Linear(d, d)
        self.drop = nn.Dropout(0.1)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(approximate="tanh"), nn.Linear(4 * d, d), nn.Dropout(0.1))

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(d, dim=2)
        q, k, v = (u.view(n, t, self.h, d // self.h).transpose(1, 2) for u in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.drop.p if self.training else 0)
        x = x + self.drop(self.proj(y.transpose(1, 2).contiguous().view(n, t, d)))
        return x + self.mlp(self.ln2(x))


class Gpt(nn.Module):
    """A language model with tied weights and scaled_dot_product_attention."""

    def __init__(self, vocab=65, d=32, t=16):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(t, d)
        self.drop = nn.Dropout(0.1)
        self.blocks = nn.ModuleList((CausalBlock(d, 4) for _ in range(2)))
        self.ln = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, i):
        x = self.drop(self.tok(i) + self.pos(torch.arange(i.shape[1], device=i.device)))
        for b in self.blocks:
            x = b(x)
        return self.head(self.ln(x))


class ManualAttention(nn.Module):
    """Attention by matmul, with masked_fill by a buffer."""

    def __init__(self, d=32, h=4, t=16):
        super().__init__()
        self.h, self.q, self.k, self.v, self.o = (h, *(nn.Linear(d, d) for _ in range(4)))
        self.register_buffer("mask", torch.tril(torch.ones(t, t)).view(1, 1, t, t))

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (m(x).view(n, t, self.h, d // self.h).transpose(1, 2) for m in (self.q, self.k, self.v))
        a = q @ k.transpose(-2, -1) / (d // self.h) ** 0.5
        a = F.softmax(a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")), dim=-1)
        return self.o((a @ v).transpose(1, 2).reshape(n, t, d))


class Encoder(nn.Module):
    """nn.TransformerEncoder and a buffer of positions."""

    def __init__(self, d=32):
        super().__init__()
        self.emb = nn.Linear(6, d)
        self.register_buffer("pe", torch.sin(torch.arange(16 * d).float()).view(1, 16, d))
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 4, 64, batch_first=True), 2)
        self.fc = nn.Linear(d, 3)

    def forward(self, x):
        return self.fc(self.enc(self.emb(x) + self.pe[:, : x.size(1)]).mean(dim=1))


class CrossAttention(nn.Module):
    """nn.MultiheadAttention on two inputs."""

    def __init__(self, d=32):
        super().__init__()
        self.att = nn.MultiheadAttention(d, 4, batch_first=True)
        self.n = nn.LayerNorm(d)

    def forward(self, x, y):
        return self.n(x + self.att(x, y, y, need_weights=False)[0])


class Transformer(nn.Module):
    """nn.Transformer with a causal mask."""

    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(20, 16)
        self.t = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
        self.o = nn.Linear(16, 20)

    def forward(self, a, b):
        return self.o(
            self.t(
                self.e(a) * 4,
                self.e(b) * 4,
                tgt_mask=nn.Transformer.generate_square_subsequent_mask(b.size(1)),
                tgt_is_causal=True,
            )
        )


class PadMask(nn.Module):
    """A mask from the token numbers; time before batch."""

    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(20, 16, padding_idx=0)
        self.t = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", norm_first=True), 1, enable_nested_tensor=False
        )
        self.o = nn.Linear(16, 2)

    def forward(self, a):
        x = self.t(self.e(a).transpose(0, 1), src_key_padding_mask=a == 0).transpose(0, 1)
        w = (a != 0).unsqueeze(-1).float()
        return self.o((x * w).sum(1) / w.sum(1))


class Rope(nn.Module):
    """RMS norm, rotary positions, SwiGLU."""

    def __init__(self, d=16, h=2):
        super().__init__()
        self.h = h
        self.n = nn.Parameter(torch.ones(d))
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.o = nn.Linear(d, d, bias=False)
        self.w1 = nn.Linear(d, 32, bias=False)
        self.w2 = nn.Linear(32, d, bias=False)
        self.w3 = nn.Linear(d, 32, bias=False)
        f = torch.outer(torch.arange(32).float(), 10000.0 ** (-torch.arange(0, d // h, 2) / (d // h)))
        self.register_buffer("cos", f.cos(), persistent=False)
        self.register_buffer("sin", f.sin(), persistent=False)
        self.rn = nn.RMSNorm(d)

    def rot(self, x):
        a, b = (x[..., ::2], x[..., 1::2])
        c, t = (self.cos[: x.size(1), None], self.sin[: x.size(1), None])
        return torch.stack([a * c - b * t, a * t + b * c], -1).flatten(-2)

    def forward(self, x):
        n, t, d = x.shape
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-06) * self.n
        q, k, v = self.qkv(y).view(n, t, 3, self.h, d // self.h).unbind(2)
        y = F.scaled_dot_product_attention(
            self.rot(q).transpose(1, 2), self.rot(k).transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        x = x + self.o(y.transpose(1, 2).reshape(n, t, d))
        y = self.rn(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class ViViT(nn.Module):
    """Video: tubelets, a class token, attention over space (batch times time) and over time."""

    def __init__(self, d=16):
        super().__init__()
        self.p = nn.Conv3d(1, d, (2, 4, 4), (2, 4, 4))
        self.c = nn.Parameter(torch.randn(1, 1, d))
        self.pe = nn.Parameter(torch.randn(1, 2, 17, d) * 0.1)
        self.s = nn.TransformerEncoderLayer(d, 2, 32, 0.1, batch_first=True, norm_first=True)
        self.t = nn.TransformerEncoderLayer(d, 2, 32, 0.1, batch_first=True)
        self.o = nn.Linear(d, 3)

    def forward(self, x):
        n = x.size(0)
        x = self.p(x).flatten(3).permute(0, 2, 3, 1)
        x = torch.cat([self.c.expand(n, 2, -1, -1), x], 2) + self.pe
        x = self.s(x.flatten(0, 1)).view(n, 2, 17, -1)[:, :, 0]
        return self.o(self.t(x).mean(1))
