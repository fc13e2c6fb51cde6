// LayerNorm over the last axis of ROWS x COLS: (x - mean) / sqrt(variance + EPS) * gamma + beta. The variance is
// taken from the distances to the mean, not from the squares, whose difference would cancel.
#include "row.h"

extern "C" __global__ void __launch_bounds__(THREADS) layer_norm(
    const T* __restrict__ x, const T* __restrict__ gamma, const T* __restrict__ beta, T* __restrict__ out) {
    const size_t start = size_t(blockIdx.x) * COLS;
    Row row(x + start), weight(gamma), offset(beta);
    const float mean = row.reduce<Sum>() / COLS;
    const float variance = row.reduce<Sum>([=](float v) { return (v - mean) * (v - mean); }) / COLS;
    const float scale = rsqrtf(variance + float(EPS));
    row.each([=](float& v, int) { v = (v - mean) * scale; });
    row.combine(weight, [](float v, float w) { return v * w; });
    row.combine(offset, [](float v, float b) { return v + b; });
    row.store(out + start);
}

LAUNCH(ROWS, 1, THREADS)
