"""The models of check_import.py: small ones that use what .pt2 files have, and those of other packages."""

import torch
import torch.nn.functional as F
from torch import nn

import nets_fourier as fourier
import nets_image as image
import nets_sequence as sequence
import nets_table as table


class Entry:
    """make(): the module; draw: functions of a number of samples that draw its inputs.

    classes: of a cross-entropy, or 0 for squared errors; a tuple for several outputs.
    layers: the section `model` of a configuration that has the same layers; without it the .pt2 file is the model.
    large: takes long; it is trained for a few steps.
    """

    def __init__(self, make, *draw, classes=0, layers=None, large=False):
        self.make, self.draw, self.classes, self.layers, self.large = make, draw, classes, layers, large


def real(*shape):
    return lambda n: torch.randn(n, *shape)


def whole(below, *shape):
    """Numbers 0, 1, ... below - 1."""
    return lambda n: torch.randint(0, below, (n, *shape))


def some(*shape):
    """0 or 1, in each row at least one 1."""

    def draw(n):
        x = (torch.rand(n, *shape) > 0.5).float()
        x[..., 0] = 1
        return x

    return draw


def padded(below, length):
    """Numbers 1 ... below - 1, and zeros after the fourth."""
    return lambda n: torch.randint(1, below, (n, length)) * (torch.arange(length) < 4)


def without_random(net):
    """The module without dropout and drop path."""
    for m in net.modules():
        if isinstance(m, nn.modules.dropout._DropoutNd):
            m.p = 0.0
        elif isinstance(m, (nn.MultiheadAttention, nn.RNNBase)):
            m.dropout = 0.0
        elif type(m).__name__ == "StochasticDepth":
            m.p = 0.0
        elif type(m).__name__.endswith("DropPath"):
            m.drop_prob = 0.0
        if hasattr(m, "drop_rate"):
            m.drop_rate = 0.0
    return net


