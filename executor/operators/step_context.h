#pragma once

#include <cstdint>

#include "executor/operators/sum_order.h"

namespace pipesim {

/// Which training step runs, for all devices and operators alike.
struct StepContext {
  std::uint64_t seed = 0;  ///< of data, initial weights and dropout masks
  std::int64_t step = 0;
  std::int64_t microbatch = 0;    ///< of `microbatches`; samples of the batch are numbered through
  std::int64_t microbatches = 1;  ///< the loss is divided by the rows of all of them together
  std::int64_t added_up = 1;      ///< gradients are divided by those of so many, see UpdateWork::averaged
  SumOrder sums = SumOrder::Ascending;  ///< how contracted indices are added up
};

}  // namespace pipesim
