#include "executor/operators/attention.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "executor/cpu/kernels/gemm.h"
#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/dropout_mask.h"

namespace pipesim::cpu {
namespace {

constexpr double nothing_seen = -std::numeric_limits<double>::infinity();

/// A matrix whose rows lie `stride` apart.
struct StridedRows {
  const float* first = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;
  /// Row i is row row_of(i).
  template <class RowOf = std::identity>
  [[nodiscard]] std::vector<float> packed(RowOf row_of = {}) const {
    std::vector<float> copy(static_cast<std::size_t>(rows * columns));
    for (std::int64_t i = 0; i < rows; ++i)
      std::copy_n(first + row_of(i) * stride, columns, copy.data() + i * columns);
    return copy;
  }
};

void unpack_rows(const std::vector<float>& from, std::int64_t columns, std::int64_t stride, float* to) {
  const std::int64_t rows = std::ssize(from) / columns;
  for (std::int64_t i = 0; i < rows; ++i) std::copy_n(from.data() + i * columns, columns, to + i * stride);
}

/// Returns for how many queries scores are held at a time: about a million scores.
std::int64_t queries_at_once(const AttentionSizes& a) {
  return std::clamp<std::int64_t>((std::int64_t{1} << 20) / std::max<std::int64_t>(1, a.r * a.t), 1, a.s);
}

/// The keys of a call in the order of their positions, which a zigzag order scatters.
class KeyOrder {
 public:
  KeyOrder(const AttentionSizes& a, const ZigzagOrder& order) : causal_(a.causal) {
    for (std::int64_t key = 0; key < a.t; ++key) keys_.emplace_back(order.position(a.first_key + key), key);
    std::ranges::sort(keys_);
  }
  /// The position of key number i in the whole sequence.
  [[nodiscard]] std::int64_t position(std::int64_t i) const {
    return keys_[static_cast<std::size_t>(i)].first;
  }
  /// The row of key number i in the shard's tensors.
  [[nodiscard]] std::int64_t row(std::int64_t i) const { return keys_[static_cast<std::size_t>(i)].second; }
  /// The number of keys that a query at this position sees; they are the first ones.
  [[nodiscard]] std::int64_t seen_from(std::int64_t query) const {
    if (!causal_) return std::ssize(keys_);
    const auto behind = [](std::int64_t at, const auto& key) { return at < key.first; };
    return std::upper_bound(keys_.begin(), keys_.end(), query, behind) - keys_.begin();
  }
  /// The number of keys before a position.
  [[nodiscard]] std::int64_t before(std::int64_t position) const {
    const auto ahead = [](const auto& key, std::int64_t at) { return key.first < at; };
    return std::lower_bound(keys_.begin(), keys_.end(), position, ahead) - keys_.begin();
  }

 private:
  bool causal_;
  std::vector<std::pair<std::int64_t, std::int64_t>> keys_;
};

/// Queries [begin, end) of one sample and one key-value head: rows (s, r) of packed matrices.
struct QueryBlock {
  const AttentionSizes& a;
  const ZigzagOrder& order;
  const KeyOrder& key_order;
  std::int64_t sample, head, begin, end;

  /// The position of a query in the whole sequence.
  [[nodiscard]] std::int64_t position(std::int64_t query) const {
    return order.position(a.first_query + query);
  }
  /// The number of keys of this shard up to its query's position; they are the first ones in the order of
  /// positions.
  [[nodiscard]] std::int64_t seen(std::int64_t query) const { return key_order.seen_from(position(query)); }
  /// The number of these that the query doesn't see, since documents or a window leave them out.
  [[nodiscard]] std::int64_t left_out(std::int64_t query) const {
    return a.causal ? key_order.before(a.mask.first(position(query))) : 0;
  }

