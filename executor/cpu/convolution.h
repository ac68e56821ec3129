#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace pipesim::cpu {

/// A 2-D convolution of a shard, [rows, columns] where there are two. x[samples, groups·in, image],
/// w[groups·out, in, kernel], y[samples, groups·out, result]; all row-major float32, none of them empty.
struct Convolution {
  std::int64_t samples = 0, groups = 1, in = 0, out = 0;  ///< in, out: channels of one group
  std::array<std::int64_t, 2> image{}, result{}, kernel{}, stride{}, dilation{};
  std::array<std::int64_t, 2> pad_low{}, pad_high{};  ///< zeros around the image
};

// Each overwrites its last array. DeviceError with `name`, the operator's, if oneDNN refuses.

void convolve(const Convolution& c, const float* x, const float* w, float* y, std::string_view name);
void convolve_for_input(const Convolution& c, const float* dy, const float* w, float* dx,
                        std::string_view name);
void convolve_for_weight(const Convolution& c, const float* x, const float* dy, float* dw,
                         std::string_view name);

/// Of the library that convolves: "2.6.3".
std::string onednn_version();

}  // namespace pipesim::cpu
