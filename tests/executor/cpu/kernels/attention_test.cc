#include "executor/operators/attention.h"
#include "executor/operators/dropout_mask.h"
#include "models/causal_mask.h"
#include "tests/executor/cpu/kernel_checks.h"
#include "tests/seeds.h"

namespace pipesim::cpu {
namespace {

struct HeadIndex {
  std::int64_t b, s, g, r;
};

/// T5's rule, written out for 8 buckets and a farthest distance of 9 as a table of distances 0 to 9: of both
/// sides, 4 each, and of a causal mask's one side.
std::int64_t defined_bucket(std::int64_t query, std::int64_t key, bool causal) {
  constexpr std::int64_t of_one[] = {0, 1, 2, 2, 2, 3, 3, 3, 3, 3}, of_all[] = {0, 1, 2, 3, 4, 5, 6, 6, 7, 7};
  const auto distance = static_cast<std::size_t>(std::abs(key - query));
  if (causal) return of_all[distance];
  return of_one[distance] + (key > query ? 4 : 0);
}

/// ALiBi's slopes of 6 heads: four as of 4 heads, then the first and the third of 8 heads.
double defined_slope(std::int64_t head) {
  constexpr double exponents[] = {2, 4, 6, 8, 1, 3};
  return std::pow(2.0, -exponents[head]);
}

/// Returns a score's bias from learned biases [bucket, g, r], or from an input [g, r, s, t] or [b, g, r, s,
/// t], whose dims of length 1 count for all.
double defined_bias(WholeTensor& bias, HeadIndex i, std::int64_t key, bool causal) {
  if (bias.shape.size() == 3) return bias.at(defined_bucket(i.s, key, causal), i.g, i.r);
  const auto in = [&](std::size_t from_behind, std::int64_t index) {
    return bias.shape[bias.shape.size() - from_behind] == 1 ? 0 : index;
  };
  if (bias.shape.size() == 4) return bias.at(in(4, i.g), in(3, i.r), in(2, i.s), in(1, key));
  return bias.at(in(5, i.b), in(4, i.g), in(3, i.r), in(2, i.s), in(1, key));
}

struct ScoreOptions {
  bool alibi = false;
  std::int64_t document = 0, window = 0;
  double cap = 0;
  WholeTensor* sinks = nullptr;
};

/// Softmax over keys of a query's scores, 0 for keys that it does not see. `bias`: of 8 buckets or null.
std::vector<double> defined_shares(const WholeTensor& q_given, const WholeTensor& k_given, WholeTensor* bias,
                                   bool causal, HeadIndex i, const ScoreOptions& options = {}) {
  WholeTensor q = q_given, k = k_given;
  const std::int64_t keys = k.shape[1], depth = q.shape[4];
  std::vector<double> shares(static_cast<std::size_t>(keys), 0.0);
  double sum = options.sinks == nullptr ? 0 : std::exp(options.sinks->at(i.g, i.r));
  for (std::int64_t t = 0; t < (causal ? i.s + 1 : keys); ++t) {
    if (options.document > 0 && t / options.document != i.s / options.document) continue;
    if (options.window > 0 && i.s - t >= options.window) continue;
    double score = 0;
    for (std::int64_t d = 0; d < depth; ++d) score += q.at(i.b, i.s, i.g, i.r, d) * k.at(i.b, t, i.g, d);
    score /= std::sqrt(static_cast<double>(depth));
    if (options.cap > 0) score = options.cap * std::tanh(score / options.cap);
    if (bias != nullptr) score += defined_bias(*bias, i, t, causal);
    if (options.alibi)
      score -= defined_slope(i.g * q.shape[3] + i.r) * static_cast<double>(std::abs(t - i.s));
    sum += shares[static_cast<std::size_t>(t)] = std::exp(score);
  }
  for (double& share : shares) share /= sum;
  return shares;
}

void define_attention(const Operator& op, WholeTensors& t) {
  WholeTensor& o = t.back();
  const auto& shape = o.shape;
  const auto attribute = [&](const char* name) { return op.attributes.contains(name); };
  ScoreOptions options{is_alibi(op), document_length(op), attention_window(op),
                       attribute("cap") ? std::get<double>(op.attributes.at("cap")) : 0};
  if (attribute("sinks")) options.sinks = &t[t.size() - 2];
  WholeTensor* bias = t.size() > (attribute("sinks") ? 5U : 4U) ? &t[3] : nullptr;
  for (std::int64_t row = 0; row < shape[0] * shape[1] * shape[2] * shape[3]; ++row) {
    const HeadIndex i{row / (shape[1] * shape[2] * shape[3]), row / (shape[2] * shape[3]) % shape[1],
                      row / shape[3] % shape[2], row % shape[3]};
    const std::vector<double> shares =
        defined_shares(t[0], t[1], bias, std::get<std::int64_t>(op.attributes.at("causal")) != 0, i, options);
    for (std::int64_t e = 0; e < shape[4]; ++e) {
      double sum = 0;
      for (std::int64_t key = 0; key < t[2].shape[1]; ++key)
        sum += shares[static_cast<std::size_t>(key)] * t[2].at(i.b, key, i.g, e);
      o.at(i.b, i.s, i.g, i.r, e) = sum;
    }
  }
}

KernelCase attention_case(const Sizes& q, const Sizes& k, const Sizes& v, bool causal) {
  Bench bench(q[0]);
  return {bench.op("attention", {bench.x(q), bench.x(k), bench.x(v)}, {{"causal", causal ? 1 : 0}}),
          define_attention};
}

TEST(AttentionKernel, SharesKeysAmongQueryHeads) {
  EXPECT_FALSE(tested_kernels("attention").empty());
  check_kernel(attention_case({2, 5, 2, 2, 3}, {2, 7, 2, 3}, {2, 7, 2, 4}, false));
  check_kernel(attention_case({2, 3, 4, 1, 4}, {2, 6, 4, 4}, {2, 6, 4, 4}, false));
}

TEST(AttentionKernel, MasksByPositionsInTheWholeSequence) {
  check_kernel(attention_case({2, 6, 2, 1, 3}, {2, 6, 2, 3}, {2, 6, 2, 4}, true));
  check_kernel(attention_case({2, 7, 1, 2, 2}, {2, 7, 1, 2}, {2, 7, 1, 2}, true));
}

TEST(AttentionKernel, AddsAnInputToScores) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel adds an input to scores";
  const Sizes q{2, 5, 2, 2, 3}, k{2, 6, 2, 3}, v{2, 6, 2, 4};
  for (const Sizes& bias : {Sizes{2, 2, 5, 6}, Sizes{2, 1, 5, 6}, Sizes{1, 1, 1, 6}, Sizes{1, 2, 1, 6},
                            Sizes{2, 1, 1, 1, 6}, Sizes{1, 2, 2, 5, 6}}) {
    Bench bench(2);
    check_kernel({bench.op("biased_attention", {bench.x(q), bench.x(k), bench.x(v), bench.x(bias)}),
                  define_attention});
  }
  Bench bench(2);
  const TensorId keys = bench.x({2, 5, 2, 3});
  check_kernel(
      {bench.op("biased_attention", {bench.x(q), keys, keys, bench.x({2, 1, 5, 5})}, {{"causal", 1}}),
       define_attention});
}

// Documents of one position have gradients of queries and keys that are 0 but for rounding.
TEST(AttentionKernel, StaysWithinPackedDocuments) {
  for (const char* kind : {"attention", "alibi_attention", "relative_attention", "scored_attention"}) {
    for (const std::int64_t document : {2, 3, 4, 10}) {
      if (sanitized && document != 3) continue;
      const testing::ScopedTrace trace(__FILE__, __LINE__,
                                       fmt::format("{}, documents of {}", kind, document));
      Attributes attributes{{"causal", 1}, {"document_length", document}};
      if (kind == std::string("relative_attention")) attributes["buckets"] = 8, attributes["farthest"] = 9;
      Bench bench(2);
      check_kernel(
          {bench.op(kind, {bench.x({2, 10, 3, 2, 3}), bench.x({2, 10, 3, 3}), bench.x({2, 10, 3, 4})},
                    attributes),
           define_attention});
    }
  }
}

/// Calls visit(kind, attributes) for the kinds of attention, but for the one that adds an input.
template <class Visit>
void for_each_attention(const Attributes& attributes, Visit visit) {
  Attributes biased = attributes;
  biased["buckets"] = 8, biased["farthest"] = 9;
  visit("attention", attributes);
  visit("alibi_attention", attributes);
  visit("relative_attention", biased);
  visit("scored_attention", biased);
}

KernelCase ten_positions(const char* kind, const Attributes& attributes) {
  Bench bench(2);
  return {
      bench.op(kind, {bench.x({2, 10, 3, 2, 3}), bench.x({2, 10, 3, 3}), bench.x({2, 10, 3, 4})}, attributes),
      define_attention};
}

// The last window is longer than the sequence. A window of one key has gradients of queries and keys that are
// 0 but for rounding.
TEST(AttentionKernel, StaysWithinItsWindow) {
  for_each_attention({{"causal", 1}, {"window", 1}}, [](const char* kind, const Attributes& attributes) {
    check_results(ten_positions(kind, attributes));
  });
  for (const std::int64_t window : {2, 3, 4, 12}) {
    if (sanitized && window != 3) continue;
    for_each_attention({{"causal", 1}, {"window", window}},
                       [](const char* kind, const Attributes& attributes) {
                         check_kernel(ten_positions(kind, attributes));
                       });
  }
  const Attributes both{{"causal", 1}, {"window", 3}, {"document_length", 4}};
  check_kernel(ten_positions("attention", both));
}

TEST(AttentionKernel, SharesTheSoftmaxWithSinks) {
  for_each_attention({{"sinks", 1}}, [](const char* kind, const Attributes& attributes) {
    check_kernel(ten_positions(kind, attributes));
  });
  Attributes narrow{{"causal", 1}, {"sinks", 1}, {"window", 1}};
  for_each_attention(narrow, [](const char* kind, const Attributes& attributes) {
    check_kernel(ten_positions(kind, attributes));
  });
  narrow["window"] = 3, narrow["document_length"] = 4;
  check_kernel(ten_positions("scored_attention", narrow));
}

// A query's only key shares its softmax with the sink.
TEST(AttentionKernel, HasSinksBesideASingleKey) {
  Bench bench(2);
  check_kernel(
      {bench.op("attention", {bench.x({2, 5, 2, 2, 3}), bench.x({2, 1, 2, 3}), bench.x({2, 1, 2, 4})},
                {{"sinks", 1}}),
       define_attention});
}

// One sink is far above the scores, one far below them.
TEST(AttentionKernel, DoesNotOverflowWithSinks) {
  KernelCase c = ten_positions("attention", {{"causal", 1}, {"sinks", 1}, {"window", 3}});
  c.prepare = [](WholeTensors& t) {
    t[3].elements[0] = 200;
    t[3].elements[1] = -200;
  };
  check_splits(c);
  check_results(c);
}

TEST(AttentionKernel, CapsScores) {
  for (const double cap : {0.5, 2.0}) {
    const auto check = [&](const char* kind, Attributes attributes) {
      if (attributes.contains("buckets") && !tests_all_kernels()) attributes["buckets"] = 0;
      if (kind == std::string("relative_attention") && !tests_all_kernels()) return;
      check_kernel(ten_positions(kind, attributes));
    };
    for_each_attention({{"cap", cap}}, check);
    for_each_attention({{"cap", cap}, {"causal", 1}, {"window", 4}, {"sinks", 1}}, check);
  }
}

TEST(AttentionKernel, AddsAnInputToCappedScoresWithSinks) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel adds an input to scores";
  Bench bench(2);
  const TensorId keys = bench.x({2, 7, 2, 3});
  check_kernel({bench.op("biased_attention", {bench.x({2, 7, 2, 2, 3}), keys, keys, bench.x({2, 1, 7, 7})},
                         {{"causal", 1}, {"window", 3}, {"sinks", 1}, {"cap", 1.5}}),
                define_attention});
}

