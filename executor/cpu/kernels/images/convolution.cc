#include "executor/cpu/kernels/images/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <dnnl.hpp>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "sim/base/errors.h"

namespace pipesim::cpu {
namespace {

using dnnl::memory;

const dnnl::engine& processor() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& own_stream() {
  static thread_local dnnl::stream stream(processor());
  return stream;
}

/// Tensors as the caller holds them, and as oneDNN would like them (`any`: it chooses the order in memory).
struct Descriptions {
  memory::desc x, w, y, any_x, any_w, any_y;
};

template <std::size_t dims>
memory::dims joined(memory::dims first, const std::array<std::int64_t, dims>& sides) {
  first.insert(first.end(), sides.begin(), sides.end());
  return first;
}

template <std::size_t dims>
Descriptions describe(const ConvolutionOver<dims>& c) {
  using tag = memory::format_tag;
  const bool grouped = c.groups > 1;
  const memory::dims x = joined({c.samples, c.groups * c.in}, c.image);
  const memory::dims y = joined({c.samples, c.groups * c.out}, c.result);
  const memory::dims w =
      joined(grouped ? memory::dims{c.groups, c.out, c.in} : memory::dims{c.out, c.in}, c.kernel);
  constexpr tag image = dims == 2 ? tag::nchw : tag::ncdhw;
  constexpr tag kernel = dims == 2 ? tag::oihw : tag::oidhw;
  constexpr tag grouped_kernel = dims == 2 ? tag::goihw : tag::goidhw;
  const auto f32 = memory::data_type::f32;
  return {{x, f32, image},    {w, f32, grouped ? grouped_kernel : kernel},
          {y, f32, image},    {x, f32, tag::any},
          {w, f32, tag::any}, {y, f32, tag::any}};
}

struct Geometry {
  template <std::size_t dims>
  explicit Geometry(const ConvolutionOver<dims>& c)
      : strides(joined({}, c.stride)),
        dilates(joined({}, c.dilation)),
        low(joined({}, c.pad_low)),
        high(joined({}, c.pad_high)) {
    for (auto& gaps : dilates) --gaps;  // oneDNN counts the gaps
  }
  memory::dims strides, dilates, low, high;
};

constexpr auto direct = dnnl::algorithm::convolution_direct;

dnnl::convolution_forward::primitive_desc forward_description(const Descriptions& d, const Geometry& g) {
  const dnnl::convolution_forward::desc wanted(dnnl::prop_kind::forward_training, direct, d.any_x, d.any_w,
                                               d.any_y, g.strides, g.dilates, g.low, g.high);
  return {wanted, processor()};
}

memory held(const memory::desc& description, const float* data) {
  return {description, processor(), const_cast<float*>(data)};  // inputs are only read
}

/// The tensor in the order that a primitive wants.
memory arranged(const memory::desc& wanted, const memory::desc& given, const float* data) {
  memory source = held(given, data);
  if (wanted == given) return source;
  memory copy(wanted, processor());
  dnnl::reorder(source, copy).execute(own_stream(), source, copy);
  return copy;
}

/// Runs a primitive whose result oneDNN calls `result` and wants as `wanted`.
void run_primitive(const dnnl::primitive& primitive, std::unordered_map<int, memory> arguments, int result,
                   const memory::desc& wanted, const memory::desc& given, float* data) {
  memory target = held(given, data);
  memory computed = wanted == given ? target : memory(wanted, processor());
  arguments.insert_or_assign(result, computed);
  primitive.execute(own_stream(), arguments);
  if (wanted != given) dnnl::reorder(computed, target).execute(own_stream(), computed, target);
  own_stream().wait();
}

template <std::size_t dims, class Action>
void guarded(const ConvolutionOver<dims>& c, std::string_view name, Action action) {
  try {
    action(describe(c), Geometry(c));
  } catch (const dnnl::error& error) {
    throw DeviceError(fmt::format("operator \"{}\": oneDNN can't convolve [{}] to [{}]: {}", name,
                                  fmt::join(joined({c.samples, c.groups * c.in}, c.image), ", "),
                                  fmt::join(joined({c.samples, c.groups * c.out}, c.result), ", "),
                                  error.message));
  }
}

/// m[outer, length, inner] with the second dim in another order.
class Reordered {
 public:
  Reordered(const float* m, std::int64_t outer, std::int64_t length, std::int64_t inner, SumOrder order)
      : elements_(m) {
    if (order == SumOrder::Ascending) return;
    copy_.resize(static_cast<std::size_t>(outer * length * inner));
    elements_ = copy_.data();
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < length; ++i) {
        const float* from = m + (o * length + term_at(order, i, length)) * inner;
        std::copy(from, from + inner, copy_.data() + (o * length + i) * inner);
      }
    }
  }
  [[nodiscard]] const float* elements() const { return elements_; }

