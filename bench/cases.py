"""What the comparisons of this folder train, and a run of ctrain-hpc on it."""
import contextlib
import json
import os
import re
import shlex
import subprocess
import tempfile
from dataclasses import dataclass, field


@dataclass
class Case:
    title: str
    model: dict  # as a configuration has it, without `classes`
    shape: tuple  # of a sample
    classes: int
    batch: int  # per rank
    steps: int  # timed
    ranks: int = 1
    threads: int = 2
    layouts: list = field(default_factory=lambda: ["nchw", "nhwc"])  # that PyTorch may have; or settings
    pixels: bool = False  # a label for each pixel
    tokens: bool = False  # windows of shape[0] tokens, a label for each
    targets: bool = False  # `classes` real numbers for each sample, in place of a label
    module: str = ""  # of torchvision, or UNet: exported as model["from"] before its first run

    def warmup(self):
        return max(3, self.steps // 5)

    def config(self):
        """YAML takes JSON as it is."""
        data = {"input": "tokens", "context": self.shape[0]} if self.tokens else {"shape": self.shape}
        return json.dumps({
            "device": "cpu",
            "model": self.model if self.module else dict(self.model, classes=self.classes),
            "data": {"train": "synthetic", **data, "classes": self.classes, "batch": self.batch * self.ranks,
                     **({"synthetic_pixels": True} if self.pixels else {}),
                     **({"synthetic_targets": self.classes} if self.targets else {})},
            **({"loss": {"kind": "mse"}} if self.targets else {}),
            "optim": {"kind": "sgd", "lr": 0.01, "momentum": 0.9},
        })


def image(title, model, size, classes, batch, steps, **more):
    return Case(f"{title}, {size}×{size}, batch {batch}", model, (3, size, size), classes, batch, steps, **more)


def gpt2(layers, dim, context, classes, batch, steps, **more):
    model = {"family": "gpt2", "layers": layers, "heads": dim // 64, "dim": dim}
    return Case(f"GPT-2 {layers}×{dim}, {context} of {classes} tokens, batch {batch}", model, (context,), classes, batch, steps,
                layouts=["eager", "heap kept"], tokens=True, **more)


def imported(title, module, batch, steps):
    """A module of PyTorch, which ctrain-hpc trains from its .pt2 file."""
    path = os.path.join(tempfile.gettempdir(), f"ctrain-bench-{module}.pt2")
    return Case(f"{title}, imported, 224×224, batch {batch}", {"from": path}, (3, 224, 224), 1000, batch, steps, module=module)


def unet3d(size, batch, steps, **more):
    return Case(f"U-Net 3-D, 32 wide, {size}×{size}×{size}, batch {batch}", {"family": "unet", "widths": [32, 64, 128, 256, 512]},
                (1, size, size, size), 3, batch, steps, pixels=True, **more)


def cosmoflow(size, batch, steps):
    return Case(f"CosmoFlow, {size}×{size}×{size}×4, batch {batch}", {"family": "cosmoflow"}, (4, size, size, size), 4, batch, steps,
                layouts=["nchw"], targets=True)


RESNET18, RESNET50 = {"family": "resnet", "depth": 18}, {"family": "resnet", "depth": 50}
DENSENET121 = {"family": "densenet", "depth": 121}
VIT_S = {"family": "vit", "dim": 384, "depth": 12, "heads": 6, "patch": 16}
LENET = Case("LeNet, 28×28, batch 64", {"family": "lenet"}, (1, 28, 28), 10, 64, 300)
TWO = {"ranks": 2, "threads": 1}

CASES = {
    "lenet28-1t": Case(**{**vars(LENET), "threads": 1}),
    "lenet28-2t": LENET,
    "resnet18-32-1x2": image("ResNet-18", RESNET18, 32, 10, 32, 12),
    "resnet18-32-2x1": image("ResNet-18", RESNET18, 32, 10, 32, 12, **TWO),
    "resnet18-224-1x2": image("ResNet-18", RESNET18, 224, 1000, 16, 6),
    "resnet18-224-2x1": image("ResNet-18", RESNET18, 224, 1000, 16, 6, **TWO),
    "resnet50-224-1x2": image("ResNet-50", RESNET50, 224, 1000, 16, 5),
    "resnet50-224-2x1": image("ResNet-50", RESNET50, 224, 1000, 16, 5, **TWO),
    "vgg11-224": image("VGG-11 with batchnorm", {"family": "vgg_bn", "depth": 11}, 224, 1000, 8, 5),
    "densenet121-224": image("DenseNet-121", DENSENET121, 224, 1000, 8, 5),
    "mobilenet-224": image("MobileNetV2", {"family": "mobilenet_v2"}, 224, 1000, 16, 6),
    "vit-s16-224": image("ViT-S/16", VIT_S, 224, 1000, 16, 5, layouts=["nchw"]),
    "lstm-2x256": Case("LSTM of 2×256, 100 steps of 64, batch 64", {"family": "lstm", "depth": 2, "hidden": 256}, (100, 64), 10,
                       64, 12, layouts=["ntc"]),
    "gpt2-384-256": gpt2(6, 384, 256, 256, 8, 6),
    "gpt2-384": gpt2(6, 384, 256, 50257, 8, 4),
    "gpt2-768": gpt2(12, 768, 1024, 50257, 2, 3),
    "unet2d-256": Case("U-Net 2-D, 32 wide, 256×256, batch 8", {"family": "unet", "widths": [32, 64, 128, 256, 512]},
                       (3, 256, 256), 3, 8, 5, pixels=True),
    "unet3d-64": unet3d(64, 2, 5),
    "unet2d-256-imported": Case("U-Net 2-D, 32 wide, imported, 256×256, batch 8",
                                {"from": os.path.join(tempfile.gettempdir(), "ctrain-bench-UNet.pt2")}, (3, 256, 256), 3, 8, 5,
                                pixels=True, module="UNet"),
    "convnext-tiny-imported": imported("ConvNeXt-T", "convnext_tiny", 8, 4),
    "efficientnet-b0-imported": imported("EfficientNet-B0", "efficientnet_b0", 16, 4),
    "resnext50-imported": imported("ResNeXt-50 32×4d", "resnext50_32x4d", 8, 4),
    "swin-t-imported": imported("Swin-T", "swin_t", 8, 4),
    "deeplabv3plus-384x576": Case("DeepLabv3+, 384×576×16, batch 1", {"family": "deeplabv3plus"}, (16, 384, 576), 3, 1, 4,
                                  pixels=True),
}


def memory_cases(smaller):
    """Of memory.py: their peaks without a budget are 2 to 8 GB; `smaller`: at most 2 GB."""
    def pick(full, small):
        return small if smaller else full

    one, two = {"layouts": ["nchw"]}, {"layouts": ["nhwc"]}
    return {
        "resnet50": image("ResNet-50", RESNET50, 224, 1000, pick(64, 8), 1, **two),
        "densenet121": image("DenseNet-121", DENSENET121, 224, 1000, pick(32, 4), 1, **two),
        "vit-s": image("ViT-S/16", VIT_S, 224, 1000, pick(64, 8), 1, **one),
        "unet3d": unet3d(pick(128, 64), 1, 1, **one),
        "cosmoflow-128": cosmoflow(pick(128, 64), 4, 1),
        "cosmoflow-256": cosmoflow(pick(256, 128), 1, 1),
        "gpt2": gpt2(12, 768, pick(1024, 256), 50257, pick(4, 1), 1),
    }


def chosen(names, cases=None):
    """The cases of these --case; `all`, or none, is every one."""
    return list(cases or CASES) if not names or "all" in names else names


def add_case_option(parser, cases=None):
    parser.add_argument("--case", action="append", choices=[*(cases or CASES), "all"],
                        help="only this one; may be repeated (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for ctrain-hpc; may be repeated")


def run_ctrain(case, program, options=(), ops=False, mpiexec="mpiexec"):
    """`bench step` of the case: its JSON, with `library`: what computes.  Several words in \a program may reach a build in
    another root directory, which then need not see our files: one rank reads its configuration from where we opened it."""
    with tempfile.NamedTemporaryFile("w+", suffix=".yaml") as f:
        f.write(case.config())
        f.flush()
        f.seek(0)
        command = shlex.split(program) if case.ranks == 1 else [mpiexec, "-n", str(case.ranks), *shlex.split(program)]
        command += ["bench", "step", "/dev/stdin" if case.ranks == 1 else f.name, "--json",
                    "--steps", str(case.steps), "--warmup", str(case.warmup())]
        command += ["--ops"] * ops
        for option in options:
            command += ["--set", option]
        run = subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS=str(case.threads)), stdin=f, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if run.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{run.stderr}")
    first, end = json.JSONDecoder().raw_decode(run.stdout)
    if ops and "ops" not in first:  # older versions print the ops as a second object
        first["ops"] = json.loads(run.stdout[end:])["ops"]
    library = re.search(r"oneDNN [\d.]+, [^,\n]+", run.stderr)
    first["library"] = library.group() if library else "no oneDNN"
    return first


def machine():
    """The processor, and how many of it."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as f:
        names = re.findall(r"^model name\s*: (.*)", f.read(), re.M)
        if names:
            return f"{len(os.sched_getaffinity(0))} cores of {names[0]}, load {os.getloadavg()[0]:.1f}"
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