  [[nodiscard]] std::int64_t rows() const { return (end - begin) * a.r; }
  /// q, o and their gradients: [b, s, g, r, depth].
  [[nodiscard]] std::int64_t query_offset(std::int64_t depth) const {
    return ((sample * a.s + begin) * a.g + head) * a.r * depth;
  }
  /// k, v and their gradients: [b, t, g, depth].
  [[nodiscard]] std::int64_t key_offset(std::int64_t depth) const {
    return (sample * a.t * a.g + head) * depth;
  }
  /// Statistics and saved sums: [b, s, g, r].
  [[nodiscard]] std::int64_t row(std::int64_t i) const {
    return query_offset(1) + i / a.r * a.g * a.r + i % a.r;
  }

  [[nodiscard]] std::vector<float> queries(const float* tensor, std::int64_t depth) const {
    return StridedRows{tensor + query_offset(depth), end - begin, a.r * depth, a.g * a.r * depth}.packed();
  }
  void store_queries(const std::vector<float>& rows, std::int64_t depth, float* tensor) const {
    unpack_rows(rows, a.r * depth, a.g * a.r * depth, tensor + query_offset(depth));
  }
  /// Returns the keys' rows in the order of their positions.
  [[nodiscard]] std::vector<float> keys(const float* tensor, std::int64_t depth) const {
    const StridedRows rows{tensor + key_offset(depth), a.t, depth, a.g * depth};
    return rows.packed([&](std::int64_t key) { return key_order.row(key); });
  }
  void store_keys(const std::vector<float>& rows, std::int64_t depth, float* tensor) const {
    float* to = tensor + key_offset(depth);
    for (std::int64_t key = 0; key < a.t; ++key)
      std::copy_n(rows.data() + key * depth, depth, to + key_order.row(key) * a.g * depth);
  }
};

/// Which elements of the softmax are kept, for scored attention with dropout.
class ScoreDropout {
 public:
  explicit ScoreDropout(const ShardCall& call) : numbers_(call.op, call.ranges, call.step.microbatch) {
    const double rate = dropped_scores(call.op);
    if (rate > 0) mask_.emplace(call.op.name, call.step, rate);
  }

  /// Applies it to the first `seen` elements of row i, which belong to keys from the shard's first one on.
  void apply(const QueryBlock& block, std::int64_t i, std::int64_t seen, float* elements) const {
    if (!mask_) return;
    const std::int64_t r = block.a.r, first_key = block.a.first_key;
    const std::uint64_t first = numbers_.first_of(block.sample, block.begin + i / r, block.head, i % r);
    for (std::int64_t j = 0; j < seen; ++j)
      elements[j] =
          (*mask_)(first + static_cast<std::uint64_t>(block.key_order.position(j) - first_key), elements[j]);
  }

 private:
  ScoreNumbers numbers_;
  std::optional<DropoutMask> mask_;
};

/// values: q[b, s, g, r, d], k[b, t, g, d], v[b, t, g, e], biases by distance bias[bucket, g, r] if
/// there are any, sink[g, r] if there are any, o[b, s, g, r, e]. Statistics of each row (b, s, g, r): forward
/// the largest score, Σ exp; backward Σ do·o. Each shard computes its keys' softmax at once (the online
/// softmax of Milakov and Gimelshein, 2018) and rescales when the statistics of all keys are known, so that
/// scores are computed once. What scored attention keeps is made again in backward. o is one addend over t;
/// queries that see no key of the shard get 0.
///
/// In a ring a shard is called for one block of keys after the other. The first segment of forward brings the
/// rows so far, and the logs of their sums, together with the block's.
class Attention : public Kernel {
 public:
  /// Log of each row's Σ exp.
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return sizeof(float) * static_cast<std::size_t>(volume(pipesim::box_of(op.uses[0], op, ranges), 0, 4));
  }

