/** \file onnx_models.h  Models that together have every family and every kind of layer. */
#ifndef ONNX_MODELS_H
#define ONNX_MODELS_H
#include "tests/python/onnx_heads.h"

typedef struct onnx_model {
  const char *name;
  int dims, dim[4]; /* of a sample */
  const char *yaml;
  int external; /* 1: weights in a file of their own */
  int eight;    /* 1: in eight bits; 2: only weights are */
} onnx_model_t;

static const onnx_model_t onnx_models[] = {
    {"mlp", 3, {1, 8, 8}, "{family: mlp, hidden: [20, 30]}", 0, 0},
    {"lenet", 3, {1, 28, 28}, "family: lenet", 0, 0},
    {"lenet-small", 3, {1, 8, 8}, "family: lenet", 0, 0},
    {"resnet18", 3, {3, 32, 32}, "{family: resnet, depth: 18}", 0, 0},
    {"resnet50", 3, {3, 64, 64}, "{family: resnet, depth: 50}", 0, 0},
    {"vgg11", 3, {3, 32, 32}, "{family: vgg, depth: 11}", 1, 0},
    {"vgg_bn11", 3, {3, 64, 32}, "{family: vgg_bn, depth: 11}", 0, 0},
    {"densenet121", 3, {3, 32, 32}, "{family: densenet, depth: 121}", 0, 0},
    {"mobilenet_v2", 3, {3, 64, 64}, "family: mobilenet_v2", 1, 0},
    {"cosmoflow", 4, {4, 16, 16, 16}, "family: cosmoflow", 0, 0},
    {"lstm", 3, {1, 12, 9}, "{family: lstm, depth: 2, hidden: 24}", 0, 0},
    {"lstm-steps", 2, {12, 9}, "{family: lstm, depth: 1, hidden: 5}", 0, 0},
    {"vit", 3, {3, 16, 16}, "{family: vit, depth: 2, patch: 4, dim: 32, heads: 4, mlp: 64}", 1, 0},
    {"windows",
     3,
     {4, 17, 15},
     "layers:\n"
     "  - conv2d: {out: 6, kernel: [3, 2], stride: [1, 2], padding: [2, 1], dilation: [2, 1], "
     "groups: 2}\n"
     "  - batchnorm: {eps: 0.1}\n"
     "  - maxpool: {kernel: [3, 2], stride: 1, padding: 1}\n"
     "  - conv2d: {out: 5, kernel: 3, bias: false}\n"
     "  - avgpool: {kernel: 3, stride: 2, padding: 1}\n"
     "  - avgpool: {kernel: 2, stride: 1, padding: 1, count_include_pad: false}\n"
     "  - adaptive_avgpool: {out: [3, 2]}\n"
     "  - flatten\n"
     "  - linear: {out: 7, bias: false}\n",
     0,
     0},
    {"transposed",
     3,
     {4, 5, 6},
     "layers:\n"
     "  - conv_transpose2d: {out: 6, kernel: [3, 4], stride: [2, 3], padding: [1, 2], "
     "output_padding: [1, 0], dilation: [2, 1], groups: 2}\n"
     "  - relu\n"
     "  - conv_transpose2d: {out: 3, kernel: 2, stride: 2, bias: false}\n"
     "  - global_avgpool\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"computed-weight",
     3,
     {4, 5, 6},
     "layers:\n"
     "  - {parameter: {shape: [6, 2, 3, 3], std: 0.3}, name: w}\n"
     "  - {parameter: {shape: [6], std: 0.3}, name: b}\n"
     "  - {mul: {value: 0.5}, from: w, name: half}\n"
     "  - convolve: {padding: 1, stride: 2, groups: 2}\n"
     "    from: [input, half, b]\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"transposed-volumes",
     4,
     {2, 3, 2, 4},
     "layers:\n"
     "  - conv_transpose3d: {out: 4, kernel: 2, stride: [1, 2, 2], output_padding: [0, 1, 0]}\n"
     "  - global_avgpool\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"resized",
     3,
     {3, 6, 5},
     "layers:\n"
     "  - upsample: {size: [7, 9], mode: linear}\n"
     "  - upsample: {scale: [1.5, 2], mode: bicubic}\n"
     "  - upsample: {size: [8, 7], mode: linear, align_corners: yes}\n"
     "  - upsample: {size: 11, mode: bicubic, align_corners: yes}\n"
     "  - upsample: {size: [7, 9]}\n"
     "  - upsample: {size: [9, 7], mode: nearest-exact}\n"
     "  - upsample: {size: [3, 2], mode: area}\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"pools",
     3,
     {3, 17, 15},
     "layers:\n"
     "  - maxpool: {kernel: 3, stride: 1, dilation: [2, 1]}\n"
     "  - maxpool: {kernel: 2, ceil_mode: yes}\n"
     "  - avgpool: {kernel: 2, stride: 1, divisor_override: 3}\n"
     "  - adaptive_maxpool: {out: [3, 2]}\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"pools-1d",
     2,
     {3, 24},
     "layers:\n"
     "  - maxpool1d: {kernel: 3, stride: 2, padding: 1}\n"
     "  - avgpool1d: {kernel: 2, stride: 1, padding: 1}\n"
     "  - upsample: {scale: 2, mode: linear}\n"
     "  - adaptive_avgpool: {out: 5}\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"recurrent",
     2,
     {6, 5},
     "layers:\n"
     "  - gru: {hidden: 4}\n"
     "  - gru: {hidden: 3, reverse: yes, bias: no}\n"
     "  - lstm: {hidden: 5, reverse: yes}\n"
     "  - lstm: {hidden: 4, bias: no}\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"steps-1d",
     2,
     {4, 15},
     "layers:\n"
     "  - conv1d: {out: 6, kernel: 3, stride: 2, padding: 1, dilation: 2, groups: 2}\n"
     "  - relu\n"
     "  - conv_transpose1d: {out: 5, kernel: 4, stride: 3, padding: 1, output_padding: 2}\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"windows-even",
     3,
     {3, 12, 8},
     "layers:\n"
     "  - adaptive_avgpool: {out: [4, 8]}\n"
     "  - conv2d: {out: 7, kernel: 1}\n"
     "  - dropout: {p: 0.5}\n"
     "  - global_avgpool\n"
     "  - flatten\n"
     "  - dropout: {p: 0.5}\n",
     0,
     0},
    {"volumes",
     4,
     {2, 9, 8, 7},
     "layers:\n"
     "  - conv3d: {out: 4, kernel: [3, 2, 1], stride: [1, 2, 1], padding: [1, 1, 0], groups: 2}\n"
     "  - batchnorm\n"
     "  - maxpool3d: {kernel: 2, padding: [0, 1, 1]}\n"
     "  - avgpool3d: {kernel: 2, stride: 1, padding: 1}\n"
     "  - avgpool3d: {kernel: 2, stride: 1, padding: 1, count_include_pad: false}\n"
     "  - global_avgpool\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"groups",
     3,
     {3, 9, 7},
     "layers:\n"
     "  - conv2d: {out: 12, kernel: 3, padding: 1}\n"
     "  - groupnorm: {num_groups: 4, eps: 0.1}\n"
     "  - relu\n"
     "  - conv2d: {out: 6, kernel: 3}\n"
     "  - groupnorm: {num_groups: 1, affine: false}\n"
     "  - instancenorm: {eps: 0.01}\n"
     "  - flatten\n"
     "  - linear: {out: 20}\n"
     "  - groupnorm: {num_groups: 5}\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"products",
     2,
     {6, 8},
     "layers:\n"
     "  - linear: {out: 8}\n"
     "    name: q\n"
     "  - {linear: {out: 8}, from: input, name: k}\n"
     "  - {linear: {out: 5}, from: input, name: v}\n"
     "  - {sdpa: {causal: true}, from: [q, k, v], name: a}\n"
     "  - {matmul: {transpose_b: true}, from: [q, k], name: s}\n"
     "  - {softmax: {dim: -1}, from: s, name: p}\n"
     "  - {matmul: {}, from: [p, v], name: b}\n"
     "  - {matmul: {transpose_a: true}, from: [a, b], name: c}\n"
     "  - log_softmax: {dim: 1}\n"
     "  - layernorm: {shape: [5, 5], bias: false}\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"heads", 2, {6, 8}, onnx_heads, 0, 0},
    {"reductions",
     3,
     {4, 5, 6},
     "layers:\n"
     "  - {sum: {dims: [3], keepdim: true}, from: input, name: s}\n"
     "  - {mean: {dims: [3], keepdim: true}, from: input, name: m}\n"
     "  - {add: , from: [s, m], name: 1}\n"
     "  - {amax: {dims: [3], keepdim: true}, from: input, name: x}\n"
     "  - {add: , from: [1, x], name: 2}\n"
     "  - {amin: {dims: [3], keepdim: true}, from: input, name: i}\n"
     "  - {add: , from: [2, i], name: 3}\n"
     "  - {max: {dim: 3, keepdim: true}, from: input, name: x2}\n"
     "  - {add: , from: [3, x2], name: 4}\n"
     "  - {min: {dim: 3, keepdim: true}, from: input, name: i2}\n"
     "  - {add: , from: [4, i2], name: 5}\n"
     "  - {prod: {dims: [3], keepdim: true}, from: input, name: p}\n"
     "  - {add: , from: [5, p], name: 6}\n"
     "  - {norm: {p: 3, dims: [3], keepdim: true}, from: input, name: n}\n"
     "  - {add: , from: [6, n], name: 7}\n"
     "  - {norm: {p: inf, dims: [3], keepdim: true}, from: input, name: n2}\n"
     "  - {add: , from: [7, n2], name: 8}\n"
     "  - {var: {dims: [3], keepdim: true}, from: input, name: v}\n"
     "  - {add: , from: [8, v], name: 9}\n"
     "  - {std: {correction: 0, dims: [3], keepdim: true}, from: input, name: d}\n"
     "  - {add: , from: [9, d], name: 10}\n"
     "  - {logsumexp: {dims: [3], keepdim: true}, from: input, name: l}\n"
     "  - {add: , from: [10, l], name: 11}\n"
     "  - {cumsum: {dim: 2}, from: 11}\n"
     "  - batchnorm: {affine: false}\n"
     "  - norm: {dims: [3]}\n"
     "  - batchnorm\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"groups-volumes",
     4,
     {2, 5, 6, 4},
     "layers:\n"
     "  - conv3d: {out: 6, kernel: 2}\n"
     "  - instancenorm: {affine: true}\n"
     "  - groupnorm: {num_groups: 3}\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"larger",
     3,
     {3, 5, 4},
     "layers:\n"
     "  - conv2d: {out: 6, kernel: 3, padding: 1}\n"
     "  - upsample\n"
     "  - upsample: {scale: 3, mode: linear}\n"
     "  - global_avgpool\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"larger-volumes",
     4,
     {1, 2, 3, 4},
     "layers:\n"
     "  - conv3d: {out: 3, kernel: 1}\n"
     "  - upsample: {mode: linear}\n"
     "  - upsample: {scale: 2}\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"acts",
     3,
     {2, 5, 5},
     "layers:\n"
     "  - conv2d: {out: 4, kernel: 3, padding: 1}\n"
     "    name: first\n"
     "  - leaky_relu: {negative_slope: 0.2}\n"
     "    name: leaky\n"
     "  - {conv2d: {out: 4, kernel: 1}, from: first}\n"
     "  - relu6\n"
     "  - add: {}\n"
     "    from: [relu61, leaky]\n"
     "  - silu\n"
     "  - conv2d: {out: 3, kernel: 1}\n"
     "  - gelu\n"
     "  - {concat: {}, from: [gelu1, first]}\n"
     "  - conv2d: {out: 3, kernel: 1}\n"
     "  - sigmoid\n"
     "  - conv2d: {out: 3, kernel: 1}\n"
     "  - tanh\n"
     "  - flatten\n"
     "  - linear: {out: 9}\n"
     "  - batchnorm\n"
     "  - relu\n"
     "  - linear: {out: 7}\n"
     "  - tanh: {scale: 2.5}\n",
     0,
     0},
    {"functions",
     3,
     {2, 5, 5},
     "layers:\n"
     "  - conv2d: {out: 4, kernel: 3, padding: 1}\n"
     "    name: first\n"
     "  - tanh\n"
     "  - exp\n"
     "  - tanh\n"
     "  - expm1\n"
     "  - sigmoid\n"
     "  - log\n"
     "  - sigmoid\n"
     "  - log1p\n"
     "  - sin\n"
     "  - cos\n"
     "  - tanh\n"
     "  - tan\n"
     "  - tanh\n"
     "  - asin\n"
     "  - tanh\n"
     "  - acos\n"
     "  - atan\n"
     "  - sinh\n"
     "  - cosh\n"
     "  - sqrt\n"
     "  - rsqrt\n"
     "  - neg\n"
     "  - abs\n"
     "  - reciprocal\n"
     "  - square\n"
     "  - detach\n"
     "  - erf\n"
     "  - conv2d: {out: 4, kernel: 1}\n"
     "  - softplus: {beta: 1.5, threshold: 1}\n"
     "  - softplus\n"
     "  - elu: {alpha: 0.7}\n"
     "  - celu: {alpha: 0.6}\n"
     "  - selu\n"
     "  - mish\n"
     "  - hardswish\n"
     "  - hardsigmoid\n"
     "  - hardtanh: {min: 0.1, max: 0.9}\n"
     "  - {conv2d: {out: 4, kernel: 1}, name: second}\n"
     "  - clamp: {min: -0.5}\n"
     "  - clamp: {max: 2}\n"
     "  - gelu_tanh\n"
     "  - logsigmoid\n"
     "  - softsign\n"
     "  - tanhshrink\n"
     "  - prelu: {channels: 4}\n"
     "  - prelu\n"
     "  - scale: {bias: yes, init: 0.9}\n"
     "  - {conv2d: {out: 4, kernel: 1}, name: third}\n"
     "  - hardshrink: {lambda: 0.1}\n"
     "  - softshrink: {lambda: 0.05}\n"
     "  - threshold: {threshold: 0.1, value: -0.2}\n"
     "  - drop_path: {p: 0.1}\n"
     "  - {conv2d: {out: 4, kernel: 1}, name: fourth}\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"fields",
     3,
     {2, 6, 6},
     "layers:\n"
     "  - conv2d: {out: 6, kernel: 3, padding: 1, padding_mode: [zeros, circular]}\n"
     "    name: first\n"
     "  - conv2d: {out: 6, kernel: 4, padding: same}\n"
     "  - {batchnorm: {}, name: b}\n"
     "  - {layernorm: {dim: 1}, name: n}\n"
     "  - {drop_path: {p: 0.1, mode: batch}}\n"
     "  - {scale: {init: 0.7, bias: yes}, name: s}\n"
     "  - {identity: {}, name: same}\n"
     "  - {maxpool: 2, name: small}\n"
     "  - {upsample: {like: n}, name: up}\n"
     "  - {global_avgpool: {}, name: gate}\n"
     "  - {mul: {}, from: [up, n, gate, same]}\n"
     "  - {glu: {dim: 1}}\n"
     "  - conv_transpose2d: {out: 4, kernel: 3, stride: 2, padding: 1, output_padding: 1}\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"operators",
     3,
     {2, 5, 5},
     "layers:\n"
     "  - {conv2d: {out: 3, kernel: 3, padding: 1}, name: a}\n"
     "  - {conv2d: {out: 3, kernel: 1}, name: b, from: input}\n"
     "  - {global_avgpool: {}, name: mean, from: a}\n"
     "  - {sigmoid: {}, name: gate}\n"
     "  - {mul: {}, from: [a, gate], name: gated}\n"
     "  - {sub: {}, from: [gated, b]}\n"
     "  - {div: {}, from: [sub1, gate]}\n"
     "  - {pow: {}, from: [gate, b]}\n"
     "  - {minimum: {}, from: [pow1, div1]}\n"
     "  - {maximum: {}, from: [minimum1, mean]}\n"
     "  - {atan2: {}, from: [maximum1, b]}\n"
     "  - {fmod: {value: 0.75}}\n"
     "  - {add: {value: 1.5}}\n"
     "  - {sub: {value: 2, reverse: true}}\n"
     "  - {pow: {value: 2}, name: last}\n"
     "  - {relu: {}, from: a, name: r}\n"
     "  - {relu: {}, from: b, name: s}\n"
     "  - {eq: {}, from: [r, s], name: eq}\n"
     "  - {mul: {}, from: [last, eq], name: m0}\n"
     "  - {add: {}, from: [m0, a], name: n0}\n"
     "  - {ne: {}, from: [r, s], name: ne}\n"
     "  - {mul: {}, from: [n0, ne], name: m1}\n"
     "  - {add: {}, from: [m1, a], name: n1}\n"
     "  - {lt: {}, from: [a, b], name: lt}\n"
     "  - {mul: {}, from: [n1, lt], name: m2}\n"
     "  - {add: {}, from: [m2, a], name: n2}\n"
     "  - {le: {}, from: [a, b], name: le}\n"
     "  - {mul: {}, from: [n2, le], name: m3}\n"
     "  - {add: {}, from: [m3, a], name: n3}\n"
     "  - {gt: {}, from: [a, b], name: gt}\n"
     "  - {mul: {}, from: [n3, gt], name: m4}\n"
     "  - {add: {}, from: [m4, a], name: n4}\n"
     "  - {ge: {}, from: [a, b], name: ge}\n"
     "  - {mul: {}, from: [n4, ge], name: m5}\n"
     "  - {add: {}, from: [m5, a], name: n5}\n"
     "  - {logical_and: {}, from: [r, s], name: logical_and}\n"
     "  - {mul: {}, from: [n5, logical_and], name: m6}\n"
     "  - {add: {}, from: [m6, a], name: n6}\n"
     "  - {logical_or: {}, from: [r, s], name: logical_or}\n"
     "  - {mul: {}, from: [n6, logical_or], name: m7}\n"
     "  - {add: {}, from: [m7, a], name: n7}\n"
     "  - {parameter: {shape: [3, 1, 1], fill: 0.4}, name: scale}\n"
     "  - {buffer: {shape: [5], fill: 0.3}, name: shift}\n"
     "  - {constant: {shape: [1], fill: -0.2}, name: more}\n"
     "  - {where: {}, from: [scale, shift, more], name: offset}\n"
     "  - {sign: {}, from: b, name: sg}\n"
     "  - {floor: {}, from: a, name: fl}\n"
     "  - {ceil: {}, from: b, name: ce}\n"
     "  - {round: {}, from: a, name: ro}\n"
     "  - {logical_not: {}, from: s, name: no}\n"
     "  - {where: {}, from: [no, n7, sg], name: w}\n"
     "  - {add: {}, from: [fl, ce], name: p}\n"
     "  - {mul: {}, from: [p, ro], name: q}\n"
     "  - {add: {}, from: [w, q], name: t}\n"
     "  - {add: {}, from: [t, offset], name: u}\n"
     "  - {where: {value: -3}, from: [eq, u], name: masked}\n"
     "  - {random: {shape: [N, 3, 5, 5]}, name: noise}\n"
     "  - {mul: {value: 0}, name: none}\n"
     "  - {add: {}, from: [masked, none]}\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"sequences",
     3,
     {1, 6, 8},
     "layers:\n"
     "  - sequence\n"
     "  - layernorm: {eps: 0.01}\n"
     "  - linear: {out: 12, bias: false}\n"
     "  - attention: {heads: 3}\n"
     "  - dropout\n"
     "  - gelu\n"
     "  - lstm: {hidden: 10}\n"
     "  - linear: {out: 4}\n"
     "  - lstm: {hidden: 6, level: 3, params: deep}\n"
     "  - select: {index: 2}\n"
     "  - layernorm\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"tokens",
     3,
     {5, 3, 2},
     "layers:\n"
     "  - tokens\n"
     "  - select: {index: -1}\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"int8-images",
     3,
     {3, 16, 16},
     "layers:\n"
     "  - conv2d: {out: 8, kernel: 3, padding: 1, bias: false}\n"
     "  - batchnorm\n"
     "  - relu\n"
     "  - maxpool: {kernel: 2}\n"
     "    name: pooled\n"
     "  - conv2d: {out: 8, kernel: 3, padding: 1, groups: 8}\n"
     "  - batchnorm\n"
     "  - relu6\n"
     "  - conv2d: {out: 8, kernel: 1}\n"
     "  - {batchnorm: {}, name: branch}\n"
     "  - add: {}\n"
     "    from: [branch, pooled]\n"
     "  - relu\n"
     "  - dropout\n"
     "  - global_avgpool\n"
     "  - flatten\n"
     "  - linear: {out: 12}\n"
     "  - relu\n"
     "  - linear: {out: 7}\n",
     0,
     1},
    {"int8-steps",
     3,
     {1, 6, 8},
     "layers:\n"
     "  - sequence\n"
     "  - linear: {out: 16}\n"
     "  - relu\n"
     "  - linear: {out: 6, bias: false}\n"
     "  - select: {index: -1}\n"
     "  - linear: {out: 7}\n",
     0,
     1},
    {"int8-attention",
     3,
     {3, 16, 16},
     "{family: vit, depth: 2, patch: 4, dim: 32, heads: 4, mlp: 64}",
     0,
     2},
    {"int8-dynamic", 3, {1, 12, 9}, "{family: lstm, depth: 2, hidden: 24}", 1, 2},
    {"moves",
     3,
     {4, 6, 5},
     "layers:\n"
     "  - conv2d: {out: 8, kernel: 1}\n"
     "  - roll: {shifts: [2, -1], dims: [2, 3]}\n"
     "  - flip: {dims: [-1]}\n"
     "  - pad: {pad: [1, 2, 0, 1], mode: reflect}\n"
     "  - pad: {pad: [1, 0], mode: circular}\n"
     "  - pad: {pad: [0, 0, 1, 0], value: -0.5}\n"
     "  - pad: {pad: [1, 0], mode: replicate}\n"
     "  - pixel_shuffle: {factor: 2}\n"
     "  - pixel_unshuffle: {factor: 4}\n"
     "  - slice: {dim: 1, start: 1, end: 30, step: 3}\n"
     "  - unfold: {kernel: [2, 3], padding: 1, stride: 2}\n"
     "  - windows: {dim: 2, size: 4, step: 2}\n"
     "  - permute: {dims: [0, 3, 1, 2]}\n"
     "  - repeat: {counts: [1, 1, 1, 2]}\n"
     "  - reshape: {shape: [N, -1]}\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"batch-second",
     2,
     {6, 5},
     "layers:\n"
     "  - permute: {dims: [1, 0, 2]}\n"
     "  - reshape: {shape: [6N, 5]}\n"
     "  - linear: {out: 8}\n"
     "    name: one\n"
     "  - linear: {out: 8}\n"
     "    name: two\n"
     "  - linear: {out: 8}\n"
     "    weights: [two.weight, two.bias]\n"
     "  - reshape: {shape: [6, N, 8]}\n"
     "  - permute: {dims: [1, 0, 2]}\n"
     "  - flatten\n"
     "  - linear: {out: 7}\n",
     0,
     0},
    {"tables",
     1,
     {5},
     "layers: [{linear: {out: 6}, name: a}, {constant: {shape: [3], fill: 2}, name: ids}, "
     "{embedding: {rows: 4, dim: 2}, name: emb, from: ids}, "
     "{buffer: {shape: [5, 2], fill: 0.5}, name: table}, "
     "{rows: {}, name: picked, from: [table, ids]}, {concat: {dim: 1}, from: [emb, picked]}, "
     "{reshape: {shape: [1, 12]}}, {expand: {shape: [N, 12]}, name: e}, "
     "{parameter: {shape: [1, 4], std: 1}}, {expand: {shape: [N, 4]}, name: p}, "
     "{concat: {dim: -1}, from: [a, e, p]}, {linear: {out: 7}}]",
     0,
     0},
    {"language",
     2,
     {6, 24},
     "layers: [{position: {rows: 8, weight_std: 1}}, {position: {rows: 6, sinusoidal: true}}, "
     "{rmsnorm: {eps: 1e-5}}, {rope: {heads: 2, head_dim: 8}}, "
     "{rope: {head_dim: 4, pairing: interleaved}, name: r}, {positions: {}, name: places}, "
     "{rope: {heads: 3, head_dim: 6, scaling: llama3, original: 16}, from: [r, places]}, "
     "{swiglu: {hidden: 7}}, {pool_steps: {mode: mean}}, {linear: {out: 7}}]",
     0,
     0},
};

#endif
