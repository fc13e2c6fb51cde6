// out[r] = log(sum(exp(x[r]))) - x[r][label[r]]: the loss of ROWS rows of COLS logits, as float. A label outside
// the row (such as -100, for "ignore") gives 0.
#include "row.h"

extern "C" __global__ void __launch_bounds__(THREADS)
cross_entropy(const T* __restrict__ x, const element::int32* __restrict__ label, float* __restrict__ out) {
    const T* logits = x + size_t(blockIdx.x) * COLS;
    Row row(logits);
    const float peak = row.reduce<Max>();
    const float total = row.reduce<Sum>([=](float v) { return expf(v - peak); });
    const int wanted = label[blockIdx.x];
    if (threadIdx.x == 0)
        out[blockIdx.x] = wanted >= 0 && wanted < COLS ? logf(total) + peak - widen(logits[wanted]) : 0.0f;
}

LAUNCH(ROWS, 1, THREADS)
