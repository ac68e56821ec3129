#pragma once

#include "executor/communication/combining.h"
#include "executor/elements/element_formats.h"
#include "executor/gpu/bodies/parts/body.h"

namespace pipesim::gpu {

/// result[i] = the sum or the maximum of `members` addends, in order. The result may be one of them.
template <class Format>
struct Combine {
  static constexpr int kMostMembers = 64;
  using Element = typename Format::Stored;
  const Element* addends[kMostMembers];  // a plain array, so that device code may index it
  Element* result;
  int members;
  bool maximum;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    typename Format::Computed all = Format::load(addends[0][i]);
    for (int m = 1; m < members; ++m) {
      const typename Format::Computed next = Format::load(addends[m][i]);
      all = maximum ? max_of(all, next) : sum_of(all, next);
    }
    result[i] = Format::store(all);
  }
};

using AddendBodies =
    BodyList<Combine<PlainElement<float>>, Combine<PlainElement<double>>, Combine<BFloat16Element>,
             Combine<Float16Element>, Combine<PlainElement<std::int64_t>>,
             Combine<PlainElement<std::int32_t>>, Combine<PlainElement<std::uint8_t>>>;

}  // namespace pipesim::gpu
