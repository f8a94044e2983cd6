"""Models of images and volumes."""

import torch
import torch.nn.functional as F
from torch import nn


def block2(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1, bias=False),
        nn.BatchNorm2d(o),
        nn.ReLU(True),
        nn.Conv2d(o, o, 3, padding=1, bias=False),
        nn.BatchNorm2d(o),
        nn.ReLU(True),
    )


class UNet2d(nn.Module):
    """Transposed convolutions and skip connections by concatenation."""

    def __init__(self, c=8):
        super().__init__()
        self.d1 = block2(1, c)
        self.d2 = block2(c, 2 * c)
        self.mid = block2(2 * c, 4 * c)
        self.up2 = nn.ConvTranspose2d(4 * c, 2 * c, 2, stride=2)
        self.u2 = block2(4 * c, 2 * c)
        self.up1 = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.u1 = block2(2 * c, c)
        self.pool = nn.MaxPool2d(2)
        self.out = nn.Conv2d(c, 3, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(self.pool(a))
        m = self.mid(self.pool(b))
        b = self.u2(torch.cat([self.up2(m), b], 1))
        return self.out(self.u1(torch.cat([self.up1(b), a], 1)))


def block3(i, o, stride=1):
    return nn.Sequential(nn.Conv3d(i, o, 3, stride, 1), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.01, True))


class UNet3d(nn.Module):
    """As nnU-Net: instance norm, leaky ReLU, volumes."""

    def __init__(self, c=4):
        super().__init__()
        self.d1 = block3(1, c)
        self.d2 = block3(c, 2 * c, 2)
        self.up = nn.ConvTranspose3d(2 * c, c, 2, 2)
        self.u1 = block3(2 * c, c)
        self.out = nn.Conv3d(c, 2, 1)

    def forward(self, x):
        a = self.d1(x)
        return self.out(self.u1(torch.cat((self.up(self.d2(a)), a), dim=1)))


