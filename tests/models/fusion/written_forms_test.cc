#include "tests/models/fusion/written_forms.h"

#include <gmock/gmock.h>

#include <map>

#include "models/fusion.h"
#include "tests/models/zoo/measures.h"

namespace pipesim {
namespace {

using Counts = std::map<std::string, int>;

Counts counts_of(const OperatorGraph& graph) {
  Counts counts;
  for (const Operator& op : graph.operators()) ++counts[op.kind];
  return counts;
}

std::vector<std::string> weights_of(const OperatorGraph& graph, const Operator& op) {
  std::vector<std::string> names;
  for (const TensorUse& use : op.uses) {
    if (use.role == Role::Weight) names.push_back(graph.tensor(use.tensor).name);
  }
  return names;
}

/// One operator of the form's kind stands between x and the sum.
void expect_joined(const WrittenForm& form, bool channels) {
  const OperatorGraph written = model_of(form, channels), graph = fuse(written);
  const Counts expected{{"linear", 2}, {form.kind, 1}, {"add", 1}, {"cross_entropy", 1}};
  EXPECT_EQ(counts_of(graph), expected) << form.text;
  const auto result_of = [](const OperatorGraph& g) {
    const auto& uses = operator_named(g, "both").uses;
    return g.tensor(uses[1].tensor);
  };
  EXPECT_EQ(result_of(graph).name, result_of(written).name) << form.text;
  EXPECT_EQ(result_of(graph).shape, result_of(written).shape) << form.text;
  const Operator& joined = graph.op(result_of(graph).producer);
  EXPECT_EQ(joined.name, written.op(result_of(written).producer).name) << form.text;
  EXPECT_EQ(graph.tensor(joined.uses[0].tensor).name, "in") << form.text;
  EXPECT_EQ(graph.parameter_count(), written.parameter_count()) << form.text;
  const std::vector<std::string> weights = weights_of(graph, joined);
  if (!weights.empty()) {
    EXPECT_EQ(weights[0], "gamma") << form.text;
  }
  if (weights.size() > 1) {
    EXPECT_EQ(weights[1], "beta") << form.text;
  }
  if (joined.kind == "group_norm") {
    EXPECT_EQ(std::get<std::int64_t>(joined.attributes.at("groups")), 3) << form.text;
  }
}

TEST(WrittenForms, OfElementsAreJoined) {
  for (const WrittenForm& form : forms_of_elements()) expect_joined(form, false);
}

TEST(WrittenForms, OfRowsAreJoined) {
  for (const WrittenForm& form : forms_of_rows()) expect_joined(form, false);
}

TEST(WrittenForms, OfChannelsAreJoined) {
  for (const WrittenForm& form : forms_of_channels()) expect_joined(form, true);
}

TEST(WrittenForms, ThatAreNearOnesStay) {
  using W = FormWriter;
  const std::vector<WrittenForm> forms{
      {"x σ(1.7 x)", "",
       [](W& w, TensorId x) {
         return w("mul", {x, w("sigmoid", {w.affine(x, 1.7)})});
       }},
      {"gelu with another cubic", "",
       [](W& w, TensorId x) {
         const TensorId inner = w("add", {x, w.affine(w.power(x, 3), 0.045)});
         return w("mul", {x, w.affine(w("tanh", {w.affine(inner, 0.7978845608)}), 0.5, 0.5)});
       }},
      {"clip(x, 0, 5)", "", [](W& w, TensorId x) { return w.clip(x, 0, 5); }},
      {"clip(x, 0, 1000)", "", [](W& w, TensorId x) { return w.clip(x, 0, 1000); }},
      {"clip(x, −1, ∞)", "", [](W& w, TensorId x) { return w.clip(x, -1, 3e38); }},
      {"2x", "", [](W& w, TensorId x) { return w.affine(x, 2); }},
      {"ln(2 + exp(x))", "", [](W& w, TensorId x) { return w("log", {w.affine(w("exp", {x}), 1, 2)}); }},
      {"x / √(mean(x²) + ε), which rms_norm multiplies", "",
       [](W& w, TensorId x) {
         const TensorId root = w("sqrt", {w.affine(w.row_mean(w.power(x, 2)), 1, kWrittenEpsilon)});
         return w("div", {x, root});
       }},
      {"a large ε", "", [](W& w, TensorId x) { return write_centred(w, x, 0.1); }},
      {"ε beside the root", "",
       [](W& w, TensorId x) {
         const TensorId d = w("sub", {x, w.row_mean(x)});
         const TensorId root = w("sqrt", {w.row_mean(w.power(d, 2))});
         return w("div", {d, w.affine(root, 1, 1e-3)});
       }},
      {"the variance of a sample", "",
       [](W& w, TensorId x) {
         const TensorId d = w("sub", {x, w.row_mean(x)});
         const TensorId variance = w.affine(w.reduced(w.power(d, 2), 2, "sum"), 1.0 / 7, 1e-5);
         return w("div", {d, w("sqrt", {variance})});
       }},
      {"over positions", "",
       [](W& w, TensorId x) {
         const TensorId d = w("sub", {x, w.reduced(x, 1)});
         const TensorId variance = w.reduced(w.power(d, 2), 1);
         return w("div", {d, w("sqrt", {w.affine(variance, 1, kWrittenEpsilon)})});
       }},
      {"the mean of another dim", "",
       [](W& w, TensorId x) {
         const TensorId mean = w("reduce", {x}, {{"axes", FormWriter::Sizes{0}}, {"mode", "mean"}});
         const TensorId d = w("sub", {x, mean}), variance = w.row_mean(w.power(d, 2));
         return w("div", {d, w("sqrt", {w.affine(variance, 1, kWrittenEpsilon)})});
       }},
      {"a softmax over positions", "", [](W& w, TensorId x) {
         const TensorId e = w("exp", {x});
         return w("div", {e, w.reduced(e, 1, "sum")});
       }}};
  for (const WrittenForm& form : forms) {
    const OperatorGraph graph = model_of(form);
    EXPECT_EQ(fuse(graph), graph) << form.text;
  }
}

TEST(WrittenForms, LeaveRowsThatOneOfSquareShapeReads) {
  GraphBuilder b("square", 4);
  const TensorId x = b.add("relu", "x", {b.data("data", {4, 4})});
  const TensorId mean =
      b.add("reduce", "mean", {x}, {{"axes", FormWriter::Sizes{1}}, {"mode", "mean"}});  // reads as [1, 4]
  FormWriter w(b);
  const TensorId d = w("sub", {x, mean});
  w("div", {d, w("sqrt", {w.affine(w.row_mean(w.power(d, 2)), 1, kWrittenEpsilon)})});
  const OperatorGraph graph = b.build();
  EXPECT_EQ(fuse(graph), graph);
}

TEST(WrittenForms, LeaveWhatOthersRead) {
  GraphBuilder b("read", 2);
  const TensorId x = b.add("linear", "x", {b.data("data", {2, 8})}, {{"out", FormWriter::Sizes{8}}});
  const TensorId gate = b.add("sigmoid", "gate", {x});
  b.add("add", "both", {b.add("mul", "silu", {x, gate}), gate});
  const OperatorGraph graph = b.build();
  EXPECT_EQ(fuse(graph), graph);
}

TEST(WrittenForms, EndInAFactorBeforeANorm) {
  const OperatorGraph graph =
      fuse(model_of({"", "", [](FormWriter& w, TensorId x) {
                       const TensorId y = w("mul", {x, w.clip(w.affine(x, 1, 3), 0, 6)});
                       const TensorId z = w.affine(y, 1.0 / 6), squares = w.power(z, 2);
                       const TensorId mean = w.affine(w.row_mean(squares), 1, 1e-6);
                       const TensorId scaled = w("mul", {z, w.power(mean, -0.5)});
                       return w("mul", {scaled, w.parameter("gamma", {8})});
                     }}));
  const Counts expected{{"linear", 2}, {"hardswish", 1}, {"rms_norm", 1}, {"add", 1}, {"cross_entropy", 1}};
  EXPECT_EQ(counts_of(graph), expected);
}

TEST(WrittenForms, MultiplyBehindALayerNormThatAddsNothing) {
  const OperatorGraph graph = fuse(model_of({"", "", [](FormWriter& w, TensorId x) {
                                               const TensorId gamma = w.parameter("gamma", {8});
                                               return w("mul", {write_centred(w, x), gamma});
                                             }}));
  const Counts expected{{"linear", 2}, {"parameter", 1}, {"layer_norm", 1},
                        {"mul", 1},    {"add", 1},       {"cross_entropy", 1}};
  EXPECT_EQ(counts_of(graph), expected);
}

TEST(WrittenForms, ShareParametersThatOthersRead) {
  const OperatorGraph graph = fuse(model_of({"", "", [](FormWriter& w, TensorId x) {
                                               const TensorId gamma = w.parameter("gamma", {8});
                                               const TensorId scaled = w("mul", {write_centred(w, x), gamma});
                                               return w("add", {scaled, gamma});
                                             }}));
  EXPECT_EQ(count_kind(graph, "layer_norm"), 1);
  EXPECT_EQ(count_kind(graph, "parameter"), 1);
}

TEST(WrittenForms, KeepRepeatsAndFrozenWeights) {
  GraphBuilder b("repeated", 2);
  TensorId x = b.data("data", {2, 8});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string prefix = "layer" + std::to_string(layer) + ".";
    const auto add = [&](const std::string& kind, const std::string& name, std::vector<TensorId> inputs,
                         const Attributes& attributes) {
      return b.add_operator({kind,
                             prefix + name,
                             std::move(inputs),
                             attributes,
                             {},
                             {},
                             "layer#." + name,
                             kind == "parameter"})[0];
    };
    const TensorId gamma = add("parameter", "gamma", {}, {{"shape", FormWriter::Sizes{8}}});
    TensorId y = add("power", "square", {x}, {{"exponent", 2.0}});
    y = add("reduce", "mean", {y}, {{"axes", FormWriter::Sizes{1}}, {"mode", "mean"}});
    y = add("affine", "shifted", {y}, {{"offset", 1e-6}});
    y = add("power", "scale", {y}, {{"exponent", -0.5}});
    y = add("reshape", "column", {y}, {{"shape", FormWriter::Sizes{2, 1}}});
    y = add("mul", "normed", {x, y}, {});
    x = add("mul", "norm", {y, gamma}, {});
  }
  const OperatorGraph graph = fuse(b.build());
  EXPECT_EQ(counts_of(graph), (Counts{{"rms_norm", 2}}));
  EXPECT_EQ(repeats(graph), (Counts{{"layer#.norm", 2}}));
  EXPECT_EQ(graph.frozen_parameter_count(), 16);
  EXPECT_EQ(weights_of(graph, graph.operators()[1]), std::vector<std::string>{"layer1.gamma.w"});
}

}  // namespace
}  // namespace pipesim
