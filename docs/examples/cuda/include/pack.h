// SIZE neighbours in memory, moved by one instruction of up to 16 bytes.
#pragma once

template <class E, int SIZE> struct alignas(sizeof(E) * SIZE) Pack {
    E at[SIZE];
};

// The largest SIZE that divides a run of `count` elements of `bytes` each and fits into 16 bytes. Runs that are
// cut into such packs stay aligned, row after row.
__host__ __device__ constexpr int widest(int count, int bytes) {
    int size = 16 / bytes;
    while (count % size != 0) size /= 2;
    return size;
}

template <int SIZE, class E> __device__ Pack<E, SIZE> load_pack(const E* run, int pack) {
    return reinterpret_cast<const Pack<E, SIZE>*>(run)[pack];
}

template <int SIZE, class E> __device__ void store_pack(E* run, int pack, const Pack<E, SIZE>& value) {
    reinterpret_cast<Pack<E, SIZE>*>(run)[pack] = value;
}
