#include "taskgraph/plan/repeated_blocks.h"

#include <algorithm>
#include <utility>

#include "models/operator_kind.h"

namespace pipesim {
namespace {

// Operators [begin, end), one that mixes positions among them.
struct Block {
  std::size_t begin = 0, mixer = 0, end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
};

class BlockFinder {
 public:
  explicit BlockFinder(const OperatorGraph& graph) : graph_(graph) {}

  std::vector<std::int32_t> layers() {
    cut_into_blocks();
    std::vector<std::int32_t> layer_of(graph_.operators().size(), -1);
    std::int32_t layers = 0;
    bool repeats = false;
    for (std::size_t first = 0; first < blocks_.size();) {
      const auto [period, count] = repetition(first);
      repeats = repeats || count > 1;
      const std::size_t blocks = stand_alone(first, period) ? 1 : period;  // of a layer
      for (std::size_t i = 0; i < period * count; ++i) {
        // What stands behind the last repetition is no part of it.
        const Block& block = blocks_[first + i];
        const bool last = count > 1 && i + 1 == period * count;
        const std::size_t size = last ? blocks_[first + i - period].size() : size_of(first + i);
        std::fill_n(layer_of.begin() + static_cast<std::ptrdiff_t>(block.begin), size,
                    layers + static_cast<std::int32_t>(i / blocks));
      }
      layers += static_cast<std::int32_t>(count * period / blocks);
      first += period * count;
    }
    if (!repeats) std::ranges::fill(layer_of, -1);
    return layer_of;
  }

 private:
  void cut_into_blocks() {
    std::vector<std::size_t> attentions;
    for (std::size_t i = 0; i < graph_.operators().size(); ++i) {
      if (is_attention_at(OperatorId(i))) attentions.push_back(i);
    }
    if (attentions.size() < 2) return;
    const std::vector<std::int32_t> passing = passing_tensors(attentions);
    for (std::size_t a = 0; a < attentions.size(); ++a) {
      std::size_t begin = a == 0 ? 0 : attentions[a - 1] + 1;
      for (std::size_t i = begin; i <= attentions[a]; ++i) {
        if (passing[i] <= passing[begin]) begin = i;
      }
      if (!blocks_.empty()) blocks_.back().end = begin;
      blocks_.push_back({begin, attentions[a], graph_.operators().size()});
    }
  }

  // The last block ends where an earlier one like it does: what stands behind is no part of it.
  [[nodiscard]] std::size_t size_of(std::size_t block) const {
    if (block + 1 < blocks_.size()) return blocks_[block].size();
    for (std::size_t earlier = 0; earlier < block; ++earlier) {
      if (alike(earlier, block)) return blocks_[earlier].size();
    }
    return blocks_[block].size();
  }

  // Blocks that only repeat together are layers by themselves where each has both of a layer's parts, or a
  // scan.
  [[nodiscard]] bool stand_alone(std::size_t first, std::size_t period) const {
    for (std::size_t i = first; i < first + period; ++i) {
      if (!is_scan(graph_.operators()[blocks_[i].mixer].kind) && !has_feed_forward(blocks_[i])) return false;
    }
    return true;
  }

  // Whether products of a feed-forward part follow the mixer, beside the one that leads back to the stream
  // and the first of the next block, which may stand before its mixer's own.
  [[nodiscard]] bool has_feed_forward(const Block& block) const {
    std::int64_t products = 0;
    for (std::size_t i = block.mixer + 1; i < block.end; ++i) {
      const Operator& op = graph_.operators()[i];
      products += op.matrix && std::ranges::find(op.uses, Role::Weight, &TensorUse::role) != op.uses.end();
    }
    return products > 2;
  }

  static bool is_scan(const std::string& kind) {
    return kind == "state_space_scan" || kind == "selective_scan" || kind == "gated_delta_rule";
  }

  [[nodiscard]] bool is_attention_at(OperatorId id) const {
    const std::string& kind = graph_.op(id).kind;
    return is_attention(kind) || is_scan(kind) || (kind == "softmax" && weighs_values(id));
  }

