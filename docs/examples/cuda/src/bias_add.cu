// out[r][c] = ACTIVATION(x[r][c] + bias[c]): what follows a linear layer, in one pass over memory.
#include "element.h"
#include "launch.h"
#include "pack.h"
#include "scalar.h"

constexpr int PACK = widest(COLS, sizeof(T));
constexpr int PACKS = COLS / PACK;

extern "C" __global__ void __launch_bounds__(THREADS)
bias_add(const T* __restrict__ x, const T* __restrict__ bias, T* __restrict__ out) {
    const int pack = blockIdx.x * THREADS + threadIdx.x;
    if (pack >= ROWS * PACKS) return;
    const Pack<T, PACK> value = load_pack<PACK>(x, pack), offset = load_pack<PACK>(bias, pack % PACKS);
    Pack<T, PACK> result;
#pragma unroll
    for (int j = 0; j < PACK; ++j)
        result.at[j] = narrow<T>(scalar::ACTIVATION(widen(value.at[j]) + widen(offset.at[j])));
    store_pack(out, pack, result);
}

LAUNCH(ceil_div(ROWS * PACKS, THREADS), 1, THREADS)
