#include <algorithm>
#include <numeric>

#include "models/named_sizes.h"
#include "models/onnx/reader/rules.h"

namespace pipesim {
namespace {

using Integers = std::vector<std::int64_t>;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

bool give_reshaped(OnnxNode& node, const std::optional<OnnxShape>& shape) {
  if (!shape) return false;
  node.give(node.reshaped(node.in(0), *shape));
  return true;
}

bool write_reshape(OnnxNode& node) {
  const auto asked = node.list(1, "shape");
  if (!asked) return false;
  return give_reshaped(node, reshaped_shape(node.in(0).shape, *asked, node.integer("allowzero", 0) != 0));
}

bool write_flatten(OnnxNode& node) {
  return give_reshaped(node, flattened_shape(node.in(0).shape, node.integer("axis", 1)));
}

bool write_squeeze(OnnxNode& node) {
  const auto axes = node.list(1, "axes");
  if (node.has(1) && !axes) return false;
  if (!node.in(0).loss) return give_reshaped(node, squeezed_shape(node.in(0).shape, axes));
  node.give(node.in(0));
  return true;
}

bool write_unsqueeze(OnnxNode& node) {
  const auto axes = node.list(1, "axes");
  return axes && give_reshaped(node, unsqueezed_shape(node.in(0).shape, *axes));
}

bool write_transpose(OnnxNode& node) {
  Integers order = node.integers("perm");
  if (order.empty()) {
    order.resize(node.rank());
    std::iota(order.rbegin(), order.rend(), 0);
  }
  Integers sorted = order, all(node.rank());
  std::ranges::sort(sorted);
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) return false;
  if (node.is_weight(0) && node.rank() == 2 && order == Integers{1, 0}) {
    OnnxValue weight = node.in(0);
    weight.transposed = !weight.transposed;
    std::swap(weight.shape[0], weight.shape[1]);
    weight.constant = nullptr;  // it has them in the other order
    node.give(weight);
    return true;
  }
  node.give(node.transposed(node.in(0), order));
  return true;
}

bool write_concat(OnnxNode& node) {
  const auto axis = OnnxNode::axis(node.integer("axis", 1), node.rank());
  if (!axis) return false;
  if (node.count() == 1) {
    node.give(node.in(0));
    return true;
  }
  std::vector<OnnxValue> parts;
  for (std::size_t i = 0; i < node.count(); ++i) parts.push_back(node.in(i));
  node.give(node.write("concat", parts, {{"axis", *axis}}));
  return true;
}

bool write_split(OnnxNode& node) {
  const auto axis = OnnxNode::axis(node.integer("axis", 0), node.rank());
  if (!axis) return false;
  const std::int64_t length = node.in(0).shape[at(*axis)], count = node.proto().output_size();
  auto sizes = node.list(1, "split");
  if (node.has(1) && !sizes) return false;
  if (!sizes) {
    const std::int64_t each = (length + count - 1) / count;
    sizes.emplace(at(count), each);
    sizes->back() = length - each * (count - 1);
  }
  if (sizes->size() == 1) {
    node.give(node.in(0));
    return true;
  }
  for (OnnxValue& piece : node.divided(node.in(0), *axis, *sizes)) node.give(std::move(piece));
  return true;
}

bool write_slice(OnnxNode& node) {
  const bool inputs = node.opset() >= 10;
  const auto starts = inputs ? node.values(1) : node.integers("starts");
  const auto ends = inputs ? node.values(2) : node.integers("ends");
  auto axes = inputs ? node.values(3) : node.integers("axes");
  auto steps = inputs ? node.values(4) : Integers();
  if (!starts || !ends || (node.has(3) && !axes) || (node.has(4) && !steps)) return false;
  if (!axes || axes->empty()) {
    axes.emplace(starts->size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (!steps || steps->empty()) steps.emplace(starts->size(), 1);
  if (axes->size() != starts->size() || steps->size() != starts->size() || ends->size() != starts->size())
    return false;
  OnnxValue x = node.in(0);
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const auto axis = OnnxNode::axis((*axes)[i], x.shape.size());
    if (!axis || (*steps)[i] < 1) return false;  // a slice runs forwards
    const std::int64_t length = x.shape[at(*axis)], step = std::min((*steps)[i], length);
    const auto bounded = [&](std::int64_t place) {
      return std::clamp<std::int64_t>(place < 0 ? place + length : place, 0, length);
    };
    const std::int64_t start = bounded((*starts)[i]), end = bounded((*ends)[i]);
    if (end <= start) return false;
    x = node.cut(x, *axis, start, (end - start + step - 1) / step, step);
  }
  node.give(node.tensor(x));
  return true;
}

/// Rows of a table, one place of a dim, or any places.
bool write_gather(OnnxNode& node) {
  const auto axis = OnnxNode::axis(node.integer("axis", 0), node.rank());
  if (!axis) return false;
  const OnnxValue &x = node.in(0), &places = node.in(1);
  if (places.form == OnnxForm::Constant && places.constant->size() == 1) {
    std::int64_t place = places.constant->integer(0);
    if (place < 0) place += x.shape[at(*axis)];
    OnnxShape shape = x.shape;
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*axis));
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(*axis), places.shape.size(), 1);
    node.give(node.reshaped(node.cut(x, *axis, place, 1, 1, "slice"), shape));
    return true;
  }
  if (places.form != OnnxForm::Constant && places.form != OnnxForm::Data) return false;
  const OnnxValue indices = node.data(places.name, places.shape, DataType::Int64);
  if (node.is_weight(0) && *axis == 0 && node.rank() == 2 && !x.transposed && !places.shape.empty()) {
    node.name_by_weight(0);
    node.give(
        node.write("embedding", {indices}, {{"rows", x.shape[0]}, {"width", x.shape[1]}}, "", {x.name}));
    return true;
  }
  node.give(node.write("gather", {x, indices}, {{"axis", *axis}}));
  return true;
}

