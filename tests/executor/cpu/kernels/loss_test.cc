#include "executor/operators/attributes.h"
#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

void define_cross_entropy(const Operator&, WholeTensors& t) {
  const auto width = static_cast<std::size_t>(t[0].shape.back());
  double loss = 0;
  for (std::size_t row = 0; row < t[1].elements.size(); ++row) {
    if (t[1].elements[row] < 0) continue;
    double sum = 0;
    for (std::size_t j = 0; j < width; ++j) sum += std::exp(t[0].elements[row * width + j]);
    loss += std::log(sum) - t[0].elements[row * width + static_cast<std::size_t>(t[1].elements[row])];
  }
  t[2].elements[0] = loss / static_cast<double>(t[1].elements.size());
}

KernelCase cross_entropy_case(const Sizes& x, const Attributes& kept = {}) {
  Bench bench(x[0]);
  const TensorId labels = bench.words(Sizes(x.begin(), x.end() - 1));
  return {bench.op("cross_entropy", {bench.x(x), labels}, kept), define_cross_entropy, x.back()};
}

TEST(CrossEntropyKernel, AveragesOverRows) {
  EXPECT_FALSE(tested_kernels("cross_entropy").empty());
  check_kernel(cross_entropy_case({4, 10}));
  check_kernel(cross_entropy_case({4, 5, 9}));
}

TEST(CrossEntropyKernel, DoesWithoutLogitsWhereTheSoftmaxIsKept) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel keeps the softmax";
  for (const char* kept : {"keep_softmax", "keep_log_softmax"}) {
    KernelCase c = cross_entropy_case({4, 5, 9}, {{kept, 1}});
    EXPECT_FALSE(c.op.uses[0].saved);
    check_kernel(c);
    c.prepare = [](WholeTensors& t) { t[1].elements[3] = t[1].elements[11] = -1; };
    check_kernel(c);
  }
}

TEST(CrossEntropyKernel, SkipsRowsWithoutALabel) {
  KernelCase c = cross_entropy_case({4, 5, 9});
  c.prepare = [](WholeTensors& t) { t[1].elements[3] = t[1].elements[11] = -1; };
  check_kernel(c);
}

TEST(CrossEntropyKernel, MicrobatchesAddUpToTheLossOfTheBatch) {
  const KernelCase whole = cross_entropy_case({8, 3, 7}), half = cross_entropy_case({4, 3, 7});
  Rng rng(9);
  const WholeTensors operands = draw_operands(whole, rng);
  const WholeTensors one{WholeTensor{}, WholeTensor{}, WholeTensor{{}, false, {1}}};
  const auto run = [&](const KernelCase& c, const WholeTensors& given, const StepContext& step) {
    return run_kernel(c, single_device(c.op, DeviceId(0)), given, one, all_wanted(c.op), step);
  };
  const KernelOutcome expected = run(whole, operands, {});
  double loss = 0;
  std::vector<double> gradient;
  for (std::int64_t m = 0; m < 2; ++m) {
    WholeTensors part = draw_operands(half, rng);
    std::copy_n(operands[0].elements.begin() + m * 84, 84, part[0].elements.begin());
    std::copy_n(operands[1].elements.begin() + m * 12, 12, part[1].elements.begin());
    const KernelOutcome got = run(half, part, {.microbatch = m, .microbatches = 2, .added_up = 2});
    loss += got.results[2].elements[0];
    gradient.insert(gradient.end(), got.gradients[0].elements.begin(), got.gradients[0].elements.end());
  }
  EXPECT_NEAR(loss, expected.results[2].elements[0], 1e-6);
  EXPECT_EQ(gradient, expected.gradients[0].elements);
}

void define_linear_cross_entropy(const Operator& op, WholeTensors& t) {
  const bool transposed = integer_of(op, "transpose_weight") != 0, bias = integer_of(op, "bias") != 0;
  const auto width = static_cast<std::size_t>(t[0].shape.back());
  const std::size_t words = t[2].elements.size() / width, rows = t[1].elements.size();
  double loss = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    if (t[1].elements[row] < 0) continue;
    std::vector<double> logits(words);
    double sum = 0;
    for (std::size_t j = 0; j < words; ++j) {
      logits[j] = bias ? t[3].elements[j] : 0;
      for (std::size_t i = 0; i < width; ++i) {
        logits[j] +=
            t[0].elements[row * width + i] * t[2].elements[transposed ? j * width + i : i * words + j];
      }
      sum += std::exp(logits[j]);
    }
    loss += std::log(sum) - logits[static_cast<std::size_t>(t[1].elements[row])];
  }
  t.back().elements[0] = loss / static_cast<double>(rows);
}

