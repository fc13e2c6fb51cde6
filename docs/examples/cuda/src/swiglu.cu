// out[r][c] = silu(x[r][c]) * x[r][COLS + c]: the gate of a feed-forward layer whose two halves lie side by side.
#include "element.h"
#include "launch.h"
#include "pack.h"
#include "scalar.h"

constexpr int PACK = widest(COLS, sizeof(T));
constexpr int PACKS = COLS / PACK;

extern "C" __global__ void __launch_bounds__(THREADS) swiglu(const T* __restrict__ x, T* __restrict__ out) {
    const int pack = blockIdx.x * THREADS + threadIdx.x;
    if (pack >= ROWS * PACKS) return;
    const int gate_pack = pack + pack / PACKS * PACKS;  // a row of x is twice as long
    const Pack<T, PACK> gate = load_pack<PACK>(x, gate_pack), up = load_pack<PACK>(x, gate_pack + PACKS);
    Pack<T, PACK> result;
#pragma unroll
    for (int j = 0; j < PACK; ++j) result.at[j] = narrow<T>(scalar::silu(widen(gate.at[j])) * widen(up.at[j]));
    store_pack(out, pack, result);
}

LAUNCH(ceil_div(ROWS * PACKS, THREADS), 1, THREADS)
