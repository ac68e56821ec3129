#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

/// Calls visit(index per dim, offset) for every element of a shape.
template <class Visit>
void for_each_element_index(const std::vector<std::int64_t>& shape, Visit visit) {
  std::vector<std::int64_t> index(shape.size(), 0);
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  for (std::int64_t i = 0; i < elements; ++i) {
    visit(index, static_cast<std::size_t>(i));
    for (std::size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
  }
}

double value_at_index(const WholeTensor& t, const std::vector<std::int64_t>& index) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d) offset = offset * t.shape[d] + index[d];
  return t.elements[static_cast<std::size_t>(offset)];
}

std::int64_t number(const Operator& op, const char* name) {
  return std::get<std::int64_t>(op.attributes.at(name));
}

void define_slice(const Operator& op, WholeTensors& t) {
  const auto axis = static_cast<std::size_t>(number(op, "axis"));
  for_each_element_index(t[1].shape, [&](std::vector<std::int64_t> index, std::size_t at) {
    index[axis] = number(op, "start") + index[axis] * number(op, "step");
    t[1].elements[at] = value_at_index(t[0], index);
  });
}

void define_pad(const Operator& op, WholeTensors& t) {
  const auto& before = std::get<Sizes>(op.attributes.at("before"));
  const std::string& mode = std::get<std::string>(op.attributes.at("mode"));
  for_each_element_index(t[1].shape, [&](std::vector<std::int64_t> index, std::size_t at) {
    bool inside = true;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const std::int64_t last = t[0].shape[d] - 1;
      index[d] -= before[d];
      if (mode == "edge") index[d] = std::min(std::max<std::int64_t>(index[d], 0), last);
      if (mode == "reflect" && index[d] < 0) index[d] = -index[d];
      if (mode == "reflect" && index[d] > last) index[d] = last - (index[d] - last);
      inside = inside && index[d] >= 0 && index[d] <= last;
    }
    t[1].elements[at] = inside ? value_at_index(t[0], index) : 0;
  });
}

void define_roll(const Operator& op, WholeTensors& t) {
  const auto axis = static_cast<std::size_t>(number(op, "axis"));
  for_each_element_index(t[0].shape, [&](const std::vector<std::int64_t>& index, std::size_t at) {
    std::vector<std::int64_t> to = index;
    to[axis] = (to[axis] + number(op, "shift")) % t[0].shape[axis];
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < to.size(); ++d) offset = offset * t[0].shape[d] + to[d];
    t[1].elements[static_cast<std::size_t>(offset)] = t[0].elements[at];
  });
}

void define_expand(const Operator&, WholeTensors& t) {
  for_each_element_index(t[1].shape, [&](std::vector<std::int64_t> index, std::size_t at) {
    index.erase(index.begin(), index.end() - std::ssize(t[0].shape));
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (t[0].shape[d] == 1) index[d] = 0;
    }
    t[1].elements[at] = value_at_index(t[0], index);
  });
}

void define_gather(const Operator& op, WholeTensors& t) {
  const auto axis = static_cast<std::ptrdiff_t>(number(op, "axis"));
  const auto chosen = std::ssize(t[1].shape);
  for_each_element_index(t[2].shape, [&](const std::vector<std::int64_t>& index, std::size_t at) {
    const std::vector<std::int64_t> which(index.begin() + axis, index.begin() + axis + chosen);
    std::vector<std::int64_t> from(index.begin(), index.begin() + axis);
    from.push_back(static_cast<std::int64_t>(value_at_index(t[1], which)));
    from.insert(from.end(), index.begin() + axis + chosen, index.end());
    t[2].elements[at] = value_at_index(t[0], from);
  });
}

using DefineMove = void (*)(const Operator&, WholeTensors&);

void check_move(const char* kind, const Sizes& x, const Attributes& attributes, DefineMove define) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel does these moves";
  Bench bench(x[0]);
  check_kernel({bench.op(kind, {bench.x(x)}, attributes), define});
}

