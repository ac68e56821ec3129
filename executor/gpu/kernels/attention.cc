#include "executor/gpu/kernels/attention.h"

#include <algorithm>
#include <optional>

#include "executor/gpu/bodies/attention.h"
#include "executor/gpu/bodies/attention_gradients.h"
#include "executor/gpu/steps/kernel_call.h"

namespace pipesim::gpu {
namespace {

constexpr std::size_t kBiasUse = 3;  // of relative attention only

std::byte* scratch_for(Stream& stream, std::int64_t elements, std::size_t bytes) {
  return stream.scratch(static_cast<std::size_t>(elements) * bytes);
}

// One call: its operands as matrices, and memory for the scores of a block.
class AttentionWork {
 public:
  AttentionWork(const ShardCall& call, const AttentionLimits& limits)
      : call_(call), stream_(call.stream), sizes_(call.op, call.ranges), limits_(limits) {
    const AttentionSizes& a = sizes_;
    const bool small = a.b > 1 && a.g * a.r * a.s * a.t * a.d < limits.large_sample;
    pack_queries_ = a.g > 1 && (a.r > 1 || small);
    pack_keys_ = a.g > 1 && small && a.order.plain();
  }

  [[nodiscard]] const AttentionSizes& sizes() const { return sizes_; }

  [[nodiscard]] HeadTensor queries(const Piece& piece, std::int64_t depth) const {
    return {sizes_, piece.floats(), sizes_.s, sizes_.r, depth};
  }
  [[nodiscard]] HeadTensor keys(const Piece& piece, std::int64_t depth) const {
    return {sizes_, piece.floats(), sizes_.t, 1, depth, sizes_.order};
  }
  [[nodiscard]] HeadTensor read_queries(const Piece& piece, std::int64_t depth) const {
    HeadTensor tensor = queries(piece, depth);
    if (pack_queries_) tensor.pack(stream_, true);
    return tensor;
  }
  [[nodiscard]] HeadTensor read_keys(const Piece& piece, std::int64_t depth) const {
    HeadTensor tensor = keys(piece, depth);
    if (pack_keys_ || !sizes_.order.plain()) tensor.pack(stream_, pack_keys_);
    return tensor;
  }
  [[nodiscard]] HeadTensor written_queries(const Piece& piece, std::int64_t depth) const {
    HeadTensor tensor = queries(piece, depth);
    if (pack_queries_) tensor.stage(stream_, tensor.stored(), true);
    return tensor;
  }
  /// Zeros where blocks of queries add to it, or leave keys out.
  [[nodiscard]] HeadTensor written_keys(const Piece& piece, std::int64_t depth, bool adds) const {
    HeadTensor tensor = keys(piece, depth);
    const Stored stored = adds ? Stored::Float32 : tensor.stored();
    if (pack_keys_ || stored != tensor.stored() || !sizes_.order.plain())
      tensor.stage(stream_, stored, pack_keys_);
    if (adds || (sizes_.s > 0 && sizes_.seen_by_any({0, sizes_.s}) < sizes_.t)) tensor.zero(stream_);
    return tensor;
  }

  [[nodiscard]] BlockLengths lengths(std::int64_t bytes) const { return {sizes_, bytes, limits_}; }
  /// Memory for the scores of a block.
  [[nodiscard]] Floats scores(const BlockLengths& lengths, Stored stored) const {
    const std::int64_t rows = std::min(lengths.heads, sizes_.b * sizes_.g) * lengths.queries * sizes_.r;
    return {scratch_for(stream_, rows * ScoreBlock::stride_of(sizes_.t), bytes_of(stored)), stored};
  }
  /// The same memory where that type is float32.
  [[nodiscard]] Floats narrowed(const BlockLengths& lengths, const Floats& wide, Stored stored) const {
    return stored == Stored::Float32 ? wide : scores(lengths, stored);
  }

  /// Blocks of the same heads one after the other, the first queries first.
  template <class Visit>
  void for_each_block(const BlockLengths& lengths, Visit visit) const {
    const std::int64_t heads = sizes_.b * sizes_.g;
    for (std::int64_t head = 0; head < heads; head += lengths.heads) {
      for (std::int64_t query = 0; query < sizes_.s; query += lengths.queries) {
        visit(ScoreBlock(sizes_, {head, std::min(heads, head + lengths.heads)},
                         {query, std::min(sizes_.s, query + lengths.queries)}));
      }
    }
  }

