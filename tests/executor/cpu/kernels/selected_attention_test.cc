#include <cmath>

#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

/// Which keys up to position `last` count, by the rank of each block: how many blocks beat it. One beats
/// another with a larger score, or with the same score at a lower position; the last one beats all if blocks
/// have several keys.
std::vector<std::int64_t> defined_choice(const std::vector<double>& scores, std::int64_t last,
                                         std::int64_t count, std::int64_t block) {
  const auto best = [&](std::int64_t n) {
    double most = -1e300;
    for (std::int64_t key = n * block; key <= std::min(last, (n + 1) * block - 1); ++key)
      most = std::max(most, scores[static_cast<std::size_t>(key)]);
    return block > 1 && n == last / block ? 1e300 : most;
  };
  std::vector<std::int64_t> chosen;
  for (std::int64_t key = 0; key <= last; ++key) {
    std::int64_t rank = 0;
    for (std::int64_t other = 0; other <= last / block; ++other) {
      const double mine = best(key / block), theirs = best(other);
      rank += theirs > mine || (theirs == mine && other < key / block) ? 1 : 0;
    }
    if (rank < count / block) chosen.push_back(key);
  }
  chosen.resize(static_cast<std::size_t>(count), -1);
  return chosen;
}

double defined_product(WholeTensors& t, std::int64_t sample, std::int64_t s, std::int64_t i,
                       std::int64_t key) {
  double sum = 0;
  for (std::int64_t d = 0; d < t[0].shape[3]; ++d) sum += t[0].at(sample, s, i, d) * t[1].at(sample, key, d);
  return sum;
}

void define_select_keys(const Operator& op, WholeTensors& t) {
  const auto attribute = [&](const char* name) { return std::get<std::int64_t>(op.attributes.at(name)); };
  const Sizes q = t[0].shape;
  const bool by_head = attribute("by_head") != 0;
  std::size_t next = 0;
  for (std::int64_t row = 0; row < q[0] * q[1] * (by_head ? q[2] : 1); ++row) {
    const std::int64_t query = by_head ? row / q[2] : row, sample = query / q[1], s = query % q[1];
    std::vector<double> scores;
    for (std::int64_t key = 0; key < q[1]; ++key) {
      double score = by_head ? defined_product(t, sample, s, row % q[2], key) : 0;
      for (std::int64_t i = 0; !by_head && i < q[2]; ++i)
        score += t[2].at(sample, s, i) * std::max(0.0, defined_product(t, sample, s, i, key));
      scores.push_back(score);
    }
    for (const std::int64_t key : defined_choice(scores, s, attribute("count"), attribute("block")))
      t.back().elements[next++] = static_cast<double>(key);
  }
}

/// Choices have no gradient, so none is asked for.
void check_choices(
    const Operator& op, const std::function<void(WholeTensors&)>& prepare = [](auto&) {}) {
  const KernelCase c{op, define_select_keys, 0, [&](WholeTensors& t) {
                       t.back().integers = true;
                       prepare(t);
                     }};
  Rng rng(7);
  const WholeTensors whole = draw_operands(c, rng), gradients = draw_output_gradients(op, rng);
  WholeTensors expected = whole;
  define_select_keys(op, expected);
  const std::vector<bool> none(op.uses.size(), false);
  const auto check = [&](const ParallelConfig& config, const StepContext& step) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, config.str(op));
    EXPECT_EQ(run_kernel(c, config, whole, gradients, none, step).results.back().elements,
              expected.back().elements);
  };
  for (const ParallelConfig& config : single_splits(op)) check(config, {});
  for_each_seed(20, [&](Rng& random) { check(random_config(op, random, 24, 16), {}); });
  for (const SumOrder order : other_sum_orders) {
    StepContext step;
    step.sums = order;
    check(single_device(op, DeviceId(0)), step);
  }
}

TEST(SelectKeysKernel, TakesTheLargestScoresUpToItsOwnPosition) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel selects keys";
  EXPECT_FALSE(tested_kernels("select_keys").empty());
  for (const std::int64_t count : {1, 3, 9, 20}) {
    Bench bench(2);
    check_choices(bench.op("select_keys", {bench.x({2, 9, 4, 3}), bench.x({2, 9, 3}), bench.x({2, 9, 4})},
                           {{"count", count}}));
  }
}

TEST(SelectKeysKernel, TakesWholeBlocksAndTheOwnOne) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel selects keys";
  for (const std::int64_t by_head : {0, 1}) {
    for (const std::int64_t count : {3, 6}) {
      Bench bench(2);
      std::vector<TensorId> inputs{bench.x({2, 10, 2, 3}), bench.x({2, 10, 3})};
      if (by_head == 0) inputs.push_back(bench.x({2, 10, 2}));
      check_choices(bench.op("select_keys", inputs, {{"count", count}, {"block", 3}, {"by_head", by_head}}));
    }
  }
}

