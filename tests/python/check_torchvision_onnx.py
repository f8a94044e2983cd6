"""torchvision's models by way of `convert` to ONNX: onnxruntime's outputs against PyTorch's.

    check_torchvision_onnx.py CTRAIN DIR      prints TAP
"""
import subprocess
import sys

import onnxruntime
import torch
from torchvision import models

program, work = sys.argv[1:3]
torch.manual_seed(1)
torch.set_num_threads(1)

MODELS = [
    ("resnet18", models.resnet18, "{family: resnet, depth: 18, classes: 1000, input: [3, 64, 64]}"),
    ("resnet50", models.resnet50, "{family: resnet, depth: 50, classes: 1000, input: [3, 64, 64]}"),
    ("mobilenet_v2", models.mobilenet_v2, "{family: mobilenet_v2, classes: 1000, input: [3, 64, 64]}"),
    ("densenet121", models.densenet121, "{family: densenet, depth: 121, classes: 1000, input: [3, 64, 64]}"),
    ("vit", lambda: models.VisionTransformer(32, 4, 3, 4, 64, 128, num_classes=10),
     "{family: vit, depth: 3, patch: 4, dim: 64, heads: 4, mlp: 128, classes: 10, input: [3, 32, 32]}"),
]


def like_trained(model):
    """No number is what it begins as, where that could hide a mistake."""
    for name, value in model.state_dict().items():
        if name.endswith("running_var"):
            value.uniform_(0.5, 1.5)
        elif value.dtype == torch.float32 and value.std() == 0:
            value.add_(0.1 * torch.randn_like(value))
        elif name.startswith("heads.head"):
            value.add_(0.1 * torch.randn_like(value))


def check(name, make, section):
    model = make().eval()
    like_trained(model)
    size = 32 if name == "vit" else 64
    x = torch.randn(2, 3, size, size)
    with torch.no_grad():
        wanted = model(x).numpy()
    torch.save(model.state_dict(), f"{work}/{name}.pth")
    with open(f"{work}/{name}.yaml", "w") as f:
        f.write(f"model: {section}\n")
    subprocess.run([program, "convert", f"{work}/{name}.pth", f"{work}/{name}.onnx",
                    "--config", f"{work}/{name}.yaml"], check=True, stdout=subprocess.DEVNULL)
    session = onnxruntime.InferenceSession(f"{work}/{name}.onnx", providers=["CPUExecutionProvider"])
    got = session.run(None, {"input": x.numpy()})[0]
    largest = abs(wanted).max()
    far = abs(got - wanted).max() / max(1, largest)
    assert largest > 0.01, "the outputs are as good as zero"
    assert got.shape == wanted.shape and far <= 1e-4, f"outputs differ by {far}"
    return far


for i, (name, make, section) in enumerate(MODELS):
    try:
        print(f"ok {i + 1} - {name} of torchvision: within {check(name, make, section):.1e}", flush=True)
    except Exception as e:  # the next one may pass
        print("# " + str(e).replace("\n", "\n# "))
        print(f"not ok {i + 1} - {name} of torchvision", flush=True)
print(f"1..{len(MODELS)}")
