#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "executor/gpu/machine/machine.h"
#include "sim/base/rng.h"

namespace pipesim::gpu {

/// Elements in a device's memory, and the same in the host's, for what is expected of them.
class Twin {
 public:
  /// `skip`: elements before the first, so that it is aligned to one element only.
  Twin(Machine& machine, Stored stored, std::int64_t elements, DeviceId device = DeviceId(0),
       std::int64_t skip = 0)
      : machine_(machine),
        device_(device),
        stored_(stored),
        elements_(elements),
        skip_(bytes_of(stored, skip)),
        host_(bytes_of(stored, elements + skip)),
        memory_(machine.allocate(device, Bytes(static_cast<std::int64_t>(host_.size())))) {}
  ~Twin() { machine_.release(device_, memory_, Bytes(static_cast<std::int64_t>(host_.size()))); }
  Twin(const Twin&) = delete;
  Twin& operator=(const Twin&) = delete;

  [[nodiscard]] Floats on_device() const { return {memory_ + skip_, stored_}; }
  [[nodiscard]] Floats on_host() { return {host_.data() + skip_, stored_}; }
  [[nodiscard]] std::int64_t elements() const { return elements_; }

  /// The same random numbers in both.
  void fill(Stream& stream, Rng& rng) {
    for (std::int64_t i = 0; i < elements_; ++i) on_host().set(i, static_cast<float>(rng.uniform() * 2 - 1));
    upload(stream);
  }
  void upload(Stream& stream) { stream.upload(memory_, host_.data(), host_.size()); }
  [[nodiscard]] std::vector<float> downloaded(Stream& stream) const {
    std::vector<std::byte> bytes(host_.size());
    stream.download(bytes.data(), memory_, bytes.size());
    const Floats read{bytes.data() + skip_, stored_};
    std::vector<float> values;
    for (std::int64_t i = 0; i < elements_; ++i) values.push_back(read[i]);
    return values;
  }
  /// Expects both to be equal up to rounding: `error` of the largest, and one place of the stored type.
  void expect_same(Stream& stream, double error) {
    const std::vector<float> found = downloaded(stream);
    double largest = 0;
    for (std::int64_t i = 0; i < elements_; ++i)
      largest = std::max(largest, std::fabs(static_cast<double>(on_host()[i])));
    const double place = stored_ == Stored::BFloat16  ? 0x1p-7
                         : stored_ == Stored::Float16 ? 0x1p-10
                                                      : 0x1p-22;
    for (std::int64_t i = 0; i < elements_; ++i) {
      const auto wanted = static_cast<double>(on_host()[i]);
      const double off = std::fabs(static_cast<double>(found[static_cast<std::size_t>(i)]) - wanted);
      ASSERT_LE(off, error * largest + place * std::fabs(wanted)) << "element " << i << " of " << elements_;
    }
  }

 private:
  Machine& machine_;
  DeviceId device_;
  Stored stored_;
  std::int64_t elements_;
  std::size_t skip_;
  std::vector<std::byte> host_;
  std::byte* memory_;
};

}  // namespace pipesim::gpu
