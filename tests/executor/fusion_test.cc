#include "models/fusion.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "models/graph_builder.h"
#include "tests/executor/equality_case.h"
#include "tests/models/fusion/written_forms.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using Extents = std::vector<std::int64_t>;

/// Attention with a bias of each sample, written out, then two products with gelu in between.
OperatorGraph layer_written_out() {
  GraphBuilder b("written", 2);
  const TensorId x = b.add("embedding", "table", {b.data("words", {2, 6}, DataType::Int64)},
                           {{"rows", std::int64_t{9}}, {"width", std::int64_t{12}}});
  const auto heads = [&](const std::string& name, const Extents& order) {
    const TensorId y = b.add("linear", name, {x}, {{"out", Extents{12}}});
    const TensorId split = b.add("reshape", name + "_view", {y}, {{"shape", Extents{2, 6, 3, 4}}});
    return b.add("transpose", name + "_heads", {split}, {{"order", order}});
  };
  TensorId y = b.add("matmul", "scores", {heads("query", {0, 2, 1, 3}), heads("key", {0, 2, 3, 1})});
  y = b.add("affine", "scale", {y}, {{"factor", 0.75}});
  y = b.add("softmax", "softmax", {b.add("add", "mask", {y, b.data("bias", {2, 1, 6, 6})})});
  y = b.add("matmul", "mixed", {y, heads("value", {0, 2, 1, 3})});
  y = b.add("transpose", "together", {y}, {{"order", Extents{0, 2, 1, 3}}});
  y = b.add("reshape", "flat", {y}, {{"shape", Extents{2, 6, 12}}});
  y = b.add("gelu", "gelu", {b.add("linear", "inner", {y}, {{"out", Extents{8}}})});
  b.add("cross_entropy", "loss",
        {b.add("linear", "outer", {y}, {{"out", Extents{5}}}), b.data("labels", {2, 6}, DataType::Int64)});
  return b.build();
}

/// One model's tensors for another that has some of the same names.
class SourceByName : public TensorSource {
 public:
  SourceByName(const OperatorGraph& own, const OperatorGraph& other)
      : own_(own), other_(other), source_(other) {
    for (std::size_t t = 0; t < other.tensors().size(); ++t)
      others_.emplace(other.tensors()[t].name, TensorId(t));
  }
  void fill(Loaded::Content content, TensorId tensor, const HostPiece& piece,
            const StepContext& step) const override {
    const TensorId other = others_.at(own_.tensor(tensor).name);
    ASSERT_EQ(piece.box, Box::whole(own_.tensor(tensor).shape)) << "of models that run on one device";
    HostPiece whole = piece;
    whole.box = Box::whole(other_.tensor(other).shape);  // [c] of [1, c, 1, 1], in the same order
    source_.fill(content, other, whole, step);
  }

 private:
  const OperatorGraph &own_, &other_;
  SyntheticSource source_;
  std::map<std::string, TensorId> others_;
};

/// Results and gradients of weights, with the data and weights that `like` has.
std::map<std::string, std::vector<float>> tensors_of_step(const OperatorGraph& graph,
                                                          const OperatorGraph& like) {
  const EqualityCase c(graph);
  const SourceByName source(c.graph, like);
  Reference reference(c.graph, c.costs, c.world, source);
  Strategy strategy;
  for (const Operator& op : c.graph.operators()) strategy.push_back(single_device(op, DeviceId(0)));
  const StepValues values = reference.values_of(strategy, {});
  std::map<std::string, std::vector<float>> named;
  for (const auto& [id, elements] : values.outputs)
    named[c.graph.tensor(id).name] = {elements.begin(), elements.end()};
  for (const auto& [id, elements] : values.gradients) {
    if (c.graph.tensor(id).kind == TensorKind::Weight)
      named["gradient of " + c.graph.tensor(id).name] = {elements.begin(), elements.end()};
  }
  return named;
}

/// `tolerance`: of a tensor's largest element. `rounding`: of what is 0 but for rounding.
void expect_equal_steps(const OperatorGraph& written, const OperatorGraph& fused, float tolerance,
                        float rounding = 1e-7F) {
  const auto expected = tensors_of_step(written, fused), got = tensors_of_step(fused, fused);
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, elements] : expected) {
    float most = 0;
    for (const float e : elements) most = std::max(most, std::abs(e));
    ASSERT_EQ(got.at(name).size(), elements.size()) << name;
    for (std::size_t i = 0; i < elements.size(); ++i)
      EXPECT_NEAR(got.at(name)[i], elements[i], tolerance * most + rounding) << name << " " << i;
  }
}

