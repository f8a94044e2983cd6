"""Networks that predict fields, with the parameter names of the implementations that the model families follow:
milesial/Pytorch-UNet, the reference of MLPerf HPC's DeepCAM, torchvision's VisionTransformer.
"""
import torch
import torch.nn.functional as F
from torch import nn

CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
POOL = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
BATCH = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
INSTANCE = {1: nn.InstanceNorm1d, 2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


class Named(nn.Module):
    """A module that holds others under given names; `forward` applies them in order."""

    def __init__(self, **modules):
        super().__init__()
        for name, m in modules.items():
            self.add_module(name, m)

    def forward(self, x):
        for m in self.children():
            x = m(x)
        return x


class UNet(nn.Module):
    def __init__(self, space, channels, classes, widths, norm="batch", groups=8, linear=False, padding="zeros"):
        super().__init__()
        norms = {"batch": BATCH[space], "instance": lambda c: INSTANCE[space](c, affine=True),
                 "group": lambda c: nn.GroupNorm(groups, c), "none": lambda c: nn.Identity()}

        def two(a, b, c):
            layers = []
            for i, o in ((a, b), (b, c)):
                layers += [CONV[space](i, o, 3, padding=1, bias=norm == "none", padding_mode=padding), norms[norm](o), nn.ReLU()]
            return Named(double_conv=nn.Sequential(*layers))

        w, n = widths, len(widths) - 1
        self.levels = n
        self.inc = two(channels, w[0], w[0])
        for i in range(1, n + 1):
            out = w[i - 1] if linear and i == n else w[i]
            setattr(self, f"down{i}", Named(maxpool_conv=nn.Sequential(POOL[space](2), two(w[i - 1], out, out))))
        for i in reversed(range(n)):
            up = nn.Upsample(scale_factor=2, mode=LINEAR[space], align_corners=True) if linear else \
                TRANSPOSED[space](w[i + 1], w[i], 2, 2)
            conv = two(2 * w[i], w[i], w[i - 1] if linear and i else w[i])
            setattr(self, f"up{n - i}", Named(up=up, conv=conv))
        self.outc = Named(conv=CONV[space](w[0], classes, 1))

    def forward(self, x):
        skips = [self.inc(x)]
        for i in range(1, self.levels + 1):
            skips.append(getattr(self, f"down{i}")(skips[-1]))
        x = skips.pop()
        for i in range(1, self.levels + 1):
            up = getattr(self, f"up{i}")
            x = up.conv(torch.cat((skips.pop(), up.up(x)), 1))
        return self.outc(x)


def norm2d(c):
    return Named(bn=nn.BatchNorm2d(c))


def separable(a, b, stride=1, dilation=1):
    return Named(conv1=nn.Conv2d(a, a, 3, stride, dilation, dilation, groups=a, bias=False),
                 pointwise=nn.Conv2d(a, b, 1, bias=False))


class Block(nn.Module):
    def __init__(self, a, b, convs, stride=0, late=False, relu=True):
        super().__init__()
        if stride:
            self.skip, self.skipbn = nn.Conv2d(a, b, 1, stride, bias=False), norm2d(b)
        rep = []
        for i in range(convs):
            last = i == convs - 1
            rep += [separable(a if i == 0 or late else b, b if last or not late else a),
                    norm2d(b if last or not late else a), nn.ReLU()]
        rep.pop()
        self.rep = nn.Sequential(*rep, *[separable(b, b, stride)] * bool(stride))
        self.strided, self.rectified = stride, relu

    def forward(self, x):
        y = self.rep(x) + (self.skipbn(self.skip(x)) if self.strided else x)
        return F.relu(y) if self.rectified else y


class Xception(nn.Module):
    """Gives the features and the low-level features, which an in-place ReLU of the reference has rectified."""

    def __init__(self, channels, middle):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, 32, 3, 2, 1, bias=False), norm2d(32)
        self.conv2, self.bn2 = nn.Conv2d(32, 64, 3, padding=1, bias=False), norm2d(64)
        self.block1, self.block2 = Block(64, 128, 2, 2, relu=False), Block(128, 256, 2, 2)
        self.block3, self.middle = Block(256, 728, 2, 2), middle
        for i in range(middle):
            setattr(self, f"block{4 + i}", Block(728, 728, 3))
        setattr(self, f"block{4 + middle}", Block(728, 1024, 2, 1, late=True, relu=False))
        self.conv3, self.bn3 = separable(1024, 1536, dilation=2), norm2d(1536)
        self.conv4, self.bn4 = separable(1536, 1536, dilation=2), norm2d(1536)
        self.conv5, self.bn5 = separable(1536, 2048, dilation=2), norm2d(2048)

    def forward(self, x):
        for i in (1, 2):
            x = F.relu(getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x)))
        x = low = F.relu(self.block1(x))
        for i in range(2, 5 + self.middle):
            x = getattr(self, f"block{i}")(x)
        for i in (3, 4, 5):
            x = F.relu(getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x)))
        return x, low