  void forward(const ShardCall& call, std::size_t segment) const override {
    if (segment == 0) {
      for_each_block(call, [&](const QueryBlock& block) { attend(call, block); });
    } else if (segment == 1) {
      for (std::size_t i = 0; i < call.statistics[0].size(); ++i) {
        const double most = call.statistics[0][i], own = static_cast<double>(saved_floats(call)[i]);
        call.statistics[1][i] = own == nothing_seen ? 0.0 : std::exp(own - most);
      }
    } else {
      rescale(call);
    }
  }

  void backward_input(const ShardCall& call, std::size_t segment) const override {
    if (segment == 0) return multiply_results(call);
    for (std::size_t u = 1; u <= 2; ++u) {
      const Piece& gradient = call.gradients[u];
      if (gradient.present()) std::fill_n(gradient.floats, gradient.elements(), 0.0F);
    }
    std::vector<double> biases;  // gradients, if anybody wants them
    const Piece* wanted = has_biases(call.op) ? &call.gradients[bias] : nullptr;
    if (wanted != nullptr && wanted->present()) biases.resize(static_cast<std::size_t>(wanted->elements()));
    for_each_block(call, [&](const QueryBlock& block) { send_back(call, block, biases); });
    for (std::size_t i = 0; i < biases.size(); ++i) {
      const double before = call.continues ? static_cast<double>(wanted->floats[i]) : 0;
      wanted->floats[i] = static_cast<float>(before + biases[i]);
    }
    send_back_to_sinks(call);
  }

 private:
  static constexpr std::size_t bias = 3;  ///< a use of relative and biased attention only
  static std::size_t output(const ShardCall& call) { return call.op.uses.size() - 1; }
  template <class Visit>
  static void for_each_block(const ShardCall& call, Visit visit) {
    const AttentionSizes a(call.op, call.ranges);
    const ZigzagOrder order = zigzag_of(call.op);
    const KeyOrder keys(a, order);
    const std::int64_t block = queries_at_once(a);
    for (std::int64_t head = 0; head < a.b * a.g; ++head) {
      for (std::int64_t begin = 0; begin < a.s; begin += block) {
        visit(QueryBlock{a, order, keys, head / a.g, head % a.g, begin, std::min(a.s, begin + block)});
      }
    }
  }

  /// Which element of the biases each score that is seen gets, if there are any.
  template <class Visit>
  static void for_each_bias(const ShardCall& call, const QueryBlock& block, Visit visit) {
    if (!has_biases(call.op)) return;
    if (!is_relative_attention(call.op)) return for_each_input_bias(call, block, visit);
    const RelativeBuckets buckets(call.op);
    const AttentionSizes& a = block.a;
    for (std::int64_t i = 0; i < block.rows(); ++i) {
      const std::int64_t query = block.begin + i / a.r;
      for (std::int64_t j = block.left_out(query); j < block.seen(query); ++j) {
        const std::int64_t bucket = buckets.of(block.key_order.position(j) - block.position(query));
        visit(static_cast<std::size_t>(i * a.t + j),
              static_cast<std::size_t>((bucket * a.g + block.head) * a.r + i % a.r));
      }
    }
  }

  template <class Visit>
  static void for_each_input_bias(const ShardCall& call, const QueryBlock& block, Visit visit) {
    const InputBiases biases(call.op, call.ranges);
    const AttentionSizes& a = block.a;
    for (std::int64_t i = 0; i < block.rows(); ++i) {
      const std::int64_t query = block.begin + i / a.r;
      for (std::int64_t j = block.left_out(query); j < block.seen(query); ++j) {
        const std::int64_t key = block.key_order.row(j);
        visit(static_cast<std::size_t>(i * a.t + j),
              static_cast<std::size_t>(biases.of(block.sample, block.head, i % a.r, query, key)));
      }
    }
  }

  static void add_slopes(const ShardCall& call, const QueryBlock& block, std::vector<float>& scores) {
    if (!is_alibi(call.op)) return;
    const AlibiSlopes slopes(call.op, call.ranges);
    const AttentionSizes& a = block.a;
    for (std::int64_t i = 0; i < block.rows(); ++i) {
      const float slope = slopes.of(block.head, i % a.r);
      const std::int64_t query = block.position(block.begin + i / a.r);
      for (std::int64_t j = 0; j < a.t; ++j)
        scores[static_cast<std::size_t>(i * a.t + j)] -=
            slope * static_cast<float>(std::abs(block.key_order.position(j) - query));
    }
  }

