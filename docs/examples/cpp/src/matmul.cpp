// out[M][N] = a[M][K] * b[K][N], in tiles of TILE x TILE so that a tile of b stays in the L1 cache.
// Elements of out are OUT (default: DTYPE); int8 accumulates into int32.
#include "element.h"

#ifndef OUT
#define OUT DTYPE
#endif

namespace {
constexpr int end(int start, int limit) { return start + TILE < limit ? start + TILE : limit; }
}  // namespace

extern "C" void matmul(const T* a, const T* b, element::OUT* out) {
    static thread_local Acc sum[M * N];
    for (Acc& s : sum) s = 0;
    for (int k0 = 0; k0 < K; k0 += TILE)
        for (int n0 = 0; n0 < N; n0 += TILE)
            for (int m = 0; m < M; ++m)
                for (int k = k0; k < end(k0, K); ++k) {
                    const Acc left = Acc(a[m * K + k]);
                    for (int n = n0; n < end(n0, N); ++n) sum[m * N + n] += left * Acc(b[k * N + n]);
                }
    for (int i = 0; i < M * N; ++i) out[i] = narrow<element::OUT>(sum[i]);
}
