#include <thread>

#include "tests/executor/cpu/defined_activation.h"
#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

/// Rows and columns of the kernel, and where they lie on the image.
struct DefinedWindow {
  explicit DefinedWindow(const Operator& op) : rows(op.uses[0].dims[2]), columns(op.uses[0].dims[3]) {}
  IndexExpr rows, columns;

  /// Calls visit(row of the kernel, column, row of the image, column) for the taps on the image.
  template <class Visit>
  void for_each_tap(std::int64_t y, std::int64_t x, Visit visit) const {
    for (std::int64_t r = 0; r < rows.kernel; ++r) {
      for (std::int64_t c = 0; c < columns.kernel; ++c) {
        const std::int64_t row = y * rows.stride - rows.pad + r * rows.dilation;
        const std::int64_t column = x * columns.stride - columns.pad + c * columns.dilation;
        if (row < 0 || row >= rows.extent || column < 0 || column >= columns.extent) continue;
        visit(r, c, row, column);
      }
    }
  }
};

/// Calls visit(n, c, y, x) for every element of the result.
template <class Visit>
void for_each_result(const WholeTensor& y, Visit visit) {
  for (std::int64_t n = 0; n < y.shape[0]; ++n) {
    for (std::int64_t c = 0; c < y.shape[1]; ++c) {
      for (std::int64_t h = 0; h < y.shape[2]; ++h) {
        for (std::int64_t w = 0; w < y.shape[3]; ++w) visit(n, c, h, w);
      }
    }
  }
}

void define_convolution(const Operator& op, WholeTensors& t) {
  const DefinedWindow window(op);
  const std::int64_t groups = std::get<std::int64_t>(op.attributes.at("groups"));
  const std::int64_t in = t[1].shape[1], out = t[1].shape[0] / groups;
  WholeTensor& y = t.back();
  for_each_result(y, [&](std::int64_t n, std::int64_t o, std::int64_t h, std::int64_t w) {
    double sum = t.size() == 4 ? t[2].at(o) : 0;
    window.for_each_tap(h, w, [&](std::int64_t r, std::int64_t c, std::int64_t row, std::int64_t column) {
      for (std::int64_t i = 0; i < in; ++i)
        sum += t[1].at(o, i, r, c) * t[0].at(n, o / out * in + i, row, column);
    });
    y.at(n, o, h, w) = sum;
  });
  apply_defined_activation(op, t);
}

void check_convolution(const Sizes& x, const Attributes& attributes) {
  Bench bench(x[0]);
  check_kernel({bench.op("conv2d", {bench.x(x)}, attributes), define_convolution});
}

TEST(ConvolutionKernel, PadsAtTheBorderOfTheImageOnly) {
  check_convolution({2, 4, 8, 7}, {{"out", 4}, {"kernel", 3}, {"pad", 1}});
  check_convolution({2, 2, 6, 9}, {{"out", 4}, {"kernel", Sizes{1, 7}}, {"pad", Sizes{0, 3}}, {"bias", 0}});
}

TEST(ConvolutionKernel, StridesOverTheImage) {
  check_convolution({2, 2, 9, 8}, {{"out", 4}, {"kernel", 3}, {"pad", 1}, {"stride", 2}});
  check_convolution({2, 2, 16, 12}, {{"out", 2}, {"kernel", 7}, {"pad", 3}, {"stride", 2}, {"bias", 0}});
}

TEST(ConvolutionKernel, LeavesGapsOfInputWithoutGradient) {
  check_convolution({2, 4, 8, 8}, {{"out", 4}, {"kernel", 1}, {"stride", 2}});
  check_convolution({2, 2, 11, 10}, {{"out", 2}, {"kernel", 2}, {"stride", 3}});
}

TEST(ConvolutionKernel, DilatesItsWindow) {
  check_convolution({2, 2, 9, 9}, {{"out", 2}, {"kernel", 3}, {"pad", 2}, {"dilation", 2}});
}

TEST(ConvolutionKernel, KeepsGroupsApart) {
  check_convolution({2, 8, 6, 6}, {{"out", 8}, {"kernel", 3}, {"pad", 1}, {"groups", 4}});
  check_convolution({2, 6, 7, 6}, {{"out", 6}, {"kernel", 3}, {"pad", 1}, {"groups", 6}});
  check_convolution({2, 4, 5, 6}, {{"out", 8}, {"kernel", 3}, {"groups", 4}, {"bias", 0}});
}

TEST(ConvolutionKernel, SplitsChannelsWithinSingleGroups) {
  Bench bench(2);
  const KernelCase c{
      bench.op("conv2d", {bench.x({2, 8, 6, 6})}, {{"out", 8}, {"kernel", 3}, {"pad", 1}, {"groups", 4}}),
      define_convolution};
  Rng rng(3);
  const WholeTensors whole = draw_operands(c, rng), gradients = draw_output_gradients(c.op, rng);
  const auto outcome = [&](std::vector<std::int32_t> degrees) {
    ParallelConfig config{std::move(degrees), 1, {}};
    EXPECT_EQ(illegal_degrees(c.op, config.degrees), std::nullopt);
    for (std::int64_t k = 0; k < config.num_shards(); ++k)
      config.devices.push_back(DeviceId(static_cast<std::size_t>(k)));
    return run_kernel(c, config, whole, gradients, all_wanted(c.op), c.step);
  };
  expect_same(c.op, outcome({1, 4, 2, 2, 1, 1}), outcome({1, 1, 1, 1, 1, 1}), 1e-5);  // n g o i h w
}

