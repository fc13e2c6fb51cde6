// RMSNorm over the last axis of ROWS x COLS: x / sqrt(mean(x * x) + EPS) * gamma.
#include "row.h"

extern "C" __global__ void __launch_bounds__(THREADS)
rms_norm(const T* __restrict__ x, const T* __restrict__ gamma, T* __restrict__ out) {
    const size_t start = size_t(blockIdx.x) * COLS;
    Row row(x + start), weight(gamma);
    const float scale = rsqrtf(row.reduce<Sum>([](float v) { return v * v; }) / COLS + float(EPS));
    row.combine(weight, [=](float v, float w) { return v * scale * w; });
    row.store(out + start);
}

LAUNCH(ROWS, 1, THREADS)
