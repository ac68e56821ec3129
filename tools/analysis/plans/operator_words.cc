#include "tools/analysis/plans/operator_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace pipesim {
namespace {

struct KindWords {
  std::string_view kind, one, several;
};
constexpr std::array kKindWords{
    KindWords{"add", "addition", "additions"},
    KindWords{"alibi_attention", "attention", "attentions"},
    KindWords{"attention", "attention", "attentions"},
    KindWords{"bahdanau_attention", "attention", "attentions"},
    KindWords{"batch_norm", "batch norm", "batch norms"},
    KindWords{"biased_attention", "attention", "attentions"},
    KindWords{"broadcast", "broadcast", "broadcasts"},
    KindWords{"causal_convolution", "short convolution", "short convolutions"},
    KindWords{"concat", "concatenation", "concatenations"},
    KindWords{"conv2d", "convolution", "convolutions"},
    KindWords{"cross_entropy", "loss", "losses"},
    KindWords{"div", "division", "divisions"},
    KindWords{"embedding", "embedding", "embeddings"},
    KindWords{"embedding_bag", "bag of embeddings", "bags of embeddings"},
    KindWords{"expert_linear", "linear layer of experts", "linear layers of experts"},
    KindWords{"gated_delta_rule", "linear attention", "linear attentions"},
    KindWords{"layer_norm", "layer norm", "layer norms"},
    KindWords{"linear", "linear layer", "linear layers"},
    KindWords{"linear_cross_entropy", "projection with its loss", "projections with their losses"},
    KindWords{"lstm_cell", "LSTM cell", "LSTM cells"},
    KindWords{"matmul", "matrix product", "matrix products"},
    KindWords{"moe_combine", "collection from experts", "collections from experts"},
    KindWords{"moe_dispatch", "dispatch to experts", "dispatches to experts"},
    KindWords{"mul", "multiplication", "multiplications"},
    KindWords{"opaque", "operator of unknown kind", "operators of unknown kinds"},
    KindWords{"parameter", "learned tensor", "learned tensors"},
    KindWords{"pool2d", "pooling", "poolings"},
    KindWords{"profiled", "measured layer", "measured layers"},
    KindWords{"relative_attention", "attention", "attentions"},
    KindWords{"relu2", "squared relu", "squared relus"},
    KindWords{"rms_norm", "RMS norm", "RMS norms"},
    KindWords{"scored_attention", "attention", "attentions"},
    KindWords{"select_keys", "selection of keys", "selections of keys"},
    KindWords{"selected_attention", "attention", "attentions"},
    KindWords{"selective_scan", "scan", "scans"},
    KindWords{"state_space_scan", "scan", "scans"},
    KindWords{"sub", "subtraction", "subtractions"},
    KindWords{"swiglu", "gated product", "gated products"},
};

std::string kind_in_words(const std::string& kind, std::size_t count) {
  const auto found = std::ranges::find(kKindWords, kind, &KindWords::kind);
  if (found != kKindWords.end()) return std::string(count == 1 ? found->one : found->several);
  return kind + (count == 1 ? " operator" : " operators");
}

// The same letter means something else to other kinds; "" for all kinds that are not told.
struct FactorWords {
  std::string_view kind, letter, words;
};
constexpr std::array kFactorWords{
    FactorWords{"alibi_attention", "t", "keys"},
    FactorWords{"alibi_attention", "s", "queries"},
    FactorWords{"attention", "t", "keys"},
    FactorWords{"attention", "s", "queries"},
    FactorWords{"attention", "r", "queries of a head"},
    FactorWords{"attention", "e", "width"},
    FactorWords{"bahdanau_attention", "s", "source positions"},
    FactorWords{"bahdanau_attention", "a", "width of scores"},
    FactorWords{"bahdanau_attention", "d", "width"},
    FactorWords{"conv2d", "o", "output channels"},
    FactorWords{"conv2d", "i", "input channels"},
    FactorWords{"conv2d", "g", "groups"},
    FactorWords{"biased_attention", "t", "keys"},
    FactorWords{"biased_attention", "s", "queries"},
    FactorWords{"cross_entropy", "v", "vocabulary"},
    FactorWords{"embedding", "v", "vocabulary"},
    FactorWords{"embedding", "h", "width"},
    FactorWords{"expert_linear", "c", "places of experts"},
    FactorWords{"expert_linear", "f", "outputs"},
    FactorWords{"expert_linear", "h", "inputs"},
    FactorWords{"embedding_bag", "v", "rows of the table"},
    FactorWords{"embedding_bag", "h", "width"},
    FactorWords{"gather", "v", "rows"},
    FactorWords{"gated_delta_rule", "e", "width"},
    FactorWords{"gated_delta_rule", "r", "heads of a group"},
    FactorWords{"linear_cross_entropy", "v", "vocabulary"},
    FactorWords{"lstm_cell", "h", "hidden units"},
    FactorWords{"matmul", "m", "rows"},
    FactorWords{"matmul", "n", "columns"},
    FactorWords{"matmul", "k", "inner dimension"},
    FactorWords{"relative_attention", "t", "keys"},
    FactorWords{"relative_attention", "s", "queries"},
    FactorWords{"rms_norm", "p", "groups"},
    FactorWords{"select_keys", "i", "heads"},
    FactorWords{"select_keys", "s", "queries"},
    FactorWords{"selected_attention", "s", "queries"},
    FactorWords{"selected_attention", "r", "queries of a head"},
    FactorWords{"selected_attention", "e", "width"},
    FactorWords{"selective_scan", "d", "channels"},
    FactorWords{"selective_scan", "n", "states"},
    FactorWords{"state_space_scan", "n", "states"},
    FactorWords{"state_space_scan", "p", "width"},
    FactorWords{"state_space_scan", "r", "heads of a group"},
    FactorWords{"", "c", "channels"},
    FactorWords{"", "e", "experts"},
    FactorWords{"", "g", "heads"},
    FactorWords{"", "i", "inputs"},
    FactorWords{"", "o", "outputs"},
    FactorWords{"", "s", "sequence"},
    FactorWords{"", "v", "vocabulary"},
    FactorWords{"", "w", "image width"},
};

std::string factor_in_words(const Operator& op, const Factor& factor) {
  if (factor.kind == FactorKind::Sample) return "samples";
  const std::string letter = factor.name.substr(0, factor.name.find_first_of("0123456789"));
  for (const std::string_view kind : {std::string_view(op.kind), std::string_view()}) {
    const auto found = std::ranges::find_if(
        kFactorWords, [&](const FactorWords& w) { return w.kind == kind && w.letter == letter; });
    if (found != kFactorWords.end()) return std::string(found->words);
  }
  // Rows of an image where there are columns as well, else the last dimension.
  if (letter == "h" && factor.kind == FactorKind::Attribute &&
      std::ranges::find(op.factors, "w", &Factor::name) != op.factors.end())
    return "image height";
  return letter == "h" ? "width" : "dimension " + factor.name;
}

// "decoder.step12.projection" and "conv2" are told apart from others of their sort by numbers alone.
std::string sort_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  const std::string last = dot == std::string::npos ? name : name.substr(dot + 1);
  const std::size_t end = last.find_last_not_of("0123456789_");
  return end == std::string::npos ? "" : last.substr(0, end + 1);
}

}  // namespace