TEST(ConvolutionKernel, FusesActivations) {
  for (const char* name : {"relu", "gelu", "silu"}) {
    check_convolution({2, 2, 6, 5}, {{"out", 2}, {"kernel", 3}, {"pad", 1}, {"activation", name}});
  }
}

TEST(ConvolutionKernel, WindowsMayLieInThePaddingAltogether) {
  check_convolution({2, 2, 3, 3}, {{"out", 2}, {"kernel", 2}, {"pad", 3}});
}

TEST(ConvolutionKernel, RunsInSeveralThreadsAtOnce) {
  Bench bench(2);
  const KernelCase c{bench.op("conv2d", {bench.x({2, 4, 8, 7})}, {{"out", 4}, {"kernel", 3}, {"pad", 1}}),
                     define_convolution};
  Rng rng(4);
  const WholeTensors whole = draw_operands(c, rng), gradients = draw_output_gradients(c.op, rng);
  std::vector<KernelOutcome> outcomes(4);
  {
    std::vector<std::jthread> threads;
    for (KernelOutcome& outcome : outcomes) {
      threads.emplace_back([&] {
        for (int times = 0; times < 20; ++times) {
          outcome =
              run_kernel(c, single_device(c.op, DeviceId(0)), whole, gradients, all_wanted(c.op), c.step);
        }
      });
    }
  }
  for (const KernelOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.results[3].elements, outcomes[0].results[3].elements);
    EXPECT_EQ(outcome.gradients[1].elements, outcomes[0].gradients[1].elements);
  }
}

void define_pool(const Operator& op, WholeTensors& t) {
  const DefinedWindow window(op);
  const bool max = std::get<std::string>(op.attributes.at("mode")) == "max";
  const auto taps = static_cast<double>(window.rows.kernel * window.columns.kernel);
  for_each_result(t[1], [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    double result = max ? -1e300 : 0;
    window.for_each_tap(h, w, [&](std::int64_t, std::int64_t, std::int64_t row, std::int64_t column) {
      const double x = t[0].at(n, c, row, column);
      result = max ? std::max(result, x) : result + x / taps;
    });
    t[1].at(n, c, h, w) = result;
  });
}

void check_pool(const Sizes& x, const Attributes& attributes) {
  Bench bench(x[0]);
  check_kernel({bench.op("pool2d", {bench.x(x)}, attributes), define_pool});
}

TEST(PoolKernel, TakesTheLargestOfAWindow) {
  check_pool({2, 4, 9, 8}, {{"kernel", 2}});
  check_pool({2, 4, 9, 8}, {{"kernel", 3}, {"stride", 2}, {"pad", 1}});
}

TEST(PoolKernel, AveragesOverTheWholeWindowAlsoWherePadded) {
  check_pool({2, 2, 6, 6}, {{"mode", "avg"}, {"kernel", 3}, {"stride", 1}, {"pad", 1}});
  check_pool({2, 2, 8, 7}, {{"mode", "avg"}, {"kernel", Sizes{2, 3}}});
}

TEST(PoolKernel, AlsoPoolsWindowsThatEndOutside) {
  check_pool({2, 2, 8, 9}, {{"kernel", 3}, {"stride", 2}, {"ceil", 1}});
  check_pool({2, 2, 8, 9}, {{"mode", "avg"}, {"kernel", 3}, {"stride", 2}, {"ceil", 1}});
}

TEST(PoolKernel, PoolsWindowsOfMoreTapsThanAByteCounts) {
  Bench bench(1);
  const KernelCase c{bench.op("pool2d", {bench.x({1, 2, 20, 19})}, {{"kernel", 17}, {"stride", 1}}),
                     define_pool};
  check_against_definition(c);
  check_splits(c);
}

TEST(PoolKernel, SendsTheGradientToTheFirstOfEquals) {
  Bench bench(1);
  KernelCase c{bench.op("pool2d", {bench.x({1, 1, 4, 4})}, {{"kernel", 2}}), define_pool};
  WholeTensors whole{filled(c.op.uses[0], 0.5), filled(c.op.uses[1], 0)};
  WholeTensors gradients{WholeTensor{}, filled(c.op.uses[1], 2)};
  const WholeTensor dx =
      run_kernel(c, single_device(c.op, DeviceId(0)), whole, gradients, {true, false}, c.step).gradients[0];
  EXPECT_EQ(dx.elements, (std::vector<double>{2, 0, 2, 0, 0, 0, 0, 0, 2, 0, 2, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace pipesim::cpu
