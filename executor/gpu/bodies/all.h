#pragma once

#include "executor/gpu/bodies/addends.h"
#include "executor/gpu/bodies/batch_norm.h"
#include "executor/gpu/bodies/column_sums.h"
#include "executor/gpu/bodies/conv2d.h"
#include "executor/gpu/bodies/elementwise.h"
#include "executor/gpu/bodies/linear.h"
#include "executor/gpu/bodies/moves.h"
#include "executor/gpu/bodies/optimizer.h"
#include "executor/gpu/bodies/pool2d.h"
#include "executor/gpu/bodies/shape.h"
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
    JoinedLists<AddendBodies, BatchNormBodies, ColumnSumBodies, Conv2dBodies, ElementwiseBodies, LinearBodies,
                MoveBodies, OptimizerBodies, Pool2dBodies, ShapeBodies, StridedCopyBodies>::Type;

template <class Body>
constexpr std::size_t body_number() {
  return place_in<Body>(AllBodies());
}

}  // namespace pipesim::gpu
