#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

constexpr double unseen = -std::numeric_limits<double>::infinity();

/// values: q[b, s, i, d], k[b, t, d], w[b, s, i] unless by_head, selected[b, s, n] or selected[b, s, i, n].
class SelectKeys : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Sizes sizes(call);
    const std::int64_t rows = sizes.by_head ? sizes.i : 1;
    for (std::int64_t row = 0; row < sizes.b * sizes.s * rows; ++row) {
      const std::vector<double> scores = scores_of(call, sizes, row / rows, row % rows);
      const std::vector<std::int64_t> keys = selected(scores, sizes.count, sizes.block);
      std::int64_t* result = call.values.back().integers + row * sizes.count;
      std::fill(std::copy(keys.begin(), keys.end(), result), result + sizes.count, std::int64_t{-1});
    }
  }

 private:
  struct Sizes {
    explicit Sizes(const ShardCall& call)
        : count(integer_of(call.op, "count")),
          block(integer_of(call.op, "block")),
          by_head(integer_of(call.op, "by_head") != 0) {
      const Box q = box_of(call, 0);
      b = q[0].length(), s = q[1].length(), i = q[2].length(), d = q[3].length();
      first_query = q[1].begin, t = box_of(call, 1)[1].length();
    }
    std::int64_t count, block;
    bool by_head;
    std::int64_t b = 0, s = 0, i = 0, d = 0, t = 0, first_query = 0;
  };

  /// The scores of all keys that a query sees, for one head or for all of them.
  static std::vector<double> scores_of(const ShardCall& call, const Sizes& sizes, std::int64_t query,
                                       std::int64_t head) {
    const std::int64_t sample = query / sizes.s, position = sizes.first_query + query % sizes.s;
    std::vector<double> scores;
    for (std::int64_t key = 0; key <= position; ++key) {
      const float* k = call.values[1].floats + (sample * sizes.t + key) * sizes.d;
      const auto product = [&](std::int64_t i) {
        const float* q = call.values[0].floats + (query * sizes.i + i) * sizes.d;
        double sum = 0;
        for_each_term(sizes.d, call.step.sums,
                      [&](std::int64_t j) { sum += static_cast<double>(q[j]) * static_cast<double>(k[j]); });
        return sum;
      };
      double score = sizes.by_head ? product(head) : 0;
      for (std::int64_t i = 0; !sizes.by_head && i < sizes.i; ++i)
        score += static_cast<double>(call.values[2].floats[query * sizes.i + i]) * std::max(product(i), 0.0);
      scores.push_back(std::isnan(score) ? unseen : score);
    }
    return scores;
  }

  /// The positions of the largest scores in ascending order. Blocks of more than one key count by their
  /// largest score, and the last one, which is the query's own, before all others.
  static std::vector<std::int64_t> selected(const std::vector<double>& scores, std::int64_t count,
                                            std::int64_t block) {
    const std::int64_t keys = std::ssize(scores), blocks = (keys + block - 1) / block;
    std::vector<std::pair<double, std::int64_t>> order;  // of −score and block
    for (std::int64_t n = 0; n < blocks; ++n) {
      const auto first = scores.begin() + n * block, end = scores.begin() + std::min((n + 1) * block, keys);
      const bool own = block > 1 && n + 1 == blocks;
      order.emplace_back(own ? unseen : -*std::max_element(first, end), n);
    }
    const std::int64_t taken = std::min(count / block, blocks);
    std::partial_sort(order.begin(), order.begin() + taken, order.end());
    std::vector<std::int64_t> positions;
    for (std::int64_t n = 0; n < taken; ++n) {
      const std::int64_t first = order[static_cast<std::size_t>(n)].second * block;
      for (std::int64_t key = first; key < std::min(first + block, keys); ++key) positions.push_back(key);
    }
    std::sort(positions.begin(), positions.end());
    return positions;
  }
};

