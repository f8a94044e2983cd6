/* LSTM cells: see lstm.h. */
#include "cuda/kernels/lstm.h"
#include "cuda/kernels/kernel.h"

enum { BLOCK = 256 };

CT_D float sigmoid(float v)
{
  return 1 / (1 + expf(-v));
}

/* Returns a gate's sum before its activation; `at`: index of the gate within the 4h gates. */
CT_D float gate_sum(int64_t at, const float *bias_ih, const float *bias_hh, const float *gates)
{
  return gates[at] + (bias_ih ? bias_ih[at] + bias_hh[at] : 0);
}

/* Returns the row of a step of a sample. */
CT_D int64_t row_of(const gpu__lstm_t &k, int64_t sample, int64_t step)
{
  return sample * k.t + (k.reverse ? k.t - 1 - step : step);
}

template <class T>
CT_KERNEL void step_forward(gpu__lstm_t k, int64_t step, const float *bias_ih, const float *bias_hh,
                            float *gates, float *cells, T *y)
{
  GPU_LOOP (e, k.n * k.h) {
    int64_t h = k.h, j = e % h, row = row_of(k, e / h, step), at = row * h + j;
    int64_t past = k.reverse ? at + h : at - h;
    float *own = gates + row * 4 * h;
    float i = sigmoid(gate_sum(j, bias_ih, bias_hh, own));
    float f = sigmoid(gate_sum(h + j, bias_ih, bias_hh, own));
    float g = tanhf(gate_sum(2 * h + j, bias_ih, bias_hh, own));
    float o = sigmoid(gate_sum(3 * h + j, bias_ih, bias_hh, own));
    float cell = i * g;
    if (step > 0) cell += f * cells[past];
    own[j] = i;
    own[h + j] = f;
    own[2 * h + j] = g;
    own[3 * h + j] = o;
    cells[at] = cell;
    gpu_store(&y[at], o * tanhf(cell));
  }
}

template <class T>
CT_KERNEL void step_backward(gpu__lstm_t k, int64_t step, gpu__lstm_back_t b, const T *y,
                             const T *dy, T *dgates, T *before)
{
  int last = step == k.t - 1;

  GPU_LOOP (e, k.n * k.h) {
    int64_t h = k.h, j = e % h, row = row_of(k, e / h, step), at = row * h + j;
    int64_t past = k.reverse ? at + h : at - h;
    const float *own = b.gates + row * 4 * h;
    T *d = dgates + row * 4 * h;
    float i = own[j], f = own[h + j], g = own[2 * h + j], o = own[3 * h + j];
    float cell = tanhf(b.cells[at]), cell_before = step > 0 ? b.cells[past] : 0;
    float dout = gpu_load(&dy[at]) + (last ? 0 : b.dh[e]);
    float dcell = (last ? 0 : b.dc[e]) + dout * o * (1 - cell * cell);
    gpu_store(&d[j], dcell * g * i * (1 - i));
    gpu_store(&d[h + j], dcell * cell_before * f * (1 - f));
    gpu_store(&d[2 * h + j], dcell * i * (1 - g * g));
    gpu_store(&d[3 * h + j], dout * cell * o * (1 - o));
    b.dc[e] = dcell * f;
    if (before) gpu_store(&before[at], step > 0 ? gpu_load(&y[past]) : 0);
  }
}

extern "C" cudaError_t gpu__lstm_step(const gpu__lstm_t *k, int64_t step, const float *bias_ih,
                                      const float *bias_hh, float *gates, float *cells, void *y,
                                      cudaStream_t stream)
{
  unsigned grid = gpu_grid(k->n * k->h, BLOCK);
  GPU_BY_TYPE(k->type, T,
              CT_LAUNCH(step_forward<T>, grid, BLOCK, stream, *k, step, bias_ih, bias_hh, gates,
                        cells, (T *)y));
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__lstm_step_backward(const gpu__lstm_t *k, int64_t step,
                                               const gpu__lstm_back_t *b, cudaStream_t stream)
{
  unsigned grid = gpu_grid(k->n * k->h, BLOCK);
  GPU_BY_TYPE(k->type, T,
              CT_LAUNCH(step_backward<T>, grid, BLOCK, stream, *k, step, *b, (const T *)b->y,
                        (const T *)b->dy, (T *)b->dgates, (T *)b->before));
  return cudaGetLastError();
}
