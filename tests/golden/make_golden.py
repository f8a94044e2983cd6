#!/usr/bin/env python3
"""Makes tests/golden/*.gold: what PyTorch computes from weights and batches that both sides can make.

    pip install torch torchvision numpy; tests/golden/make_golden.py tests/golden/models [NAME...]

It makes all of MODELS at the end of this file, or those named.  t_golden.c takes the model from the .gold file;
a new one is a line of MODELS and its .gold file.

Weights and batches are not stored: they come from `noise` below, a hash that t_golden.c has too.  A .gold
file is a list of records, each a line "name count" and count little-endian float32 values:

    on            text: where t_golden is run with it (golden.test, cuda/checks.sh): ref, cpu; gpu: on a GPU, emu: also
                  on the emulated one; san-…: also under sanitizers, where others take minutes and run no code that
                  these do not
    model         the section `model` of a configuration, as text of 4 count bytes, filled with spaces
    shape         of a sample
    training      samples of a step, learning rate, 1: with train.qat
    freeze        text: a parameter that is not trained
    init/NAME     scale, shift, seed: the parameter is scale * noise + shift (without a seed: 1000 and up)
    batch         seed and samples of the batch to which the next ones belong
    logits, loss
    grad/NAME     the gradient's elements 0, s, 2s, ... with s = ceil(count / cap)
    proj/NAME     the gradient's sums under PROJ patterns of signs, divided by its norm
    zero/NAME       instead of the two: the gradient is zero but for rounding
    cap, tolerance  of grad/; allowed relative error of gradients
    losses        of 20 steps of SGD (VGG: none; then only the first is taken), each on a batch of its own
    amp_losses    of 50 steps of SGD on three batches in turn, with autocast to bfloat16

A ReLU whose input is zero up to rounding has a gradient that is 0 in one program and not in the other; among
millions of inputs there are always some.  So that gradients can be compared at 1e-4, the batch for them is
the one, out of SEEDS, whose inputs of ReLUs stay farthest away from zero.  For the same reason the learning
rate of ResNet-18's steps is small: at 1e-4 PyTorch's own float32 and float64 losses are 5e-4 apart after
20 steps, at 2e-5 they are 1.3e-5 apart.

That is not enough for the networks of many layers: of DenseNet-121, PyTorch's own float32 and float64
gradients are then up to 1.7e-2 apart (features.denseblock4.denselayer13.norm1.bias), of MobileNetV2 up to
1.3e-2.  So there the biases of batch normalisations are near NORM_BIAS, and few inputs of ReLUs are near zero
or of ReLU6 near six: the gradients are 7e-6 apart, the losses of 20 steps 1e-6.  With 3 they are 2e-4 apart:
so few inputs are cut off that the next batch normalisation takes away what the biases change.
"""
import sys
from collections import OrderedDict
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CAP, PROJ, STEPS, SEEDS, NORM_BIAS = 8192, 16, 20, 400, 2
EVERYWHERE = "ref cpu emu gpu san-ref san-cpu"
SGD = dict(momentum=0.9, weight_decay=1e-4, nesterov=True)