std::string operators_in_words(const OperatorGraph& graph, std::span<const OperatorId> operators) {
  const std::string& kind = graph.op(operators.front()).kind;
  const auto all = static_cast<std::size_t>(
      std::ranges::count(graph.operators(), kind, [](const Operator& op) { return op.kind; }));
  const std::string words = kind_in_words(kind, all);
  std::vector<std::string> sorts;
  for (const OperatorId op : operators) {
    std::string sort = sort_of(graph.op(op).name);
    if (std::ranges::find(sorts, sort) == sorts.end()) sorts.push_back(std::move(sort));
  }
  const bool says_more = std::ranges::any_of(
      sorts, [&](const std::string& s) { return words.find(s) == std::string::npos && kind.find(s) != 0; });
  constexpr std::size_t kMostSorts = 3;
  const std::string such = says_more && sorts.size() <= kMostSorts && sorts.front() != ""
                               ? fmt::format(" ({})", fmt::join(sorts, ", "))
                               : "";
  if (operators.size() < all) return fmt::format("{} of {} {}{}", operators.size(), all, words, such);
  return (all == 1 ? "the " : "") + words + such;
}

std::string split_in_words(const Operator& op, const ParallelConfig& config) {
  std::vector<std::string> by;
  for (std::size_t f = 0; f < op.factors.size(); ++f) {
    if (config.degrees[f] == 1) continue;
    std::string words = factor_in_words(op, op.factors[f]);
    if (std::ranges::find(by, words) == by.end()) by.push_back(std::move(words));
  }
  if (!by.empty()) return fmt::format("split by {}", fmt::join(by, " and "));
  return config.replicas == 1 ? "on one device" : fmt::format("copied on {} devices", config.replicas);
}

}  // namespace pipesim