KernelCase linear_cross_entropy_case(std::int64_t chunks, bool bias, bool transposed) {
  Bench bench;
  const TensorId labels = bench.words({4, 5});
  const Attributes attributes = {
      {"out", 9}, {"chunks", chunks}, {"bias", bias ? 1 : 0}, {"transpose_weight", transposed ? 1 : 0}};
  return {bench.op("linear_cross_entropy", {bench.x({4, 5, 6}), labels}, attributes),
          define_linear_cross_entropy, 9};
}

TEST(LinearCrossEntropyKernel, IsTheLossOfAProjectionInAnyNumberOfChunks) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel computes a loss in chunks";
  for (const std::int64_t chunks : {1, 3, 8, 50}) {
    for (const bool bias : {false, true}) check_kernel(linear_cross_entropy_case(chunks, bias, chunks != 3));
  }
  check_kernel(linear_cross_entropy_case(2, true, false));
}

TEST(LinearCrossEntropyKernel, SkipsRowsWithoutALabel) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel computes a loss in chunks";
  KernelCase c = linear_cross_entropy_case(4, true, true);
  c.prepare = [](WholeTensors& t) { t[1].elements[3] = t[1].elements[11] = -1; };
  check_kernel(c);
}

void define_embedding(const Operator&, WholeTensors& t) {
  const auto width = static_cast<std::size_t>(t[1].shape[1]);
  for (std::size_t i = 0; i < t[0].elements.size(); ++i) {
    const std::size_t row = static_cast<std::size_t>(t[0].elements[i]) * width;
    for (std::size_t j = 0; j < width; ++j) t[2].elements[i * width + j] = t[1].elements[row + j];
  }
}

TEST(EmbeddingKernel, ReadsRowsOfTheTable) {
  for (const Sizes& shape : {Sizes{4, 6}, Sizes{4}}) {
    Bench bench;
    check_kernel(
        {bench.op("embedding", {bench.words(shape)}, {{"rows", 11}, {"width", 4}}), define_embedding, 11});
  }
}

/// Gradients of table rows, added up in double.
WholeTensor defined_row_sums(const WholeTensors& whole, const WholeTensor& dy) {
  WholeTensor sums{whole[1].shape, false, std::vector<double>(whole[1].elements.size(), 0.0)};
  const auto width = static_cast<std::size_t>(sums.shape[1]);
  for (std::size_t i = 0; i < whole[0].elements.size(); ++i) {
    const auto row = static_cast<std::size_t>(whole[0].elements[i]);
    for (std::size_t j = 0; j < width; ++j) sums.elements[row * width + j] += dy.elements[i * width + j];
  }
  return sums;
}

TEST(EmbeddingKernel, AddsUpManyPlacesOfFewAndOfManyRows) {
  Bench bench;
  const Operator op = bench.op("embedding", {bench.words({4, 650})}, {{"rows", 700}, {"width", 3}});
  for (const std::int64_t used : {2, 40, 700}) {
    for (const std::int32_t parts : {1, 3}) {
      ParallelConfig config = single_device(op, DeviceId(0));
      config.degrees[2] = parts;  // rows of the table
      for (std::int32_t d = 1; d < parts; ++d) config.devices.emplace_back(d);
      for (const TestedKernel& tested : tested_kernels(op.kind)) {
        KernelCase c{op, define_embedding, used};
        c.tested = tested;
        Rng rng(21);
        WholeTensors whole = draw_operands(c, rng), gradients = draw_output_gradients(op, rng);
        round_elements(whole[1], tested.type);
        round_elements(gradients[2], tested.type);
        const KernelOutcome got = run_kernel(c, config, whole, gradients, all_wanted(op), {});
        define_embedding(op, whole);
        const double tolerance = tested.type == DataType::Float32 ? 1e-5 : 1e-2;
        expect_close(got.results[2], whole[2], tolerance, "rows");
        expect_close(got.gradients[1], defined_row_sums(whole, gradients[2]), tolerance, "sums");
      }
    }
  }
}

TEST(CrossEntropyKernel, AddsUpManyRows) { check_results(cross_entropy_case({2100, 3})); }

}  // namespace
}  // namespace pipesim::cpu