bool can_run(const OperatorGraph& graph) {
  return make_tested_devices(graph, most_devices)->has_all_kernels();
}

TEST(FusedModel, HasTheLossAndTheGradientsOfTheWrittenOne) {
  const OperatorGraph written = layer_written_out(), fused = fuse(written);
  ASSERT_EQ(written.operators().size(), 21U);
  ASSERT_EQ(fused.operators().size(), 16U) << "one attention, one product with gelu";
  if (!can_run(fused)) GTEST_SKIP() << "no GPU kernel adds an input to scores";
  expect_equal_steps(written, fused, 1e-5F);
}

TEST(FusedModel, ComputesWhatWrittenFormsCompute) {
  int compared = 0;
  const auto compare = [&](const std::vector<WrittenForm>& forms, bool channels) {
    for (const WrittenForm& form : forms) {
      const OperatorGraph written = model_of(form, channels), fused = fuse(written);
      ASSERT_NE(fused, written) << form.text;
      if (!can_run(written) || !can_run(fused)) continue;
      SCOPED_TRACE(form.text);
      const bool other_form = std::string(form.text).find("erf") != std::string::npos;
      expect_equal_steps(written, fused, other_form ? 3e-3F : 3e-5F);
      ++compared;
    }
  };
  compare(forms_of_elements(), false);
  compare(forms_of_rows(), false);
  compare(forms_of_channels(), true);
  if (compared == 0) GTEST_SKIP() << "no GPU kernels of elementary operators";
}

/// Some forms one behind the other, with products and sums in between.
struct FormsInARow {
  OperatorGraph graph;
  std::size_t joined;  ///< operators if every form becomes one, at most
};

FormsInARow forms_in_a_row(Rng& rng) {
  std::vector<WrittenForm> forms = forms_of_elements();
  std::erase_if(forms,
                [](const WrittenForm& f) { return std::string(f.text).find("erf") != std::string::npos; });
  for (const WrittenForm& form : forms_of_rows()) forms.push_back(form);
  GraphBuilder b("row", 2);
  const Extents width{8};
  TensorId x = b.add("linear", "in", {b.data("data", {2, 3, 8})}, {{"out", width}}), before = x;
  std::size_t joined = 2;
  for (int i = 0; i < 5; ++i) {
    FormWriter w(b, "form" + std::to_string(i) + ".");
    const TensorId y = forms[rng.below(forms.size())].write(w, x);
    const std::uint64_t behind = rng.below(4);
    const TensorId earlier = std::exchange(before, x);
    x = y;
    joined += 1 + (behind == 2 ? 3 : behind > 0 ? 1 : 0);
    if (behind == 1) x = w("add", {y, earlier});
    if (behind == 2) x = w("mul", {earlier, w.row_mean(y)});
    if (behind == 3) {
      x = w("linear", {y}, {{"out", width}, {"bias", 0}});
      x = w("add", {x, w.parameter("bias", {1, 8})});
    }
  }
  b.add("cross_entropy", "loss", {x, b.data("labels", {2, 3}, DataType::Int64)});
  return {b.build(), joined};
}

TEST(FusedModel, ComputesWhatFormsInARowCompute) {
  for_each_seed(60, [](Rng& rng) {
    const auto [written, joined] = forms_in_a_row(rng);
    const OperatorGraph fused = fuse(written);
    if (!can_run(written) || !can_run(fused)) GTEST_SKIP() << "no GPU kernels of elementary operators";
    EXPECT_LE(fused.operators().size(), joined);
    expect_equal_steps(written, fused, 3e-4F, 1e-5F);
  });
}

