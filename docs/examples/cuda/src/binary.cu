// out[i] = OP(a[i], b[i]) over COUNT elements, a pack a thread.
#include "element.h"
#include "launch.h"
#include "pack.h"
#include "scalar.h"

constexpr int PACK = widest(COUNT, sizeof(T));
constexpr int PACKS = COUNT / PACK;

extern "C" __global__ void __launch_bounds__(THREADS)
binary(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ out) {
    const int pack = blockIdx.x * THREADS + threadIdx.x;
    if (pack >= PACKS) return;
    const Pack<T, PACK> left = load_pack<PACK>(a, pack), right = load_pack<PACK>(b, pack);
    Pack<T, PACK> result;
#pragma unroll
    for (int j = 0; j < PACK; ++j) result.at[j] = narrow<T>(scalar::OP(widen(left.at[j]), widen(right.at[j])));
    store_pack(out, pack, result);
}

LAUNCH(ceil_div(PACKS, THREADS), 1, THREADS)