TEST(RelativeAttentionKernel, AddsTheBiasOfTheDistance) {
  for (const std::int64_t causal : {0, 1}) {
    Bench bench(2);
    check_kernel({bench.op("relative_attention",
                           {bench.x({2, 10, 2, 2, 3}), bench.x({2, 10, 2, 3}), bench.x({2, 10, 2, 4})},
                           {{"causal", causal}, {"buckets", 8}, {"farthest", 9}}),
                  define_attention});
  }
}

TEST(ScoredAttentionKernel, DoesWhatFusedAttentionDoes) {
  for (const std::int64_t causal : {0, 1}) {
    for (const std::int64_t buckets : {0, 8}) {
      Bench bench(2);
      check_kernel({bench.op("scored_attention",
                             {bench.x({2, 10, 2, 2, 3}), bench.x({2, 10, 2, 3}), bench.x({2, 10, 2, 4})},
                             {{"causal", causal}, {"buckets", buckets}, {"farthest", 9}}),
                    define_attention});
    }
  }
}

TEST(AlibiAttentionKernel, LowersScoresByDistance) {
  for (const char* kind : {"alibi_attention", "scored_attention"}) {
    Attributes attributes;
    if (kind == std::string("scored_attention")) attributes["alibi"] = 1;
    for (const auto& [heads, members] : {std::pair{3, 2}, {2, 3}, {6, 1}}) {
      if (sanitized && heads != 2) continue;
      for (const std::int64_t causal : {0, 1}) {
        attributes["causal"] = causal;
        Bench bench(2);
        check_kernel({bench.op(kind,
                               {bench.x({2, 8, heads, members, 3}), bench.x({2, 8, heads, 3}),
                                bench.x({2, 8, heads, 4})},
                               attributes),
                      define_attention});
      }
    }
  }
}

