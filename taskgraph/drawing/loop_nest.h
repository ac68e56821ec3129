#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/operator_graph.h"
#include "taskgraph/plan/parallel_config.h"

namespace pipesim {

/// A loop over a part of a factor. Split factors have two: over their parts, on devices, and inside a part.
struct FactorLoop {
  std::string
      variable;  ///< "b0" over parts, "b1" inside one; "b" where the factor is whole, "copy" of copies
  std::vector<std::int64_t> extents;  ///< one; inside of parts of several lengths each length, ascending
  bool parallel = false;              ///< its iterations are on different devices
  bool reduces = false;               ///< its iterations add to the same elements of the result
};

/// What the devices of a split operator have to move or add, whatever its neighbours are.
struct SplitTraffic {
  enum class When : std::uint8_t { Forward, Backward, Update };
  enum class What : std::uint8_t {
    Copies,     ///< each of the devices needs the same part, or has it
    Addends,    ///< each makes an addend of the same part; these are summed
    Statistic,  ///< inside the pass, reduced before it goes on
    Blocks      ///< inside the pass, passed round a ring
  };
  When when = When::Forward;
  What what = What::Copies;
  std::string tensor;             ///< of backward and update its gradient; of a statistic "max" or "sum"
  std::vector<std::string> over;  ///< parallel loops
  std::int64_t members = 1;       ///< devices that this is among: iterations of these loops
  std::int64_t groups = 1;        ///< of such devices
  Bytes size;                     ///< of the largest part, on one device
};

/// An operator under a config as nested loops, in the manner of tensor programs (Feng et al., TensorIR,
/// arXiv:2207.04296): which loops run on which devices, what one shard computes, and what follows for
/// communication from the tensors that do not follow a parallel loop (operator algebra, section 3).
struct LoopNest {
  std::vector<FactorLoop> loops;     ///< parallel ones first, in the order of shards; then those of a shard
  std::vector<std::string> indices;  ///< "b = b0 * 32 + b1", of split factors of the results
  std::vector<std::string> reduced_indices;  ///< the same, of those that results are summed over
  std::string device;                        ///< "b0 * 4 + o0"
  std::vector<std::string> body;             ///< of the innermost loop: "fc[b, o] += x[b, i] * fc.w[i, o]"
  std::vector<std::string> after;            ///< once for each element of a result: "fc[b, o] += fc.b[o]"
  std::vector<SplitTraffic> traffic;         ///< in the order of passes
};

/// The config must be legal but for its devices, which are not looked at.
LoopNest loop_nest(const OperatorGraph& graph, const Operator& op, const ParallelConfig& config);

/// The loops as text, two blanks deeper in each. `shard`: a comment at the loops of one shard; "": none.
std::string text_of(const LoopNest& nest, std::string_view shard);

}  // namespace pipesim