  /// The score of row i that has no value; nothing where there is none, or where another shard or an earlier
  /// block of keys has brought it in.
  static double sink_of(const ShardCall& call, const QueryBlock& block, std::int64_t i) {
    if (!has_sinks(call.op) || call.continues) return nothing_seen;
    const Piece& sinks = call.values[sink_use(call.op)];
    return sinks.present() ? static_cast<double>(sinks.floats[block.head * block.a.r + i % block.a.r])
                           : nothing_seen;
  }

  /// −Σ over rows of the sink's part of their softmax times Σ do·o: it has no value, so that only what the
  /// others lose to it counts.
  static void send_back_to_sinks(const ShardCall& call) {
    if (!has_sinks(call.op) || call.continues || !call.gradients[sink_use(call.op)].present()) return;
    const Piece &sinks = call.values[sink_use(call.op)], &wanted = call.gradients[sink_use(call.op)];
    std::vector<double> sums(static_cast<std::size_t>(wanted.elements()));
    for (std::size_t row = 0; row < call.statistics[0].size(); ++row) {
      const std::size_t i = row % sums.size();
      sums[i] -=
          std::exp(static_cast<double>(sinks.floats[i] - saved_floats(call)[row])) * call.statistics[0][row];
    }
    for (std::size_t i = 0; i < sums.size(); ++i) wanted.floats[i] = static_cast<float>(sums[i]);
  }

  /// [rows, t], without the mask. `slopes`: the derivatives of capped scores, where somebody wants them.
  static std::vector<float> scores(const ShardCall& call, const QueryBlock& block,
                                   const std::vector<float>& q, const std::vector<float>& k,
                                   std::vector<float>* slopes = nullptr) {
    const AttentionSizes& a = block.a;
    std::vector<float> result(static_cast<std::size_t>(block.rows() * a.t));
    multiply({block.rows(), a.t, a.d, false, true, false, call.step.sums}, q.data(), k.data(), result.data(),
             call.op.name);
    for (float& score : result) score *= a.scale;
    if (a.cap > 0) {
      for (float& score : result) score = capped_score(score, a.cap);
      if (slopes != nullptr)
        for (const float score : result) slopes->push_back(slope_of_capped(score, a.cap));
    }
    for_each_bias(call, block, [&](std::size_t score, std::size_t element) {
      result[score] += call.values[bias].floats[element];
    });
    add_slopes(call, block, result);
    return result;
  }

  /// Parts that two sets of keys have in a row's softmax over both, from the logs of their Σ exp.
  struct Shares {
    Shares(double log_before, double log_own) {
      const double most = std::max(log_before, log_own);
      if (most == nothing_seen) return;
      log_sum = most + std::log(std::exp(log_before - most) + std::exp(log_own - most));
      before = static_cast<float>(std::exp(log_before - log_sum));
      own = static_cast<float>(std::exp(log_own - log_sum));
    }
    double log_sum = nothing_seen;
    float before = 0, own = 0;
  };

