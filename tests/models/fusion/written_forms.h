#pragma once

#include <cstdint>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "models/graph_builder.h"

namespace pipesim {

/// Writes functions in elementary operators, "step1", "step2", … behind a prefix that weights have, too.
class FormWriter {
 public:
  using Sizes = std::vector<std::int64_t>;

  explicit FormWriter(GraphBuilder& builder, std::string prefix = {})
      : builder_(builder), prefix_(std::move(prefix)) {}

  TensorId operator()(const std::string& kind, const std::vector<TensorId>& inputs,
                      const Attributes& attributes = {}, const std::vector<std::string>& weights = {}) {
    return builder_.add(kind, prefix_ + "step" + std::to_string(++steps_), inputs, attributes, weights);
  }
  TensorId affine(TensorId x, double factor, double offset = 0) {
    return (*this)("affine", {x}, {{"factor", factor}, {"offset", offset}});
  }
  TensorId power(TensorId x, double exponent) { return (*this)("power", {x}, {{"exponent", exponent}}); }
  TensorId clip(TensorId x, double low, double high) {
    return (*this)("clip", {x}, {{"low", low}, {"high", high}});
  }
  TensorId shaped(TensorId x, const Sizes& shape, const char* kind = "reshape") {
    return (*this)(kind, {x}, {{"shape", shape}});
  }
  TensorId reduced(TensorId x, std::int64_t axis, const std::string& mode = "mean") {
    const TensorId result = (*this)("reduce", {x}, {{"axes", Sizes{axis}}, {"mode", mode}});
    Sizes kept = shape(x);
    kept[static_cast<std::size_t>(axis)] = 1;
    return shaped(result, kept);
  }
  TensorId row_mean(TensorId x) { return reduced(x, static_cast<std::int64_t>(shape(x).size()) - 1); }
  TensorId parameter(const std::string& weight, const Sizes& shape) {
    return (*this)("parameter", {}, {{"shape", shape}}, {prefix_ + weight});
  }
  [[nodiscard]] Sizes shape(TensorId x) const { return builder_.shape(x); }