 private:
  std::vector<float> copy_;
  const float* elements_;
};

template <std::size_t dims>
std::int64_t volume_of(const std::array<std::int64_t, dims>& sides) {
  return std::accumulate(sides.begin(), sides.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

template <std::size_t dims>
void convolve(const ConvolutionOver<dims>& c, const float* x, const float* w, float* y, std::string_view name,
              SumOrder order) {
  const Reordered image(x, c.samples * c.groups, c.in, volume_of(c.image), order);
  const Reordered kernel(w, c.groups * c.out, c.in, volume_of(c.kernel), order);
  guarded(c, name, [&](const Descriptions& d, const Geometry& g) {
    const auto pd = forward_description(d, g);
    run_primitive(dnnl::convolution_forward(pd),
                  {{DNNL_ARG_SRC, arranged(pd.src_desc(), d.x, image.elements())},
                   {DNNL_ARG_WEIGHTS, arranged(pd.weights_desc(), d.w, kernel.elements())}},
                  DNNL_ARG_DST, pd.dst_desc(), d.y, y);
  });
}

template <std::size_t dims>
void convolve_for_input(const ConvolutionOver<dims>& c, const float* dy, const float* w, float* dx,
                        std::string_view name, SumOrder order) {
  const Reordered result(dy, c.samples * c.groups, c.out, volume_of(c.result), order);
  const Reordered kernel(w, c.groups, c.out, c.in * volume_of(c.kernel), order);
  guarded(c, name, [&](const Descriptions& d, const Geometry& g) {
    const dnnl::convolution_backward_data::desc wanted(direct, d.any_x, d.any_w, d.any_y, g.strides,
                                                       g.dilates, g.low, g.high);
    const dnnl::convolution_backward_data::primitive_desc pd(wanted, processor(), forward_description(d, g));
    run_primitive(dnnl::convolution_backward_data(pd),
                  {{DNNL_ARG_DIFF_DST, arranged(pd.diff_dst_desc(), d.y, result.elements())},
                   {DNNL_ARG_WEIGHTS, arranged(pd.weights_desc(), d.w, kernel.elements())}},
                  DNNL_ARG_DIFF_SRC, pd.diff_src_desc(), d.x, dx);
  });
}

template <std::size_t dims>
void convolve_for_weight(const ConvolutionOver<dims>& c, const float* x, const float* dy, float* dw,
                         std::string_view name, SumOrder order) {
  const Reordered image(x, 1, c.samples, c.groups * c.in * volume_of(c.image), order);
  const Reordered result(dy, 1, c.samples, c.groups * c.out * volume_of(c.result), order);
  guarded(c, name, [&](const Descriptions& d, const Geometry& g) {
    const dnnl::convolution_backward_weights::desc wanted(direct, d.any_x, d.any_w, d.any_y, g.strides,
                                                          g.dilates, g.low, g.high);
    const dnnl::convolution_backward_weights::primitive_desc pd(wanted, processor(),
                                                                forward_description(d, g));
    run_primitive(dnnl::convolution_backward_weights(pd),
                  {{DNNL_ARG_SRC, arranged(pd.src_desc(), d.x, image.elements())},
                   {DNNL_ARG_DIFF_DST, arranged(pd.diff_dst_desc(), d.y, result.elements())}},
                  DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc(), d.w, dw);
  });
}

template void convolve(const ConvolutionOver<2>&, const float*, const float*, float*, std::string_view,
                       SumOrder);
template void convolve_for_input(const ConvolutionOver<2>&, const float*, const float*, float*,
                                 std::string_view, SumOrder);
template void convolve_for_weight(const ConvolutionOver<2>&, const float*, const float*, float*,
                                  std::string_view, SumOrder);
template void convolve(const ConvolutionOver<3>&, const float*, const float*, float*, std::string_view,
                       SumOrder);
template void convolve_for_input(const ConvolutionOver<3>&, const float*, const float*, float*,
                                 std::string_view, SumOrder);
template void convolve_for_weight(const ConvolutionOver<3>&, const float*, const float*, float*,
                                  std::string_view, SumOrder);

std::string onednn_version() {
  const dnnl_version_t* const v = dnnl_version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace pipesim::cpu
