#pragma once

#include <cstdint>
#include <string>

namespace pipesim {

/// A model by its text, whose batch is one microbatch, and how many of them an iteration has.
struct ModelRun {
  std::string model;
  std::int32_t microbatches = 1;
};

}  // namespace pipesim