bool write_expand(OnnxNode& node) {
  const auto asked = node.values(1);
  if (!asked) return false;
  OnnxShape shape = *asked;
  const OnnxShape& own = node.in(0).shape;
  if (shape.size() < own.size()) shape.insert(shape.begin(), own.size() - shape.size(), 1);
  for (std::size_t i = 0; i < own.size(); ++i) {
    std::int64_t& extent = shape[shape.size() - own.size() + i];
    extent = std::max(extent, own[i]);
  }
  node.give(node.expanded(node.in(0), shape));
  return true;
}

/// Each dim that repeats becomes two, the first of which is stretched.
bool write_tile(OnnxNode& node) {
  const auto repeats = node.values(1);
  if (!repeats || node.opset() < 6 || repeats->size() != node.rank()) return false;
  OnnxShape before, stretched, shape;
  for (std::size_t i = 0; i < node.rank(); ++i) {
    const std::int64_t extent = node.in(0).shape[i], times = (*repeats)[i];
    if (times < 1 || times > kLargestSize) return false;
    if (times != 1) {
      before.push_back(1);
      stretched.push_back(times);
    }
    before.push_back(extent);
    stretched.push_back(extent);
    shape.push_back(extent * times);
  }
  const OnnxValue apart = node.reshaped(node.in(0), before, "apart");
  node.give(node.reshaped(node.expanded(apart, stretched, "repeated"), shape));
  return true;
}

bool write_pad(OnnxNode& node) {
  const auto pads = node.list(1, "pads");
  const std::string mode = node.text("mode", "constant");
  const std::size_t rank = node.rank();
  if (!pads || node.has(3)) return false;
  if (mode == "constant" && (node.has(2) ? node.setting(2) : node.real("value", 0)) != 0) return false;
  if (pads->size() != 2 * rank) return false;
  if (std::ranges::any_of(*pads, [](std::int64_t p) { return p < -kLargestSize || p > kLargestSize; }))
    return false;
  OnnxValue x = node.in(0);
  Integers before(rank), after(rank);
  bool any = false;
  for (std::size_t i = 0; i < rank; ++i) {
    // A negative number cuts off.
    const std::int64_t first = (*pads)[i], last = (*pads)[rank + i];
    const std::int64_t start = std::max<std::int64_t>(0, -first),
                       left = x.shape[i] - start - std::max<std::int64_t>(0, -last);
    if (left < 1) return false;
    x = node.cut(x, static_cast<std::int64_t>(i), start, left, 1, "cut");
    before[i] = std::max<std::int64_t>(0, first);
    after[i] = std::max<std::int64_t>(0, last);
    any = any || before[i] > 0 || after[i] > 0;
  }
  const char* kind = mode == "reflect" ? "reflect" : mode == "edge" ? "edge" : "zeros";
  if (mode != "constant" && mode != "reflect" && mode != "edge") return false;
  node.give(any ? node.write("pad", {x}, {{"before", before}, {"after", after}, {"mode", kind}})
                : node.tensor(x));
  return true;
}

/// Blocks of channels become blocks of an image, or the other way round.
bool write_depth_to_space(OnnxNode& node) {
  const std::int64_t block = node.integer("blocksize", 1);
  const OnnxShape& own = node.in(0).shape;
  if (own.size() != 4 || block < 1 || block > own[1] + own[2] + own[3]) return false;
  const std::int64_t n = own[0], c = own[1], h = own[2], w = own[3];
  if (node.op() == "DepthToSpace") {
    const std::int64_t depth = c / (block * block);
    const bool rows_first = node.text("mode", "DCR") == "DCR";
    const OnnxShape apart =
        rows_first ? OnnxShape{n, block, block, depth, h, w} : OnnxShape{n, depth, block, block, h, w};
    const Integers order = rows_first ? Integers{0, 3, 4, 1, 5, 2} : Integers{0, 1, 4, 2, 5, 3};
    const OnnxValue mixed = node.transposed(node.reshaped(node.in(0), apart, "apart"), order, "mixed");
    node.give(node.reshaped(mixed, {n, depth, h * block, w * block}));
    return true;
  }
  const OnnxValue apart = node.reshaped(node.in(0), {n, c, h / block, block, w / block, block}, "apart");
  const OnnxValue mixed = node.transposed(apart, {0, 3, 5, 1, 2, 4}, "mixed");
  node.give(node.reshaped(mixed, {n, c * block * block, h / block, w / block}));
  return true;
}

}  // namespace

OnnxRules shape_rules() {
  return {{"Reshape", write_reshape},
          {"Flatten", write_flatten},
          {"Squeeze", write_squeeze},
          {"Unsqueeze", write_unsqueeze},
          {"Transpose", write_transpose},
          {"Concat", write_concat},
          {"Split", write_split},
          {"Slice", write_slice},
          {"Gather", write_gather},
          {"Expand", write_expand},
          {"Tile", write_tile},
          {"Pad", write_pad},
          {"DepthToSpace", write_depth_to_space},
          {"SpaceToDepth", write_depth_to_space}};
}

}  // namespace pipesim
