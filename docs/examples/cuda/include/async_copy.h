// cp.async (sm_80 and newer): 16 bytes from global to shared memory, past the registers. Copies are committed in
// groups; a thread waits for its own, so others see them only after a barrier too.
#pragma once

__device__ inline void copy_async_16(void* shared, const void* global) {
    const unsigned to = unsigned(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}

__device__ inline void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most PENDING of the latest groups are still on their way.
template <int PENDING> __device__ inline void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
