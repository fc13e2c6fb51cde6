// out[i] = OP(x[i]) over COUNT elements, a pack a thread.
#include "element.h"
#include "launch.h"
#include "pack.h"
#include "scalar.h"

constexpr int PACK = widest(COUNT, sizeof(T));
constexpr int PACKS = COUNT / PACK;

extern "C" __global__ void __launch_bounds__(THREADS) unary(const T* __restrict__ x, T* __restrict__ out) {
    const int pack = blockIdx.x * THREADS + threadIdx.x;
    if (pack >= PACKS) return;
    Pack<T, PACK> value = load_pack<PACK>(x, pack);
#pragma unroll
    for (int j = 0; j < PACK; ++j) value.at[j] = narrow<T>(scalar::OP(widen(value.at[j])));
    store_pack(out, pack, value);
}

LAUNCH(ceil_div(PACKS, THREADS), 1, THREADS)
