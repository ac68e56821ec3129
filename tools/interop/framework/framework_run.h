#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/cost_model.h"
#include "search/recipes/recipe.h"

namespace pipesim {

/// A run of a framework as pipesim expresses it.
struct FrameworkRun {
  std::string_view framework;  ///< as framework_named() takes it
  std::string model;           ///< text of open_model(), without its batch
  Recipe recipe;               ///< complete
  std::int64_t samples = 0;    ///< of an iteration
  double score_dropout = 0;    ///< rate at which attention drops scores, which matters where it writes them
  Optimizer optimizer = Optimizer::Adam;
  DataType gradient_type = DataType::Float32;
  std::optional<OptimizerKernel> optimizer_kernel;  ///< nothing: as the framework's runtime has it
  /// What brings tokens to experts, and how many multiprocessors it is given (Runtime::dispatcher); 0: its
  /// usual.
  Dispatcher dispatcher = Dispatcher::AsModel;
  std::int32_t dispatcher_multiprocessors = 0;
  CudaGraphs graphs;
  bool expandable_segments = false;  ///< of PyTorch's allocator, where the framework's runtime has fixed ones
  std::vector<std::string> left_out;     ///< "--tp-comm-overlap: products and …": what is taken otherwise
  std::optional<std::int64_t> launched;  ///< devices that its script starts; nothing: no file says that
};

}  // namespace pipesim
