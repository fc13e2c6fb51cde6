// out[r][c] = x[r][c] * scale[r]: back from int8 rows with a scale each.
#include "element.h"
#include "launch.h"
#include "pack.h"

constexpr int PACK = widest(COLS, sizeof(T));
constexpr int PACKS = COLS / PACK;

extern "C" __global__ void __launch_bounds__(THREADS)
dequantize(const element::int8* __restrict__ x, const float* __restrict__ scales, T* __restrict__ out) {
    const int pack = blockIdx.x * THREADS + threadIdx.x;
    if (pack >= ROWS * PACKS) return;
    const Pack<element::int8, PACK> value = load_pack<PACK>(x, pack);
    const float scale = scales[pack / PACKS];
    Pack<T, PACK> result;
#pragma unroll
    for (int j = 0; j < PACK; ++j) result.at[j] = narrow<T>(widen(value.at[j]) * scale);
    store_pack(out, pack, result);
}

LAUNCH(ceil_div(ROWS * PACKS, THREADS), 1, THREADS)