// The second of two microbatches of two samples.
void define_dropped_attention(const Operator& op, WholeTensors& t) {
  const DropoutMask masked(op.name, {.seed = 3, .step = 2}, 0.25);
  WholeTensor& o = t.back();
  constexpr std::int64_t kSamples = 2, kQueries = 5, kHeads = 2, kGroup = 2, kKeys = 7, kWidth = 4;
  for (std::int64_t row = 0; row < kSamples * kQueries * kHeads * kGroup; ++row) {
    const HeadIndex i{row / (kQueries * kHeads * kGroup), row / (kHeads * kGroup) % kQueries,
                      row / kGroup % kHeads, row % kGroup};
    const std::vector<double> shares = defined_shares(t[0], t[1], nullptr, false, i);
    for (std::int64_t e = 0; e < kWidth; ++e) {
      double sum = 0;
      for (std::int64_t key = 0; key < kKeys; ++key) {
        const std::int64_t element = (kSamples * kQueries * kHeads * kGroup + row) * kKeys + key;
        const auto kept = static_cast<double>(masked(static_cast<std::uint64_t>(element), 1));
        sum += kept * shares[static_cast<std::size_t>(key)] * t[2].at(i.b, key, i.g, e);
      }
      o.at(i.b, i.s, i.g, i.r, e) = sum;
    }
  }
}

