// The tensor core's 16 x 8 x 16 step for float16 and bfloat16 with float sums, and the loads that feed it.
// Fragments are as PTX ISA lays them out: lane l holds rows l/4 and l/4 + 8, columns 2(l%4) and the next.
#pragma once
#include "element.h"

namespace tensor_core {

struct A { unsigned part[4]; };  // 16 x 16: quarters upper left, lower left, upper right, lower right
struct B { unsigned part[2]; };  // 16 x 8: upper and lower half
struct C { float at[4]; };       // 16 x 8: row l/4 in at[0..1], row l/4 + 8 in at[2..3]

__device__ inline void multiply_add(C& c, const A& a, const B& b, element::float16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.at[0]), "+f"(c.at[1]), "+f"(c.at[2]), "+f"(c.at[3])
        : "r"(a.part[0]), "r"(a.part[1]), "r"(a.part[2]), "r"(a.part[3]), "r"(b.part[0]), "r"(b.part[1]));
}

__device__ inline void multiply_add(C& c, const A& a, const B& b, element::bfloat16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.at[0]), "+f"(c.at[1]), "+f"(c.at[2]), "+f"(c.at[3])
        : "r"(a.part[0]), "r"(a.part[1]), "r"(a.part[2]), "r"(a.part[3]), "r"(b.part[0]), "r"(b.part[1]));
}

// Four 8 x 8 tiles of 16-bit elements from shared memory; lane l names row l%8 of tile l/8, 16-byte aligned.
__device__ inline void load_tiles(unsigned (&part)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(part[0]), "=r"(part[1]), "=r"(part[2]), "=r"(part[3])
                 : "r"(unsigned(__cvta_generic_to_shared(row)))
                 : "memory");
}

__device__ inline void load_tiles_transposed(unsigned (&part)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(part[0]), "=r"(part[1]), "=r"(part[2]), "=r"(part[3])
                 : "r"(unsigned(__cvta_generic_to_shared(row)))
                 : "memory");
}

}  // namespace tensor_core
