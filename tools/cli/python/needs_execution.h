#pragma once

#include <stdexcept>

namespace pipesim {

/// A command runs plans on devices, which takes another program: pipesim-execution.
class NeedsExecution : public std::runtime_error {
 public:
  NeedsExecution() : std::runtime_error("pipesim-execution is needed") {}
};

}  // namespace pipesim
