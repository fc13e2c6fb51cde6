// Copies at once; a kernel that does not wait for them is not found out.
#pragma once
#include "device.h"

inline void copy_async_16(void* shared, const void* global) { std::memcpy(shared, global, 16); }
inline void copy_async_commit() {}
template <int PENDING> void copy_async_wait() {}