class Written(nn.Module):
    """A model that can be written as layers, too."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.conv2 = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.Conv2d(6, 6, 3, 2)
        self.norm, self.fc = nn.GroupNorm(2, 6), nn.Linear(6 * 4, 5)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        return self.fc(F.gelu(self.norm(self.conv2(x))).flatten(1))


LAYERS = [
    {"conv2d": {"out": 6, "kernel": 3, "padding": 1}, "name": "conv1"},
    {"batchnorm": {}, "name": "bn1"},
    {"relu": {}},
    {"conv2d": {"out": 6, "kernel": 3, "stride": 2}, "name": "conv2"},
    {"groupnorm": {"num_groups": 2}, "name": "norm"},
    {"gelu": {}},
    {"flatten": {}},
    {"linear": {"out": 5}, "name": "fc"},
]


def mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 10)
    )


def pixel_shuffle():
    return nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.Tanh(), nn.Conv2d(8, 4, 3, padding=1), nn.PixelShuffle(2))


def norms():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.GroupNorm(4, 8),
        nn.Mish(),
        nn.Conv2d(8, 8, 3),
        nn.InstanceNorm2d(8),
        nn.BatchNorm2d(8, affine=False),
        nn.Hardtanh(),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.LayerNorm(8, elementwise_affine=False),
        nn.Linear(8, 3),
        nn.LogSoftmax(1),
    )


MODELS = {
    "written": Entry(Written, real(2, 6, 6), classes=5),
    "mlp": Entry(mlp, real(1, 8, 8), classes=10),
    "norms": Entry(norms, real(3, 8, 8)),
    "pixel_shuffle": Entry(pixel_shuffle, real(1, 8, 8)),
    # images and volumes
    "unet2d": Entry(image.UNet2d, real(1, 16, 16)),
    "unet3d": Entry(image.UNet3d, real(1, 4, 8, 8)),
    "unet_crop": Entry(image.UNetCrop, real(1, 18, 18)),
    "unetpp": Entry(image.UNetPP, real(2, 16, 16)),
    "attention_unet3d": Entry(image.AttUNet3d, real(1, 8, 8, 8)),
    "diffusion": Entry(image.UNetRes, real(1, 8, 8), lambda n: torch.rand(n) * 10),
    "autoencoder": Entry(image.ConvAe, real(1, 16, 16)),
    "cbam": Entry(image.Convs, real(3, 8, 8), classes=5),
    "interpolate": Entry(image.Interp, real(3, 6, 6)),
    "squeeze_excite": Entry(image.Se, real(3, 8, 8)),
    "scaled": Entry(image.Scaled, real(3, 8, 8)),
    "circular": Entry(image.Circular, real(2, 8, 8)),
    "climate": Entry(image.Climate, real(2, 8, 16)),
    "places": Entry(image.Places, real(2, 8, 6)),
    "depth": Entry(image.Depth, real(2, 8, 6)),
    "siamese": Entry(image.Siamese, real(1, 8, 8), real(1, 8, 8)),
    "srgan": Entry(image.Srgan, real(3, 8, 8)),
    "rcan": Entry(image.Rcan, real(3, 8, 8)),
    "dcgan": Entry(image.Dcgan, real(16)),
    "two_heads": Entry(image.TwoHeads, real(3, 8, 8), classes=(4, 0)),
    "deep_supervision": Entry(image.Deep, real(1, 16, 16), classes=(0, 0)),
    # signals, sequences, text
    "unet1d": Entry(sequence.UNet1d, real(1, 32)),
    "weight_norm": Entry(sequence.WeightNorm, real(2, 16)),
    "conv1d": Entry(sequence.Conv1d, real(1, 64), classes=4),
    "tcn": Entry(sequence.Tcn, real(2, 20), classes=3),
    "wavenet": Entry(sequence.WaveNet, real(1, 24)),
    "ecg": Entry(sequence.Mixed1d, real(1, 64), classes=4),
    "lstm": Entry(sequence.Lstm, real(12, 8), classes=5),
    "lstm_bidirectional": Entry(lambda: sequence.Lstm(nn.LSTM, 2, True), real(12, 8), classes=5),
    "gru": Entry(lambda: sequence.Lstm(nn.GRU), real(12, 8), classes=5),
    "lstm_states": Entry(sequence.LstmAll, real(7, 6), real(4)),
    "gru_bidirectional": Entry(sequence.BiGru, whole(30, 7), classes=3),
    "cells": Entry(sequence.CellLoop, real(4, 4)),
    "seq2seq": Entry(sequence.Seq2Seq, whole(20, 6), whole(20, 5)),
    "convlstm": Entry(sequence.ConvLstm, real(3, 1, 6, 6)),
    "gpt": Entry(sequence.Gpt, whole(65, 16)),
    "manual_attention": Entry(sequence.ManualAttention, real(16, 32)),
    "encoder": Entry(sequence.Encoder, real(16, 6), classes=3),
    "cross_attention": Entry(sequence.CrossAttention, real(7, 32), real(5, 32)),
    "transformer": Entry(sequence.Transformer, whole(20, 6), whole(20, 5)),
    "padding_mask": Entry(sequence.PadMask, padded(20, 6), classes=2),
    "rope": Entry(sequence.Rope, real(6, 16)),
    "video": Entry(sequence.ViViT, real(1, 4, 16, 16), classes=3),
    # tables, graphs, points, functions
    "tab_transformer": Entry(table.TabTransformer, whole(10, 3), real(4)),
    "pairs": Entry(table.EsmContact, whole(21, 6)),
    "seldom_used": Entry(table.SeldomUsed, real(4, 6), whole(2, 4)),
    "attention_pool": Entry(table.AttPool, real(4, 10), lambda n: some(4)(n) > 0, classes=2),
    "gcn": Entry(table.Gcn, real(5, 6), some(5, 5), classes=2),
    "gat": Entry(table.Gat, real(5, 6), some(5, 5), classes=3),
    "schnet": Entry(table.EdgeGnn, whole(10, 5), real(5, 3)),
    "pointnet": Entry(table.PointNet, real(3, 12), classes=4),
    "siren": Entry(table.Pinn, real(2)),
    "pinn": Entry(table.PinnTanh, real(1), real(1)),
    "nerf": Entry(table.Nerf, real(3), real(3)),
    "deeponet": Entry(table.DeepONet, real(20), real(7, 2)),
    "tabular": Entry(table.Tabular, lambda n: torch.stack([torch.randint(0, k, (n,)) for k in (7, 5)], 1), real(4)),
    "dlrm": Entry(table.Dlrm, real(4), whole(10, 3)),
    "mixture": Entry(table.Mdn, real(2), real(1)),
    "flow": Entry(table.RealNvp, real(4)),
    "lista": Entry(table.Unrolled, real(8)),
    "hypernetwork": Entry(table.Iterate, real(5), real(3)),
    "fno": Entry(fourier.Fno2d, real(1, 8, 6)),
    "fno1d": Entry(fourier.Fno1d, real(2, 12)),
    "fnet": Entry(fourier.FNet, whole(11, 6), classes=3),
    "global_filter": Entry(fourier.GlobalFilter, real(4, 6, 5)),
    "complex": Entry(fourier.Complex, real(6, 4)),
    "native": Entry(table.Native, real(4, 6), lambda n: (torch.rand(n, 4, 1) > 0.3).float().expand(n, 4, 6)),
}

# Those of every run of the tests: each takes a few seconds.
QUICK = """written norms unet2d lstm_bidirectional gpt encoder weight_norm tabular hypernetwork native places fno complex
    depth seldom_used""".split()

# The comparison itself is tried on these, which need no .pt2 file.
BY_LAYERS = {
    "layers": Entry(Written, real(2, 6, 6), classes=5, layers={"layers": LAYERS}),
    "layers-mse": Entry(Written, real(2, 6, 6), layers={"layers": LAYERS}),
}


# ---- models of other packages ----------------------------------------------------------------
def torchvision(name, *shape, **options):
    def make():
        import torchvision.models

        return getattr(torchvision.models, name)(weights=None, num_classes=10, **options)

    return Entry(make, real(*shape), classes=10, large=True)


def narrow(make, *shape):
    """A class of torchvision.models with less depth and width than its named models have."""

    def build():
        import torchvision.models

        return make(torchvision.models)

    return Entry(build, real(*shape), classes=10, large=True)


def bottleneck(m):
    return m.ResNet(m.resnet.Bottleneck, [1, 1, 1, 1], 10, groups=4, width_per_group=8)


def convnext(m):
    sizes = [m.convnext.CNBlockConfig(16, 32, 1), m.convnext.CNBlockConfig(32, None, 2)]
    return m.ConvNeXt(sizes, stochastic_depth_prob=0.1, num_classes=10)


def swin(m):
    return m.SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10)


def maxvit(m):
    return m.MaxVit(
        (64, 64),
        stem_channels=16,
        partition_size=4,
        block_channels=[16, 32],
        block_layers=[1, 1],
        head_dim=8,
        stochastic_depth_prob=0.1,
        num_classes=10,
    )


def vision_transformer(m):
    return m.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10)


def timm(name, size=64, **options):
    def make():
        import timm

        return timm.create_model(name, pretrained=False, num_classes=10, **options)

    return Entry(make, real(3, size, size), classes=10, large=True)


def timm_class(module, name, size=64, **options):
    def make():
        import importlib

        return getattr(importlib.import_module("timm.models." + module), name)(num_classes=10, **options)

    return Entry(make, real(3, size, size), classes=10, large=True)


class Logits(nn.Module):
    def __init__(self, model, **keys):
        super().__init__()
        self.model, self.keys = model, keys

    def forward(self, x):
        return self.model(x, **self.keys).logits


def transformers(model, config, draw, classes=0, call=None, **options):
    def make():
        import transformers

        return Logits(getattr(transformers, model)(getattr(transformers, config)(**options)), **call or {})

    return Entry(make, draw, classes=classes, large=True)


TEXT = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
NO_DROPOUT = dict(attention_dropout=0.0)
LANGUAGE = dict(call=dict(use_cache=False))
OTHERS = {
    "resnet18": torchvision("resnet18", 3, 64, 64),
    "resnext": narrow(bottleneck, 3, 64, 64),
    "mobilenet_v2": torchvision("mobilenet_v2", 3, 64, 64),
    "mobilenet_v3_small": torchvision("mobilenet_v3_small", 3, 64, 64),
    "squeezenet1_1": torchvision("squeezenet1_1", 3, 64, 64),
    "shufflenet_v2_x0_5": torchvision("shufflenet_v2_x0_5", 3, 64, 64),
    "efficientnet_b0": torchvision("efficientnet_b0", 3, 64, 64),
    "convnext": narrow(convnext, 3, 32, 32),
    "vision_transformer": narrow(vision_transformer, 3, 32, 32),
    "swin": narrow(swin, 3, 32, 32),
    "maxvit": narrow(maxvit, 3, 64, 64),
    "regnet_y_400mf": torchvision("regnet_y_400mf", 3, 64, 64),
    "mnasnet0_5": torchvision("mnasnet0_5", 3, 64, 64),
    "timm-mixer": timm_class("mlp_mixer", "MlpMixer", img_size=64, num_blocks=2, embed_dim=32),
    "timm-deit_tiny": timm("deit_tiny_patch16_224", img_size=64, depth=2, embed_dim=48),
    "timm-seresnet18": timm("seresnet18", 64, layers=(1, 1, 1, 1), channels=(16, 32, 64, 64)),
    "timm-resnetv2": timm("resnetv2_50", layers=(1, 1, 1, 1), channels=(16, 32, 64, 64), stem_chs=16),
    "timm-ghostnet": timm("ghostnet_050", 64),
    "timm-lcnet": timm("lcnet_050", 64),
    "timm-nf_regnet_b0": timm("nf_regnet_b0", 64),
    "timm-mobilevit": timm("mobilevit_xxs"),
    "timm-xcit": timm("xcit_nano_12_p16_224", img_size=64, depth=2, embed_dim=32),
    "gpt2": transformers(
        "GPT2LMHeadModel",
        "GPT2Config",
        whole(64, 12),
        vocab_size=64,
        n_positions=16,
        n_embd=32,
        n_layer=2,
        n_head=4,
        **LANGUAGE,
    ),
    "llama": transformers("LlamaForCausalLM", "LlamaConfig", whole(64, 12), num_key_value_heads=2, **TEXT, **LANGUAGE),
    "qwen2": transformers("Qwen2ForCausalLM", "Qwen2Config", whole(64, 12), num_key_value_heads=2, **TEXT, **LANGUAGE),
    "bert": transformers(
        "BertForSequenceClassification",
        "BertConfig",
        whole(64, 12),
        3,
        num_labels=3,
        max_position_embeddings=16,
        **TEXT,
    ),
    "modernbert": transformers(
        "ModernBertForSequenceClassification",
        "ModernBertConfig",
        whole(60, 12),
        2,
        pad_token_id=0,
        local_attention=8,
        **TEXT,
    ),
    "vit": transformers(
        "ViTForImageClassification",
        "ViTConfig",
        real(3, 32, 32),
        2,
        image_size=32,
        patch_size=8,
        **{k: v for k, v in TEXT.items() if k != "vocab_size"},
    ),
    "segformer": transformers(
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        real(3, 64, 64),
        hidden_sizes=[8, 16, 16, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 4],
        decoder_hidden_size=16,
    ),
}


def others():
    """Those whose package is there."""
    import importlib.util

    packages = {"timm-": "timm", **{k: "torchvision" for k in list(OTHERS)[:13]}}
    wanted = lambda name: next((p for k, p in packages.items() if name.startswith(k)), "transformers")
    return {k: v for k, v in OTHERS.items() if importlib.util.find_spec(wanted(k))}
