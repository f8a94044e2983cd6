"""Weights of torchvision's models, there and back.

    check_weights.py CTRAIN WEIGHTS_LOGITS DIR [MODEL...]      prints TAP

For each model, as .pth and as safetensors: the file that Python wrote is taken with init.strict, and gives the
same logits; ten steps of SGD from there give the same losses as in torch; and what they end in is taken by
load_state_dict(strict=True), as torch.load(weights_only=True) reads it, with and without mmap, and as safetensors
reads it, and gives the logits that this program computes from its checkpoint.
"""
import os
import re
import struct
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import safetensors.torch
import torch
import torchvision
from torch import nn

ctrain, weights_logits, work = sys.argv[1:4]
CLASSES, NEAR, STEPS = 1000, 1e-4, 10
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


@dataclass
class Model:
    name: str  # torchvision's
    keys: str  # the section model
    size: int = 64  # of its images, in pixels
    batch: int = 4
    rate: float = 5e-5


MODELS = [
    Model("resnet18", "{family: resnet, depth: 18}"),
    Model("mobilenet_v2", "{family: mobilenet_v2, dropout: 0}", rate=5e-6),
    Model("densenet121", "{family: densenet, depth: 121}", rate=1e-5),
    Model("vgg11_bn", "{family: vgg_bn, depth: 11, dropout: 0}", 224, 2),
    Model("vit_b_16", "{family: vit, depth: 12, patch: 16, dim: 768, heads: 12}", 224, 2, 1e-3),
]


def run(*command):
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stderr}"
    return done.stdout


def far(a, b):
    """The largest difference, where numbers up to 1 are compared as they are, and larger ones by their share."""
    a, b = torch.as_tensor(a).double(), torch.as_tensor(b).double()
    assert a.shape == b.shape, (a.shape, b.shape)
    return float((a - b).abs().max() / max(1.0, float(b.abs().max())))


def make(m):
    """A model as trained ones are: running statistics are those of its layers, and no weight is as it began."""
    torch.manual_seed(3)
    net = torchvision.models.get_model(m.name, weights=None, num_classes=CLASSES)
    for layer in net.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.8, 1.2)
            nn.init.uniform_(layer.bias, -0.1, 0.1)
            layer.momentum = None  # the mean of all batches
    last = [layer for layer in net.modules() if isinstance(layer, nn.Linear)][-1]
    nn.init.normal_(last.weight, std=0.003)  # of random layers' outputs steep losses would be made
    net.train()(torch.randn(m.batch, 3, m.size, m.size))
    return net.eval()


def write_idx(path, array):
    with open(path, "wb") as f:
        f.write(struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape))
        f.write(array.tobytes())


def make_data(m):
    """Two batches; packed into data.h5, and as torch sees them."""
    draw = np.random.default_rng(5)
    images = draw.integers(0, 256, (2 * m.batch, 3, m.size, m.size), dtype=np.uint8)
    labels = draw.integers(0, 256, 2 * m.batch, dtype=np.uint8)
    write_idx(f"{work}/images", images)
    write_idx(f"{work}/labels", labels)
    run(ctrain, "pack", "--images", f"{work}/images", "--labels", f"{work}/labels", "--classes", CLASSES,
        "--output", f"{work}/data.h5")
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (MEAN, STD))
    return (torch.from_numpy(images) / 255 - mean) / std, torch.from_numpy(labels).long()


def config(m, file, val):
    path = f"{work}/config.yaml"
    with open(path, "w") as f:
        f.write(f"""
run: {{dir: {work}/run, log_every: 1}}
data: {{train: data.h5, val: {val}, batch: {m.batch}, eval_batch: {2 * m.batch}, shuffle: false}}
transforms: [to_tensor, normalize: {{mean: {MEAN}, std: {STD}}}]
model: {m.keys}
init: {{from: {file}}}
train: {{epochs: {STEPS}, steps: {STEPS}, freeze_bn: true}}
optim: {{kind: sgd, lr: {m.rate}, momentum: 0.9, weight_decay: 1e-4}}
schedule: {{kind: constant}}
""")
    return path


