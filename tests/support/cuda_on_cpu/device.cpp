// The fibers below device.h, and the one function that Python calls.
#include "device.h"

#include <ucontext.h>

#include <algorithm>
#include <vector>

Dim threadIdx, blockIdx;

namespace {

struct Barrier {
    unsigned size = 0, arrived = 0, round = 0;

    void release_if_full() {
        if (arrived > 0 && arrived == size) arrived = 0, ++round;
    }
};

struct Thread {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(64 << 10);
    bool ended = false, at_block_barrier = false;
    unsigned round = 0;  // of the barrier where it waits
};

struct Warp {
    Barrier barrier;
    alignas(16) char slots[32][64];
};

using Kernel = void(void*, void*, void*, void*, void*, void*);

ucontext_t scheduler;
std::vector<Thread> threads;
std::vector<Warp> warps;
Barrier block;
Kernel* kernel;
void* arguments[6];

Warp& my_warp() { return warps[threadIdx.x / 32]; }

void wait(Barrier& barrier) {
    Thread& me = threads[threadIdx.x];
    me.at_block_barrier = &barrier == &block;
    me.round = barrier.round;
    ++barrier.arrived;
    barrier.release_if_full();
    while (barrier.round == me.round) swapcontext(&me.context, &scheduler);
    me.at_block_barrier = false;
}

void live() {
    kernel(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
    threads[threadIdx.x].ended = true;
    for (Barrier* barrier : {&my_warp().barrier, &block}) {
        --barrier->size;
        barrier->release_if_full();
    }
}

// A warp runs as far as it can without the others: what it must not do before they are ready, it does.
void run_warp(const std::vector<unsigned>& order, unsigned first) {
    for (bool moved = true; moved;) {
        moved = false;
        for (unsigned i = first; i < first + 32; ++i) {
            Thread& thread = threads[order[i]];
            if (thread.ended || (thread.at_block_barrier && thread.round == block.round)) continue;
            threadIdx = {order[i], 0};
            swapcontext(&scheduler, &thread.context);
            moved = true;
        }
    }
}

void run_block(const std::vector<unsigned>& order) {
    block = Barrier{unsigned(threads.size())};
    for (Warp& warp : warps) warp.barrier = Barrier{32};
    for (Thread& thread : threads) {
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.data();
        thread.context.uc_stack.ss_size = thread.stack.size();
        thread.context.uc_link = &scheduler;
        thread.ended = thread.at_block_barrier = false;
        makecontext(&thread.context, live, 0);
    }
    while (block.size > 0)
        for (unsigned first = 0; first < order.size(); first += 32) run_warp(order, first);
}

}  // namespace

void __syncwarp() { wait(my_warp().barrier); }
void __syncthreads() { wait(block); }
void* warp_slot(unsigned lane) { return my_warp().slots[lane]; }

// Runs the grid; backwards, threads and blocks take their turns from the last to the first, so that a missing barrier
// shows in one of the two.
extern "C" void run_grid(Kernel* called, const int* launch, void** given, bool backwards) {
    kernel = called;
    std::copy(given, given + 6, arguments);
    threads.resize(launch[2]);
    warps.resize(launch[2] / 32);
    std::vector<unsigned> order(launch[2]);
    for (unsigned i = 0; i < order.size(); ++i) order[i] = backwards ? order.size() - 1 - i : i;
    const int blocks = launch[0] * launch[1];
    for (int i = 0; i < blocks; ++i) {
        const int number = backwards ? blocks - 1 - i : i;
        blockIdx = {unsigned(number % launch[0]), unsigned(number / launch[0])};
        run_block(order);
    }
}