class UNetCrop(nn.Module):
    """Pads by the difference of two sizes; bilinear upsampling with aligned corners."""

    def __init__(self, c=8):
        super().__init__()
        self.d1 = block2(1, c)
        self.d2 = block2(c, c)
        self.u1 = block2(2 * c, c)
        self.out = nn.Conv2d(c, 2, 1)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)

    def forward(self, x):
        a = self.d1(x)
        b = self.up(self.d2(F.max_pool2d(a, 2)))
        dy, dx = (a.size(2) - b.size(2), a.size(3) - b.size(3))
        b = F.pad(b, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.out(self.u1(torch.cat([a, b], dim=1)))


class UNetPP(nn.Module):
    """UNet++: nested skip connections."""

    def __init__(self, c=4):
        super().__init__()
        b = block2
        self.a0 = b(2, c)
        self.a1 = b(c, 2 * c)
        self.a2 = b(2 * c, 4 * c)
        self.b0 = b(3 * c, c)
        self.b1 = b(6 * c, 2 * c)
        self.c0 = b(4 * c, c)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.o = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        p = lambda v: F.max_pool2d(v, 2)
        x0 = self.a0(x)
        x1 = self.a1(p(x0))
        x01 = self.b0(torch.cat([x0, self.up(x1)], 1))
        x2 = self.a2(p(x1))
        x11 = self.b1(torch.cat([x1, self.up(x2)], 1))
        return torch.sigmoid(self.o(self.c0(torch.cat([x0, x01, self.up(x11)], 1))))


class AttUNet3d(nn.Module):
    """Attention gates and trilinear upsampling."""

    def __init__(self, c=4):
        super().__init__()
        self.d1 = block3(1, c)
        self.d2 = block3(c, 2 * c, 2)
        self.g = nn.Conv3d(2 * c, c, 1)
        self.x = nn.Conv3d(c, c, 1, 2)
        self.psi = nn.Conv3d(c, 1, 1)
        self.u = block3(3 * c, c)
        self.o = nn.Conv3d(c, 2, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(a)
        w = torch.sigmoid(self.psi(F.relu(self.g(b) + self.x(a))))
        a = a * F.interpolate(w, size=a.shape[2:], mode="trilinear")
        return self.o(
            self.u(torch.cat([a, F.interpolate(b, scale_factor=2, mode="trilinear", align_corners=False)], 1))
        )


class UNetRes(nn.Module):
    """As for diffusion: group norm, an embedding of the time step, attention over pixels by einsum."""

    class Block(nn.Module):

        def __init__(self, i, o, t=16):
            super().__init__()
            self.n1 = nn.GroupNorm(4, i)
            self.c1 = nn.Conv2d(i, o, 3, padding=1)
            self.t = nn.Linear(t, o)
            self.n2 = nn.GroupNorm(4, o)
            self.c2 = nn.Conv2d(o, o, 3, padding=1)
            self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

        def forward(self, x, t):
            h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[:, :, None, None]
            return self.c2(F.silu(self.n2(h))) + self.skip(x)

    class Att(nn.Module):

        def __init__(self, c):
            super().__init__()
            self.n = nn.GroupNorm(4, c)
            self.qkv = nn.Conv2d(c, 3 * c, 1)
            self.o = nn.Conv2d(c, c, 1)

        def forward(self, x):
            n, c, h, w = x.shape
            q, k, v = self.qkv(self.n(x)).reshape(n, 3, c, h * w).unbind(1)
            a = torch.einsum("bci,bcj->bij", q, k).mul(c ** (-0.5)).softmax(-1)
            return x + self.o(torch.einsum("bij,bcj->bci", a, v).reshape(n, c, h, w))

    def __init__(self, c=8):
        super().__init__()
        self.i = nn.Conv2d(1, c, 3, padding=1)
        self.d1 = self.Block(c, c)
        self.down = nn.Conv2d(c, c, 3, 2, 1)
        self.d2 = self.Block(c, 2 * c)
        self.a = self.Att(2 * c)
        self.u1 = self.Block(3 * c, c)
        self.uc = nn.Conv2d(2 * c, 2 * c, 3, padding=1)
        self.o = nn.Conv2d(c, 1, 1)
        self.tm = nn.Sequential(nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 16))

    def forward(self, x, t):
        f = torch.exp(-torch.arange(8) * (9.21 / 8))
        e = t[:, None] * f[None]
        e = self.tm(torch.cat([e.sin(), e.cos()], -1))
        x = self.i(x)
        h = self.d1(x, e)
        m = self.a(self.d2(self.down(h), e))
        u = self.uc(F.interpolate(m, scale_factor=2.0, mode="nearest"))
        return self.o(self.u1(torch.cat([u, h], 1), e))


class ConvAe(nn.Module):
    """An autoencoder with output_padding."""

    def __init__(self, c=8):
        super().__init__()
        self.e = nn.Sequential(
            nn.Conv2d(1, c, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(c, 2 * c, 3, 2, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * c, 8),
        )
        self.l = nn.Linear(8, 32 * c)
        self.d = nn.Sequential(
            nn.Unflatten(1, (2 * c, 4, 4)),
            nn.ConvTranspose2d(2 * c, c, 3, 2, 1, output_padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(c, 1, 3, 2, 1, output_padding=1),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.d(self.l(self.e(x)))


class Convs(nn.Module):
    """Convolutions with string padding, depthwise ones, and attention over channels and pixels (CBAM)."""

    def __init__(self, c=8):
        super().__init__()
        self.a = nn.Conv2d(3, c, (1, 7), padding="same")
        self.dw = nn.Conv2d(c, c, 3, padding=1, groups=c)
        self.pw = nn.Conv2d(c, c, 1)
        self.f = nn.Sequential(nn.Linear(c, 2), nn.ReLU(), nn.Linear(2, c))
        self.sp = nn.Conv2d(2, 1, 7, padding=3)
        self.o = nn.Linear(c, 5)

    def forward(self, x):
        x = F.hardswish(self.pw(self.dw(self.a(x))))
        w = torch.sigmoid(
            self.f(F.adaptive_avg_pool2d(x, 1).flatten(1)) + self.f(F.adaptive_max_pool2d(x, 1).flatten(1))
        )
        x = x * w.unsqueeze(2).unsqueeze(3)
        m = torch.cat([x.mean(1, keepdim=True), x.max(1, keepdim=True)[0]], 1)
        return self.o(F.adaptive_avg_pool2d(x * torch.sigmoid(self.sp(m)), (1, 1)).squeeze(-1).squeeze(-1))


class Interp(nn.Module):
    """Three modes of F.interpolate; one convolution is used twice."""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        y = F.interpolate(self.c(x), scale_factor=2, mode="nearest")
        z = F.interpolate(self.c(x), size=y.shape[-2:], mode="bilinear", align_corners=False)
        return F.interpolate(y + z, size=(10, 12), mode="bicubic", align_corners=True)


class Se(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, c=8):
        super().__init__()
        self.c = nn.Conv2d(3, c, 3, padding=1)
        self.a = nn.Linear(c, 2)
        self.b = nn.Linear(2, c)

    def forward(self, x):
        x = self.c(x)
        w = torch.sigmoid(self.b(F.relu(self.a(x.mean((2, 3))))))
        return x * w[:, :, None, None]


class Scaled(nn.Module):
    """ReZero and layer scale: parameters as operands; one convolution is used twice."""

    def __init__(self, c=8):
        super().__init__()
        self.i = nn.Conv2d(3, c, 1)
        self.c = nn.Conv2d(c, c, 3, padding=1)
        self.alpha = nn.Parameter(torch.full((1,), 0.1))
        self.gamma = nn.Parameter(torch.ones(c, 1, 1))

    def forward(self, x):
        x = F.elu(self.i(x))
        x = x + self.alpha * F.softplus(self.c(x))
        return (x + self.gamma * self.c(x)).flatten(1).mean(1)


class Circular(nn.Module):
    """Padding modes of convolutions."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(2, 8, 5, padding=2, padding_mode="circular")
        self.b = nn.Conv2d(8, 2, 3, padding=1, padding_mode="reflect")
        self.c = nn.Conv2d(2, 2, 3, padding="same", padding_mode="replicate")

    def forward(self, x):
        return x + self.c(self.b(torch.tanh(self.a(x))))


class Climate(nn.Module):
    """Circular in longitude only; layer norm over C, H, W; roll and flip."""

    def __init__(self, c=4):
        super().__init__()
        self.a = nn.Conv2d(2, c, 3)
        self.b = nn.Conv2d(c, c, 3)
        self.n = nn.LayerNorm([c, 8, 16])
        self.o = nn.Conv2d(c, 2, 1)

    def pad(self, x):
        return F.pad(F.pad(x, (1, 1, 0, 0), mode="circular"), (0, 0, 1, 1), mode="replicate")

    def forward(self, x):
        h = F.gelu(self.n(self.a(self.pad(x))))
        h = h + torch.roll(h, (1, -2), (2, 3)) * 0.5 + torch.flip(h, [2])
        return x + self.o(F.silu(self.b(self.pad(h))))


class Siamese(nn.Module):
    """One branch for two inputs, and their distance."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 16))

    def forward(self, a, b):
        return F.pairwise_distance(self.net(a), self.net(b))


class Srgan(nn.Module):
    """Residual blocks, PReLU, pixel shuffle."""

    def __init__(self, c=8):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(3, c, 9, padding=4), nn.PReLU())
        self.b = nn.Sequential(
            nn.Conv2d(c, c, 3, padding=1),
            nn.BatchNorm2d(c),
            nn.PReLU(c),
            nn.Conv2d(c, c, 3, padding=1),
            nn.BatchNorm2d(c),
        )
        self.u = nn.Sequential(
            nn.Conv2d(c, 4 * c, 3, padding=1), nn.PixelShuffle(2), nn.PReLU(), nn.Conv2d(c, 3, 9, padding=4)
        )

    def forward(self, x):
        x = self.a(x)
        return (torch.tanh(self.u(x + self.b(x))) + 1) / 2


class Rcan(nn.Module):
    """Channel attention, a buffer as operand, scaled residuals."""

    def __init__(self, c=8):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4, 0.5, 0.3]).view(1, 3, 1, 1))
        self.h = nn.Conv2d(3, c, 3, padding=1)
        self.c1 = nn.Conv2d(c, c, 3, padding=1)
        self.c2 = nn.Conv2d(c, c, 3, padding=1)
        self.t = nn.Conv2d(c, 12, 3, padding=1)
        self.ca = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, 2, 1), nn.ReLU(True), nn.Conv2d(2, c, 1), nn.Sigmoid()
        )

    def forward(self, x):
        x = self.h(x - self.mean)
        y = self.c2(F.relu(self.c1(x), True))
        x = x + 0.1 * (y * self.ca(y))
        return F.pixel_shuffle(self.t(x), 2) + self.mean


