#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

/// Calls visit(index per dim, offset) for every element.
template <class Visit>
void for_each_index_of(const std::vector<std::int64_t>& shape, Visit visit) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  for (std::int64_t i = 0; i < elements; ++i) {
    std::vector<std::int64_t> index(shape.size());
    std::int64_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0;) index[d] = rest % shape[d], rest /= shape[d];
    visit(index, static_cast<std::size_t>(i));
  }
}

std::size_t offset_of(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& index) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) offset = offset * shape[d] + index[d];
  return static_cast<std::size_t>(offset);
}

/// Element `index` of the long tensor lies in this part along the axis, at this place.
template <class Move>
void for_each_element_of_parts(const WholeTensor& whole, WholeTensors& t, std::size_t first, std::size_t axis,
                               Move move) {
  for_each_index_of(whole.shape, [&](std::vector<std::int64_t> index, std::size_t offset) {
    std::size_t part = first;
    while (index[axis] >= t[part].shape[axis]) index[axis] -= t[part++].shape[axis];
    move(t[part].elements[offset_of(t[part].shape, index)], offset);
  });
}

std::size_t axis_of(const Operator& op) {
  return static_cast<std::size_t>(std::get<std::int64_t>(op.attributes.at("axis")));
}

void define_concat(const Operator& op, WholeTensors& t) {
  WholeTensor& y = t.back();
  for_each_element_of_parts(WholeTensor(y), t, 0, axis_of(op),
                            [&](double x, std::size_t at) { y.elements[at] = x; });
}

void define_split(const Operator& op, WholeTensors& t) {
  const WholeTensor x = t[0];
  for_each_element_of_parts(x, t, 1, axis_of(op), [&](double& y, std::size_t at) { y = x.elements[at]; });
}

void define_copy(const Operator&, WholeTensors& t) { t[1].elements = t[0].elements; }

void define_transpose(const Operator& op, WholeTensors& t) {
  const auto& order = std::get<std::vector<std::int64_t>>(op.attributes.at("order"));
  for_each_index_of(t[1].shape, [&](const std::vector<std::int64_t>& index, std::size_t at) {
    std::vector<std::int64_t> from(index.size());
    for (std::size_t d = 0; d < index.size(); ++d) from[static_cast<std::size_t>(order[d])] = index[d];
    t[1].elements[at] = t[0].elements[offset_of(t[0].shape, from)];
  });
}

void define_broadcast(const Operator& op, WholeTensors& t) {
  for_each_index_of(t[1].shape, [&](std::vector<std::int64_t> index, std::size_t at) {
    index.erase(index.begin() + static_cast<std::ptrdiff_t>(axis_of(op)));
    t[1].elements[at] = t[0].elements[offset_of(t[0].shape, index)];
  });
}

using Define = void (*)(const Operator&, WholeTensors&);

void check_shape_kernel(const char* kind, const std::vector<Sizes>& inputs, const Attributes& attributes,
                        Define define) {
  Bench bench(inputs[0][0]);
  std::vector<TensorId> tensors;
  for (const Sizes& shape : inputs) tensors.push_back(bench.x(shape));
  EXPECT_FALSE(tested_kernels(kind).empty());
  check_kernel({bench.op(kind, tensors, attributes), define});
}

TEST(ShapeKernels, Concatenate) {
  check_shape_kernel("concat", {{4, 3, 4}, {4, 5, 4}, {4, 2, 4}}, {{"axis", 1}}, define_concat);
  check_shape_kernel("concat", {{4, 3}, {4, 1}}, {{"axis", 1}}, define_concat);
  check_shape_kernel("concat", {{4, 3}, {2, 3}}, {{"axis", 0}}, define_concat);
  check_shape_kernel("concat", std::vector<Sizes>(18, Sizes{2, 3}), {{"axis", 1}}, define_concat);
}

TEST(ShapeKernels, Split) {
  check_shape_kernel("split", {{4, 10, 4}}, {{"axis", 1}, {"sizes", Sizes{3, 5, 2}}}, define_split);
  check_shape_kernel("split", {{4, 6}}, {{"axis", 1}, {"sizes", Sizes{6}}}, define_split);
}

TEST(ShapeKernels, Broadcast) {
  check_shape_kernel("broadcast", {{4, 6, 3}}, {{"axis", 2}, {"size", 4}}, define_broadcast);
  check_shape_kernel("broadcast", {{4, 6, 2}}, {{"axis", 1}, {"size", 3}}, define_broadcast);
  check_shape_kernel("broadcast", {{4, 3}}, {{"axis", 2}, {"size", 70}}, define_broadcast);
  check_shape_kernel("broadcast", {{4}}, {{"axis", 1}, {"size", 2}}, define_broadcast);
}

TEST(ShapeKernels, Reshape) {
  check_shape_kernel("reshape", {{4, 6, 4}}, {{"shape", Sizes{24, 4}}}, define_copy);
  check_shape_kernel("reshape", {{8, 4}}, {{"shape", Sizes{2, 4, 2, 2}}}, define_copy);
  check_shape_kernel("reshape", {{4, 6, 4}}, {{"shape", Sizes{4, 8, 3}}}, define_copy);
  check_shape_kernel("flatten", {{4, 4, 2, 3}}, {}, define_copy);
}

TEST(ShapeKernels, Transpose) {
  check_shape_kernel("transpose", {{4, 6, 2}}, {{"order", Sizes{2, 0, 1}}}, define_transpose);
  check_shape_kernel("transpose", {{4, 6}}, {{"order", Sizes{1, 0}}}, define_transpose);
  check_shape_kernel("transpose", {{4, 2, 3, 2, 2}}, {{"order", Sizes{0, 3, 1, 4, 2}}}, define_transpose);
}

/// Forward alone: integers have no gradient.
void check_integers(const char* kind, const std::vector<Sizes>& inputs, const Attributes& attributes,
                    Define define) {
  Bench bench(inputs[0][0]);
  std::vector<TensorId> tensors;
  for (const Sizes& shape : inputs) tensors.push_back(bench.words(shape));
  const Operator op = bench.op(kind, tensors, attributes);
  WholeTensors whole;
  double next = 0;
  for (const TensorUse& use : op.uses) {
    WholeTensor& t = whole.emplace_back(filled(use, 0));
    t.integers = true;
    for (double& e : t.elements) e = next++;
  }
  WholeTensors expected = whole;
  define(op, expected);
  for (const ParallelConfig& config : single_splits(op)) {
    ShardRun run(*tested_kernels(op.kind).at(0).kernel, op, config, {},
                 std::vector<bool>(op.uses.size(), false));
    const WholeTensors got = run.forward(whole);
    for (std::size_t u = 0; u < op.uses.size(); ++u) {
      if (op.uses[u].role != Role::Output) continue;
      EXPECT_EQ(got[u].elements, expected[u].elements) << config.str(op);
    }
  }
}

TEST(ShapeKernels, MoveIntegersToo) {
  check_integers("concat", {{4, 3}, {4, 5}}, {{"axis", 1}}, define_concat);
  check_integers("split", {{4, 8}}, {{"axis", 1}, {"sizes", Sizes{3, 5}}}, define_split);
  check_integers("flatten", {{4, 3, 2}}, {}, define_copy);
  check_integers("transpose", {{4, 6}}, {{"order", Sizes{1, 0}}}, define_transpose);
  check_integers("transpose", {{2, 36, 70}}, {{"order", Sizes{0, 2, 1}}}, define_transpose);
}

}  // namespace
}  // namespace pipesim::cpu
