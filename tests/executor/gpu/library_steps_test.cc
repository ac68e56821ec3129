#include "executor/gpu/library_steps.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/executor/gpu/host_machine.h"
#include "tests/executor/gpu/twin_memory.h"
#include "tests/seeds.h"

namespace pipesim::gpu {
namespace {

TEST(ProductSteps, ComputeWhatTheProductDoes) {
  for_each_seed(40, [](Rng& rng) {
    using enum MatrixProduct::Epilogue;
    HostMachine machine;
    const auto stream = machine.make_stream(DeviceId(0));
    MatrixProduct p{.rows = 3, .columns = 5, .inner = 4, .batch = 2};
    p.accumulate = rng.below(2) == 0;
    p.epilogue = std::array{None, Bias, BiasGelu}.at(rng.below(3));
    p.scale = 0.5F;
    Twin a(machine, Stored::BFloat16, 24), b(machine, Stored::BFloat16, 40),
        d(machine, Stored::Float16, 2 * 25), bias(machine, Stored::Float16, 5),
        before(machine, Stored::Float16, 2 * 25);
    for (Twin* t : {&a, &b, &d, &bias, &before}) t->fill(*stream, rng);
    p.a = {a.on_device(), false, 4, 12};
    p.b = {b.on_device(), true, 4, 20};
    p.d = {d.on_device(), false, 7, 25};  // with gaps
    p.bias = bias.on_device();
    p.before = before.on_device();
    const MatrixProduct alone = product_in_scratch(*stream, p);
    EXPECT_EQ(alone.d.elements.stored, Stored::Float32);
    stream->multiply(alone);
    finish_product(*stream, p, alone.d.elements);
    p.a.elements = a.on_host();
    p.b.elements = b.on_host();
    p.d.elements = d.on_host();
    p.bias = bias.on_host();
    p.before = before.on_host();
    multiply_on_host(p);
    d.expect_same(*stream, 1e-6);
    before.expect_same(*stream, 1e-6);
  });
}

TEST(ProductSteps, DivideABatch) {
  for_each_seed(10, [](Rng& rng) {
    using enum MatrixProduct::Epilogue;
    HostMachine machine;
    const auto stream = machine.make_stream(DeviceId(0));
    MatrixProduct p{.rows = 3, .columns = 5, .inner = 4, .batch = 7};
    p.epilogue = std::array{None, Bias, BiasGelu}.at(rng.below(3));
    Twin a(machine, Stored::BFloat16, 7 * 12), b(machine, Stored::BFloat16, 20),
        d(machine, Stored::Float32, 7 * 25), bias(machine, Stored::Float32, 5),
        before(machine, Stored::Float32, 7 * 25);
    for (Twin* t : {&a, &b, &d, &bias, &before}) t->fill(*stream, rng);
    p.a = {a.on_device(), false, 4, 12};
    p.b = {b.on_device(), true, 4, 0};    // the same for all
    p.d = {d.on_device(), false, 7, 25};  // with gaps
    p.bias = bias.on_device();
    p.before = before.on_device();
    stream->multiply(some_of_batch(p, 0, 3));
    stream->multiply(some_of_batch(p, 3, 4));
    p.a.elements = a.on_host();
    p.b.elements = b.on_host();
    p.d.elements = d.on_host();
    p.bias = bias.on_host();
    p.before = before.on_host();
    multiply_on_host(p);
    d.expect_same(*stream, 0);
    before.expect_same(*stream, 0);
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
  const auto stream = machine.make_stream(DeviceId(0));
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