// Without weights all scores are the same.
TEST(SelectKeysKernel, TakesTheLowerPositionsOfEqualScores) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel selects keys";
  Bench bench(2);
  const Operator op = bench.op("select_keys", {bench.x({2, 6, 2, 3}), bench.x({2, 6, 3}), bench.x({2, 6, 2})},
                               {{"count", 2}});
  check_choices(op, [](WholeTensors& t) { std::ranges::fill(t[2].elements, 0.0); });
  const KernelCase c{op, define_select_keys, 0, [](WholeTensors& t) {
                       std::ranges::fill(t[2].elements, 0.0);
                       t.back().integers = true;
                     }};
  Rng rng(3);
  const WholeTensors whole = draw_operands(c, rng);
  const auto results = run_kernel(c, single_device(op, DeviceId(0)), whole, draw_output_gradients(op, rng),
                                  std::vector<bool>(4, false), {})
                           .results;
  EXPECT_EQ(std::vector<double>(results[3].elements.begin(), results[3].elements.begin() + 6),
            (std::vector<double>{0, -1, 0, 1, 0, 1}));
}

/// A dense softmax over all keys, each as often as it was selected and seen.
void define_selected_attention(const Operator&, WholeTensors& t) {
  const Sizes o = t[4].shape, selected = t[3].shape;
  std::ranges::fill(t[4].elements, 0.0);
  for (std::int64_t row = 0; row < o[0] * o[1] * o[2] * o[3]; ++row) {
    const std::int64_t sample = row / (o[1] * o[2] * o[3]), s = row / (o[2] * o[3]) % o[1],
                       g = row / o[3] % o[2], r = row % o[3];
    std::vector<double> shares;
    double sum = 0;
    for (std::int64_t key = 0; key <= s; ++key) {
      double times = 0, score = 0;
      for (std::int64_t n = 0; n < selected.back(); ++n)
        times += (selected.size() == 4 ? t[3].at(sample, s, g, n) : t[3].at(sample, s, n)) ==
                         static_cast<double>(key)
                     ? 1
                     : 0;
      for (std::int64_t d = 0; d < t[0].shape[4]; ++d)
        score += t[0].at(sample, s, g, r, d) * t[1].at(sample, key, g, d);
      shares.push_back(times * std::exp(score / std::sqrt(static_cast<double>(t[0].shape[4]))));
      sum += shares.back();
    }
    for (std::int64_t key = 0; sum > 0 && key <= s; ++key) {
      for (std::int64_t e = 0; e < o[4]; ++e)
        t[4].at(sample, s, g, r, e) +=
            shares[static_cast<std::size_t>(key)] / sum * t[2].at(sample, key, g, e);
    }
  }
}

TEST(SelectedAttentionKernel, IsASoftmaxOverWhatWasSelected) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel attends to selected keys";
  EXPECT_FALSE(tested_kernels("selected_attention").empty());
  const Sizes q{2, 6, 2, 2, 3};
  for (const Sizes& selected : {Sizes{2, 6, 3}, Sizes{2, 6, 2, 3}, Sizes{2, 6, 8}}) {
    Bench bench(2);
    const auto none_for_some = [](WholeTensors& t) {
      for (std::size_t i = 0; i < t[3].elements.size(); i += 4) t[3].elements[i] = -1;
    };
    check_kernel({bench.op("selected_attention",
                           {bench.x(q), bench.x({2, 6, 2, 3}), bench.x({2, 6, 2, 4}), bench.words(selected)}),
                  define_selected_attention, 6, none_for_some});
  }
}

// Where every key is selected it is attention.
TEST(SelectedAttentionKernel, IsAttentionWhereAllKeysAreSelected) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel attends to selected keys";
  Bench bench(2);
  const TensorId q = bench.x({2, 6, 2, 2, 3}), k = bench.x({2, 6, 2, 3}), v = bench.x({2, 6, 2, 4});
  const KernelCase some{bench.op("selected_attention", {q, k, v, bench.words({2, 6, 6})}), {}, 6},
      all{bench.op("attention", {q, k, v}, {{"causal", 1}}), {}};
  Rng rng(5);
  WholeTensors whole = draw_operands(all, rng);
  const WholeTensors gradients = draw_output_gradients(all.op, rng);
  const KernelOutcome expected =
      run_kernel(all, single_device(all.op, DeviceId(0)), whole, gradients, all_wanted(all.op), {});
  WholeTensor keys = filled(some.op.uses[3], 0);
  keys.integers = true;
  for (std::size_t i = 0; i < keys.elements.size(); ++i) keys.elements[i] = static_cast<double>(i % 6);
  whole.insert(whole.begin() + 3, keys);
  const KernelOutcome got =
      run_kernel(some, single_device(some.op, DeviceId(0)), whole,
                 {gradients[0], gradients[1], gradients[2], {}, gradients[3]}, all_wanted(some.op), {});
  expect_close(got.results[4], expected.results[3], 1e-5, "attention over all keys");
  for (std::size_t u = 0; u < 3; ++u)
    expect_close(got.gradients[u], expected.gradients[u], 1e-5, "gradient over all keys");
}

}  // namespace
}  // namespace pipesim::cpu
