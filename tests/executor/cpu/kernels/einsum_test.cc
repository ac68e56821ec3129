#include <map>
#include <string>

#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

/// Where a tensor with these letters has the element at these indices.
std::size_t lettered_offset(const std::string& letters, const WholeTensor& t,
                            const std::map<char, std::int64_t>& index) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < letters.size(); ++d) offset = offset * t.shape[d] + index.at(letters[d]);
  return static_cast<std::size_t>(offset);
}

/// Goes through all indices of all letters, by the words of the equation.
void define_einsum(const std::vector<std::string>& words, WholeTensors& t) {
  std::map<char, std::int64_t> extents, index;
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (std::size_t d = 0; d < words[i].size(); ++d)
      extents[words[i][d]] = t[i].shape[d], index[words[i][d]] = 0;
  }
  std::ranges::fill(t.back().elements, 0.0);
  while (true) {
    double product = 1;
    for (std::size_t i = 0; i + 1 < words.size(); ++i)
      product *= t[i].elements[lettered_offset(words[i], t[i], index)];
    t.back().elements[lettered_offset(words.back(), t.back(), index)] += product;
    auto letter = index.begin();
    while (letter != index.end() && ++letter->second == extents.at(letter->first)) (letter++)->second = 0;
    if (letter == index.end()) return;
  }
}

void check_einsum(const std::string& equation, const std::vector<std::string>& words,
                  const std::vector<Sizes>& shapes) {
  Bench bench;
  std::vector<TensorId> inputs;
  for (const Sizes& shape : shapes) inputs.push_back(bench.x(shape));
  check_kernel({bench.op("einsum", inputs, {{"equation", equation}}),
                [&](const Operator&, WholeTensors& t) { define_einsum(words, t); }});
}

TEST(EinsumKernel, MultipliesAndAddsUpAnyLetters) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel computes einsums";
  EXPECT_FALSE(tested_kernels("einsum").empty());
  check_einsum("bqhd,bkhd->bhqk", {"bqhd", "bkhd", "bhqk"}, {{4, 3, 2, 4}, {4, 5, 2, 4}});
  check_einsum("bij,jk->kbi", {"bij", "jk", "kbi"}, {{4, 3, 5}, {5, 6}});
  check_einsum("bi,bi->b", {"bi", "bi", "b"}, {{4, 6}, {4, 6}});
  check_einsum("bi,j->bij", {"bi", "j", "bij"}, {{4, 3}, {6}});
  check_einsum("bij,k->bk", {"bij", "k", "bk"}, {{4, 3, 2}, {6}});
  check_einsum("bij->jb", {"bij", "jb"}, {{4, 3, 6}});
}

void define_scan(const Operator&, WholeTensors& t) {
  const auto &x = t[0].shape, &b = t[2].shape;
  for (std::int64_t i = 0; i < x[0]; ++i) {
    for (std::int64_t d = 0; d < x[2]; ++d) {
      std::vector<double> h(static_cast<std::size_t>(b[2]), 0.0);
      for (std::int64_t s = 0; s < x[1]; ++s) {
        double y = t[5].at(d) * t[0].at(i, s, d);
        for (std::int64_t n = 0; n < b[2]; ++n) {
          double& state = h[static_cast<std::size_t>(n)];
          const double decay = std::exp(-t[1].at(i, s, d) * std::exp(t[4].at(d, n)));
          state = decay * state + t[1].at(i, s, d) * t[2].at(i, s, n) * t[0].at(i, s, d);
          y += t[3].at(i, s, n) * state;
        }
        t[6].at(i, s, d) = y;
      }
    }
  }
}

TEST(SelectiveScanKernel, CarriesStatesAlongTheSequence) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel scans";
  EXPECT_FALSE(tested_kernels("selective_scan").empty());
  Bench bench;
  const TensorId x = bench.x({4, 6, 4}), delta = bench.x({4, 6, 4}), b = bench.x({4, 6, 3}),
                 c = bench.x({4, 6, 3});
  const auto positive = [](WholeTensors& t) {
    for (double& e : t[1].elements) e = std::abs(e) + 0.125;
  };
  check_kernel({bench.op("selective_scan", {x, delta, b, c}), define_scan, 0, positive});
}

}  // namespace
}  // namespace pipesim::cpu