class Affine(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weights, self.bias = nn.Parameter(torch.rand(c, 1, 1) + 0.5), nn.Parameter(torch.rand(c, 1, 1) - 0.5)

    def forward(self, x):
        return self.weights * x + self.bias


class Bottleneck(nn.Module):
    def __init__(self):
        super().__init__()
        for i, rate in enumerate((1, 6, 12, 18)):
            window = (1,) if rate == 1 else (3, 1, rate, rate)
            setattr(self, f"aspp{i + 1}", Named(atrous_convolution=nn.Conv2d(2048, 256, *window, bias=False),
                                                bn=norm2d(256), relu=nn.ReLU()))
        self.global_avg_pool = Named(global_average_pool=nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(2048, 256, 1, bias=False), Affine(256), nn.ReLU()))
        self.conv, self.bn = nn.Conv2d(1280, 256, 1, bias=False), norm2d(256)

    def forward(self, x):
        all = [getattr(self, f"aspp{i}")(x) for i in range(1, 5)]
        all.append(self.global_avg_pool(x).expand(-1, -1, *x.shape[2:]))
        return F.relu(self.bn(self.conv(torch.cat(all, 1))))


def doubled(a, b):
    return nn.ConvTranspose2d(a, b, 3, 2, 1, 1, bias=False)


class DeepLab(nn.Module):
    def __init__(self, channels, classes, middle=16):
        super().__init__()
        self.xception_features, self.bottleneck = Xception(channels, middle), Bottleneck()
        self.conv2, self.bn2 = nn.Conv2d(128, 48, 1, bias=False), norm2d(48)
        wide = lambda a: [nn.Conv2d(a, 256, 3, padding=1, bias=False), norm2d(256), nn.ReLU()]
        up = lambda: [doubled(256, 256), norm2d(256), nn.ReLU()]
        self.upsample = Named(deconv1=nn.Sequential(*up(), *up()),
                              conv1=nn.Sequential(*wide(304), *wide(256), nn.Conv2d(256, 256, 1)),
                              deconv2=nn.Sequential(*up()), last_deconv=nn.Sequential(doubled(256, classes)))

    def forward(self, x):
        x, low = self.xception_features(x)
        low = F.relu(self.bn2(self.conv2(low)))
        up = self.upsample
        x = torch.cat((up.deconv1(self.bottleneck(x)), low), 1)
        return up.last_deconv(up.deconv2(up.conv1(x)))


class VitField(nn.Module):
    """torchvision's encoder on all patches, and a linear layer from each token to the pixels of its patch."""

    def __init__(self, channels, classes, size, patch, layers, dim, heads):
        import torchvision

        super().__init__()
        self.patch, self.grid = patch, [a // b for a, b in zip(size, patch)]
        self.conv_proj = nn.Conv2d(channels, dim, patch, patch)
        self.encoder = torchvision.models.vision_transformer.Encoder(
            self.grid[0] * self.grid[1], layers, heads, dim, 4 * dim, 0.0, 0.0, lambda n: nn.LayerNorm(n, 1e-6))
        self.heads = Named(head=nn.Linear(dim, classes * patch[0] * patch[1]))

    def forward(self, x):
        x = self.heads(self.encoder(self.conv_proj(x).flatten(2).transpose(1, 2)))
        x = x.unflatten(1, self.grid).unflatten(3, (*self.patch, -1))
        return x.permute(0, 5, 1, 3, 2, 4).flatten(4).flatten(2, 3)