  [[nodiscard]] ScoreRules rules() const {
    const double rate = dropped_scores(call_.op);
    Floats sinks;
    if (has_sinks(call_.op) && call_.values[sink_use(call_.op)].present())
      sinks = call_.values[sink_use(call_.op)].floats();
    ScoreRules rules{.cap = sizes_.cap,
                     .sinks = sinks,
                     .biases = nullptr,
                     .distances = DistanceBiases(sizes_),
                     .drops = rate > 0,
                     .rate = DropoutRate(call_.op.name, rate),
                     .numbers = ScoreNumbers(call_.op, call_.ranges, call_.step.microbatch),
                     .step = call_.device_step};
    const bool learned = is_relative_attention(call_.op);
    if (!learned && !is_alibi(call_.op)) return rules;
    const std::int64_t elements = sizes_.g * sizes_.r * rules.distances.distances();
    auto* spread = reinterpret_cast<float*>(scratch_for(stream_, elements, sizeof(float)));
    if (learned) {
      run(stream_, elements,
          SpreadBiases{call_.values[kBiasUse].floats(), rules.distances, RelativeBuckets(call_.op), spread});
    } else {
      run(stream_, elements, SpreadSlopes{AlibiSlopes(call_.op, call_.ranges), rules.distances, spread});
    }
    rules.biases = spread;
    return rules;
  }

 private:
  const ShardCall& call_;
  Stream& stream_;
  AttentionSizes sizes_;
  AttentionLimits limits_;
  bool pack_queries_ = false, pack_keys_ = false;
};

/// See the CPU's kernel for values and statistics. Scores of a block of heads and queries are computed at a
/// time, in float32; their softmax has the type of the values. Masked keys that no query of a block sees are
/// left out.
class Attention : public Kernel {
 public:
  explicit Attention(const AttentionLimits& limits) : limits_(limits) {}

  /// Log of each row's Σ exp.
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return sizeof(float) * static_cast<std::size_t>(volume(box_of(op.uses[0], op, ranges), 0, 4));
  }

  void forward(const ShardCall& call, std::size_t segment) const override {
    if (segment == 0) return attend(call);
    const auto rows = static_cast<std::int64_t>(call.statistics[0].size());
    const double* largest = call.statistics[0].data();
    double* sums = call.statistics[1].data();
    if (segment == 1) return run(call.stream, rows, SumsFromLargest{largest, log_sums(call), sums});
    const AttentionSizes a(call.op, call.ranges);
    if (a.t == call.op.uses[1].dims[1].extent) return;  // all keys are here
    run(call.stream, rows, RescaleResults{largest, sums, log_sums(call), call.values.back().floats(), a.e});
  }

  void backward_input(const ShardCall& call, std::size_t segment) const override {
    if (segment == 1) return send_back(call);
    const Piece &o = call.values.back(), &gradient = call.gradients.back();
    run(call.stream, static_cast<std::int64_t>(call.statistics[0].size()),
        ProductsOfResults{o.floats(), gradient.floats(), o.box[4].length(), call.statistics[0].data()});
  }

 private:
  static float* log_sums(const ShardCall& call) { return reinterpret_cast<float*>(call.saved.data()); }

  void attend(const ShardCall& call) const {
    const AttentionWork work(call, limits_);
    const AttentionSizes& a = work.sizes();
    const HeadTensor q = work.read_queries(call.values[0], a.d), k = work.read_keys(call.values[1], a.d),
                     v = work.read_keys(call.values[2], a.e),
                     o = work.written_queries(call.values.back(), a.e);
    const bool wide = v.stored() == Stored::Float32;
    const BlockLengths lengths = work.lengths(wide ? 4 : 6);
    const Floats scores = work.scores(lengths, Stored::Float32);
    const Floats shares = work.narrowed(lengths, scores, v.stored());
    const ScoreRules rules = work.rules();
    work.for_each_block(lengths, [&](const ScoreBlock& block) {
      const std::int64_t rows = block.rows_of_head(), first = block.first_query * a.r;
      multiply(call.stream, block,
               {.rows = rows,
                .columns = block.columns,
                .inner = a.d,
                .a = q.matrices(first),
                .b = k.matrices(0, true),
                .d = score_matrices(block, scores),
                .scale = a.scale});
      run(call.stream, block.rows(),
          SoftmaxOfScores{block, rules, scores, shares, call.statistics[0].data(), log_sums(call)});
      multiply(call.stream, block,
               {.rows = rows,
                .columns = a.e,
                .inner = block.columns,
                .a = score_matrices(block, shares),
                .b = v.matrices(),
                .d = o.matrices(first)});
    });
    o.unpack(call.stream);
  }

