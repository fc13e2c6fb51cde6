// The matrix instructions in plain C++, by the fragment layouts of the PTX ISA.
#pragma once
#include "device.h"
#include "element.h"

namespace tensor_core {

struct A { unsigned part[4]; };
struct B { unsigned part[2]; };
struct C { float at[4]; };

template <class E> float half_of(unsigned part, int which) {
    E pair[2];
    std::memcpy(pair, &part, sizeof pair);
    return widen(pair[which]);
}

// Element (row, k) of the 16 x 16 operand lies in lane row % 8 * 4 + k % 8 / 2, element (k, column) of the 16 x 8 one
// in lane column * 4 + k % 8 / 2.
template <class E> void multiply_add(C& c, const A& a, const B& b, E) {
    struct Operands { A a; B b; };
    const int lane = threadIdx.x % 32;
    c = show(Operands{a, b}, [&](auto of_lane) {
        C sum = c;
        for (int i = 0; i < 4; ++i) {
            const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            for (int k = 0; k < 16; ++k) {
                const unsigned left = of_lane(row % 8 * 4 + k % 8 / 2).a.part[row / 8 + k / 8 * 2];
                const unsigned right = of_lane(column * 4 + k % 8 / 2).b.part[k / 8];
                sum.at[i] += half_of<E>(left, k % 2) * half_of<E>(right, k % 2);
            }
        }
        return sum;
    });
}

template <bool TRANSPOSED> void load(unsigned (&part)[4], const void* row) {
    const int lane = threadIdx.x % 32;
    struct Parts { unsigned part[4]; };
    const Parts parts = show(row, [=](auto of_lane) {
        Parts parts;
        for (int tile = 0; tile < 4; ++tile) {
            std::uint16_t pair[2];
            for (int i = 0; i < 2; ++i) {
                const int r = TRANSPOSED ? lane % 4 * 2 + i : lane / 4, c = TRANSPOSED ? lane / 4 : lane % 4 * 2 + i;
                pair[i] = static_cast<const std::uint16_t*>(of_lane(tile * 8 + r))[c];
            }
            std::memcpy(&parts.part[tile], pair, sizeof pair);
        }
        return parts;
    });
    std::memcpy(part, parts.part, sizeof part);
}

inline void load_tiles(unsigned (&part)[4], const void* row) { load<false>(part, row); }
inline void load_tiles_transposed(unsigned (&part)[4], const void* row) { load<true>(part, row); }

}  // namespace tensor_core
