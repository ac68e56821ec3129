#pragma once

#include <string>
#include <string_view>

#include "executor/operators/convolution.h"

namespace pipesim::cpu {

using Convolution = ConvolutionShape;

// Convolutions of float32 arrays, none of them empty. Each overwrites its last argument array. DeviceError
// with `name`, the operator's, if oneDNN refuses.

void convolve(const Convolution& c, const float* x, const float* w, float* y, std::string_view name);
void convolve_for_input(const Convolution& c, const float* dy, const float* w, float* dx,
                        std::string_view name);
void convolve_for_weight(const Convolution& c, const float* x, const float* dy, float* dw,
                         std::string_view name);

/// The version of oneDNN: "2.6.3".
std::string onednn_version();

}  // namespace pipesim::cpu
