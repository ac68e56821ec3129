#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "models/fusion/passes.h"

namespace pipesim {

/// A tensor that has the elements of a parameter, each for one index of some dims of a larger tensor.
struct LearnedTensor {
  std::string tensor, weight;
  std::vector<std::size_t> places;  ///< the parameter, and what reshapes or repeats it
  bool frozen = false;
};

/// Returns `tensor` if it is stretched to `full` by numpy's rule and is a parameter over the `count` dims
/// from `first` on; none for others. Nothing else reads what it is made of. Its weight can have the shape of
/// these dims.
std::optional<LearnedTensor> learned_tensor(const EditableModel& model, const std::string& tensor,
                                            const Shape& full, std::size_t first, std::size_t count);

/// Takes the parameters away, and gives their weights to an operator that has none of its own.
void take_weights(EditableModel& model, EditableOperator& op, const std::vector<LearnedTensor>& learned);

}  // namespace pipesim
