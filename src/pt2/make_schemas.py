#!/usr/bin/env python3
"""Writes schemas.c: names, arguments and defaults of PyTorch's ops, from the schemas of the PyTorch
that runs this script.

    make_schemas.py > schemas.c
"""
import torch

# Ops that models of vision, language and science use, and those that constants are computed by.
NAMES = """
abs acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
adaptive_max_pool2d adaptive_max_pool3d add addbmm addcdiv addcmul addmm addmv addr affine_grid_generator
alias alpha_dropout amax amin aminmax angle any all arange argmax argmin argsort as_strided asin asinh
atan atan2 atanh avg_pool1d avg_pool2d avg_pool3d baddbmm batch_norm bernoulli bilinear bitwise_and broadcast_to
bitwise_not bitwise_or bitwise_xor bmm bucketize cat cdist ceil celu channel_shuffle chunk clamp
clamp_max clamp_min clip clone col2im column_stack complex concat conj constant_pad_nd contiguous
conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution copy copysign cos
cosh cosine_similarity count_nonzero cross cummax cummin cumprod cumsum deg2rad detach diag diag_embed
diagonal diff div divide dot dropout dropout2d einsum elu embedding embedding_bag empty empty_like eq
erf erfc erfinv exp exp2 expand expand_as expm1 eye feature_alpha_dropout feature_dropout fft_fft
fft_fft2 fft_fftn fft_fftshift fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_irfft fft_irfft2
fft_irfftn fft_rfft fft_rfft2 fft_rfftn fill flatten flip fliplr flipud float_power floor floor_divide
fmax fmin fmod frac frobenius_norm full full_like gather ge gelu geometric glu grid_sampler
grid_sampler_2d grid_sampler_3d group_norm gru greater gt hardshrink hardsigmoid hardswish hardtanh
heaviside hypot im2col imag index index_add index_copy index_fill index_put index_select inner
instance_norm isfinite isinf isnan isclose kron layer_norm le leaky_relu lerp less lgamma lift
lift_fresh lift_fresh_copy linalg_matrix_norm linalg_norm linalg_vector_norm linear linspace log log10
log1p log2 log_sigmoid log_softmax logaddexp logaddexp2 logical_and logical_not logical_or logical_xor
logit logspace logsumexp lstm lt mT masked_fill masked_select masked_scatter matmul matrix_H max
max_pool1d max_pool2d max_pool2d_with_indices max_pool3d max_pool1d_with_indices
max_pool3d_with_indices maximum mean median meshgrid min minimum mish mm moveaxis movedim mul multiply
multinomial mv nan_to_num narrow native_batch_norm native_dropout native_group_norm native_layer_norm ne
neg negative new_empty new_full new_ones new_zeros nonzero norm normal normal_functional normalize
not_equal numpy_T one_hot ones ones_like outer pad pairwise_distance pdist permute pixel_shuffle
pixel_unshuffle poisson polar positive pow prelu prod quantile rad2deg rand rand_like randint randint_like
randn randn_like randperm ravel real reciprocal reflection_pad1d reflection_pad2d reflection_pad3d relu
relu6 remainder renorm repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d
reshape reshape_as resolve_conj resolve_neg rms_norm rnn_relu rnn_tanh roll rot90 round rrelu
rrelu_with_noise rsqrt rsub scalar_tensor scaled_dot_product_attention scatter scatter_add
scatter_reduce searchsorted select select_scatter selu sgn sigmoid sign signbit silu sin sinc sinh
slice slice_scatter softmax softplus softshrink sort special_erf special_expit special_log_softmax
special_logit special_logsumexp special_softmax split split_with_sizes sqrt square squeeze stack std
std_mean stft istft sub subtract sum sum_to_size svd swapaxes swapdims sym_numel sym_size t take
take_along_dim tan tanh tensor_split tensordot threshold tile to topk trace transpose trapezoid
triangular_solve tril tril_indices triu triu_indices true_divide trunc type_as unbind unflatten unfold
uniform unsafe_chunk unsafe_split unsqueeze unsafe_split_with_sizes upsample_bicubic2d
upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d
upsample_trilinear3d var var_mean vdot view view_as view_as_complex view_as_real vstack where xlogy
zero zeros zeros_like _adaptive_avg_pool2d _adaptive_avg_pool3d _assert_scalar _assert_tensor_metadata
_conj _log_softmax _native_batch_norm_legit _native_batch_norm_legit_functional
_scaled_dot_product_flash_attention_for_cpu _shape_as_tensor _softmax _to_copy _unsafe_view
_unsafe_index _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d
_upsample_nearest_exact2d _upsample_nearest_exact3d _weight_norm sym_constrain_range
sym_constrain_range_for_size
""".split()


def literal(v, t):
    """A default as text: a number, also for a list of equal ones, a list, a 'text', True, False or
    None."""
    if isinstance(v, bool) or v is None or isinstance(v, (int, float)):
        return repr(v)
    if isinstance(v, (list, tuple)):
        return repr(v[0]) if v and all(x == v[0] for x in v) else "[" + ", ".join(map(repr, v)) + "]"
    if isinstance(v, str):
        return "'" + v + "'"
    return repr(v)


def default(a):
    if a.default_value is None and not a.has_default_value():
        return a.name
    if str(a.type) == "Optional[MemoryFormat]" or "memory_format" in a.name:
        return a.name + "=" + ("None" if a.default_value is None else "format %d" % (a.default_value + 1))
    return a.name + "=" + literal(a.default_value, a.type)


def wanted(overload, s):
    """No variants with out=, named dims or a generator, and none for numbers instead of tensors."""
    if any(w in overload for w in ("out", "imname", "names", "generator", "hacked", "grad_input", "enum", "dtype_out", "Dict")):
        return False
    tensors = any("Tensor" in str(r.type) for r in s.returns) or s.name.startswith("aten::_assert")
    return (tensors or s.name.startswith("aten::sym_")) and not any(
        "Dimname" in str(a.type) or a.is_out for a in s.arguments)


rows = {}
for name in NAMES:
    for packet in (name, name + "_"):
        p = getattr(torch.ops.aten, packet, None)
        for o in p.overloads() if p is not None else []:
            s = getattr(p, o)._schema
            if wanted(o, s):
                args = ", ".join(default(a) for a in s.arguments)
                # an op that changes its first argument is found by its name without '_'
                if rows.get("aten.%s.%s" % (name, o)) != args:
                    rows["aten.%s.%s" % (packet, o)] = args

print("/* Made by make_schemas.py: do not edit. */")
print('#include "pt2/pt2.h"\n')
print("/* clang-format off */")
print("const ct__pt2_row_t ct__pt2_rows[] = {")
line = " "
for op in sorted(rows, key=lambda s: s.encode()):
    args = rows[op].split(", ")
    head = ' {"%s", "' % op
    if len(line) + len(head) + len(rows[op]) + 4 > 98 and line.strip():
        print(line)
        line = " "
    line += head
    for k, c in enumerate(args):
        c += ", " if k + 1 < len(args) else ""
        if len(line) + len(c) > 95:
            print(line + '"')
            line = '   "'
        line += c
    line += '"},'
print(line)
print("};")
print("/* clang-format on */")
print("const int ct__pt2_n_rows = sizeof ct__pt2_rows / sizeof *ct__pt2_rows;")
