#include "executor/cpu/kernels/convolution.h"

#include <fmt/format.h>

#include <dnnl.hpp>

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

Descriptions describe(const Convolution& c) {
  const memory::dims x{c.samples, c.groups * c.in, c.image[0], c.image[1]};
  const memory::dims y{c.samples, c.groups * c.out, c.result[0], c.result[1]};
  const bool grouped = c.groups > 1;
  const memory::dims w = grouped ? memory::dims{c.groups, c.out, c.in, c.kernel[0], c.kernel[1]}
                                 : memory::dims{c.out, c.in, c.kernel[0], c.kernel[1]};
  using tag = memory::format_tag;
  const auto f32 = memory::data_type::f32;
  return {{x, f32, tag::nchw}, {w, f32, grouped ? tag::goihw : tag::oihw},
          {y, f32, tag::nchw}, {x, f32, tag::any},
          {w, f32, tag::any},  {y, f32, tag::any}};
}

struct Geometry {
  explicit Geometry(const Convolution& c)
      : strides{c.stride[0], c.stride[1]},
        dilates{c.dilation[0] - 1, c.dilation[1] - 1},  // oneDNN counts the gaps
        low{c.pad_low[0], c.pad_low[1]},
        high{c.pad_high[0], c.pad_high[1]} {}
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

template <class Action>
void guarded(const Convolution& c, std::string_view name, Action action) {
  try {
    action(describe(c), Geometry(c));
  } catch (const dnnl::error& error) {
    throw DeviceError(
        fmt::format("operator \"{}\": oneDNN can't convolve [{}, {}, {}, {}] to [{}, {}, {}, {}]: {}", name,
                    c.samples, c.groups * c.in, c.image[0], c.image[1], c.samples, c.groups * c.out,
                    c.result[0], c.result[1], error.message));
  }
}

}  // namespace

void convolve(const Convolution& c, const float* x, const float* w, float* y, std::string_view name) {
  guarded(c, name, [&](const Descriptions& d, const Geometry& g) {
    const auto pd = forward_description(d, g);
    run_primitive(dnnl::convolution_forward(pd),
                  {{DNNL_ARG_SRC, arranged(pd.src_desc(), d.x, x)},
                   {DNNL_ARG_WEIGHTS, arranged(pd.weights_desc(), d.w, w)}},
                  DNNL_ARG_DST, pd.dst_desc(), d.y, y);
  });
}

void convolve_for_input(const Convolution& c, const float* dy, const float* w, float* dx,
                        std::string_view name) {
  guarded(c, name, [&](const Descriptions& d, const Geometry& g) {
    const dnnl::convolution_backward_data::desc wanted(direct, d.any_x, d.any_w, d.any_y, g.strides,
                                                       g.dilates, g.low, g.high);
    const dnnl::convolution_backward_data::primitive_desc pd(wanted, processor(), forward_description(d, g));
    run_primitive(dnnl::convolution_backward_data(pd),
                  {{DNNL_ARG_DIFF_DST, arranged(pd.diff_dst_desc(), d.y, dy)},
                   {DNNL_ARG_WEIGHTS, arranged(pd.weights_desc(), d.w, w)}},
                  DNNL_ARG_DIFF_SRC, pd.diff_src_desc(), d.x, dx);
  });
}

void convolve_for_weight(const Convolution& c, const float* x, const float* dy, float* dw,
                         std::string_view name) {
  guarded(c, name, [&](const Descriptions& d, const Geometry& g) {
    const dnnl::convolution_backward_weights::desc wanted(direct, d.any_x, d.any_w, d.any_y, g.strides,
                                                          g.dilates, g.low, g.high);
    const dnnl::convolution_backward_weights::primitive_desc pd(wanted, processor(),
                                                                forward_description(d, g));
    run_primitive(dnnl::convolution_backward_weights(pd),
                  {{DNNL_ARG_SRC, arranged(pd.src_desc(), d.x, x)},
                   {DNNL_ARG_DIFF_DST, arranged(pd.diff_dst_desc(), d.y, dy)}},
                  DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc(), d.w, dw);
  });
}

std::string onednn_version() {
  const dnnl_version_t* const v = dnnl_version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace pipesim::cpu