  /// dv = pᵀ·do, dk = dzᵀ·q, dq = dz·k with dz = p·(do·vᵀ − Σ do·o)·scale.
  void send_back(const ShardCall& call) const {
    const AttentionWork work(call, limits_);
    const AttentionSizes& a = work.sizes();
    const Piece &wants_q = call.gradients[0], &wants_k = call.gradients[1], &wants_v = call.gradients[2];
    const HeadTensor q = work.read_queries(call.values[0], a.d), k = work.read_keys(call.values[1], a.d),
                     v = work.read_keys(call.values[2], a.e),
                     d_o = work.read_queries(call.gradients.back(), a.e);
    const bool wide = d_o.stored() == Stored::Float32, wide_gradients = k.stored() == Stored::Float32;
    const BlockLengths lengths = work.lengths(8 + (wide ? 0 : 2) + (wide_gradients ? 0 : 2));
    const Floats scores = work.scores(lengths, Stored::Float32),
                 of_shares = work.scores(lengths, Stored::Float32);
    const Floats shares = work.narrowed(lengths, scores, d_o.stored());
    const Floats gradients = work.narrowed(lengths, of_shares, k.stored());
    const ScoreRules rules = work.rules();
    BiasGradients biases(call, a);
    const bool adds = lengths.queries < a.s;
    std::optional<HeadTensor> dq, dk, dv;
    if (wants_q.present()) dq = work.written_queries(wants_q, a.d);
    if (wants_k.present()) dk = work.written_keys(wants_k, a.d, adds);
    if (wants_v.present()) dv = work.written_keys(wants_v, a.e, adds);
    work.for_each_block(lengths, [&](const ScoreBlock& block) {
      const std::int64_t rows = block.rows_of_head(), first = block.first_query * a.r;
      HeadProduct product{.rows = rows, .columns = block.columns, .inner = a.d, .scale = a.scale};
      product.a = q.matrices(first), product.b = k.matrices(0, true);
      product.d = score_matrices(block, scores);
      multiply(call.stream, block, product);
      product.inner = a.e, product.scale = 1;
      product.a = d_o.matrices(first), product.b = v.matrices(0, true);
      product.d = score_matrices(block, of_shares);
      multiply(call.stream, block, product);
      run(call.stream, block.rows() * block.groups(),
          GradientsOfScores{block, rules, scores, of_shares, shares, gradients, log_sums(call),
                            call.statistics[0].data()});
      biases.add(block, gradients);
      if (dq) {
        multiply(call.stream, block,
                 {.rows = rows,
                  .columns = a.d,
                  .inner = block.columns,
                  .a = score_matrices(block, gradients),
                  .b = k.matrices(),
                  .d = dq->matrices(first)});
      }
      HeadProduct of_keys{.rows = block.columns, .columns = a.d, .inner = rows, .accumulate = adds};
      of_keys.a = score_matrices(block, gradients, true), of_keys.b = q.matrices(first);
      if (dk) of_keys.d = dk->matrices(), multiply(call.stream, block, of_keys);
      of_keys.columns = a.e;
      of_keys.a = score_matrices(block, shares, true), of_keys.b = d_o.matrices(first);
      if (dv) of_keys.d = dv->matrices(), multiply(call.stream, block, of_keys);
    });
    for (const auto* written : {&dq, &dk, &dv}) {
      if (*written) (*written)->unpack(call.stream);
    }
    biases.finish();
    send_back_to_sinks(call);
  }

  static void send_back_to_sinks(const ShardCall& call) {
    if (!has_sinks(call.op) || !call.gradients[sink_use(call.op)].present()) return;
    const Piece& wanted = call.gradients[sink_use(call.op)];
    const std::int64_t sinks = wanted.elements();
    run(call.stream, sinks,
        GradientsOfSinks{
            .sinks = call.values[sink_use(call.op)].floats(),
            .rows = static_cast<std::int64_t>(call.statistics[0].size()) / std::max<std::int64_t>(1, sinks),
            .log_sums = log_sums(call),
            .averages = call.statistics[0].data(),
            .count = sinks,
            .gradients = wanted.floats()});
  }

  /// Gradients of learned biases, if anybody wants them.
  class BiasGradients {
   public:
    BiasGradients(const ShardCall& call, const AttentionSizes& a)
        : call_(call), samples_(a.b), distances_(a) {
      if (!is_relative_attention(call.op) || !call.gradients[kBiasUse].present()) return;
      sums_ = reinterpret_cast<double*>(
          scratch_for(call.stream, a.b * a.g * a.r * distances_.distances(), sizeof(double)));
    }
    void add(const ScoreBlock& block, const Floats& gradients) const {
      if (sums_ == nullptr) return;
      run(call_.stream, block.heads * block.sizes.r * distances_.distances(),
          SumsByDistance{block, gradients, distances_, sums_});
    }
    void finish() const {
      if (sums_ == nullptr) return;
      const Piece& wanted = call_.gradients[kBiasUse];
      run(call_.stream, wanted.elements(),
          GradientsOfBiases{distances_, RelativeBuckets(call_.op), samples_, sums_, wanted.floats()});
    }

   private:
    const ShardCall& call_;
    std::int64_t samples_;
    DistanceBiases distances_;
    double* sums_ = nullptr;
  };

  AttentionLimits limits_;
};

}  // namespace

std::unique_ptr<const Kernel> attention_kernel(const AttentionLimits& limits) {
  return std::make_unique<const Attention>(limits);
}

std::vector<KernelEntry> attention_kernels() {
  static const Attention attention{AttentionLimits{}};
  return {{"attention", &attention},
          {"alibi_attention", &attention},
          {"relative_attention", &attention},
          {"scored_attention", &attention}};
}

}  // namespace pipesim::gpu
