/** \file onnx_heads.h  A model of onnx_models.h: attention with packed heads, in all forms. */
#ifndef ONNX_HEADS_H
#define ONNX_HEADS_H

static const char onnx_heads[] =
    "layers:\n"
    "  - {linear: {out: 24}, name: qkv}\n"
    "  - {sdpa: {heads: 4, causal: true}, name: a}\n"
    "  - {linear: {out: 16}, from: input, name: grouped}\n"
    "  - {sdpa: {heads: 4, kv_heads: 2, causal: true}, name: b}\n"
    "  - {linear: {out: 1}, from: input, name: flags}\n"
    "  - {gt: {value: 0}, name: keep}\n"
    "  - {reshape: {shape: [N, 6]}, name: mask}\n"
    "  - {sdpa: {heads: 2, mask: keys}, from: [qkv, mask], name: c}\n"
    "  - {mul: {value: 3}, from: mask, name: first}\n"
    "  - {sdpa: {heads: 2, causal: true, mask: first}, from: [qkv, first], name: d}\n"
    "  - {linear: {out: 6}, from: input, name: bias}\n"
    "  - {reshape: {shape: [N, 1, 6, 6]}, name: pairs}\n"
    "  - {sdpa: {heads: 2, mask: bias}, from: [qkv, pairs], name: e}\n"
    "  - {sdpa: {heads: 2}, from: [a, grouped], name: f}\n"
    "  - {add: , from: [b, c], name: bc}\n"
    "  - {add: , from: [d, e], name: de}\n"
    "  - {add: , from: [bc, de], name: be}\n"
    "  - {add: , from: [be, f]}\n"
    "  - flatten\n"
    "  - linear: {out: 7}\n";

#endif
