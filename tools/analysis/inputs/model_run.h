#pragma once

#include <cstdint>
#include <string>

namespace pipesim {

/// A model by its text, with the batch of one microbatch, and the number of microbatches in an iteration.
struct ModelRun {
  std::string model;
  std::int32_t microbatches = 1;
};

}  // namespace pipesim
