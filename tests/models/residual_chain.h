#pragma once

#include <cstdint>
#include <vector>

#include "models/graph_builder.h"

namespace pipesim {

/// Words, then `blocks` times x + f(x), then a loss: 2^blocks paths lead through it, so that whatever follows
/// each of them never ends. Samples have 4 words of 50, and 10 labels each.
inline OperatorGraph residual_chain(std::int64_t blocks, std::int64_t batch) {
  GraphBuilder b("residual chain", batch);
  const std::vector<std::int64_t> width{8}, classes{10};
  TensorId x = b.add("embedding", "embedding", {b.data("words", {batch, 4}, DataType::Int64)},
                     {{"rows", std::int64_t{50}}, {"width", width[0]}});
  for (std::int64_t i = 1; i <= blocks; ++i) {
    b.begin_repeat("block", i);
    x = b.add("add", "sum", {x, b.add("linear", "f", {x}, {{"out", width}})});
    b.end_repeat();
  }
  const TensorId scores = b.add("linear", "scores", {x}, {{"out", classes}});
  b.add("cross_entropy", "loss", {scores, b.data("labels", {batch, 4}, DataType::Int64)});
  return b.build();
}

}  // namespace pipesim
