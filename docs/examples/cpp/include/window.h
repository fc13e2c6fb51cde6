// The sliding window of convolution and pooling over NCHW tensors of BATCH x CHANNELS x HEIGHT x WIDTH:
// KERNEL x KERNEL, moved by STRIDE, with PAD rows and columns around the image.
#pragma once

namespace window {

constexpr int HEIGHT_OUT = (HEIGHT + 2 * PAD - KERNEL) / STRIDE + 1;
constexpr int WIDTH_OUT = (WIDTH + 2 * PAD - KERNEL) / STRIDE + 1;

// Calls visit(offset in the image, offset in the kernel) for each point of the window that is not padding.
template <class Visit> void each(int y, int x, Visit visit) {
    for (int ky = 0; ky < KERNEL; ++ky)
        for (int kx = 0; kx < KERNEL; ++kx) {
            const int row = y * STRIDE + ky - PAD, col = x * STRIDE + kx - PAD;
            if (row >= 0 && row < HEIGHT && col >= 0 && col < WIDTH) visit(row * WIDTH + col, ky * KERNEL + kx);
        }
}

}  // namespace window