/// values: q[b, s, g, r, d], k[b, t, g, d], v[b, t, g, e], selected[b, s, n] or selected[b, s, g, n], o[b, s,
/// g, r, e]. Of the selected keys, a query sees those up to its own position. One that sees none gets 0.
class SelectedAttention : public Kernel {
 public:
  /// Log of each row's Σ exp.
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return sizeof(float) * static_cast<std::size_t>(volume(pipesim::box_of(op.uses[0], op, ranges), 0, 4));
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Sizes sizes(call);
    for (std::int64_t row = 0; row < sizes.rows(); ++row) {
      const std::vector<std::int64_t> keys = sizes.keys_of(call, row);
      std::vector<double> shares = scores_of(call, sizes, row, keys);
      double most = unseen, sum = 0;
      for (const double score : shares) most = std::max(most, score);
      for_each_term(std::ssize(shares), call.step.sums, [&](std::int64_t i) {
        double& share = shares[static_cast<std::size_t>(i)];
        sum += share = std::exp(share - most);
      });
      saved_floats(call)[row] = static_cast<float>(keys.empty() ? unseen : most + std::log(sum));
      for (std::int64_t j = 0; j < sizes.e; ++j) {
        double result = 0;
        for_each_term(std::ssize(keys), call.step.sums, [&](std::int64_t i) {
          const auto at = static_cast<std::size_t>(i);
          result += shares[at] / sum * value(call, v, sizes.of_key(row, keys[at]) * sizes.e + j);
        });
        call.values[o].floats[row * sizes.e + j] = static_cast<float>(result);
      }
    }
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Sizes sizes(call);
    std::vector<std::vector<double>> sums;  // for the gradients of q, k and v
    for (const Use use : {q, k, v})
      sums.emplace_back(static_cast<std::size_t>(box_of(call, use).elements()), 0.0);
    for_each_term(sizes.rows(), call.step.sums, [&](std::int64_t row) { send_back(call, sizes, row, sums); });
    for (const Use use : {q, k, v}) {
      if (!call.gradients[use].present()) continue;
      std::ranges::transform(sums[use], call.gradients[use].floats,
                             [](double sum) { return static_cast<float>(sum); });
    }
  }

 private:
  enum Use : std::size_t { q, k, v, selected, o };

  struct Sizes {
    explicit Sizes(const ShardCall& call) {
      const Box queries = box_of(call, q), chosen = box_of(call, selected);
      b = queries[0].length(), s = queries[1].length(), g = queries[2].length(), r = queries[3].length();
      d = queries[4].length(), e = box_of(call, v)[3].length(), t = box_of(call, k)[1].length();
      first_query = queries[1].begin, n = chosen[chosen.dims() - 1].length();
      by_group = chosen.dims() == 4;
    }
    /// Rows are queries of all heads, [b, s, g, r].
    [[nodiscard]] std::int64_t rows() const { return b * s * g * r; }
    /// The row of a key, or of its value, for the sample and the group of a query's row.
    [[nodiscard]] std::int64_t of_key(std::int64_t row, std::int64_t key) const {
      return (row / (s * g * r) * t + key) * g + row / r % g;
    }
    /// The selected keys that a query sees.
    [[nodiscard]] std::vector<std::int64_t> keys_of(const ShardCall& call, std::int64_t row) const {
      const std::int64_t position = first_query + row / (g * r) % s;
      const std::int64_t* chosen = call.values[selected].integers + row / (by_group ? r : g * r) * n;
      std::vector<std::int64_t> keys;
      std::copy_if(chosen, chosen + n, std::back_inserter(keys),
                   [&](std::int64_t key) { return key >= 0 && key <= position; });
      return keys;
    }
    std::int64_t b = 0, s = 0, g = 0, r = 0, t = 0, d = 0, e = 0, n = 0, first_query = 0;
    bool by_group = false;
    [[nodiscard]] double scale() const { return 1 / std::sqrt(static_cast<double>(d)); }
  };

  static double value(const ShardCall& call, Use use, std::int64_t i) {
    return static_cast<double>(call.values[use].floats[i]);
  }

  static std::vector<double> scores_of(const ShardCall& call, const Sizes& sizes, std::int64_t row,
                                       const std::vector<std::int64_t>& keys) {
    std::vector<double> scores;
    for (const std::int64_t key : keys) {
      double sum = 0;
      for (std::int64_t j = 0; j < sizes.d; ++j)
        sum += value(call, q, row * sizes.d + j) * value(call, k, sizes.of_key(row, key) * sizes.d + j);
      scores.push_back(sum * sizes.scale());
    }
    return scores;
  }

  /// dv = p · do, dz = p · (do · v − Σ do · o), dq = dz · k and dk = dz · q, both scaled as scores are.
  static void send_back(const ShardCall& call, const Sizes& sizes, std::int64_t row,
                        std::vector<std::vector<double>>& sums) {
    const std::vector<std::int64_t> keys = sizes.keys_of(call, row);
    const std::vector<double> scores = scores_of(call, sizes, row, keys);
    const auto of_result = [&](std::int64_t j) {
      return static_cast<double>(call.gradients[o].floats[row * sizes.e + j]);
    };
    const auto add = [&](Use use, std::int64_t i, double addend) {
      sums[use][static_cast<std::size_t>(i)] += addend;
    };
    double average = 0;
    for (std::int64_t j = 0; j < sizes.e; ++j) average += of_result(j) * value(call, o, row * sizes.e + j);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::int64_t key = sizes.of_key(row, keys[i]);
      const double share = std::exp(scores[i] - static_cast<double>(saved_floats(call)[row]));
      double of_share = 0;
      for (std::int64_t j = 0; j < sizes.e; ++j) {
        of_share += of_result(j) * value(call, v, key * sizes.e + j);
        add(v, key * sizes.e + j, share * of_result(j));
      }
      const double of_score = share * (of_share - average) * sizes.scale();
      for (std::int64_t j = 0; j < sizes.d; ++j) {
        add(q, row * sizes.d + j, of_score * value(call, k, key * sizes.d + j));
        add(k, key * sizes.d + j, of_score * value(call, q, row * sizes.d + j));
      }
    }
  }
};

}  // namespace

std::vector<KernelEntry> selected_attention_kernels() {
  static const SelectKeys select;
  static const SelectedAttention attention;
  return {{"select_keys", &select}, {"selected_attention", &attention}};
}

}  // namespace pipesim::cpu