  static void attend(const ShardCall& call, const QueryBlock& block) {
    const AttentionSizes& a = block.a;
    const ScoreDropout dropout(call);
    std::vector<Shares> shares;
    std::vector<float> p = scores(call, block, block.queries(call.values[0].floats, a.d),
                                  block.keys(call.values[1].floats, a.d));
    for (std::int64_t i = 0; i < block.rows(); ++i) {
      const auto row = static_cast<std::size_t>(block.row(i));
      float* own = p.data() + i * a.t;
      const std::int64_t query = block.begin + i / a.r;
      const std::int64_t first = block.left_out(query), seen = block.seen(query);
      const double sink = sink_of(call, block, i);
      double log_sum = nothing_seen, &largest = call.statistics[0][row];
      largest = sink;
      if (seen > first)
        largest = std::max(largest, static_cast<double>(*std::max_element(own + first, own + seen)));
      if (seen > first || sink > nothing_seen)
        log_sum = normalise_row(own + first, seen - first, largest, sink, call.step.sums);
      std::fill(own, own + first, 0.0F);
      dropout.apply(block, i, seen, own);
      std::fill(own + seen, own + a.t, 0.0F);
      shares.emplace_back(call.continues ? static_cast<double>(saved_floats(call)[row]) : nothing_seen,
                          log_sum);
      saved_floats(call)[row] = static_cast<float>(shares.back().log_sum);
    }
    std::vector<float> o(static_cast<std::size_t>(block.rows() * a.e));
    multiply({block.rows(), a.e, a.t, false, false, false, call.step.sums}, p.data(),
             block.keys(call.values[2].floats, a.e).data(), o.data(), call.op.name);
    if (call.continues) bring_together(block.queries(call.values[output(call)].floats, a.e), shares, o);
    block.store_queries(o, a.e, call.values[output(call)].floats);
  }

  static void bring_together(const std::vector<float>& before, const std::vector<Shares>& shares,
                             std::vector<float>& o) {
    const std::size_t depth = o.size() / shares.size();
    for (std::size_t i = 0; i < o.size(); ++i) {
      const Shares& row = shares[i / depth];
      o[i] = row.own * o[i] + row.before * before[i];
    }
  }

  /// Turns scores into their part of the softmax over them and a score without a value; returns the log of
  /// Σ exp.
  static double normalise_row(float* row, std::int64_t n, double largest, double sink, SumOrder order) {
    const auto most = static_cast<float>(largest);
    double sum = std::exp(sink - largest);
    for (std::int64_t j = 0; j < n; ++j) row[j] = std::exp(row[j] - most);
    for_each_term(n, order, [&](std::int64_t j) { sum += static_cast<double>(row[j]); });
    const auto share = static_cast<float>(1 / sum);
    for (std::int64_t j = 0; j < n; ++j) row[j] *= share;
    return largest + std::log(sum);
  }

  /// From the softmax over the shard's keys to its part of the softmax over all keys.
  static void rescale(const ShardCall& call) {
    const Piece& o = call.values[output(call)];
    const std::int64_t depth = o.box[4].length();
    for (std::size_t i = 0; i < call.statistics[0].size(); ++i) {
      const double own = static_cast<double>(saved_floats(call)[i]);
      const double all = call.statistics[0][i] + std::log(call.statistics[1][i]);
      const auto share = static_cast<float>(own == nothing_seen ? 0.0 : std::exp(own - all));
      float* row = o.floats + static_cast<std::int64_t>(i) * depth;
      for (std::int64_t j = 0; j < depth; ++j) row[j] *= share;
      saved_floats(call)[i] = static_cast<float>(all);
    }
  }

  static void multiply_results(const ShardCall& call) {
    const Piece& o = call.values[output(call)];
    const std::int64_t depth = o.box[4].length();
    for (std::size_t i = 0; i < call.statistics[0].size(); ++i) {
      const std::int64_t first = static_cast<std::int64_t>(i) * depth;
      double sum = 0;
      for_each_term(depth, call.step.sums, [&](std::int64_t j) {
        sum += static_cast<double>(o.floats[first + j]) *
               static_cast<double>(call.gradients[output(call)].floats[first + j]);
      });
      call.statistics[0][i] = sum;
    }
  }

