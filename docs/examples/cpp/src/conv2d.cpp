// 2-D convolution, NCHW, FILTERS filters over all channels; see window.h for the shape.
#include "element.h"
#include "window.h"

extern "C" void conv2d(const T* image, const T* filter, T* out) {
    using namespace window;
    for (int b = 0; b < BATCH; ++b)
        for (int f = 0; f < FILTERS; ++f)
            for (int y = 0; y < HEIGHT_OUT; ++y)
                for (int x = 0; x < WIDTH_OUT; ++x) {
                    Acc sum = 0;
                    for (int c = 0; c < CHANNELS; ++c) {
                        const T* from = image + (b * CHANNELS + c) * HEIGHT * WIDTH;
                        const T* weight = filter + (f * CHANNELS + c) * KERNEL * KERNEL;
                        each(y, x, [&](int at, int k) { sum += Acc(from[at]) * Acc(weight[k]); });
                    }
                    *out++ = narrow<T>(sum);
                }
}