  // A softmax whose result, perhaps after dropout, is a factor of a product: attention in several operators.
  [[nodiscard]] bool weighs_values(OperatorId id) const {
    const Operator& op = graph_.op(id);
    if (op.kind != "softmax" && op.kind != "dropout") return false;
    const auto output = std::ranges::find(op.uses, Role::Output, &TensorUse::role);
    return output != op.uses.end() &&
           std::ranges::any_of(graph_.consumers(output->tensor), [&](const UseRef& use) {
             const std::string& reader = graph_.op(use.op).kind;
             return reader == "matmul" ||
                    (op.kind == "softmax" && reader == "dropout" && weighs_values(use.op));
           });
  }

  // By operator: how many tensors are made before it and used by it or later. Those that blocks far apart
  // use, such as the result of an encoder, are of no block and do not count.
  [[nodiscard]] std::vector<std::int32_t> passing_tensors(const std::vector<std::size_t>& attentions) const {
    std::vector<std::int32_t> passing(graph_.operators().size() + 1, 0);
    const auto window = [&](std::size_t op) {
      return std::ranges::lower_bound(attentions, op) - attentions.begin();
    };
    for (std::size_t t = 0; t < graph_.tensors().size(); ++t) {
      const Tensor& tensor = graph_.tensors()[t];
      const auto consumers = graph_.consumers(TensorId(t));
      if (consumers.empty() || tensor.kind == TensorKind::Weight || tensor.kind == TensorKind::State)
        continue;
      const std::size_t first = consumers.front().op.index(), last = consumers.back().op.index();
      if (window(last) - window(first) > 1) continue;
      const std::size_t made = tensor.producer.valid() ? tensor.producer.index() + 1 : 0;
      ++passing[made];
      --passing[last + 1];
    }
    for (std::size_t i = 1; i < passing.size(); ++i) passing[i] += passing[i - 1];
    return passing;
  }

  // How many blocks repeat together from `first` on, and how often they come; {1, 1} when nothing repeats.
  [[nodiscard]] std::pair<std::size_t, std::size_t> repetition(std::size_t first) const {
    constexpr std::size_t kMost = 8;  // blocks of a layer
    for (std::size_t period = 1; period <= kMost && first + 2 * period <= blocks_.size(); ++period) {
      std::size_t same = 0;
      while (first + same + period < blocks_.size() && alike(first + same, first + same + period)) ++same;
      if (same >= period) return {period, same / period + 1};
    }
    return {1, 1};
  }

  // The later block begins as the whole earlier one is.
  [[nodiscard]] bool alike(std::size_t earlier, std::size_t later) const {
    const Block &a = blocks_[earlier], &b = blocks_[later];
    if (b.size() < a.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!alike(graph_.operators()[a.begin + i], a, graph_.operators()[b.begin + i], b)) return false;
    }
    return true;
  }

  [[nodiscard]] bool alike(const Operator& a, const Block& of_a, const Operator& b, const Block& of_b) const {
    if (a.kind != b.kind || a.attributes != b.attributes || a.factors != b.factors || a.zigzag != b.zigzag)
      return false;
    return std::ranges::equal(a.uses, b.uses, [&](const TensorUse& x, const TensorUse& y) {
      const Tensor &of_x = graph_.tensor(x.tensor), &of_y = graph_.tensor(y.tensor);
      return x.role == y.role && x.dims == y.dims && of_x.kind == of_y.kind && of_x.shape == of_y.shape &&
             of_x.type == of_y.type && place(of_x, of_a) == place(of_y, of_b);
    });
  }

  // Where in the block a tensor is made; −1 outside.
  static std::int64_t place(const Tensor& tensor, const Block& block) {
    if (!tensor.producer.valid()) return -1;
    const std::size_t op = tensor.producer.index();
    return op >= block.begin && op < block.end ? static_cast<std::int64_t>(op - block.begin) : -1;
  }

  const OperatorGraph& graph_;
  std::vector<Block> blocks_;
};

}  // namespace

std::vector<std::int32_t> repeated_blocks(const OperatorGraph& graph) { return BlockFinder(graph).layers(); }

}  // namespace pipesim
