// One block works on one row of COLS elements and keeps it in registers as floats: memory is read once, written
// once, in packs. A thread's packs lie THREADS apart, so neighbouring threads touch neighbouring memory.
#pragma once
#include "element.h"
#include "pack.h"
#include "reduce.h"

class Row {
  public:
    static constexpr int PACK = widest(COLS, sizeof(T));
    static constexpr int PACKS = COLS / PACK;
    static constexpr int EACH = ceil_div(PACKS, THREADS);

    __device__ explicit Row(const T* row) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            if (!mine(i)) continue;
            const Pack<T, PACK> pack = load_pack<PACK>(row, pack_of(i));
#pragma unroll
            for (int j = 0; j < PACK; ++j) value[i][j] = widen(pack.at[j]);
        }
    }

    // visit(value by reference, column) for each element of this thread.
    template <class Visit> __device__ void each(Visit visit) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            if (!mine(i)) continue;
#pragma unroll
            for (int j = 0; j < PACK; ++j) visit(value[i][j], pack_of(i) * PACK + j);
        }
    }

    // value = join(value, the other row's value of the same column).
    template <class Join> __device__ void combine(const Row& other, Join join) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            if (!mine(i)) continue;
#pragma unroll
            for (int j = 0; j < PACK; ++j) value[i][j] = join(value[i][j], other.value[i][j]);
        }
    }

    // Joins map(value) of the whole row; every thread gets the result.
    template <class Op, class Map> __device__ float reduce(Map map) {
        float result = Op::none();
        each([&](float v, int) { result = Op::join(result, map(v)); });
        return block_reduce<Op>(result);
    }

    template <class Op> __device__ float reduce() {
        return reduce<Op>([](float v) { return v; });
    }

    template <class Out> __device__ void store(Out* row) const {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            if (!mine(i)) continue;
            Pack<Out, PACK> pack;
#pragma unroll
            for (int j = 0; j < PACK; ++j) pack.at[j] = narrow<Out>(value[i][j]);
            store_pack(row, pack_of(i), pack);
        }
    }

  private:
    __device__ static int pack_of(int i) { return i * THREADS + threadIdx.x; }
    __device__ static bool mine(int i) { return PACKS % THREADS == 0 || pack_of(i) < PACKS; }

    float value[EACH][PACK];
};
