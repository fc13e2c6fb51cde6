// out[i] = x[i] as TO, over COUNT elements; a pack is 16 bytes of the wider of the two types.
#include "element.h"
#include "launch.h"
#include "pack.h"

using To = element::TO;
constexpr int PACK = widest(COUNT, sizeof(T) > sizeof(To) ? sizeof(T) : sizeof(To));
constexpr int PACKS = COUNT / PACK;

extern "C" __global__ void __launch_bounds__(THREADS) cast(const T* __restrict__ x, To* __restrict__ out) {
    const int pack = blockIdx.x * THREADS + threadIdx.x;
    if (pack >= PACKS) return;
    const Pack<T, PACK> value = load_pack<PACK>(x, pack);
    Pack<To, PACK> result;
#pragma unroll
    for (int j = 0; j < PACK; ++j) result.at[j] = narrow<To>(widen(value.at[j]));
    store_pack(out, pack, result);
}

LAUNCH(ceil_div(PACKS, THREADS), 1, THREADS)
