#pragma once

#include <cstdint>
#include <string_view>

namespace pipesim {

/// When the devices of a pipeline that reduces gradients once an iteration begin to do so. It says nothing of
/// other plans: without a pipeline, gradients are reduced beside backward.
enum class GradientReduction : std::uint8_t {
  Overlapped,  ///< as soon as backward has made them (Megatron-LM's --overlap-grad-reduce); where links are
               ///< shared, what stages before wait for queues up behind it
  AfterSteps   ///< when all steps of the devices that hold the weight are done
};

/// "overlapped", "after-steps".
std::string_view name_of(GradientReduction reduction);
/// InputError with those that are allowed.
GradientReduction parse_gradient_reduction(std::string_view name);

}  // namespace pipesim
