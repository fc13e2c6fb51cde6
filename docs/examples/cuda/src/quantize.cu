// Each row of ROWS x COLS as int8 with a scale of its own: out = round(x / scale), scale = max |x| / 127.
#include "row.h"

extern "C" __global__ void __launch_bounds__(THREADS)
quantize(const T* __restrict__ x, element::int8* __restrict__ out, float* __restrict__ scales) {
    const size_t start = size_t(blockIdx.x) * COLS;
    Row row(x + start);
    const float scale = row.reduce<Max>([](float v) { return fabsf(v); }) / 127.0f;
    row.each([=](float& v, int) { v = scale > 0.0f ? v / scale : 0.0f; });
    row.store(out + start);
    if (threadIdx.x == 0) scales[blockIdx.x] = scale;
}

LAUNCH(ROWS, 1, THREADS)