 private:
  GraphBuilder& builder_;
  std::string prefix_;
  int steps_ = 0;
};

struct WrittenForm {
  const char* text;
  const char* kind;  ///< that it is joined to; "" where it is not
  TensorId (*write)(FormWriter& w, TensorId x);
};

/// Returns written forms of functions of every element of x.
inline std::vector<WrittenForm> forms_of_elements() {
  static constexpr double root = 0.70710678, slope = 0.7978845608, cubic = 0.044715;
  using W = FormWriter;
  return {
      {"x/2 · (1 + erf(x/√2))", "gelu",
       [](W& w, TensorId x) {
         const TensorId half = w.affine(x, 0.5);
         return w("mul", {half, w.affine(w("erf", {w.affine(x, root)}), 1, 1)});
       }},
      {"x · (1 + erf(x/√2)) · 1/2", "gelu",
       [](W& w, TensorId x) {
         return w.affine(w("mul", {x, w.affine(w("erf", {w.affine(x, root)}), 1, 1)}), 0.5);
       }},
      {"(1 + erf(x/√2))/2 · x", "gelu",
       [](W& w, TensorId x) {
         return w("mul", {w.affine(w("erf", {w.affine(x, root)}), 0.5, 0.5), x});
       }},
      {"x/2 · (1 + tanh(√(2/π) (x + c x³)))", "gelu",
       [](W& w, TensorId x) {
         const TensorId inner = w("add", {x, w.affine(w.power(x, 3), cubic)});
         return w("mul", {w.affine(x, 0.5), w.affine(w("tanh", {w.affine(inner, slope)}), 1, 1)});
       }},
      {"x (1 + tanh(√(2/π) (x + c x·x·x))) / 2", "gelu",
       [](W& w, TensorId x) {
         const TensorId third = w("mul", {w("mul", {x, x}), x});
         const TensorId inner = w("add", {w.affine(third, cubic), x});
         return w.affine(w("mul", {x, w.affine(w("tanh", {w.affine(inner, slope)}), 1, 1)}), 0.5);
       }},
      {"x σ(2√(2/π) x (1 + c x²))", "gelu",
       [](W& w, TensorId x) {
         const TensorId inner = w("mul", {x, w.affine(w.power(x, 2), 2 * slope * cubic, 2 * slope)});
         return w("mul", {x, w("sigmoid", {inner})});
       }},
      {"x σ(x)", "silu",
       [](W& w, TensorId x) {
         return w("mul", {x, w("sigmoid", {x})});
       }},
      {"x / (1 + exp(−x))", "silu",
       [](W& w, TensorId x) {
         return w("div", {x, w.affine(w("exp", {w.affine(x, -1)}), 1, 1)});
       }},
      {"σ(1.702 x) x", "quick_gelu",
       [](W& w, TensorId x) {
         return w("mul", {w("sigmoid", {w.affine(x, 1.702)}), x});
       }},
      {"x tanh(softplus(x))", "mish",
       [](W& w, TensorId x) {
         return w("mul", {x, w("tanh", {w("softplus", {x})})});
       }},
      {"x tanh(ln(1 + exp(x)))", "mish",
       [](W& w, TensorId x) {
         return w("mul", {x, w("tanh", {w("log", {w.affine(w("exp", {x}), 1, 1)})})});
       }},
      {"x clip(x + 3, 0, 6) / 6", "hardswish",
       [](W& w, TensorId x) {
         return w.affine(w("mul", {x, w.clip(w.affine(x, 1, 3), 0, 6)}), 1.0 / 6);
       }},
      {"x (relu6(x + 3) / 6)", "hardswish",
       [](W& w, TensorId x) {
         return w("mul", {x, w.affine(w("relu6", {w.affine(x, 1, 3)}), 0.16666667)});
       }},
      {"x hardsigmoid(x)", "hardswish",
       [](W& w, TensorId x) {
         return w("mul", {x, w("hardsigmoid", {x})});
       }},
      {"clip(x + 3, 0, 6) / 6", "hardsigmoid",
       [](W& w, TensorId x) { return w.affine(w.clip(w.affine(x, 1, 3), 0, 6), 1.0 / 6); }},
      {"clip(x/6 + 1/2, 0, 1)", "hardsigmoid",
       [](W& w, TensorId x) { return w.clip(w.affine(x, 1.0 / 6, 0.5), 0, 1); }},
      {"clip(x, 0, 6)", "relu6", [](W& w, TensorId x) { return w.clip(x, 0, 6); }},
      {"clip(relu(x), −∞, 6)", "relu6", [](W& w, TensorId x) { return w.clip(w("relu", {x}), -3e38, 6); }},
      {"clip(x, 0, ∞)", "relu", [](W& w, TensorId x) { return w.clip(x, 0, 3e38); }},
      {"relu(x)²", "relu2", [](W& w, TensorId x) { return w.power(w("relu", {x}), 2); }},
      {"relu(x) relu(x)", "relu2",
       [](W& w, TensorId x) {
         const TensorId positive = w("relu", {x});
         return w("mul", {positive, positive});
       }},
      {"x relu(x)", "relu2",
       [](W& w, TensorId x) {
         return w("mul", {x, w("relu", {x})});
       }},
      {"ln(1 + exp(x))", "softplus",
       [](W& w, TensorId x) { return w("log", {w.affine(w("exp", {x}), 1, 1)}); }},
      {"1 / (1 + exp(−x))", "sigmoid",
       [](W& w, TensorId x) { return w("reciprocal", {w.affine(w("exp", {w.affine(x, -1)}), 1, 1)}); }},
      {"2 σ(2x) − 1", "tanh",
       [](W& w, TensorId x) { return w.affine(w("sigmoid", {w.affine(x, 2)}), 2, -1); }},
  };
}

inline constexpr double kWrittenEpsilon = 1e-5;

/// (x − mean) / √(variance + ε)
inline TensorId write_centred(FormWriter& w, TensorId x, double epsilon = kWrittenEpsilon) {
  const TensorId d = w("sub", {x, w.row_mean(x)});
  const TensorId variance = w.row_mean(w.power(d, 2));
  return w("div", {d, w("sqrt", {w.affine(variance, 1, epsilon)})});
}

/// Returns written forms of functions of the rows of x[…, h].
inline std::vector<WrittenForm> forms_of_rows() {
  using W = FormWriter;
  return {
      {"d / √(mean(d²) + ε) · γ + β", "layer_norm",
       [](W& w, TensorId x) {
         const TensorId gamma = w.parameter("gamma", {8}), beta = w.parameter("beta", {8});
         return w("add", {w("mul", {write_centred(w, x), gamma}), beta});
       }},
      {"γ · (d · 1/√(mean(d · d) + ε)) + β", "layer_norm",
       [](W& w, TensorId x) {
         const TensorId d = w("sub", {x, w.row_mean(x)}), variance = w.row_mean(w("mul", {d, d}));
         const TensorId scale = w("reciprocal", {w("sqrt", {w.affine(variance, 1, kWrittenEpsilon)})});
         const TensorId gamma = w.shaped(w.parameter("gamma", {8}), w.shape(x), "expand");
         return w("add", {w("mul", {gamma, w("mul", {d, scale})}), w.parameter("beta", {1, 1, 8})});
       }},
      {"β + γ (x − mean) (sum(d²)/h + ε)^−½", "layer_norm",
       [](W& w, TensorId x) {
         const TensorId d = w("sub", {x, w.row_mean(x)}), e = w("sub", {x, w.row_mean(x)});
         const TensorId sum = w.reduced(w.power(d, 2), 2, "sum");
         const TensorId scale = w.power(w.affine(sum, 1.0 / 8, kWrittenEpsilon), -0.5);
         const TensorId beta = w.shaped(w.parameter("beta", {8}), w.shape(x), "expand");
         const TensorId gamma = w.parameter("gamma", {8});
         return w("add", {beta, w("mul", {w("mul", {e, scale}), gamma})});
       }},
      {"x γ s + (β − mean γ s), s = 1/√(variance + ε)", "layer_norm",
       [](W& w, TensorId x) {
         const TensorId mean = w.row_mean(x), gamma = w.parameter("gamma", {8});
         const TensorId variance = w.row_mean(w.power(w("sub", {x, mean}), 2));
         const TensorId s = w.power(w.affine(variance, 1, kWrittenEpsilon), -0.5);
         const TensorId factor = w("mul", {w.shaped(s, w.shape(x), "expand"), gamma});
         const TensorId beta = w.shaped(w.parameter("beta", {8}), w.shape(x), "expand");
         return w("add", {w("mul", {x, factor}), w("sub", {beta, w("mul", {factor, mean})})});
       }},
      {"d / √(mean(d²) + ε)", "layer_norm", [](W& w, TensorId x) { return write_centred(w, x); }},
      {"x / √(mean(x²) + ε) · γ", "rms_norm",
       [](W& w, TensorId x) {
         const TensorId root = w("sqrt", {w.affine(w.row_mean(w.power(x, 2)), 1, kWrittenEpsilon)});
         return w("mul", {w("div", {x, root}), w.parameter("gamma", {8})});
       }},
      {"γ · (x · 1/√(mean(x · x) + ε))", "rms_norm",
       [](W& w, TensorId x) {
         const TensorId root = w("sqrt", {w.affine(w.row_mean(w("mul", {x, x})), 1, kWrittenEpsilon)});
         const TensorId gamma = w.shaped(w.parameter("gamma", {8}), w.shape(x), "expand");
         return w("mul", {gamma, w("mul", {x, w("reciprocal", {root})})});
       }},
      {"x · (mean(x²) + ε)^−½ · γ", "rms_norm",
       [](W& w, TensorId x) {
         const TensorId scale = w.power(w.affine(w.row_mean(w.power(x, 2)), 1, kWrittenEpsilon), -0.5);
         return w("mul", {w("mul", {x, scale}), w.parameter("gamma", {8})});
       }},
      {"exp(x − max) / sum(exp(x − max))", "softmax",
       [](W& w, TensorId x) {
         const TensorId e = w("exp", {w("sub", {x, w.reduced(x, 2, "max")})});
         return w("div", {e, w.reduced(e, 2, "sum")});
       }},
      {"exp(x) · 1/sum(exp(x))", "softmax",
       [](W& w, TensorId x) {
         const TensorId e = w("exp", {x});
         return w("mul", {e, w("reciprocal", {w.reduced(e, 2, "sum")})});
       }},
  };
}

/// Returns written forms of functions of x[n, c, …] with 6 channels in 3 groups.
inline std::vector<WrittenForm> forms_of_channels() {
  using W = FormWriter;
  return {
      {"group_norm of a view, γ and β over channels", "group_norm",
       [](W& w, TensorId x) {
         TensorId y = w.shaped(x, {w.shape(x)[0], 3, 32});
         y = w("group_norm", {y}, {{"groups", 3}, {"affine", 0}});
         y = w.shaped(y, w.shape(x));
         y = w("mul", {y, w.shaped(w.parameter("gamma", {6}), {6, 1, 1})});
         return w("add", {y, w.shaped(w.parameter("beta", {6}), {1, 6, 1, 1})});
       }},
      {"the same written out", "group_norm",
       [](W& w, TensorId x) {
         TensorId y = w.shaped(write_centred(w, w.shaped(x, {w.shape(x)[0], 3, 32})), w.shape(x));
         const TensorId gamma = w.shaped(w.parameter("gamma", {6}), {1, 6, 1, 1});
         y = w("mul", {w.shaped(gamma, w.shape(x), "expand"), y});
         return w("add", {y, w.shaped(w.parameter("beta", {6}), {6, 1, 1})});
       }},
      {"γ and β behind a norm of 3 groups", "group_norm",
       [](W& w, TensorId x) {
         const TensorId y = w("group_norm", {x}, {{"groups", 3}, {"affine", 0}});
         const TensorId scaled = w("mul", {y, w.shaped(w.parameter("gamma", {6}), {6, 1, 1})});
         return w("add", {scaled, w.shaped(w.parameter("beta", {6}), {6, 1, 1})});
       }},
      {"a view alone", "group_norm",
       [](W& w, TensorId x) {
         const TensorId y =
             w("group_norm", {w.shaped(x, {w.shape(x)[0], 3, 2, 16})}, {{"groups", 3}, {"affine", 0}});
         return w.shaped(y, w.shape(x));
       }},
  };
}

/// A model that adds the form's result to x, so that x has another reader.
inline OperatorGraph model_of(const WrittenForm& form, bool channels = false) {
  GraphBuilder b("written", 2);
  const FormWriter::Sizes shape = channels ? FormWriter::Sizes{2, 6, 4, 4} : FormWriter::Sizes{2, 3, 8};
  const TensorId x =
      b.add("linear", "in", {b.data("data", shape)}, {{"out", FormWriter::Sizes{shape.back()}}});
  FormWriter writer(b);
  const TensorId y = b.add("add", "both", {x, form.write(writer, x)});
  const TensorId out = b.add("linear", "out", {y}, {{"out", FormWriter::Sizes{5}}});
  b.add("cross_entropy", "loss",
        {out, b.data("labels", FormWriter::Sizes(shape.begin(), shape.end() - 1), DataType::Int64)});
  return b.build();
}

}  // namespace pipesim
