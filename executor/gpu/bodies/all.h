#pragma once

#include "executor/gpu/bodies/addends.h"
#include "executor/gpu/bodies/attention.h"
#include "executor/gpu/bodies/attention_gradients.h"
#include "executor/gpu/bodies/bahdanau.h"
#include "executor/gpu/bodies/bahdanau_gradients.h"
#include "executor/gpu/bodies/batch_norm.h"
#include "executor/gpu/bodies/binary.h"
#include "executor/gpu/bodies/column_sums.h"
#include "executor/gpu/bodies/conv2d.h"
#include "executor/gpu/bodies/cross_entropy.h"
#include "executor/gpu/bodies/dropout.h"
#include "executor/gpu/bodies/elementwise.h"
#include "executor/gpu/bodies/embedding.h"
#include "executor/gpu/bodies/experts.h"
#include "executor/gpu/bodies/library_calls.h"
#include "executor/gpu/bodies/linear.h"
#include "executor/gpu/bodies/links.h"
#include "executor/gpu/bodies/lstm_cell.h"
#include "executor/gpu/bodies/moves.h"
#include "executor/gpu/bodies/optimizer.h"
#include "executor/gpu/bodies/pool2d.h"
#include "executor/gpu/bodies/reduce.h"
#include "executor/gpu/bodies/rotary.h"
#include "executor/gpu/bodies/row_norm.h"
#include "executor/gpu/bodies/row_norm_weights.h"
#include "executor/gpu/bodies/shape.h"
#include "executor/gpu/bodies/softmax.h"
#include "executor/gpu/bodies/strided_copy.h"

namespace pipesim::gpu {

template <class... Lists>
struct JoinedLists;
template <class... Body>
struct JoinedLists<BodyList<Body...>> {
  using Type = BodyList<Body...>;
};
template <class... A, class... B, class... Rest>
struct JoinedLists<BodyList<A...>, BodyList<B...>, Rest...> : JoinedLists<BodyList<A..., B...>, Rest...> {};

/// All bodies, numbered through. A new one stands in the list of its file; a new file's list stands here.
using AllBodies =
    JoinedLists<AddendBodies, AttentionBodies, AttentionGradientBodies, BahdanauBodies,
                BahdanauGradientBodies, BatchNormBodies, BinaryBodies, ColumnSumBodies, Conv2dBodies,
                CrossEntropyBodies, DropoutBodies, ElementwiseBodies, EmbeddingBodies, ExpertBodies,
                LibraryCallBodies, LinearBodies, LinkBodies, LstmBodies, MoveBodies, OptimizerBodies,
                Pool2dBodies, ReduceBodies, RotaryBodies, RowNormBodies, RowNormWeightBodies, ShapeBodies,
                SoftmaxBodies, StridedCopyBodies>::Type;

template <class Body>
constexpr std::size_t body_number() {
  return place_in<Body>(AllBodies());
}

}  // namespace pipesim::gpu
