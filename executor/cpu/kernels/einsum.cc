#include "models/operators/einsum.h"

#include <array>
#include <map>
#include <string>
#include <vector>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

/// A piece of a tensor whose dims are letters.
struct Lettered {
  const std::string& letters;
  const Piece& piece;

  /// Elements from one index of the letter to the next; 0 where the tensor lacks it.
  [[nodiscard]] std::int64_t step(char letter) const {
    std::int64_t stride = 1;
    for (std::size_t d = letters.size(); d-- > 0;) {
      if (letters[d] == letter) return stride;
      stride *= piece.box[d].length();
    }
    return 0;
  }
};

/// Loops over some letters; each tensor's place is counted along.
class LetterLoops {
 public:
  struct Loop {
    std::int64_t length;
    std::array<std::int64_t, 2> steps;
  };
  void add(std::int64_t length, std::int64_t first, std::int64_t second) {
    loops_.push_back({length, {first, second}});
    count_ *= length;
  }
  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Where iteration i, row-major, is in both tensors.
  [[nodiscard]] std::array<std::int64_t, 2> at(std::int64_t i) const {
    std::array<std::int64_t, 2> place{0, 0};
    for (std::size_t l = loops_.size(); l-- > 0;) {
      const std::int64_t index = i % loops_[l].length;
      place[0] += index * loops_[l].steps[0];
      place[1] += index * loops_[l].steps[1];
      i /= loops_[l].length;
    }
    return place;
  }

 private:
  std::vector<Loop> loops_;
  std::int64_t count_ = 1;
};

/// to = Σ of the product of both factors over the letters that `to` lacks, of all that `lengths` has.
/// Without a second factor it counts as 1.
void contract(const std::map<char, std::int64_t>& lengths, const Lettered& first, const Lettered* second,
              const Lettered& to, SumOrder order) {
  LetterLoops kept, summed;
  const auto second_step = [&](char letter) { return second == nullptr ? 0 : second->step(letter); };
  for (std::size_t d = 0; d < to.letters.size(); ++d)
    kept.add(to.piece.box[d].length(), first.step(to.letters[d]), second_step(to.letters[d]));
  for (const auto& [letter, length] : lengths) {
    if (to.letters.find(letter) == std::string::npos)
      summed.add(length, first.step(letter), second_step(letter));
  }
  for (std::int64_t i = 0; i < kept.count(); ++i) {
    const auto start = kept.at(i);
    double sum = 0;
    for_each_term(summed.count(), order, [&](std::int64_t j) {
      const auto place = summed.at(j);
      const auto a = static_cast<double>(first.piece.floats[start[0] + place[0]]);
      const float b = second == nullptr ? 1 : second->piece.floats[start[1] + place[1]];
      sum += a * static_cast<double>(b);
    });
    to.piece.floats[i] = static_cast<float>(sum);
  }
}

/// values: x, y if there are two, result.
class Einsum : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const EinsumLetters letters = *einsum_letters(word_of(call.op, "equation"));
    const Lettered x{letters.operands[0], call.values[0]}, result{letters.result, call.values.back()};
    if (letters.operands.size() == 1)
      return contract(lengths(call, letters), x, nullptr, result, call.step.sums);
    const Lettered y{letters.operands[1], call.values[1]};
    contract(lengths(call, letters), x, &y, result, call.step.sums);
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const EinsumLetters letters = *einsum_letters(word_of(call.op, "equation"));
    const Lettered gradient{letters.result, call.gradients.back()};
    for (std::size_t i = 0; i < letters.operands.size(); ++i) {
      if (!call.gradients[i].present()) continue;
      const Lettered to{letters.operands[i], call.gradients[i]};
      if (letters.operands.size() == 1) {
        contract(lengths(call, letters), gradient, nullptr, to, call.step.sums);
        continue;
      }
      const Lettered other{letters.operands[1 - i], call.values[1 - i]};
      contract(lengths(call, letters), gradient, &other, to, call.step.sums);
    }
  }

 private:
  static std::map<char, std::int64_t> lengths(const ShardCall& call, const EinsumLetters& letters) {
    std::map<char, std::int64_t> result;
    for (const std::string& word : letters.operands) {
      for (const char letter : word) result[letter] = length_of(call.op, call.ranges, std::string(1, letter));
    }
    return result;
  }
};

}  // namespace

std::vector<KernelEntry> einsum_kernels() {
  static const Einsum einsum;
  return {{"einsum", &einsum}};
}

}  // namespace pipesim::cpu
