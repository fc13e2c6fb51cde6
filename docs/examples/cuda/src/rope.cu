// Rotary position embedding of LENGTH x HEADS x DIM: pairs (x[i], x[i + DIM/2]) turn by position / BASE^(2i/DIM).
// A thread turns PACK neighbouring pairs: two packs in, two packs out.
#include "element.h"
#include "launch.h"
#include "pack.h"

constexpr int HALF = DIM / 2;
constexpr int PACK = widest(HALF, sizeof(T));
constexpr int PACKS = HALF / PACK;
constexpr int WORK = LENGTH * HEADS * PACKS;

extern "C" __global__ void __launch_bounds__(THREADS) rope(const T* __restrict__ x, T* __restrict__ out) {
    const int work = blockIdx.x * THREADS + threadIdx.x;
    if (work >= WORK) return;
    const int pack = work % PACKS, head = work / PACKS, position = head / HEADS;
    const size_t start = size_t(head) * DIM;
    Pack<T, PACK> low = load_pack<PACK>(x + start, pack), high = load_pack<PACK>(x + start, pack + PACKS);
#pragma unroll
    for (int j = 0; j < PACK; ++j) {
        const float frequency = exp2f(-2.0f * (pack * PACK + j) / DIM * log2f(float(BASE)));
        float sine, cosine;
        sincosf(position * frequency, &sine, &cosine);
        const float a = widen(low.at[j]), b = widen(high.at[j]);
        low.at[j] = narrow<T>(a * cosine - b * sine);
        high.at[j] = narrow<T>(a * sine + b * cosine);
    }
    store_pack(out + start, pack, low);
    store_pack(out + start, pack + PACKS, high);
}

LAUNCH(ceil_div(WORK, THREADS), 1, THREADS)
