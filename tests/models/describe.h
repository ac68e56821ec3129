#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "models/operator_graph.h"

namespace pipesim {

/// The whole of an operator as a short text, so that a test is one comparison and a failure reads well:
///   factors b:S4 i:R8 o:P6          size after the kind; "~" uneven, "!" never split
///   input [b, i] saved              "b+3" offset, "h*2/3" stride 2 and window of 3, "(g·i)" merged, "7"
///   whole flops F 2bio + bo; B 2bio; W 2bio + bo
class Description {
 public:
  static std::string of(const Operator& op) { return Description(op).text_; }

 private:
  explicit Description(const Operator& op) : op_(op) {
    text_ = "factors";
    for (const Factor& f : op.factors) {
      text_ += fmt::format(" {}:{}{}{}{}", f.name, "SAPR"[static_cast<int>(f.kind)], f.size,
                           f.uneven ? "~" : "", f.max_degree == 1 ? "!" : "");
    }
    text_ += "\n";
    for (const TensorUse& use : op.uses) add(use);
    add_steps();
    text_ += fmt::format("flops F {}; B {}; W {}\n", terms(op.flops_forward), terms(op.flops_backward_input),
                         terms(op.flops_backward_weight));
    if (!op.remade_products.empty()) text_ += fmt::format("again B {}\n", terms(op.remade_products));
    if (!op.saved_extra_bytes.empty()) text_ += fmt::format("saves {} bytes\n", terms(op.saved_extra_bytes));
    if (op.workspace) {
      text_ += fmt::format("scratch of {} rows in {} parts, {} bytes a row\n", terms({op.workspace->rows}),
                           op.workspace->parts, terms({op.workspace->row_bytes}));
    }
    if (!op.bytes_forward_extra.empty())
      text_ += fmt::format("moves F {} bytes\n", terms(op.bytes_forward_extra));
    if (!op.bytes_backward_extra.empty())
      text_ += fmt::format("moves B {} bytes\n", terms(op.bytes_backward_extra));
    if (op.matrix) add(*op.matrix);
  }

  std::string name(FactorIndex f) const { return op_.factors[static_cast<std::size_t>(f)].name; }

  std::string dim(const IndexExpr& e) const {
    switch (e.kind) {
      case IndexExpr::Kind::Whole:
        return fmt::format("{}", e.extent);
      case IndexExpr::Kind::Axis:
        return name(e.factors[0]) + (e.offset == 0 ? "" : fmt::format("{:+}", e.offset));
      case IndexExpr::Kind::Window:
        return fmt::format("{}*{}/{}{}", name(e.factors[0]), e.stride, e.kernel,
                           e.dilation == 1 ? "" : fmt::format("x{}", e.dilation));
      case IndexExpr::Kind::Merged:
        break;
    }
    std::vector<std::string> names;
    for (const FactorIndex f : e.factors) names.push_back(name(f));
    return fmt::format("({})", fmt::join(names, "·"));
  }

  void add(const TensorUse& use) {
    constexpr const char* roles[] = {"input", "weight", "index", "output", "state"};
    std::vector<std::string> dims;
    for (const IndexExpr& e : use.dims) dims.push_back(dim(e));
    text_ += fmt::format("{} [{}]", roles[static_cast<int>(use.role)], fmt::join(dims, ", "));
    if (use.saved) text_ += " saved";
    for (const auto& [f, how] : use.lacks) {
      constexpr const char* words[] = {"summed", "once", "same"};
      text_ += fmt::format(" {}:{}", name(f), words[static_cast<int>(how)]);
    }
    if (use.forward_passes != 1 || use.backward_passes != 1) {
      text_ += fmt::format(" passes {}, {}", use.forward_passes, use.backward_passes);
    }
    text_ += "\n";
  }

  std::string terms(const std::vector<ProductTerm>& sum) const {
    std::vector<std::string> texts;
    for (const ProductTerm& t : sum) {
      texts.push_back(t.coefficient == 1 && !t.factors.empty() ? "" : fmt::format("{}", t.coefficient));
      for (const FactorIndex f : t.factors) texts.back() += name(f);
    }
    return texts.empty() ? "0" : fmt::format("{}", fmt::join(texts, " + "));
  }

  void add_steps() {
    for (const InnerStep& step : op_.inner_steps) {
      std::vector<std::string> over;
      for (const FactorIndex f : step.over) over.push_back(name(f));
      text_ += fmt::format("inner {} {} over {}: {} of {} bytes after {:.3f}\n",
                           step.pass == Pass::Forward ? "F" : "B",
                           step.reduce == InnerStep::Reduce::Sum ? "sum" : "max", fmt::join(over, ","),
                           terms({step.elements}), step.element_bytes, step.share_before);
    }
  }

  std::string product(const std::vector<FactorIndex>& factors, std::int64_t times) const {
    return terms({{static_cast<double>(times), factors}});
  }

  void add(const MatrixShape& m) {
    text_ += fmt::format("matrix {} x {} x {}", product(m.rows, m.rows_times),
                         product(m.inner, m.inner_times), product(m.columns, m.columns_times));
    if (!m.batch.empty()) text_ += " for each " + product(m.batch, 1);
    text_ += "\n";
  }

  const Operator& op_;
  std::string text_;
};

}  // namespace pipesim
