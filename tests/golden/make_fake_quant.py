#!/usr/bin/env python3
"""Makes tests/unit/fake_quant_gold.h: rounding as in eight bits, its ranges and its gradients, as torch.ao.quantization has them.

    pip install torch numpy; tests/golden/make_fake_quant.py > tests/unit/fake_quant_gold.h

Weights are told to be -127 to 127 with a scale for each channel, activations 0 to 255 with one pair for all.
"""
import torch
from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver, PerChannelMinMaxObserver
from make_golden import noise

COUNT, BATCHES, CHANNELS = 30, 3, 5


def floats(t):
    v = ["%.9g" % v for v in t.detach().flatten().tolist()]
    lines = [", ".join(v[i:i + 5]) for i in range(0, len(v), 5)]
    return "{" + ",\n     ".join(lines) + "}"


def activations(positive):
    """Each batch moves the range a hundredth of the way, so that the wider ones behind the first are cut off."""
    fake = FakeQuantize(MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=torch.quint8,
                        qscheme=torch.per_tensor_affine, averaging_constant=0.01)
    for b in range(BATCHES):
        x = 4 * (b + 1) * torch.from_numpy(noise(10 + b, COUNT)).float() + 0.3
        if positive:
            x = x.abs()
            x[0] = 0
        x.requires_grad_()
        y = fake(x)
        y.backward(torch.from_numpy(noise(20 + b, COUNT)).float())
        o = fake.activation_post_process
        print("    {%d, %.9g, %.9g, %.9g, %d,\n     %s,\n     %s,\n     %s,\n     %s}," % (
            b == 0, o.min_val, o.max_val, fake.scale, fake.zero_point, floats(x),
            floats(torch.from_numpy(noise(20 + b, COUNT))), floats(y), floats(x.grad)))


def weights():
    fake = FakeQuantize(PerChannelMinMaxObserver, quant_min=-127, quant_max=127, dtype=torch.qint8,
                        qscheme=torch.per_channel_symmetric, ch_axis=0)
    w = torch.from_numpy(noise(30, COUNT)).float().view(CHANNELS, -1) * torch.tensor([[1e-3], [0.1], [1], [7], [300]])
    y = fake(w)
    assert not fake.zero_point.any()
    print("static const float gold_w[] =\n    %s,\n  gold_scale[] = %s,\n  gold_rounded[] =\n    %s;" % (
        floats(w), floats(fake.scale), floats(y)))


print("/* Made by tests/golden/make_fake_quant.py with PyTorch %s. */" % torch.__version__.split("+")[0])
print("/* clang-format off */")
print("static const struct {\n  int begins;\n  float low, high, scale;\n  int zero;\n"
      "  float x[%d], dy[%d], y[%d], dx[%d];\n} gold[] = {" % ((COUNT,) * 4))
activations(False)
activations(True)
print("};")
weights()
