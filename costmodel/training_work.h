#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/operator_graph.h"
#include "topologies/topology.h"

namespace pipesim {

/// How model FLOPs are counted, in which frameworks differ. Everywhere a multiplication and an addition are
/// two FLOPs, and backward is twice forward.
struct FlopsCounting {
  /// Which pairs of query and key count under a causal mask: half of them, which is what the mask leaves, or
  /// all, masked ones too.
  enum class CausalAttention : std::uint8_t { Half, Full };
  CausalAttention causal = CausalAttention::Half;
  bool documents_apart = true;  ///< under a causal mask, pairs within packed documents and windows alone
  bool routers = true;          ///< products that score the experts count
  std::string framework = {};   ///< the title of that which counts so; "": pipesim itself
  bool operator==(const FlopsCounting&) const = default;
};

/// The work of one microbatch as practitioners count it, to compare runs.
struct TrainingWork {
  /// 3 times the forward FLOPs of matrix products, those of attention among them: forward once, backward
  /// twice, or once where the weights are frozen. Experts count for each token that is routed to them,
  /// dropped or not; rows that fill up their capacity do not. Softmax, biases and other point-wise work do
  /// not count, nor does what runs again (Narayanan et al., arXiv:2104.04473, section 5.1; Chowdhery et al.,
  /// arXiv:2204.02311, appendix B).
  double model_flops = 0;
  /// What the kernels of products and attention compute, as the cost model times them: pairs that a fused
  /// causal kernel skips do not count; its softmax, scores that it makes again in backward, and forward of
  /// operators that run again do. At the peak rate it takes no longer than predicted.
  double hardware_flops = 0;
  /// Tokens that the loss counts, or the loss of several that counts most; 0 where a sample has a single
  /// label.
  std::int64_t tokens = 0;
  bool causal = false;  ///< some attention is causal
};
/// `again`: whether an operator runs forward a second time; empty: none does.
TrainingWork training_work(const OperatorGraph& graph, const FlopsCounting& counting = {},
                           const std::function<bool(OperatorId)>& again = {});

/// What the rate of a model is divided by.
struct PeakRate {
  FlopsPerSecond all;  ///< of all devices together
  /// The types whose rates these are, without repeats: several where kinds of devices lack the model's type.
  std::vector<DataType> types;
};

/// The peak rates for the type in which the model's products multiply: float8 where any of them does, on
/// devices that have a rate of it.
PeakRate peak_rate(const OperatorGraph& graph, const Topology& topology);

}  // namespace pipesim
