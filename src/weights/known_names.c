/* Naming schemes of other programs for models that are supported here with identical weight values,
 * so that users need no renaming rules. Only names differ: models that pad or normalize differently
 * (TensorFlow's MobileNetV2, as on Hugging Face) are not included. */
#include <stddef.h>

#include "weights/ct_names.h"

/* timm's VisionTransformer: the rows of `qkv` equal the rows of in_proj: all of q, then k, then
 * v. */
static const char *const timm_vit[] = {"cls_token=class_token",
                                       "pos_embed=encoder.pos_embedding",
                                       "patch_embed.proj=conv_proj",
                                       "blocks.*=encoder.layers.encoder_layer_*",
                                       "encoder.layers.*.norm1.*=encoder.layers.*.ln_1.*",
                                       "encoder.layers.*.norm2.*=encoder.layers.*.ln_2.*",
                                       "*.attn.qkv.*=*.self_attention.in_proj_*",
                                       "*.attn.proj.*=*.self_attention.out_proj.*",
                                       "*.mlp.fc1.*=*.mlp.0.*",
                                       "*.mlp.fc2.*=*.mlp.3.*",
                                       "norm=encoder.ln",
                                       "head=heads.head",
                                       NULL};

/* torchvision before 0.13. */
static const char *const old_vit[] = {"*.mlp.linear_1.*=*.mlp.0.*", "*.mlp.linear_2.*=*.mlp.3.*",
                                      NULL};

/* timm's EfficientNet as mobilenetv2_100: blocks numbered by stage. */
static const char *const timm_mobilenet_v2[] = {"blocks.0.0.conv_dw=features.1.conv.0.0",
                                                "blocks.0.0.bn1=features.1.conv.0.1",
                                                "blocks.0.0.conv_pw=features.1.conv.1",
                                                "blocks.0.0.bn2=features.1.conv.2",
                                                "blocks.1.0=features.2",
                                                "blocks.1.1=features.3",
                                                "blocks.2.0=features.4",
                                                "blocks.2.1=features.5",
                                                "blocks.2.2=features.6",
                                                "blocks.3.0=features.7",
                                                "blocks.3.1=features.8",
                                                "blocks.3.2=features.9",
                                                "blocks.3.3=features.10",
                                                "blocks.4.0=features.11",
                                                "blocks.4.1=features.12",
                                                "blocks.4.2=features.13",
                                                "blocks.5.0=features.14",
                                                "blocks.5.1=features.15",
                                                "blocks.5.2=features.16",
                                                "blocks.6.0=features.17",
                                                "features.*.conv_pw.*=features.*.conv.0.0.*",
                                                "features.*.bn1.*=features.*.conv.0.1.*",
                                                "features.*.conv_dw.*=features.*.conv.1.0.*",
                                                "features.*.bn2.*=features.*.conv.1.1.*",
                                                "features.*.conv_pwl.*=features.*.conv.2.*",
                                                "features.*.bn3.*=features.*.conv.3.*",
                                                "conv_stem=features.0.0",
                                                "bn1=features.0.1",
                                                "conv_head=features.18.0",
                                                "bn2=features.18.1",
                                                "classifier.*=classifier.1.*",
                                                NULL};

/* One flat Sequential per block (conv, norm, act, conv), as was common before torchvision's
 * version. */
static const char *const flat_mobilenet_v2[] = {"features.1.conv.0.*=features.1.CONV.0.0.*",
                                                "features.1.conv.1.*=features.1.CONV.0.1.*",
                                                "features.1.conv.3.*=features.1.CONV.1.*",
                                                "features.1.conv.4.*=features.1.CONV.2.*",
                                                "features.*.conv.0.*=features.*.CONV.0.0.*",
                                                "features.*.conv.1.*=features.*.CONV.0.1.*",
                                                "features.*.conv.3.*=features.*.CONV.1.0.*",
                                                "features.*.conv.4.*=features.*.CONV.1.1.*",
                                                "features.*.conv.6.*=features.*.CONV.2.*",
                                                "features.*.conv.7.*=features.*.CONV.3.*",
                                                "features.*.CONV.*=features.*.conv.*",
                                                "conv.0=features.18.0",
                                                "conv.1=features.18.1",
                                                "classifier.weight=classifier.1.weight",
                                                "classifier.bias=classifier.1.bias",
                                                NULL};

/* GPT2Model, LlamaModel and EsmModel of transformers, which files have without the model around
 * them; EsmForMaskedLM as transformers 5 writes it, with names that TensorFlow had. */
static const char *const gpt2[] = {"wte=transformer.wte", "wpe=transformer.wpe", "h=transformer.h",
                                   "ln_f=transformer.ln_f", NULL};
static const char *const llama[] = {"embed_tokens=model.embed_tokens", "layers=model.layers",
                                    "norm=model.norm", NULL};
static const char *const esm[] = {"embeddings=esm.embeddings", "encoder=esm.encoder",
                                  "*.LayerNorm.gamma=*.LayerNorm.weight",
                                  "*.LayerNorm.beta=*.LayerNorm.bias", NULL};

const ct_names_known_t ct_names_known[] = {
    {"", NULL},
    {"timm's names of a vision transformer", timm_vit},
    {"torchvision's old names of a vision transformer", old_vit},
    {"timm's names of MobileNetV2", timm_mobilenet_v2},
    {"names of MobileNetV2 with one Sequential a block", flat_mobilenet_v2},
    {"names of GPT2Model, without a prefix", gpt2},
    {"names of LlamaModel, without a prefix", llama},
    {"names of EsmModel", esm},
    {NULL, NULL}};