class Dcgan(nn.Module):
    """A generator of transposed convolutions."""

    def __init__(self, c=8):
        super().__init__()
        self.n = nn.Sequential(
            nn.ConvTranspose2d(16, 2 * c, 4, 1, 0, bias=False),
            nn.BatchNorm2d(2 * c),
            nn.ReLU(True),
            nn.ConvTranspose2d(2 * c, c, 4, 2, 1, bias=False),
            nn.BatchNorm2d(c),
            nn.ReLU(True),
            nn.ConvTranspose2d(c, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.n(z[:, :, None, None])


class TwoHeads(nn.Module):
    """A class and numbers from one body: two outputs."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU(), nn.AdaptiveAvgPool2d(1))
        self.cls = nn.Linear(8, 4)
        self.reg = nn.Linear(8, 2)

    def forward(self, x):
        x = self.body(x)
        x = x.view(x.size(0), -1)
        return self.cls(x), self.reg(x)


class Deep(UNet2d):
    """Outputs of two sizes, in the order of the decoder."""

    def __init__(self, c=8):
        super().__init__(c)
        self.early = nn.Conv2d(2 * c, 3, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(self.pool(a))
        b = self.u2(torch.cat([self.up2(self.mid(self.pool(b))), b], 1))
        return self.early(b), self.out(self.u1(torch.cat([self.up1(b), a], 1)))


class Places(nn.Module):
    """Tables of positions brought to the size of the image, and a map that is made of patches without overlap."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(1, 2, 5, 3))
        self.b = nn.Parameter(torch.randn(1, 2, 4, 3))
        self.f = nn.Linear(8, 8)

    def forward(self, x):
        x = x + F.interpolate(self.a, size=(8, 6), mode="bicubic", align_corners=False)
        x = x * F.interpolate(self.b, scale_factor=2, mode="bilinear", align_corners=True)
        p = self.f(F.unfold(x, 2, stride=2).transpose(1, 2)).transpose(1, 2)
        return F.fold(torch.tanh(p), (8, 6), 2, stride=2)


class Depth(nn.Module):
    """One number for each pixel, without a dim of channels."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 1, 3, padding=1)

    def forward(self, x):
        return F.softplus(self.b(F.gelu(self.a(x)))).squeeze(1)
