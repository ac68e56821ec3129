#pragma once

#include <array>
#include <vector>

#include "models/operator_kind.h"

namespace pipesim {

// One function per file of this folder. A new file is listed here, nowhere else.
std::vector<OperatorKind> attention_kinds();
std::vector<OperatorKind> causal_convolution_kinds();
std::vector<OperatorKind> convolution_kinds();
std::vector<OperatorKind> einsum_kinds();
std::vector<OperatorKind> elementwise_kinds();
std::vector<OperatorKind> embedding_kinds();
std::vector<OperatorKind> expert_kinds();
std::vector<OperatorKind> indexing_kinds();
std::vector<OperatorKind> linear_attention_kinds();
std::vector<OperatorKind> linear_kinds();
std::vector<OperatorKind> loss_kinds();
std::vector<OperatorKind> normalization_kinds();
std::vector<OperatorKind> opaque_kinds();
std::vector<OperatorKind> pointwise_kinds();
std::vector<OperatorKind> pooling_kinds();
std::vector<OperatorKind> profiled_kinds();
std::vector<OperatorKind> recurrent_kinds();
std::vector<OperatorKind> reduction_kinds();
std::vector<OperatorKind> resizing_kinds();
std::vector<OperatorKind> shape_kinds();
std::vector<OperatorKind> sparse_attention_kinds();
std::vector<OperatorKind> state_space_kinds();

inline constexpr std::array operator_families = {attention_kinds,
                                                 causal_convolution_kinds,
                                                 convolution_kinds,
                                                 einsum_kinds,
                                                 elementwise_kinds,
                                                 embedding_kinds,
                                                 expert_kinds,
                                                 indexing_kinds,
                                                 linear_attention_kinds,
                                                 linear_kinds,
                                                 loss_kinds,
                                                 normalization_kinds,
                                                 opaque_kinds,
                                                 pointwise_kinds,
                                                 pooling_kinds,
                                                 profiled_kinds,
                                                 recurrent_kinds,
                                                 reduction_kinds,
                                                 resizing_kinds,
                                                 shape_kinds,
                                                 sparse_attention_kinds,
                                                 state_space_kinds};

}  // namespace pipesim
