/* GRU cells: see gru.h. */
#include "cuda/kernels/gru.h"
#include "cuda/kernels/kernel.h"

enum { BLOCK = 256 };

CT_D float sigmoid(float v)
{
  return 1 / (1 + expf(-v));
}

CT_D float at_or_0(const float *p, int64_t i)
{
  return p ? p[i] : 0;
}

template <class T>
CT_KERNEL void step_forward(gpu__gru_t k, int64_t place, int64_t before, const float *bias_ih,
                            const float *bias_hh, const float *sums, const float *states,
                            float *gates, T *y)
{
  GPU_LOOP (e, k.n * k.h) {
    int64_t h = k.h, j = e % h, sample = e / h, row = sample * k.t + place;
    const float *in = sums + row * 3 * h, *state = states + sample * 3 * h;
    float *own = gates + row * 4 * h;
    float part[3], h0 = before < 0 ? 0 : gpu_load(&y[(sample * k.t + before) * h + j]);
    for (int g = 0; g < 3; g++)
      part[g] = (before < 0 ? 0 : state[g * h + j]) + at_or_0(bias_hh, g * h + j);
    float r = sigmoid(in[j] + at_or_0(bias_ih, j) + part[0]);
    float z = sigmoid(in[h + j] + at_or_0(bias_ih, h + j) + part[1]);
    float n = tanhf(in[2 * h + j] + at_or_0(bias_ih, 2 * h + j) + r * part[2]);
    own[j] = r;
    own[h + j] = z;
    own[2 * h + j] = n;
    own[3 * h + j] = part[2];
    gpu_store(&y[row * h + j], n + z * (h0 - n));
  }
}

template <class T>
CT_KERNEL void step_backward(gpu__gru_t k, int64_t place, int64_t before, int last,
                             gpu__gru_back_t b, const T *y, const T *dy, T *dsums, T *dstates,
                             T *past)
{
  GPU_LOOP (e, k.n * k.h) {
    int64_t h = k.h, j = e % h, sample = e / h, row = sample * k.t + place, at = row * h + j;
    const float *own = b.gates + row * 4 * h;
    T *d = dsums + row * 3 * h, *s = dstates + row * 3 * h;
    float r = own[j], z = own[h + j], n = own[2 * h + j];
    float h0 = before < 0 ? 0 : gpu_load(&y[(sample * k.t + before) * h + j]);
    float dout = gpu_load(&dy[at]) + (last ? 0 : b.dh[e]);
    float dn = dout * (1 - z) * (1 - n * n), dr = dn * own[3 * h + j] * r * (1 - r);
    float dz = dout * (h0 - n) * z * (1 - z);
    gpu_store(&d[j], dr);
    gpu_store(&d[h + j], dz);
    gpu_store(&d[2 * h + j], dn);
    gpu_store(&s[j], dr);
    gpu_store(&s[h + j], dz);
    gpu_store(&s[2 * h + j], dn * r);
    gpu_store(&past[at], h0);
    b.dh[e] = dout * z;
  }
}

extern "C" cudaError_t gpu__gru_step(const gpu__gru_t *k, int64_t place, int64_t before,
                                     const float *bias_ih, const float *bias_hh, const float *sums,
                                     const float *states, float *gates, void *y,
                                     cudaStream_t stream)
{
  unsigned grid = gpu_grid(k->n * k->h, BLOCK);
  GPU_BY_TYPE(k->type, T,
              CT_LAUNCH(step_forward<T>, grid, BLOCK, stream, *k, place, before, bias_ih, bias_hh,
                        sums, states, gates, (T *)y));
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__gru_step_backward(const gpu__gru_t *k, int64_t place, int64_t before,
                                              int last, const gpu__gru_back_t *b,
                                              cudaStream_t stream)
{
  unsigned grid = gpu_grid(k->n * k->h, BLOCK);
  GPU_BY_TYPE(k->type, T,
              CT_LAUNCH(step_backward<T>, grid, BLOCK, stream, *k, place, before, last, *b,
                        (const T *)b->y, (const T *)b->dy, (T *)b->dsums, (T *)b->dstates,
                        (T *)b->before));
  return cudaGetLastError();
}