def noise(seed, n):
    """n float32 numbers in [-0.5, 0.5): splitmix64 of (seed, index), its upper 24 bits."""
    with np.errstate(over="ignore"):
        z = (np.arange(n, dtype=np.uint64) + np.uint64(seed) * np.uint64(0x100000001)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)) - np.float32(0.5)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)
        self.relu = nn.ReLU()

    def forward(self, x):
        x = F.max_pool2d(self.relu(self.conv1(x)), 2)
        x = F.max_pool2d(self.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(self.relu(self.fc2(self.relu(self.fc1(x)))))


def torchvision(name, **options):
    import torchvision

    return getattr(torchvision.models, name)(num_classes=10, **options)


def resnet18():
    net = torchvision("resnet18")
    net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    net.maxpool = nn.Identity()
    return net


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(9, 24, num_layers=2, batch_first=True), nn.Linear(24, 10)

    def forward(self, x):
        return self.fc(self.lstm(x.squeeze(1))[0][:, -1])


def vit():
    import torchvision

    return torchvision.models.VisionTransformer(
        image_size=16, patch_size=4, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64, num_classes=10
    )


class CosmoFlow(nn.Module):
    """For cubes of 16 voxels; its four stages have 16 to 128 filters."""

    def __init__(self, channels, targets):
        super().__init__()
        for i in range(4):
            setattr(self, f"conv{i + 1}", nn.Conv3d(channels if i == 0 else 8 << i, 16 << i, 3, padding=1))
        self.fc1, self.fc2, self.fc3 = nn.Linear(128, 128), nn.Linear(128, 64), nn.Linear(64, targets)
        self.act = nn.LeakyReLU(0.3)

    def forward(self, x):
        for i in range(4):
            x = F.max_pool3d(self.act(getattr(self, f"conv{i + 1}")(x)), 2)
        x = self.act(self.fc2(self.act(self.fc1(x.flatten(1)))))
        return 1.2 * torch.tanh(self.fc3(x))


class Rounded(nn.Module):
    """Trained with eight bits in mind: scales of weights are those of this step, ranges of activations follow."""

    def __init__(self):
        import torch.ao.nn.qat as nnqat
        import torch.ao.quantization as ao

        super().__init__()
        weight = ao.FakeQuantize.with_args(
            observer=ao.MovingAveragePerChannelMinMaxObserver, averaging_constant=1, quant_min=-127, quant_max=127,
            dtype=torch.qint8, qscheme=torch.per_channel_symmetric)
        rounded = lambda: ao.FakeQuantize(ao.MovingAverageMinMaxObserver, quant_min=0, quant_max=255,
                                          dtype=torch.quint8, qscheme=torch.per_tensor_affine, averaging_constant=0.01)
        q = ao.QConfig(activation=None, weight=weight)
        self.conv1, self.bn1 = nnqat.Conv2d(1, 6, 3, padding=1, bias=False, qconfig=q), nn.BatchNorm2d(6)
        self.conv2, self.fc = nnqat.Conv2d(6, 6, 3, padding=1, qconfig=q), nnqat.Linear(96, 10, qconfig=q)
        self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()
        self.input, self.quant1, self.quant2, self.quant3 = (rounded() for _ in range(4))

    def forward(self, x):
        x = self.quant1(self.relu1(self.bn1(self.conv1(self.input(x)))))
        x = self.quant3(self.relu2(self.quant2(self.conv2(x)) + x))
        return self.fc(F.max_pool2d(x, 2).flatten(1))


def init(net, norm_bias=0):
    """A scale, a shift and a seed for each parameter, in float32 so that both sides agree to the bit."""
    table = {}
    shifted = {f"{name}.bias" for name, m in net.named_modules() if isinstance(m, nn.BatchNorm2d)}
    for k, (name, p) in enumerate(net.named_parameters()):
        if p.dim() > 1:
            fan_in = p[0].numel()
            scale, shift = np.float32(np.sqrt(12.0 / fan_in)), np.float32(0)
        elif name.endswith("weight"):  # batchnorm, layernorm
            scale, shift = np.float32(0.5), np.float32(1)
        else:
            scale, shift = np.float32(0.2), np.float32(norm_bias if name in shifted else 0)
        table[name] = (scale, shift, 1000 + k)
        value = scale * noise(1000 + k, p.numel()) + shift
        p.data = torch.from_numpy(value.astype(np.float32)).view_as(p).clone()
    return table


def batch(step, n, shape):
    x = np.float32(3.4641016) * noise(step, n * int(np.prod(shape)))
    return torch.from_numpy(x).view(n, *shape), (torch.arange(n) * 7 + step * 3) % 10


def best_seed(net, n, shape, seeds):
    """The seed whose batch keeps ReLU inputs farthest from zero, relative to their size."""
    margin = []
    look = lambda module, x: margin.append(float(x[0].abs().min() / x[0].square().mean().sqrt()))
    hooks = [m.register_forward_pre_hook(look) for m in net.modules() if isinstance(m, (nn.ReLU, nn.LeakyReLU, nn.ReLU6))]
    if not hooks:
        return SEEDS, float("inf")
    best = (0.0, 0)
    state = {k: v.clone() for k, v in net.state_dict().items()}
    with torch.no_grad():
        for seed in range(100, 100 + seeds):
            margin.clear()
            net(batch(seed, n, shape)[0])
            best = max(best, (min(margin), seed))
    net.load_state_dict(state)
    for h in hooks:
        h.remove()
    return best[1], best[0]


def head(on, model, shape, n, lr, qat=0, frozen=None):
    records = [("on", on + " "), ("model", model), ("shape", shape), ("training", [n, lr, qat])]
    return records + ([("freeze", frozen)] if frozen else [])


def make(path, model, net, n_grad, n, shape, lr, cap=CAP, seeds=SEEDS, tolerance=1e-4, norm_bias=0, steps=STEPS,
         frozen=None, qat=0, on=EVERYWHERE):
    records = head(on, model, shape, n, lr, qat, frozen)
    put = lambda name, v: records.append((name, np.asarray(v, dtype=np.float32).ravel()))
    torch.set_num_threads(1)
    for name, row in init(net, norm_bias).items():
        put("init/" + name, row)
    if frozen:
        net.get_parameter(frozen).requires_grad = False
    net.train()
    state = {k: v.clone() for k, v in net.state_dict().items()}

    seed, margin = best_seed(net, n_grad, shape, seeds)
    x, y = batch(seed, n_grad, shape)
    logits = net(x)
    loss = F.cross_entropy(logits, y)
    loss.backward()
    put("batch", [seed, n_grad])
    put("cap", cap)
    put("tolerance", tolerance)
    put("logits", logits.detach().numpy())
    put("loss", loss.item())
    for name, p in net.named_parameters():
        if name == frozen:
            continue
        g = p.grad.numpy().ravel().astype(np.float64)
        if np.linalg.norm(g) < 1e-5:  # a bias that a later batchnorm takes away: rounding errors
            put("zero/" + name, 0)
            continue
        put("grad/" + name, g[:: -(-g.size // cap)])
        signs = [np.where(noise(5000 + j, g.size) < 0, -1.0, 1.0) for j in range(PROJ)]
        put("proj/" + name, [s @ g / np.linalg.norm(g) for s in signs])

    net.load_state_dict(state)
    optim = torch.optim.SGD(net.parameters(), lr=lr, **SGD)
    losses = []
    for step in range(steps):
        x, y = batch(step, n, shape)
        optim.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optim.step()
        losses.append(loss.item())
    put("losses", losses)
    write(path, records)
    print(path, "torch", torch.__version__, "margin", margin, "losses", *losses[:1], "->", *losses[-1:])


def make_amp(path, model, net, n, shape, lr, on):
    """Float32's losses are up to 1 % away from these."""
    torch.set_num_threads(1)
    records = head(on, model, shape, n, lr) + [("init/" + name, row) for name, row in init(net).items()]
    net.train()
    optim = torch.optim.SGD(net.parameters(), lr=lr, **SGD)
    losses = []
    for step in range(50):
        x, y = batch(step % 3, n, shape)
        optim.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        optim.step()
        losses.append(loss.item())
    write(path, records + [("amp_losses", losses)])
    print(path, "torch", torch.__version__, "losses", losses[0], "->", losses[-1])


def write(path, records):
    with open(path, "wb") as f:
        for name, v in records:
            if isinstance(v, str):
                data = v.encode().ljust(-(-len(v) // 4) * 4)
            else:
                data = np.asarray(v, dtype="<f4").tobytes()
            f.write(f"{name} {len(data) // 4}\n".encode() + data)


def named(**modules):
    return nn.Sequential(OrderedDict(modules))


def groups():
    return named(
        conv1=nn.Conv2d(2, 12, 3, padding=1), gn1=nn.GroupNorm(4, 12), relu1=nn.ReLU(), conv2=nn.Conv2d(12, 6, 3, 2),
        gn2=nn.GroupNorm(3, 6, eps=1e-3, affine=False), relu2=nn.ReLU(), flat=nn.Flatten(), fc=nn.Linear(96, 10))


GROUPS = """layers:
- conv2d: {out: 12, kernel: 3, padding: 1}
  name: conv1
- groupnorm: {num_groups: 4}
  name: gn1
- relu:
- conv2d: {out: 6, kernel: 3, stride: 2}
  name: conv2
- groupnorm: {num_groups: 3, eps: 1e-3, affine: false}
- relu:
- flatten:
- linear: {out: 10}
  name: fc
"""


def instances():
    return named(
        conv1=nn.Conv3d(1, 5, 3), in1=nn.InstanceNorm3d(5, affine=True), relu1=nn.ReLU(), conv2=nn.Conv3d(5, 6, 2),
        in2=nn.InstanceNorm3d(6), gn1=nn.GroupNorm(2, 6), relu2=nn.ReLU(), flat=nn.Flatten(), fc=nn.Linear(360, 10))


INSTANCES = """layers:
- conv3d: {out: 5, kernel: 3}
  name: conv1
- instancenorm: {affine: true}
  name: in1
- relu:
- conv3d: {out: 6, kernel: 2}
  name: conv2
- instancenorm:
- groupnorm: {num_groups: 2}
  name: gn1
- relu:
- flatten:
- linear: {out: 10}
  name: fc
"""

# Numbers are rounded behind the input, relu1, conv2 and the last ReLU.
ROUNDED = """layers:
- conv2d: {out: 6, kernel: 3, padding: 1, bias: false}
  name: conv1
- batchnorm:
  name: bn1
- relu:
  name: relu1
- conv2d: {out: 6, kernel: 3, padding: 1}
  name: conv2
- add:
  from: [conv2, relu1]
- relu:
- maxpool: {kernel: 2}
- flatten:
- linear: {out: 10}
  name: fc
"""


class Shared(nn.Module):
    """A convolution and a linear layer that are used twice; sequences whose batch is their second dim."""

    def __init__(self):
        super().__init__()
        self.conv, self.one = nn.Conv2d(4, 4, 3, padding=1), nn.Linear(30, 8)
        self.two, self.fc = nn.Linear(8, 8), nn.Linear(32, 10)
        self.token, self.relu = nn.Parameter(torch.zeros(1, 1, 8)), nn.ReLU()

    def forward(self, x):
        x = self.relu(self.conv(self.relu(self.conv(x)))).reshape(-1, 4, 30).permute(1, 0, 2)
        x = self.one(x.reshape(-1, 30))
        x = self.two(self.two(x)).reshape(4, -1, 8)
        x = torch.cat([x[:2], self.token.expand(1, x.shape[1], -1), x[3:]]).permute(1, 0, 2)
        return self.fc(x.flatten(1))


SHARED = """layers:
- conv2d: {out: 4, kernel: 3, padding: 1}
  name: conv
- relu:
- conv2d: {out: 4, kernel: 3, padding: 1}
  weights: [conv.weight, conv.bias]
- relu:
- reshape: {shape: [N, 4, 30]}
- permute: {dims: [1, 0, 2]}
- reshape: {shape: [4N, 30]}
- linear: {out: 8}
  name: one
- linear: {out: 8}
  name: two
- linear: {out: 8}
  weights: [two.weight, two.bias]
- reshape: {shape: [4, N, 8]}
  name: steps
- slice: {dim: 0, end: 2}
  name: first
- slice: {dim: 0, start: 3}
  name: last
  from: steps
- parameter: {shape: [1, 1, 8]}
  name: token
- expand: {shape: [1, N, 8]}
  name: tokens
- concat: {dim: 0}
  from: [first, tokens, last]
- permute: {dims: [1, 0, 2]}
- flatten:
- linear: {out: 10}
  name: fc
"""

MODELS = {
    "lenet": lambda p: make(p, "family: lenet", LeNet(), 8, 16, (1, 28, 28), 1e-3),
    "resnet18": lambda p: make(p, "{family: resnet, depth: 18}", resnet18(), 2, 8, (3, 32, 32), 2e-5, on="cpu gpu"),
    "lstm": lambda p: make(p, "{family: lstm, depth: 2, hidden: 24}", Sequence(), 5, 16, (1, 12, 9), 0.5),
    "vit": lambda p: make(p, "{family: vit, depth: 2, patch: 4, dim: 32, heads: 4, mlp: 64}", vit(), 4, 8,
                          (3, 16, 16), 5e-3),
    "mobilenet_v2": lambda p: make(p, "{family: mobilenet_v2, dropout: 0}", torchvision("mobilenet_v2", dropout=0),
                                   4, 8, (3, 64, 64), 1e-4, cap=64, seeds=40, norm_bias=NORM_BIAS, on="cpu gpu san-cpu"),
    "densenet121": lambda p: make(p, "{family: densenet, depth: 121, dropout: 0}", torchvision("densenet121"), 4, 4,
                                  (3, 64, 64), 1e-4, cap=32, seeds=20, norm_bias=NORM_BIAS, on="cpu gpu"),
    "cosmoflow": lambda p: make(p, "{family: cosmoflow, dropout: 0}", CosmoFlow(4, 10), 2, 8, (4, 16, 16, 16), 1e-3,
                                cap=512, seeds=20, on="ref cpu emu gpu san-cpu"),
    # the largest parameter, of 400 MB, is frozen: its gradient would take most of the test's time
    "vgg_bn": lambda p: make(p, "{family: vgg_bn, depth: 11, dropout: 0}", torchvision("vgg11_bn", dropout=0), 2, 2,
                             (3, 32, 32), 0, cap=64, seeds=20, norm_bias=NORM_BIAS, steps=0,
                             frozen="classifier.0.weight", on="cpu"),
    "groupnorm": lambda p: make(p, GROUPS, groups(), 3, 8, (2, 9, 10), 0.02, cap=256),
    "instancenorm": lambda p: make(p, INSTANCES, instances(), 3, 8, (1, 6, 7, 8), 0.02, cap=256),
    "shared": lambda p: make(p, SHARED, Shared(), 3, 6, (4, 5, 6), 0.02, cap=256),
    "rounded": lambda p: make(p, ROUNDED, Rounded(), 4, 8, (1, 8, 8), 0.02, cap=128, qat=1,
                              on="ref cpu san-ref san-cpu"),
    "resnet18-amp": lambda p: make_amp(p, "{family: resnet, depth: 18}", resnet18(), 8, (3, 32, 32), 1e-4, on="cpu gpu"),
}

if __name__ == "__main__":
    out = sys.argv[1] if len(sys.argv) > 1 else "."
    for name in sys.argv[2:] or MODELS:
        MODELS[name](f"{out}/{name}.gold")
