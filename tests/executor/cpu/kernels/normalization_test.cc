#include "tests/executor/cpu/defined_activation.h"
#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

void define_batch_norm(const Operator& op, WholeTensors& t) {
  const std::int64_t samples = t[0].shape[0], channels = t[0].shape[1];
  std::int64_t plane = 1;
  for (std::size_t d = 2; d < t[0].shape.size(); ++d) plane *= t[0].shape[d];
  const auto count = static_cast<double>(samples * plane);
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto for_each = [&](auto visit) {
      for (std::int64_t i = 0; i < samples * plane; ++i) {
        const auto at = static_cast<std::size_t>((i / plane * channels + c) * plane + i % plane);
        visit(t[0].elements[at], t[5].elements[at]);
      }
    };
    double mean = 0, variance = 0;
    for_each([&](double x, double) { mean += x / count; });
    for_each([&](double x, double) { variance += (x - mean) * (x - mean) / count; });
    for_each(
        [&](double x, double& y) { y = (x - mean) / std::sqrt(variance + 1e-5) * t[1].at(c) + t[2].at(c); });
    t[3].at(c) = 0.9 * t[3].at(c) + 0.1 * mean;
    t[4].at(c) = 0.9 * t[4].at(c) + 0.1 * variance * count / (count - 1);
  }
  apply_defined_activation(op, t);
}

KernelCase batch_norm_case(const Sizes& x, const Attributes& attributes) {
  Bench bench(x[0]);
  return {bench.op("batch_norm", {bench.x(x)}, attributes), define_batch_norm};
}

TEST(BatchNormKernel, NormalisesOverAllShards) {
  EXPECT_FALSE(tested_kernels("batch_norm").empty());
  check_kernel(batch_norm_case({4, 4, 5, 3}, {}));
  for (const char* name : {"relu", "gelu", "tanh"}) {
    check_kernel(batch_norm_case({4, 2, 4, 4}, {{"activation", name}}));
  }
}

TEST(BatchNormKernel, NormalisesRowsSequencesAndVolumes) {
  check_kernel(batch_norm_case({8, 4}, {}));
  check_kernel(batch_norm_case({4, 4, 6}, {{"activation", "relu"}}));
  check_kernel(batch_norm_case({2, 4, 3, 2, 4}, {}));
}

TEST(BatchNormKernel, KeepsTheVarianceOfOffCentreData) {
  KernelCase c = batch_norm_case({4, 2, 4, 4}, {});
  c.prepare = [](WholeTensors& t) {
    for (double& x : t[0].elements) x = static_cast<double>(static_cast<float>(100 + x / 10));
  };
  check_splits(c);
  check_against_definition(c);
}

TEST(BatchNormKernel, LocalStatisticsAreThoseOfTheUnsplitTensorWhenNothingIsSplit) {
  KernelCase c = batch_norm_case({4, 2, 4, 4}, {{"statistics", "local"}});
  c.splits_agree = false;
  check_kernel(c);
}

TEST(BatchNormKernel, LocalStatisticsNormaliseEachShardAlone) {
  const KernelCase c = batch_norm_case({4, 2, 4, 4}, {{"statistics", "local"}});
  const KernelCase half = batch_norm_case({2, 2, 4, 4}, {});
  Rng rng(5);
  const WholeTensors whole = draw_operands(c, rng), gradients = draw_output_gradients(c.op, rng);
  ParallelConfig config{{2, 1, 1, 1}, 1, {DeviceId(0), DeviceId(1)}};
  const KernelOutcome got = run_kernel(c, config, whole, gradients, all_wanted(c.op), {});
  const auto half_of = [](const WholeTensor& t, std::int64_t k) {
    WholeTensor part{{2, 2, 4, 4}, false, {}};
    part.elements.assign(t.elements.begin() + k * 64, t.elements.begin() + (k + 1) * 64);
    return part;
  };
  for (std::int64_t k = 0; k < 2; ++k) {
    WholeTensors own = whole, own_gradients = gradients;
    own[0] = half_of(whole[0], k);
    own_gradients[5] = half_of(gradients[5], k);
    const KernelOutcome alone =
        run_kernel(half, single_device(half.op, DeviceId(0)), own, own_gradients, all_wanted(half.op), {});
    EXPECT_EQ(half_of(got.results[5], k).elements, alone.results[5].elements);
    EXPECT_EQ(half_of(got.gradients[0], k).elements, alone.gradients[0].elements);
    if (k > 0) continue;
    EXPECT_EQ(got.results[3].elements, alone.results[3].elements) << "the first shard keeps them";
  }
}

