#include <numeric>

#include "tests/executor/cpu/defined_activation.h"
#include "tests/executor/cpu/kernel_checks.h"
#include "tests/seeds.h"

namespace pipesim::cpu {
namespace {

// Kinds over sequences, images and volumes; conv2d, pool2d and batch_norm have files of their own.

/// Calls visit(indices) for every element of a tensor of this shape.
template <class Visit>
void for_each_place(const Sizes& shape, Visit visit) {
  Sizes at(shape.size(), 0);
  const std::int64_t elements =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  for (std::int64_t i = 0; i < elements; ++i) {
    visit(at);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
  }
}

double& element_at(WholeTensor& t, const Sizes& at) {
  std::size_t offset = 0;
  for (std::size_t d = 0; d < at.size(); ++d)
    offset = offset * static_cast<std::size_t>(t.shape[d]) + static_cast<std::size_t>(at[d]);
  return t.elements[offset];
}

bool is_inside(const Sizes& at, const Sizes& shape) {
  for (std::size_t d = 0; d < at.size(); ++d) {
    if (at[d] < 0 || at[d] >= shape[d]) return false;
  }
  return true;
}

const Sizes& sides_of(const Operator& op, const char* attribute) {
  return std::get<Sizes>(op.attributes.at(attribute));
}

/// Where tap `tap` of the window at `at`, counted from dim 2 on, lies.
Sizes tap_place(const Operator& op, const Sizes& at, const Sizes& tap) {
  const auto dilation = op.attributes.find("dilation");
  Sizes place = at;
  for (std::size_t d = 0; d < tap.size(); ++d) {
    const std::int64_t apart = dilation == op.attributes.end() ? 1 : std::get<Sizes>(dilation->second)[d];
    place[2 + d] = at[2 + d] * sides_of(op, "stride")[d] - sides_of(op, "pad")[d] + tap[d] * apart;
  }
  return place;
}

Sizes joined(Sizes first, const Sizes& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

void define_any_convolution(const Operator& op, WholeTensors& t) {
  const std::int64_t groups = std::get<std::int64_t>(op.attributes.at("groups"));
  const std::int64_t in = t[1].shape[1], out = t[1].shape[0] / groups;
  for_each_place(t.back().shape, [&](const Sizes& at) {
    double sum = t.size() == 4 ? t[2].at(at[1]) : 0;
    for_each_place(sides_of(op, "kernel"), [&](const Sizes& tap) {
      Sizes place = tap_place(op, at, tap);
      place[1] = 0;
      if (!is_inside(place, t[0].shape)) return;
      for (std::int64_t i = 0; i < in; ++i) {
        place[1] = at[1] / out * in + i;
        sum += element_at(t[1], joined({at[1], i}, tap)) * element_at(t[0], place);
      }
    });
    element_at(t.back(), at) = sum;
  });
  apply_defined_activation(op, t);
}

/// Each element of x adds its kernel to the result.
void define_transposed(const Operator& op, WholeTensors& t) {
  const std::int64_t groups = std::get<std::int64_t>(op.attributes.at("groups"));
  const std::int64_t in = t[1].shape[0] / groups, out = t[1].shape[1];
  WholeTensor& y = t.back();
  for_each_place(y.shape, [&](const Sizes& at) { element_at(y, at) = t.size() == 4 ? t[2].at(at[1]) : 0; });
  for_each_place(t[0].shape, [&](const Sizes& at) {
    for_each_place(sides_of(op, "kernel"), [&](const Sizes& tap) {
      Sizes place = tap_place(op, at, tap);
      for (std::int64_t o = 0; o < out; ++o) {
        place[1] = at[1] / in * out + o;
        if (is_inside(place, y.shape))
          element_at(y, place) += element_at(t[0], at) * element_at(t[1], joined({at[1], o}, tap));
      }
    });
  });
  apply_defined_activation(op, t);
}

/// The elements of a window; none is on padding.
using DefinedElements = std::vector<double>;

void reduce_window(const Operator& op, const DefinedElements& elements, double divisor, double& result) {
  if (std::get<std::string>(op.attributes.at("mode")) == "max") {
    result = *std::ranges::max_element(elements);
  } else {
    result = std::accumulate(elements.begin(), elements.end(), 0.0) / divisor;
  }
}

void define_any_pool(const Operator& op, WholeTensors& t) {
  const bool all = !op.attributes.contains("exclude_pad");
  for_each_place(t[1].shape, [&](const Sizes& at) {
    DefinedElements elements;
    double taps = 0;
    for_each_place(sides_of(op, "kernel"), [&](const Sizes& tap) {
      const Sizes place = tap_place(op, at, tap);
      const bool inside = is_inside(place, t[0].shape);
      if (inside) elements.push_back(element_at(t[0], place));
      if (inside || all) ++taps;
    });
    reduce_window(op, elements, taps, element_at(t[1], at));
  });
}

void define_adaptive_pool(const Operator& op, WholeTensors& t) {
  const auto begins = [](std::int64_t o, std::int64_t i, std::int64_t out) { return o * i / out; };
  for_each_place(t[1].shape, [&](const Sizes& at) {
    Sizes lengths, first = at;
    for (std::size_t d = 2; d < at.size(); ++d) {
      const std::int64_t i = t[0].shape[d], o = t[1].shape[d];
      first[d] = begins(at[d], i, o);
      const auto end =
          static_cast<std::int64_t>(std::ceil(static_cast<double>((at[d] + 1) * i) / static_cast<double>(o)));
      lengths.push_back(end - first[d]);
    }
    DefinedElements elements;
    for_each_place(lengths, [&](const Sizes& tap) {
      Sizes place = first;
      for (std::size_t d = 0; d < tap.size(); ++d) place[2 + d] += tap[d];
      elements.push_back(element_at(t[0], place));
    });
    reduce_window(op, elements, static_cast<double>(elements.size()), element_at(t[1], at));
  });
}

double defined_cubic(double x) {
  constexpr double a = -0.75;
  x = std::abs(x);
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

/// The weight of element i in result o, of dimension d.
double defined_weight(const Operator& op, std::int64_t extent, std::int64_t out, std::int64_t o,
                      std::int64_t i) {
  const std::string& mode = std::get<std::string>(op.attributes.at("mode"));
  if (mode == "nearest") return o * extent / out == i ? 1 : 0;
  const double ratio = static_cast<double>(extent) / static_cast<double>(out);
  double place = (static_cast<double>(o) + 0.5) * ratio - 0.5;
  if (std::get<std::int64_t>(op.attributes.at("align_corners")) != 0)
    place = out == 1 ? 0 : static_cast<double>(o * (extent - 1)) / static_cast<double>(out - 1);
  if (mode == "linear") {
    place = std::clamp(place, 0.0, static_cast<double>(extent - 1));
    return std::max(0.0, 1 - std::abs(place - static_cast<double>(i)));
  }
  double sum = 0;  // what lies outside is like the border
  for (std::int64_t j = -3; j < extent + 3; ++j) {
    if (std::clamp<std::int64_t>(j, 0, extent - 1) == i) sum += defined_cubic(place - static_cast<double>(j));
  }
  return sum;
}

void define_resize(const Operator& op, WholeTensors& t) {
  for_each_place(t[1].shape, [&](const Sizes& at) {
    double sum = 0;
    Sizes spatial(t[0].shape.begin() + 2, t[0].shape.end());
    for_each_place(spatial, [&](const Sizes& from) {
      double weight = 1;
      for (std::size_t d = 0; d < from.size() && weight != 0; ++d)
        weight *= defined_weight(op, t[0].shape[2 + d], t[1].shape[2 + d], at[2 + d], from[d]);
      if (weight != 0) sum += weight * element_at(t[0], joined({at[0], at[1]}, from));
    });
    element_at(t[1], at) = sum;
  });
}

void define_group_norm(const Operator& op, WholeTensors& t) {
  const std::int64_t groups = std::get<std::int64_t>(op.attributes.at("groups"));
  const std::int64_t within = t[0].shape[1] / groups;
  const auto size = static_cast<std::size_t>(
      std::accumulate(t[0].shape.begin() + 2, t[0].shape.end(), within, std::multiplies<>()));
  const std::size_t plane = size / static_cast<std::size_t>(within);
  for (std::size_t first = 0; first < t[0].elements.size(); first += size) {
    const double *x = t[0].elements.data() + first, count = static_cast<double>(size);
    double mean = 0, variance = 0;
    for (std::size_t j = 0; j < size; ++j) mean += x[j] / count;
    for (std::size_t j = 0; j < size; ++j) variance += (x[j] - mean) * (x[j] - mean) / count;
    for (std::size_t j = 0; j < size; ++j) {
      const std::size_t channel = (first + j) / plane % static_cast<std::size_t>(t[0].shape[1]);
      const double normal = (x[j] - mean) / std::sqrt(variance + 1e-5);
      const bool affine = t.size() == 4;
      t.back().elements[first + j] =
          affine ? normal * t[1].elements[channel] + t[2].elements[channel] : normal;
    }
  }
}

using Define = void (*)(const Operator&, WholeTensors&);

/// Where this program has a kernel for the kind: kernels of some are on the CPU alone.
void check_image_kernel(const std::string& kind, Define define, const Sizes& x,
                        const Attributes& attributes) {
  Bench bench(x[0]);
  const KernelCase c{bench.op(kind, {bench.x(x)}, attributes), define};
  if (!tests_all_kernels() && tested_kernels(kind).empty()) return;
  check_kernel(c);
}

TEST(SequenceConvolution, IsARowOfAnImage) {
  const auto check = [](const Sizes& x, const Attributes& attributes) {
    check_image_kernel("conv1d", define_any_convolution, x, attributes);
  };
  check({2, 4, 9}, {{"out", 4}, {"kernel", 3}, {"pad", 1}});
  check({2, 4, 11}, {{"out", 6}, {"kernel", 4}, {"stride", 3}, {"groups", 2}, {"bias", 0}});
  check({2, 2, 12}, {{"out", 2}, {"kernel", 3}, {"pad", 4}, {"pad_end", 0}, {"dilation", 2}});  // causal
  check({2, 4, 8}, {{"out", 4}, {"kernel", 3}, {"groups", 4}, {"pad", 1}, {"activation", "gelu"}});
}

TEST(ImageConvolution, PadsItsEndsDifferently) {
  const auto check = [](const Sizes& x, const Attributes& attributes) {
    check_image_kernel("conv2d", define_any_convolution, x, attributes);
  };
  check({2, 2, 8, 7}, {{"out", 2}, {"kernel", 3}, {"stride", 2}, {"pad", 0}, {"pad_end", 1}});
  check({2, 2, 6, 7}, {{"out", 2}, {"kernel", 2}, {"pad", Sizes{1, 0}}, {"pad_end", Sizes{0, 1}}});
  check({2, 2, 7, 6}, {{"out", 2}, {"kernel", 3}, {"pad", 2}, {"pad_end", 0}, {"bias", 0}});
}

TEST(VolumeConvolution, SlidesInThreeDims) {
  const auto check = [](const Sizes& x, const Attributes& attributes) {
    check_image_kernel("conv3d", define_any_convolution, x, attributes);
  };
  if (!sanitized) {  // the other two take a minute and a half there
    check({2, 2, 4, 5, 4}, {{"out", 2}, {"kernel", 3}, {"pad", 1}});
    check({2, 4, 5, 4, 6},
          {{"out", 4}, {"kernel", Sizes{1, 2, 3}}, {"stride", Sizes{2, 1, 2}}, {"groups", 2}, {"bias", 0}});
  }
  check({1, 2, 3, 4, 4}, {{"out", 2}, {"kernel", 2}, {"pad", 1}, {"pad_end", 0}, {"activation", "relu"}});
}

TEST(TransposedConvolutions, AddAKernelForEachElement) {
  const auto check = [](const std::string& kind, const Sizes& x, const Attributes& attributes) {
    check_image_kernel(kind, define_transposed, x, attributes);
  };
  check("conv_transpose1d", {2, 4, 7}, {{"out", 2}, {"kernel", 3}});
  check("conv_transpose1d", {2, 4, 7}, {{"out", 4}, {"kernel", 4}, {"stride", 2}, {"pad", 1}});
  check("conv_transpose1d", {2, 4, 6}, {{"out", 2}, {"kernel", 5}, {"stride", 3}, {"output_pad", 2}});
  check("conv_transpose2d", {2, 4, 4, 5}, {{"out", 2}, {"kernel", 2}, {"stride", 2}, {"bias", 0}});
  check("conv_transpose2d", {2, 4, 4, 3},
        {{"out", 6}, {"kernel", 3}, {"stride", 2}, {"pad", 1}, {"output_pad", 1}, {"groups", 2}});
  check("conv_transpose2d", {2, 2, 4, 4},
        {{"out", 2}, {"kernel", Sizes{3, 2}}, {"stride", Sizes{1, 2}}, {"activation", "gelu"}});
  check("conv_transpose3d", {1, 2, 3, 4, 3},
        {{"out", 2}, {"kernel", 3}, {"stride", Sizes{2, 1, 2}}, {"pad", 1}});
}

TEST(TransposedConvolutions, ReachWhereKernelsLeaveGaps) {
  const auto check = [](const Sizes& x, const Attributes& attributes) {
    check_image_kernel("conv_transpose1d", define_transposed, x, attributes);
  };
  check({2, 2, 5}, {{"out", 2}, {"kernel", 1}, {"stride", 3}});
  check({2, 2, 5}, {{"out", 2}, {"kernel", 2}, {"stride", 3}, {"output_pad", 4}});
  check({2, 2, 6}, {{"out", 2}, {"kernel", 3}, {"dilation", 2}, {"stride", 2}, {"pad", 3}});
  check({2, 2, 6}, {{"out", 2}, {"kernel", 1}, {"pad", 2}});
  check({2, 2, 6}, {{"out", 2}, {"kernel", 2}, {"stride", 2}, {"pad", 3}, {"activation", "relu"}});
}

TEST(TransposedConvolutions, KeepGroupsApart) {
  check_image_kernel("conv_transpose2d", define_transposed, {2, 4, 3, 4},
                     {{"out", 4}, {"kernel", 2}, {"stride", 2}, {"groups", 4}});
  check_image_kernel("conv_transpose1d", define_transposed, {2, 4, 5},
                     {{"out", 8}, {"kernel", 3}, {"groups", 4}});
  check_image_kernel("conv_transpose1d", define_transposed, {2, 8, 5},
                     {{"out", 4}, {"kernel", 3}, {"groups", 4}, {"bias", 0}});
}

TEST(PoolKernels, PoolSequencesAndVolumes) {
  const auto check = [](const std::string& kind, const Sizes& x, const Attributes& attributes) {
    check_image_kernel(kind, define_any_pool, x, attributes);
  };
  for (const char* mode : {"max", "avg"}) {
    check("pool1d", {2, 4, 11}, {{"mode", mode}, {"kernel", 3}, {"stride", 2}, {"pad", 1}});
    check("pool3d", {2, 2, 4, 5, 6}, {{"mode", mode}, {"kernel", 2}});
    check("pool3d", {1, 2, 5, 4, 4},
          {{"mode", mode}, {"kernel", Sizes{3, 2, 2}}, {"stride", 2}, {"ceil", 1}});
    check("pool2d", {2, 2, 8, 7}, {{"mode", mode}, {"kernel", 3}, {"stride", 2}, {"pad", 0}, {"pad_end", 1}});
  }
}

TEST(PoolKernels, AverageOverElementsOnTheImageAlone) {
  const auto check = [](const std::string& kind, const Sizes& x, Attributes attributes) {
    attributes["mode"] = "avg";
    attributes["exclude_pad"] = 1;
    check_image_kernel(kind, define_any_pool, x, attributes);
  };
  check("pool1d", {2, 2, 9}, {{"kernel", 4}, {"stride", 2}, {"pad", 2}});
  check("pool2d", {2, 2, 6, 6}, {{"kernel", 3}, {"stride", 1}, {"pad", 1}});
  check("pool2d", {2, 2, 8, 9}, {{"kernel", 3}, {"stride", 2}, {"ceil", 1}});
  check("pool3d", {1, 2, 3, 4, 4}, {{"kernel", 2}, {"stride", 1}, {"pad", 1}});
}

TEST(AdaptivePoolKernel, DividesTheImage) {
  for (const char* mode : {"avg", "max"}) {
    const auto check = [&](const Sizes& x, const Sizes& out) {
      check_image_kernel("adaptive_pool", define_adaptive_pool, x, {{"out", out}, {"mode", mode}});
    };
    check({2, 4, 10}, {4});
    check({2, 2, 6, 8}, {4, 6});
    check({2, 2, 7, 5}, {3, 1});
    check({2, 2, 4, 3}, {6, 3});
    check({1, 2, 4, 6, 4}, {2, 4, 4});
  }
}

TEST(ResizeKernel, TakesTheNearest) {
  for (const Sizes& out : {Sizes{12, 4}, Sizes{4, 10}, Sizes{6, 5}})
    check_image_kernel("resize", define_resize, {2, 2, 6, 8}, {{"out", out}});
  check_image_kernel("resize", define_resize, {1, 2, 2, 4, 3}, {{"out", Sizes{4, 2, 3}}});
}

TEST(ResizeKernel, Interpolates) {
  for (const char* mode : {"linear", "cubic"}) {
    for (const std::int64_t out : {20, 5, 15, 4, 7, 10, 1})
      check_image_kernel("resize", define_resize, {2, 2, 10}, {{"out", out}, {"mode", mode}});
    check_image_kernel("resize", define_resize, {2, 2, 6, 4}, {{"out", Sizes{9, 8}}, {"mode", mode}});
  }
  check_image_kernel("resize", define_resize, {1, 2, 4, 3, 4}, {{"out", Sizes{8, 2, 2}}, {"mode", "linear"}});
}

TEST(ResizeKernel, AlignsCorners) {
  for (const char* mode : {"linear", "cubic"}) {
    for (const std::int64_t out : {1, 5, 9})
      check_image_kernel("resize", define_resize, {2, 2, 5},
                         {{"out", out}, {"mode", mode}, {"align_corners", 1}});
  }
}

TEST(ResizeKernel, WeighsAsPyTorchDoes) {
  if (tested_kernels("resize").empty()) GTEST_SKIP() << "no GPU kernel resizes images";
  const auto resized = [](const Attributes& attributes) {
    Bench bench(1);
    const KernelCase c{bench.op("resize", {bench.x({1, 1, 4})}, attributes), define_resize};
    WholeTensors whole{filled(c.op.uses[0], 0), filled(c.op.uses[1], 0)};
    whole[0].elements = {1, 2, 3, 4};
    Rng rng(1);
    const WholeTensors gradients = draw_output_gradients(c.op, rng);
    return run_kernel(c, single_device(c.op, DeviceId(0)), whole, gradients, {false, false}, c.step)
        .results[1]
        .elements;
  };
  EXPECT_EQ(resized({{"out", 6}}), (std::vector<double>{1, 1, 2, 3, 3, 4}));
  EXPECT_EQ(resized({{"out", 8}, {"mode", "linear"}}),
            (std::vector<double>{1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4}));
  EXPECT_EQ(resized({{"out", 7}, {"mode", "linear"}, {"align_corners", 1}}),
            (std::vector<double>{1, 1.5, 2, 2.5, 3, 3.5, 4}));
  // Weights at a quarter: −0.10546875, 0.87890625, 0.26171875, −0.03515625.
  EXPECT_EQ(resized({{"out", 8}, {"mode", "cubic"}})[3], 2.296875);
}

TEST(GroupNormKernel, NormalisesGroupsOfEachSample) {
  for (const std::int64_t groups : {1, 2, 4}) {
    check_image_kernel("group_norm", define_group_norm, {4, 4, 5, 3}, {{"groups", groups}});
    check_image_kernel("group_norm", define_group_norm, {2, 8, 6}, {{"groups", groups}, {"affine", 0}});
  }
  check_image_kernel("group_norm", define_group_norm, {4, 8}, {{"groups", 2}});
  check_image_kernel("group_norm", define_group_norm, {2, 4, 2, 3, 2}, {{"groups", 2}});
}

TEST(GroupNormKernel, KeepsTheVarianceOfOffCentreData) {
  Bench bench(4);
  KernelCase c{bench.op("group_norm", {bench.x({4, 4, 6})}, {{"groups", 2}}), define_group_norm};
  c.prepare = [](WholeTensors& t) {
    for (double& x : t[0].elements) x = static_cast<double>(static_cast<float>(100 + x / 10));
  };
  if (tested_kernels("group_norm").empty()) GTEST_SKIP() << "no GPU kernel normalises groups";
  check_splits(c);
  check_against_definition(c);
}

}  // namespace
}  // namespace pipesim::cpu
