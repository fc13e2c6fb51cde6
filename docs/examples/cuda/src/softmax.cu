// Softmax over the last axis of ROWS x COLS; the row's maximum is taken out first, so nothing overflows.
#include "row.h"

extern "C" __global__ void __launch_bounds__(THREADS) softmax(const T* __restrict__ x, T* __restrict__ out) {
    const size_t start = size_t(blockIdx.x) * COLS;
    Row row(x + start);
    const float peak = row.reduce<Max>();
    row.each([=](float& v, int) { v = expf(v - peak); });
    const float scale = 1.0f / row.reduce<Sum>();
    row.each([=](float& v, int) { v *= scale; });
    row.store(out + start);
}

LAUNCH(ROWS, 1, THREADS)