void define_row_norm(const Operator& op, WholeTensors& t) {
  const bool rms = op.kind == "rms_norm";
  const std::size_t groups =
      op.attributes.contains("groups")
          ? static_cast<std::size_t>(std::get<std::int64_t>(op.attributes.at("groups")))
          : 1;
  const auto all = static_cast<std::size_t>(t[0].shape.back()), width = all / groups;
  for (std::size_t first = 0; first < t[0].elements.size(); first += width) {
    const double* x = t[0].elements.data() + first;
    double mean = 0, variance = 0;
    for (std::size_t j = 0; j < width && !rms; ++j) mean += x[j] / static_cast<double>(width);
    for (std::size_t j = 0; j < width; ++j)
      variance += (x[j] - mean) * (x[j] - mean) / static_cast<double>(width);
    for (std::size_t j = 0; j < width; ++j) {
      const double normal = (x[j] - mean) / std::sqrt(variance + 1e-5);
      const bool weighted = t.size() > 2;
      t.back().elements[first + j] =
          !weighted ? normal : normal * t[1].elements[first % all + j] + (rms ? 0 : t[2].elements[j]);
    }
  }
}

TEST(RowNormKernels, NormaliseTheLastDim) {
  for (const char* kind : {"layer_norm", "rms_norm"}) {
    for (const Sizes& shape : {Sizes{4, 5, 8}, Sizes{4, 6}, Sizes{2, 3, 2, 4}, Sizes{6, 6, 4}}) {
      Bench bench(shape[0]);
      EXPECT_FALSE(tested_kernels(kind).empty());
      check_kernel({bench.op(kind, {bench.x(shape)}), define_row_norm});
      check_kernel({bench.op(kind, {bench.x(shape)}, {{"affine", 0}}), define_row_norm});
    }
  }
}

// Groups of one and two vectors of a GPU's loads, and of lengths that are no multiple of one.
TEST(RowNormKernels, NormaliseGroupsOfTheLastDim) {
  for (const auto& [groups, width] : {std::pair{2, 8}, {3, 9}, {4, 24}, {2, 10}, {6, 12}}) {
    for (const std::int64_t affine : {1, 0}) {
      Bench bench;
      check_kernel({bench.op("rms_norm", {bench.x({4, 5, width})}, {{"groups", groups}, {"affine", affine}}),
                    define_row_norm});
    }
  }
  Bench bench(6);
  check_kernel({bench.op("rms_norm", {bench.x({6, 12})}, {{"groups", 3}}), define_row_norm});
}

void define_softmax(const Operator&, WholeTensors& t) {
  const auto width = static_cast<std::size_t>(t[0].shape.back());
  for (std::size_t first = 0; first < t[0].elements.size(); first += width) {
    double sum = 0;
    for (std::size_t j = first; j < first + width; ++j) sum += std::exp(t[0].elements[j]);
    for (std::size_t j = first; j < first + width; ++j) t[1].elements[j] = std::exp(t[0].elements[j]) / sum;
  }
}

TEST(SoftmaxKernel, SplitsItsRows) {
  Bench bench;
  check_kernel({bench.op("softmax", {bench.x({4, 3, 10})}), define_softmax});
  check_kernel({bench.op("softmax", {bench.x({4, 7})}), define_softmax});
}

TEST(SoftmaxKernel, DoesNotOverflow) {
  Bench bench;
  const KernelCase c{bench.op("softmax", {bench.x({4, 10})}), define_softmax, 0, [](WholeTensors& t) {
                       for (double& x : t[0].elements) x *= 500;
                     }};
  check_against_definition(c);
  check_splits(c);
}

}  // namespace
}  // namespace pipesim::cpu