  /// Adds up gradients of one block: dv = pᵀ·do, dk = dzᵀ·q, dq = dz·k with dz = p·(do·vᵀ − Σ do·o)·scale.
  /// Adds dz / scale to the gradients of the biases, unless that list is empty.
  static void send_back(const ShardCall& call, const QueryBlock& block, std::vector<double>& biases) {
    const AttentionSizes& a = block.a;
    const SumOrder order = call.step.sums;
    const std::vector<float> q = block.queries(call.values[0].floats, a.d);
    const std::vector<float> k = block.keys(call.values[1].floats, a.d);
    const std::vector<float> d_o = block.queries(call.gradients[output(call)].floats, a.e);
    std::vector<float> slopes, p = scores(call, block, q, k, &slopes), dz(p.size());
    multiply({block.rows(), a.t, a.e, false, true, false, order}, d_o.data(),
             block.keys(call.values[2].floats, a.e).data(), dz.data(), call.op.name);
    const ScoreDropout dropout(call);
    for (std::int64_t i = 0; i < block.rows(); ++i) score_gradients(call, block, i, dropout, p, dz);
    if (!biases.empty()) {
      for_each_bias(call, block, [&](std::size_t score, std::size_t element) {
        biases[element] += static_cast<double>(dz[score]);
      });
    }
    for (float& gradient : dz) gradient *= a.scale;
    for (std::size_t i = 0; i < slopes.size(); ++i) dz[i] *= slopes[i];
    if (call.gradients[0].present()) {
      std::vector<float> dq(q.size());
      if (call.continues) dq = block.queries(call.gradients[0].floats, a.d);
      multiply({block.rows(), a.d, a.t, false, false, call.continues, order}, dz.data(), k.data(), dq.data(),
               call.op.name);
      block.store_queries(dq, a.d, call.gradients[0].floats);
    }
    add_to_keys(call, block, dz, q, a.d, call.gradients[1]);
    add_to_keys(call, block, p, d_o, a.e, call.gradients[2]);
  }

  /// Row i of the scores becomes what dropout leaves of the softmax, of do·vᵀ the gradient of the scores.
  static void score_gradients(const ShardCall& call, const QueryBlock& block, std::int64_t i,
                              const ScoreDropout& dropout, std::vector<float>& p, std::vector<float>& dz) {
    const AttentionSizes& a = block.a;
    const std::int64_t row = block.row(i), query = block.begin + i / a.r;
    const std::int64_t first = block.left_out(query), seen = block.seen(query);
    const float log_sum = saved_floats(call)[row];
    const auto average = static_cast<float>(call.statistics[0][static_cast<std::size_t>(row)]);
    float *own = p.data() + i * a.t, *gradient = dz.data() + i * a.t;
    dropout.apply(block, i, seen, gradient);
    for (std::int64_t j = first; j < seen; ++j) {
      own[j] = std::exp(own[j] - log_sum);
      gradient[j] = own[j] * (gradient[j] - average);
    }
    std::fill(own, own + first, 0.0F);
    std::fill(gradient, gradient + first, 0.0F);
    dropout.apply(block, i, seen, own);
    std::fill(own + seen, own + a.t, 0.0F);
    std::fill(gradient + seen, gradient + a.t, 0.0F);
  }

  /// gradient[t, depth] += rowsᵀ[t, rows] · factors[rows, depth].
  static void add_to_keys(const ShardCall& call, const QueryBlock& block, const std::vector<float>& rows,
                          const std::vector<float>& factors, std::int64_t depth, const Piece& gradient) {
    if (!gradient.present()) return;
    const AttentionSizes& a = block.a;
    std::vector<float> sum = block.keys(gradient.floats, depth);
    multiply({a.t, depth, block.rows(), true, false, true, call.step.sums}, rows.data(), factors.data(),
             sum.data(), call.op.name);
    block.store_keys(sum, depth, gradient.floats);
  }
};

}  // namespace

std::vector<KernelEntry> attention_kernels() {
  static const Attention attention;
  return {{"attention", &attention},
          {"alibi_attention", &attention},
          {"biased_attention", &attention},
          {"relative_attention", &attention},
          {"scored_attention", &attention}};
}

}  // namespace pipesim::cpu