TEST(IndexingKernels, Slice) {
  check_move("slice", {4, 6, 5}, {{"axis", 1}, {"start", 2}, {"length", 3}}, define_slice);
  check_move("slice", {4, 9, 3}, {{"axis", 1}, {"start", 1}, {"length", 4}, {"step", 2}}, define_slice);
  check_move("slice", {4, 7}, {{"axis", 0}, {"length", 2}, {"step", 3}}, define_slice);
}

TEST(IndexingKernels, Pad) {
  check_move("pad", {4, 5, 3}, {{"before", Sizes{0, 4, 1}}, {"after", Sizes{0, 3, 0}}}, define_pad);
  check_move("pad", {4, 3}, {{"before", Sizes{2, 0}}, {"after", Sizes{2, 0}}}, define_pad);
  for (const char* mode : {"reflect", "edge"})
    check_move("pad", {4, 5, 4}, {{"before", Sizes{0, 4, 1}}, {"after", Sizes{0, 3, 0}}, {"mode", mode}},
               define_pad);
}

TEST(IndexingKernels, Roll) {
  check_move("roll", {4, 5, 6}, {{"axis", 1}, {"shift", 2}}, define_roll);
  check_move("roll", {4, 5}, {{"axis", 1}, {"shift", 13}}, define_roll);
}

TEST(IndexingKernels, Expand) {
  check_move("expand", {4, 1, 6}, {{"shape", Sizes{4, 5, 6}}}, define_expand);
  check_move("expand", {4, 1, 3, 1}, {{"shape", Sizes{2, 4, 5, 3, 6}}}, define_expand);
  check_move("expand", {4, 2}, {{"shape", Sizes{4, 2}}}, define_expand);
}

TEST(IndexingKernels, Gather) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel does these moves";
  for (const std::int64_t axis : {0, 1, 2}) {
    Bench bench;
    const TensorId x = bench.x({4, 7, 6}), indices = bench.words({3, 5});
    const std::int64_t length = Sizes{4, 7, 6}[static_cast<std::size_t>(axis)];
    check_kernel({bench.op("gather", {x, indices}, {{"axis", axis}}), define_gather, length});
  }
}

TEST(IndexingKernels, MoveIntegers) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel does these moves";
  Bench bench;
  const Operator op = bench.op("slice", {bench.words({4, 6})}, {{"axis", 1}, {"start", 1}, {"length", 4}});
  WholeTensors whole{filled(op.uses[0], 0), filled(op.uses[1], 0)};
  for (WholeTensor& t : whole) t.integers = true;
  for (std::size_t i = 0; i < whole[0].elements.size(); ++i) whole[0].elements[i] = static_cast<double>(i);
  for (const ParallelConfig& config : single_splits(op)) {
    ShardRun run(*tested_kernels("slice").at(0).kernel, op, config, {}, {false, false});
    WholeTensors expected = whole;
    define_slice(op, expected);
    EXPECT_EQ(run.forward(whole)[1].elements, expected[1].elements) << config.str(op);
  }
}

void define_bag(const Operator& op, WholeTensors& t) {
  const std::int64_t length = t[0].shape[1];
  const bool mean = std::get<std::string>(op.attributes.at("mode")) == "mean";
  for_each_element_index(t[2].shape, [&](const std::vector<std::int64_t>& index, std::size_t at) {
    double sum = 0;
    for (std::int64_t i = 0; i < length; ++i)
      sum += t[1].at(static_cast<std::int64_t>(t[0].at(index[0], i)), index[1]);
    t[2].elements[at] = mean ? sum / static_cast<double>(length) : sum;
  });
}

TEST(EmbeddingBagKernel, AddsUpRowsOfATable) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel adds up rows of a table";
  for (const char* mode : {"sum", "mean"}) {
    Bench bench;
    const TensorId indices = bench.words({4, 5});
    check_kernel(
        {bench.op("embedding_bag", {indices}, {{"rows", 11}, {"width", 6}, {"mode", mode}}), define_bag, 11});
  }
}

TEST(ParameterKernel, CopiesItsWeight) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel copies a weight";
  Bench bench;
  const auto define = [](const Operator&, WholeTensors& t) { t[1].elements = t[0].elements; };
  check_kernel({bench.op("parameter", {}, {{"shape", Sizes{4, 6}}}), define});
}

}  // namespace
}  // namespace pipesim::cpu
