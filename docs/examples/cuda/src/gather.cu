// out[i] = table[index[i]]: PICKS rows of a table of ROWS x COLS. An index outside the table gives zeros.
#include "element.h"
#include "launch.h"
#include "pack.h"

constexpr int PACK = widest(COLS, sizeof(T));
constexpr int PACKS = COLS / PACK;

extern "C" __global__ void __launch_bounds__(THREADS)
gather(const T* __restrict__ table, const element::int32* __restrict__ index, T* __restrict__ out) {
    const int pack = blockIdx.x * THREADS + threadIdx.x;
    if (pack >= PICKS * PACKS) return;
    const int row = index[pack / PACKS];
    Pack<T, PACK> value;
    if (row >= 0 && row < ROWS) {
        value = load_pack<PACK>(table + size_t(row) * COLS, pack % PACKS);
    } else {
#pragma unroll
        for (int j = 0; j < PACK; ++j) value.at[j] = narrow<T>(0.0f);
    }
    store_pack(out, pack, value);
}

LAUNCH(ceil_div(PICKS * PACKS, THREADS), 1, THREADS)
