#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/fusion/editable_model.h"

namespace pipesim {

// What fuse() does, in this order. Each takes time that grows with the number of operators.

/// Mean squared errors, and binary cross entropies of a sigmoid, whose target comes in.
void join_losses(EditableModel& model);
/// Functions of elements and of rows that are written in elementary operators: gelu, layer_norm, softmax …
void join_written_functions(EditableModel& model);
void join_attention(EditableModel& model, const std::set<std::string>& causal_masks);
/// group_norm over a view of the channels; gamma and beta behind a norm without them.
void join_norms(EditableModel& model);
/// Parameters that are added to products without a bias.
void join_biases(EditableModel& model);
/// embedding, then reduce over a sample's rows.
void join_embedding_bags(EditableModel& model);

using Shape = std::vector<std::int64_t>;

inline bool is_kind(const EditableOperator* op, std::string_view kind) {
  return op != nullptr && op->request.kind == kind;
}

}  // namespace pipesim