TEST(FusedModel, AddsParametersAsBiases) {
  GraphBuilder b("biased", 2);
  const auto add = [&](const char* kind, TensorId x, Attributes attributes, const Extents& shape) {
    attributes["bias"] = 0;
    const TensorId y = b.add(kind, kind, {x}, attributes);
    const std::string name = std::string(kind) + "_bias";
    TensorId bias = b.add("parameter", name, {}, {{"shape", Extents{4}}});
    bias = b.add("reshape", name + "_shaped", {bias}, {{"shape", shape}});
    return b.add("add", std::string(kind) + "_sum", {y, bias});
  };
  TensorId y = b.data("x", {2, 3, 6, 6});
  y = add("conv2d", y, {{"out", 4}, {"kernel", 3}}, {4, 1, 1});
  y = add("conv_transpose2d", y, {{"out", 4}, {"kernel", 2}}, {1, 4, 1, 1});
  y = add("linear", y, {{"out", Extents{4}}, {"contract", 2}}, {1, 4});
  b.add("cross_entropy", "loss", {y, b.data("labels", {2, 4}, DataType::Int64)});
  const OperatorGraph written = b.build(), fused = fuse(written);
  ASSERT_EQ(fused.operators().size(), 4U);
  if (!can_run(written) || !can_run(fused)) GTEST_SKIP() << "no GPU kernels of parameters";
  expect_equal_steps(written, fused, 3e-5F);
}

TEST(FusedModel, HasTheLossesOfWrittenOnes) {
  for (const bool entropy : {false, true}) {
    GraphBuilder b("loss", 6);
    const TensorId y = b.add("linear", "fc", {b.data("x", {6, 4})}, {{"out", Extents{1}}});
    const TensorId target = b.data("target", {6});
    FormWriter form(b);
    if (entropy) {
      const TensorId share = form("sigmoid", {y});
      const TensorId yes = form.shaped(form("log", {share}), {6});
      const TensorId no = form.shaped(form("log", {form.affine(share, -1, 1)}), {6});
      const TensorId sum =
          form("add", {form("mul", {target, yes}), form("mul", {form.affine(target, -1, 1), no})});
      b.add("reduce", "loss", {form.affine(sum, -1)}, {{"axes", Extents{0}}, {"mode", "mean"}});
    } else {
      const TensorId difference = form("sub", {target, form.shaped(y, {6})});
      b.add("reduce", "loss", {form.power(difference, 2)}, {{"axes", Extents{0}}, {"mode", "mean"}});
    }
    const OperatorGraph written = b.build(), fused = fuse(written);
    const Operator& loss = fused.operators().back();
    EXPECT_EQ(loss.kind, entropy ? "binary_cross_entropy" : "squared_error");
    EXPECT_EQ(loss.name, "loss");
    ASSERT_EQ(fused.operators().size(), 3U);
    if (!can_run(written) || !can_run(fused)) continue;
    expect_equal_steps(written, fused, 1e-5F);
  }
}

// It is no loss where others read it, or where its target is computed.
TEST(FusedModel, LeavesMeansThatAreNoLosses) {
  GraphBuilder b("mean", 6);
  const TensorId x = b.data("x", {6, 4});
  const TensorId y = b.add("linear", "fc", {x}, {{"out", Extents{4}}});
  FormWriter form(b);
  const TensorId square = form.power(form("sub", {y, x}), 2);
  const TensorId mean = b.add("reduce", "mean", {square}, {{"axes", Extents{0, 1}}, {"mode", "mean"}});
  b.add("mul", "scaled", {y, b.add("reshape", "one", {mean}, {{"shape", Extents{1}}})});
  const TensorId moved = form.power(form("sub", {y, b.add("tanh", "computed", {x})}), 2);
  b.add("reduce", "other", {moved}, {{"axes", Extents{0, 1}}, {"mode", "mean"}});
  const OperatorGraph fused = fuse(b.build());
  for (const Operator& op : fused.operators()) EXPECT_NE(op.kind, "squared_error");
}

TEST(FusedModel, SumsRowsInBags) {
  for (const char* mode : {"sum", "mean"}) {
    GraphBuilder b("bags", 2);
    const TensorId rows = b.add("embedding", "rows", {b.data("x", {2, 5}, DataType::Int64)},
                                {{"rows", 11}, {"width", 4}}, {"table"});
    const TensorId bag = b.add("reduce", "bag", {rows}, {{"axes", Extents{1}}, {"mode", mode}});
    b.add("cross_entropy", "loss", {bag, b.data("labels", {2}, DataType::Int64)});
    const OperatorGraph written = b.build(), fused = fuse(written);
    ASSERT_EQ(fused.operators().size(), 2U);
    if (!can_run(written) || !can_run(fused)) GTEST_SKIP() << "no GPU kernel of bags";
    expect_equal_steps(written, fused, 3e-5F);
  }
}

}  // namespace
}  // namespace pipesim
