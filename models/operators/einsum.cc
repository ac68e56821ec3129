#include "models/operators/einsum.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/operator_draft.h"
#include "models/operators/families.h"

namespace pipesim {

std::optional<EinsumLetters> einsum_letters(std::string_view equation) {
  const std::size_t arrow = equation.find("->");
  if (arrow == std::string_view::npos) return std::nullopt;
  EinsumLetters letters;
  letters.result = equation.substr(arrow + 2);
  const std::string_view operands = equation.substr(0, arrow);
  for (std::size_t begin = 0; begin <= operands.size();) {
    const std::size_t end = std::min(operands.find(',', begin), operands.size());
    letters.operands.emplace_back(operands.substr(begin, end - begin));
    begin = end + 1;
  }
  std::vector<std::string> all = letters.operands;
  all.push_back(letters.result);
  for (std::string word : all) {
    const bool plain =
        std::ranges::all_of(word, [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
    std::ranges::sort(word);
    if (!plain || std::ranges::adjacent_find(word) != word.end()) return std::nullopt;
  }
  for (const char c : letters.result) {
    const bool known = std::ranges::any_of(
        letters.operands, [&](const std::string& word) { return word.find(c) != std::string::npos; });
    if (!known) return std::nullopt;
  }
  return letters;
}

namespace {

EinsumLetters letters_of(const OperatorDraft& draft) {
  auto letters = einsum_letters(draft.word("equation"));
  if (letters && letters->operands.size() == draft.inputs()) return *letters;
  draft.fail(
      fmt::format("attribute \"equation\" is \"{}\" for {} inputs, allowed: letters of each input and of the "
                  "result, such "
                  "as \"bij,bjk->bik\", no letter twice in one of them",
                  draft.word("equation"), draft.inputs()));
}

/// Letters of the result keep their order; those that are summed follow.
std::map<char, FactorIndex> factors_of(OperatorDraft& draft, const EinsumLetters& letters) {
  std::map<char, std::int64_t> sizes;
  std::string order = letters.result;
  for (std::size_t i = 0; i < draft.inputs(); ++i) {
    const std::string& word = letters.operands[i];
    draft.require_rank(i, word.size(), word.size(),
                       fmt::format("a dimension for each letter of \"{}\"", word));
    for (std::size_t d = 0; d < word.size(); ++d) {
      const auto [known, is_new] = sizes.emplace(word[d], draft.shape(i)[d]);
      if (!is_new && known->second != draft.shape(i)[d]) {
        draft.fail(fmt::format("input {} has shape {}, allowed: {} for letter \"{}\"", i,
                               to_text(draft.shape(i)), known->second, word[d]));
      }
      if (order.find(word[d]) == std::string::npos) order += word[d];
    }
  }
  std::map<char, FactorIndex> factors;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool summed = i >= letters.result.size();
    const FactorKind kind = summed   ? FactorKind::Reduction
                            : i == 0 ? FactorKind::Sample
                                     : FactorKind::Attribute;
    factors[order[i]] = draft.factor(std::string(1, order[i]), kind, sizes[order[i]]);
  }
  return factors;
}

/// Which side of the matrix product each letter is on; none where one operand has a sum of its own.
std::optional<MatrixShape> matrix_of(const EinsumLetters& letters,
                                     const std::map<char, FactorIndex>& factors) {
  MatrixShape matrix;
  for (const auto& [letter, factor] : factors) {
    const auto has = [name = letter](const std::string& word) {
      return word.find(name) != std::string::npos;
    };
    const bool left = has(letters.operands[0]), right = has(letters.operands[1]), kept = has(letters.result);
    if (!kept && !(left && right)) return std::nullopt;
    (!kept           ? matrix.inner
     : left && right ? matrix.batch
     : left          ? matrix.rows
                     : matrix.columns)
        .push_back(factor);
  }
  return matrix;
}

void build_einsum(OperatorDraft& draft) {
  const EinsumLetters letters = letters_of(draft);
  const std::map<char, FactorIndex> factors = factors_of(draft, letters);
  const auto follow = [&](const std::string& word) {
    std::vector<FactorIndex> list;
    for (const char letter : word) list.push_back(factors.at(letter));
    return list;
  };
  const bool two = draft.inputs() == 2;
  for (std::size_t i = 0; i < draft.inputs(); ++i)
    draft.input(i, draft.axes(follow(letters.operands[i]))).saved = two;
  draft.output("", draft.axes(follow(letters.result)));
  std::vector<FactorIndex> all;
  for (const auto& [letter, factor] : factors) all.push_back(factor);
  std::ranges::sort(all);
  draft.op.flops_forward = {{two ? 2.0 : 1.0, all}};
  draft.op.flops_backward_input = {{two ? 4.0 : 1.0, all}};
  if (two) draft.op.matrix = matrix_of(letters, factors);
}

}  // namespace

std::vector<OperatorKind> einsum_kinds() {
  return {{"einsum",
           "sums of products over any letters, as Einstein wrote them",
           "x[…] or x[…], y[…]",
           1,
           2,
           {AttributeSchema::text("equation", "letters of the inputs and of the result: \"bij,bjk->bik\"")},
           {{{"x", {64, 128, 8, 64}}, {"y", {64, 96, 8, 64}}}, {{"equation", "bqhd,bkhd->bhqk"}}},
           build_einsum}};
}

}  // namespace pipesim