TEST(ScoredAttentionKernel, DropsTheSameScoresUnderEverySplit) {
  Bench bench(2);
  KernelCase c{
      bench.op("scored_attention", {bench.x({2, 5, 2, 2, 3}), bench.x({2, 7, 2, 3}), bench.x({2, 7, 2, 4})},
               {{"dropout", 0.25}}),
      define_dropped_attention};
  c.step = {.seed = 3, .step = 2, .microbatch = 1, .microbatches = 2};
  check_kernel(c);
}

TEST(AttentionKernel, DoesNotOverflow) {
  KernelCase c = attention_case({2, 6, 2, 1, 3}, {2, 6, 2, 3}, {2, 6, 2, 4}, true);
  c.prepare = [](WholeTensors& t) {
    for (double& x : t[0].elements) x *= 200;
  };
  check_splits(c);
}

TEST(AttentionKernel, WorksThroughManyQueriesInBlocks) {
  const KernelCase c = attention_case({1, 1100, 1, 1, 1}, {1, 1100, 1, 1}, {1, 1100, 1, 1}, true);
  Rng rng(2);
  WholeTensors whole = draw_operands(c, rng);
  const KernelOutcome got = run_kernel(c, single_device(c.op, DeviceId(0)), whole,
                                       draw_output_gradients(c.op, rng), all_wanted(c.op), {});
  define_attention(c.op, whole);
  expect_close(got.results[3], whole[3], 1e-5, "attention of 1100 positions");
  check_splits(c, 2);
}

void define_rotary(const Operator& op, WholeTensors& t) {
  const auto d = static_cast<std::size_t>(t[0].shape.back());
  const std::size_t turned = op.attributes.contains("width")
                                 ? static_cast<std::size_t>(std::get<std::int64_t>(op.attributes.at("width")))
                                 : d;
  const std::size_t rows_per_position =
      t[0].elements.size() / d / static_cast<std::size_t>(t[0].shape[0] * t[0].shape[1]);
  t[1].elements = t[0].elements;
  for (std::size_t row = 0; row < t[0].elements.size() / d; ++row) {
    const std::size_t position = row / rows_per_position % static_cast<std::size_t>(t[0].shape[1]);
    for (std::size_t i = 0; i < turned / 2; ++i) {
      const double angle = static_cast<double>(position) *
                           std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(turned));
      const double a = t[0].elements[row * d + i], b = t[0].elements[row * d + turned / 2 + i];
      t[1].elements[row * d + i] = a * std::cos(angle) - b * std::sin(angle);
      t[1].elements[row * d + turned / 2 + i] = a * std::sin(angle) + b * std::cos(angle);
    }
  }
}

TEST(RotaryKernel, TurnsByThePositionInTheWholeSequence) {
  for (const Sizes& shape : {Sizes{4, 7, 2, 6}, Sizes{2, 6, 2, 2, 4}, Sizes{2, 5, 4}}) {
    Bench bench(shape[0]);
    check_kernel({bench.op("rotary", {bench.x(shape)}), define_rotary});
  }
}

TEST(RotaryKernel, LeavesTheOthersAsTheyAre) {
  for (const std::int64_t width : {2, 4, 6}) {
    for (const Sizes& shape : {Sizes{4, 7, 2, 6}, Sizes{2, 5, 3, 7}}) {
      Bench bench(shape[0]);
      check_kernel({bench.op("rotary", {bench.x(shape)}, {{"width", width}}), define_rotary});
    }
  }
}

}  // namespace
}  // namespace pipesim::cpu