def save(net, file):
    state = net.state_dict()
    if file.endswith(".pth"):
        torch.save(state, f"{work}/{file}")
    else:
        safetensors.torch.save_file(state, f"{work}/{file}", metadata={"format": "pt"})


def load(file):
    path = f"{work}/{file}"
    if file.endswith(".safetensors"):
        return safetensors.torch.load_file(path)
    state = torch.load(path, weights_only=True)
    mapped = torch.load(path, weights_only=True, mmap=True)
    assert list(state) == list(mapped) and all(torch.equal(state[k], mapped[k]) for k in state)
    return state


def logits(net, x):
    with torch.no_grad():
        return net.eval()(x)


def train(m, net, x, y):
    """The losses of the steps, batch after batch in order.

    Batchnorms keep their statistics, as is usual in fine-tuning: those of a few small images would make an error of
    rounding a thousand times larger in a few steps, also between torch in float32 and in float64.
    """
    optim = torch.optim.SGD(net.parameters(), lr=m.rate, momentum=0.9, weight_decay=1e-4)
    losses = []
    net.train()
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.eval()
    for step in range(STEPS):
        rows = slice(m.batch, None) if step % 2 else slice(0, m.batch)
        loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
        optim.zero_grad()
        loss.backward()
        optim.step()
        losses.append(loss.item())
    return losses


def check_logits(m, x, want, file):
    run(weights_logits, config(m, file, "data.h5"), f"{work}/logits")
    off = far(np.fromfile(f"{work}/logits", np.float32).reshape(len(x), CLASSES), want)
    assert off <= NEAR, f"logits differ by {off}"
    return off


def check_steps(m, losses, file):
    subprocess.run(["rm", "-rf", f"{work}/run"], check=True)
    run(ctrain, "train", config(m, file, "[]"))
    with open(f"{work}/run/metrics.jsonl") as f:
        got = [float(re.search(r'"loss": *([^,}]*)', line)[1]) for line in f if '"step"' in line.split(",")[0]]
    off = far(got, losses)
    assert off <= NEAR, f"losses differ by {off}: {got}, {losses}"
    assert abs(losses[0] - losses[-1]) > 100 * NEAR, f"nothing was learned: {losses}"
    return off


def check_back(m, x, file):
    checkpoints = f"{work}/run/checkpoints"
    with open(f"{checkpoints}/latest") as f:
        checkpoint = f"{checkpoints}/{f.read().strip()}"
    run(ctrain, "convert", checkpoint, f"{work}/back-{file}")
    net = make(m)
    net.load_state_dict(load(f"back-{file}"), strict=True)
    return check_logits(m, x, logits(net, x), checkpoint)


cases = 0


def case(name, check, *given):
    global cases
    cases += 1
    try:
        print(f"ok {cases} - {name}: within {check(*given):.1e}", flush=True)
    except Exception as e:  # the next one may pass
        print("# " + str(e).replace("\n", "\n# "))
        print(f"not ok {cases} - {name}", flush=True)


torch.set_num_threads(1)
for m in MODELS:
    if sys.argv[4:] and m.name not in sys.argv[4:]:
        continue
    x, y = make_data(m)
    net = make(m)
    before = logits(net, x)
    files = [f"{m.name}.pth", f"{m.name}.safetensors"]
    for file in files:
        save(net, file)
    losses = train(m, net, x, y)
    for file in files:
        case(f"{file}: logits", check_logits, m, x, before, file)
        case(f"{file}: {STEPS} steps", check_steps, m, losses, file)
        case(f"{file}: back", check_back, m, x, file)
        for path in (file, f"back-{file}"):
            if os.path.exists(f"{work}/{path}"):
                os.remove(f"{work}/{path}")
print(f"1..{cases}")
