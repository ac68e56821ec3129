#include "executor/gpu/machine/library_steps.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "tests/executor/gpu/host_machine.h"
#include "tests/executor/gpu/twin_memory.h"
#include "tests/seeds.h"

namespace pipesim::gpu {
namespace {

// Products of random numbers, on a device and again on the host.
class ProductTwins {
 public:
  // Matrix b is the same for all of the batch where its stride is 0.
  ProductTwins(Rng& rng, std::int64_t batch, std::int64_t stride_of_b, Stored result)
      : a_(machine_, Stored::BFloat16, batch * 12),
        b_(machine_, Stored::BFloat16, 20 + (batch - 1) * stride_of_b),
        d_(machine_, result, batch * 25),
        bias_(machine_, result, 5),
        before_(machine_, result, batch * 25) {
    using enum MatrixProduct::Epilogue;
    product.batch = batch;
    product.epilogue = std::array{None, Bias, BiasGelu}.at(rng.below(3));
    for (Twin* t : {&a_, &b_, &d_, &bias_, &before_}) t->fill(*stream, rng);
    product.a = {a_.on_device(), false, 4, 12};
    product.b = {b_.on_device(), true, 4, stride_of_b};
    product.d = {d_.on_device(), false, 7, 25};  // with gaps
    product.bias = bias_.on_device();
    product.before = before_.on_device();
  }
  void expect_same_on_host(double tolerance) {
    MatrixProduct p = product;
    p.a.elements = a_.on_host();
    p.b.elements = b_.on_host();
    p.d.elements = d_.on_host();
    p.bias = bias_.on_host();
    p.before = before_.on_host();
    multiply_on_host(p);
    d_.expect_same(*stream, tolerance);
    before_.expect_same(*stream, tolerance);
  }

 private:
  HostMachine machine_;

 public:
  const std::unique_ptr<Stream> stream = machine_.make_stream(DeviceId(0), StreamUse::Compute);
  MatrixProduct product{.rows = 3, .columns = 5, .inner = 4};

 private:
  Twin a_, b_, d_, bias_, before_;
};

TEST(ProductSteps, ComputeWhatTheProductDoes) {
  for_each_seed(40, [](Rng& rng) {
    ProductTwins twins(rng, 2, 20, Stored::Float16);
    MatrixProduct& p = twins.product;
    p.accumulate = rng.below(2) == 0;
    p.scale = 0.5F;
    const MatrixProduct alone = product_in_scratch(*twins.stream, p);
    EXPECT_EQ(alone.d.elements.stored, Stored::Float32);
    twins.stream->multiply(alone);
    finish_product(*twins.stream, p, alone.d.elements);
    twins.expect_same_on_host(1e-6);
  });
}

TEST(ProductSteps, DivideABatch) {
  for_each_seed(10, [](Rng& rng) {
    ProductTwins twins(rng, 7, 0, Stored::Float32);
    twins.stream->multiply(some_of_batch(twins.product, 0, 3));
    twins.stream->multiply(some_of_batch(twins.product, 3, 4));
    twins.expect_same_on_host(0);
  });
}

struct Line {
  std::int64_t image, kernel, stride, dilation, low, high;
  bool equal;  // would as many zeros on both sides do?
};
constexpr std::array lines{
    Line{8, 3, 1, 1, 1, 1, true},  Line{8, 3, 2, 1, 1, 0, true},   Line{8, 3, 1, 1, 1, 0, false},
    Line{8, 3, 1, 1, 0, 1, false}, Line{9, 2, 2, 1, 0, 0, true},   Line{7, 3, 2, 2, 3, 1, false},
    Line{5, 1, 3, 1, 0, 0, true},  Line{8, 3, 1, 1, -1, 1, false}, Line{9, 3, 4, 1, 0, 3, false}};

TEST(ConvolutionSteps, KnowWhenEqualPaddingDoes) {
  for (const Line& l : lines) {
    Convolution c{{.samples = 1, .in = 1, .out = 1}};
    c.image = {l.image, 4};
    c.kernel = {l.kernel, 1};
    c.stride = {l.stride, 1};
    c.dilation = {l.dilation, 1};
    c.pad_low = {l.low, 0};
    c.pad_high = {l.high, 0};
    c.result = {(l.image + l.low + l.high - (l.kernel - 1) * l.dilation - 1) / l.stride + 1, 4};
    EXPECT_EQ(same_with_equal_padding(c), l.equal) << l.image << " + " << l.low << " + " << l.high;
  }
}

TEST(ConvolutionSteps, ComputeTheSameWithoutPadding) {
  HostMachine machine;
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  Rng rng(7);
  for (const Line& l : lines) {
    for (const auto wanted : {Convolution::Wanted::Result, Convolution::Wanted::InputGradient,
                              Convolution::Wanted::WeightGradient}) {
      Convolution c{{.samples = 2, .groups = 2, .in = 1, .out = 3}, wanted};
      c.image = {6, l.image};
      c.kernel = {2, l.kernel};
      c.stride = {1, l.stride};
      c.dilation = {1, l.dilation};
      c.pad_low = {1, l.low};
      c.pad_high = {0, l.high};
      c.result = {6, (l.image + l.low + l.high - (l.kernel - 1) * l.dilation - 1) / l.stride + 1};
      Twin x(machine, Stored::Float32, 4 * 6 * l.image), w(machine, Stored::Float32, 12 * l.kernel),
          y(machine, Stored::Float32, 4 * 3 * 6 * c.result[1]);
      for (Twin* t : {&x, &w, &y}) t->fill(*stream, rng);
      c.x = x.on_device();
      c.w = w.on_device();
      c.y = y.on_device();
      convolve_without_padding(*stream, c, [&](const Convolution& bare) {
        EXPECT_EQ(bare.pad_low, (std::array<std::int64_t, 2>{}));
        EXPECT_TRUE(same_with_equal_padding(bare));
        stream->convolve(bare);
      });
      c.x = x.on_host();
      c.w = w.on_host();
      c.y = y.on_host();
      convolve_on_host(c);
      for (Twin* t : {&x, &w, &y}) t->expect_same(*stream, 1e-6);
    }
  }
}

}  // namespace
}  // namespace pipesim::gpu
