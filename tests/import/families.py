"""Compares imported models of torchvision with the built-in families: they must be the same kinds of layers in the same
order, so that they have the same plan.

    families.py PT2_LAYERS CTRAIN
"""

import os
import re
import subprocess
import sys
import tempfile

import torch
import torchvision

MODELS = {
    "resnet18": "{family: resnet, depth: 18, stem: imagenet}",
    "mobilenet_v2": "{family: mobilenet_v2}",
    "vit_b_16": "{family: vit, depth: 12, patch: 16, dim: 768, heads: 12}",
}


def imported(tool, name, folder):
    path = os.path.join(folder, name + ".pt2")
    x = (torch.randn(2, 3, 224, 224),)
    program = torch.export.export(
        getattr(torchvision.models, name)().train(), x, dynamic_shapes=({0: torch.export.Dim("n", min=2, max=4096)},)
    )
    torch.export.save(program, path)
    text = subprocess.run([tool, path], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^- \{(\w+):", text, re.M)


def built_in(ctrain, model, folder):
    path = os.path.join(folder, "c.yaml")
    with open(path, "w") as f:
        f.write(f"data: {{train: synthetic, shape: [3, 224, 224], classes: 1000, samples: 8}}\nmodel: {model}\n")
    r = subprocess.run([ctrain, "summary", path], capture_output=True, text=True, check=True)
    table = r.stdout.split("---\n")[1].split("\n--")[0]
    return [line.split()[1] for line in table.splitlines() if len(line.split()) > 3]


def main():
    failed = 0
    print(f"1..{len(MODELS)}")
    for i, (name, model) in enumerate(MODELS.items()):
        with tempfile.TemporaryDirectory() as folder:
            a, b = imported(sys.argv[1], name, folder), built_in(sys.argv[2], model, folder)
        good = a == b and len(a) > 50
        failed |= not good
        print(f"{'ok' if good else 'not ok'} {i + 1} - {name}: {len(a)} and {len(b)} layers", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
