#pragma once

#include <string>
#include <string_view>

#include "executor/operators/convolution.h"
#include "executor/operators/sum_order.h"

namespace pipesim::cpu {

using Convolution = ConvolutionShape;

// Convolutions of float32 arrays with 2 or 3 spatial dims, none of them empty. Each overwrites its last
// array. `order`: of the sums over channels or, for the kernel's gradient, over samples. DeviceError with
// `name`, the operator's, if oneDNN refuses.

template <std::size_t dims>
void convolve(const ConvolutionOver<dims>& c, const float* x, const float* w, float* y, std::string_view name,
              SumOrder order = SumOrder::Ascending);
template <std::size_t dims>
void convolve_for_input(const ConvolutionOver<dims>& c, const float* dy, const float* w, float* dx,
                        std::string_view name, SumOrder order = SumOrder::Ascending);
template <std::size_t dims>
void convolve_for_weight(const ConvolutionOver<dims>& c, const float* x, const float* dy, float* dw,
                         std::string_view name, SumOrder order = SumOrder::Ascending);

/// The version of oneDNN: "2.6.3".
std::string onednn_version();

}  // namespace pipesim::cpu
