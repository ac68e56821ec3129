#include <array>
#include <string>
#include <utility>
#include <vector>

#include "models/zoo/families.h"
#include "models/zoo/images/image_network.h"

namespace pipesim {

namespace {

/// What a cell does to one of its states.
enum class Step { Keep, Average3, Max3, Max2, Conv1, Conv3, Conv7 };

/// Two states, each through a step, add up to the next state. States 0 and 1 are the cell's inputs.
struct Pair {
  int left = 0;
  Step left_step;
  int right = 0;
  Step right_step;
};

/// Five pairs make the states 2 to 6; the output lists the states of `joined` one after the other.
struct CellTable {
  std::array<Pair, 5> pairs;
  std::vector<std::size_t> joined;
  std::int64_t stride = 1;  ///< of steps on the cell's inputs
};

/// AmoebaNet-D as in the authors' implementation, from which the normal cell of the paper's figure differs in
/// what it joins.
const CellTable& normal_table() {
  using enum Step;
  static const CellTable table = {{{{1, Conv1, 1, Max3},
                                    {1, Keep, 0, Conv7},
                                    {0, Conv1, 0, Conv7},
                                    {2, Max3, 2, Keep},
                                    {1, Average3, 5, Conv1}}},
                                  {0, 3, 4, 6},
                                  1};
  return table;
}

const CellTable& reduction_table() {
  using enum Step;
  static const CellTable table = {{{{0, Max2, 0, Max3},
                                    {2, Keep, 1, Conv3},
                                    {2, Conv7, 2, Max3},
                                    {3, Keep, 1, Max2},
                                    {2, Average3, 3, Conv1}}},
                                  {4, 5, 6},
                                  2};
  return table;
}

/// A cell reads the outputs of the two cells before it. Norms follow convolutions, relu comes before them.
class Cell {
 public:
  Cell(ImageNetwork& net, std::string prefix, std::int64_t filters)
      : net_(net), prefix_(std::move(prefix)), filters_(filters) {}

  TensorId add(const CellTable& table, TensorId last, TensorId before_last) {
    std::vector<TensorId> states = {relu_conv("last", last, filters_, Window::same(1)),
                                    before_last == last ? last : fitted(before_last, last)};
    for (std::size_t i = 0; i < table.pairs.size(); ++i) {
      const auto& [left, left_step, right, right_step] = table.pairs[i];
      const std::string name = "pair" + std::to_string(i + 1);
      const auto stepped = [&](const std::string& side, int state, Step step) {
        return apply(name + side, step, states[static_cast<std::size_t>(state)],
                     state < 2 ? table.stride : 1);
      };
      const TensorId x = stepped(".left", left, left_step), y = stepped(".right", right, right_step);
      states.push_back(net_.builder().add("add", prefix_ + name + ".add", {x, y}));
    }
    std::vector<TensorId> parts;
    for (const std::size_t state : table.joined) parts.push_back(states[state]);
    return net_.concat(prefix_ + "concat", parts);
  }

 private:
  [[nodiscard]] std::int64_t channels(TensorId x) const { return net_.builder().shape(x)[1]; }

  TensorId relu(const std::string& name, TensorId x) {
    return net_.builder().add("relu", prefix_ + name + ".relu", {x});
  }
  TensorId conv(const std::string& name, TensorId x, std::int64_t out, const Window& window,
                const std::string& activation = "none") {
    return net_.conv_norm(prefix_ + name, x, out, window, activation);
  }
  TensorId relu_conv(const std::string& name, TensorId x, std::int64_t out, const Window& window) {
    return conv(name, relu(name, x), out, window);
  }

  /// Through few channels, a quarter of the cell's.
  TensorId bottleneck(const std::string& name, TensorId x, const std::vector<Window>& windows) {
    const std::int64_t few = filters_ / 4;
    x = conv(name + ".in", relu(name, x), few, Window::same(1), "relu");
    for (std::size_t i = 0; i < windows.size(); ++i) {
      x = conv(name + ".conv" + std::to_string(i + 1), x, few, windows[i], "relu");
    }
    return conv(name + ".out", x, filters_, Window::same(1));
  }

  /// Pools of inputs with other channels than the cell's make them the same.
  TensorId pool(const std::string& name, const std::string& mode, TensorId x, const Window& window) {
    const bool odd = window.kernel[0] % 2 == 0;  // such windows may reach over the end
    x = net_.builder().add("pool2d", prefix_ + name + ".pool", {x},
                           {{"mode", mode},
                            {"kernel", window.kernel},
                            {"stride", Sizes{window.stride, window.stride}},
                            {"pad", window.pad},
                            {"ceil", odd ? 1 : 0}});
    return channels(x) == filters_ ? x : conv(name, x, filters_, Window::same(1));
  }

  TensorId apply(const std::string& name, Step step, TensorId x, std::int64_t stride) {
    switch (step) {
      case Step::Keep:
        return x;
      case Step::Average3:
        return pool(name, "avg", x, Window::same(3, stride));
      case Step::Max3:
        return pool(name, "max", x, Window::same(3, stride));
      case Step::Max2:
        return pool(name, "max", x, Window::unpadded(2, stride));
      case Step::Conv1:
        return relu_conv(name, x, filters_, Window::same(1, stride));
      case Step::Conv3:
        return bottleneck(name, x, {Window::same(3, stride)});
      case Step::Conv7:
        return bottleneck(name, x, {Window::same_of(1, 7), Window::same_of(7, 1)});
    }
    return x;
  }

  /// The output before the last with the cell's channels and the last one's size.
  TensorId fitted(TensorId x, TensorId last) {
    if (net_.builder().shape(x)[2] != net_.builder().shape(last)[2]) return halved(x);
    return channels(x) == filters_ ? x : relu_conv("before", x, filters_, Window::same(1));
  }

  /// Every other row and column, of one half of the channels the even ones, of the other the odd ones: a row
  /// and a column of pad at the start make the latter the former, once their own result is dropped.
  TensorId halved(TensorId x) {
    x = relu("before", x);
    const TensorId even =
        net_.conv_without_bias(prefix_ + "before.even", x, filters_ / 2, Window::unpadded(1, 2));
    TensorId odd = net_.conv_without_bias(prefix_ + "before.padded", x, filters_ / 2, {{1, 1}, 2, {1, 1}});
    for (const std::int64_t axis : {2, 3}) {
      const std::int64_t length = net_.builder().shape(odd)[static_cast<std::size_t>(axis)];
      odd = net_.builder().add_all("split", prefix_ + (axis == 2 ? "before.rows" : "before.columns"), {odd},
                                   {{"axis", axis}, {"sizes", Sizes{1, length - 1}}})[1];
    }
    return net_.batch_norm(prefix_ + "before.norm", net_.concat(prefix_ + "before.concat", {even, odd}),
                           "none");
  }

  ImageNetwork& net_;
  std::string prefix_;
  std::int64_t filters_;
};

/// The outputs of the last two cells.
struct CellOutputs {
  TensorId last, before_last;
  void append(TensorId x) {
    before_last = last;
    last = x;
  }
};

/// Normal cells without what changes shapes; the first two read outputs of other shapes, so they are no
/// repeats of the others.
void normal_cells(ImageNetwork& net, const std::string& stage, std::int64_t count, std::int64_t filters,
                  CellOutputs& x) {
  for (std::int64_t i = 1; i <= count; ++i) {
    const std::string cell = stage + ".cell";
    if (i <= 2) {
      x.append(Cell(net, cell + std::to_string(i) + ".", filters).add(normal_table(), x.last, x.before_last));
      continue;
    }
    net.builder().begin_repeat(cell, i);
    x.append(Cell(net, "", filters).add(normal_table(), x.last, x.before_last));
    net.builder().end_repeat();
  }
}

/// Two reductions on top of a convolution, then three stages of normal cells with reductions between them,
/// each of which doubles the filters.
OperatorGraph amoebanet(const ZooValues& values) {
  const std::int64_t stem_filters = 32, full = values.integer("filters"), cells = values.integer("layers");
  if (full % 16 != 0) values.fail("filters=" + values.word("filters") + " is not a multiple of 16");
  ImageNetwork net(values, 3);
  const TensorId stem = net.conv_norm("stem", net.image(), stem_filters, Window::unpadded(3, 2), "none");
  CellOutputs x = {stem, stem};
  const auto reduce = [&](const std::string& name, std::int64_t filters) {
    x.append(Cell(net, name + ".", filters).add(reduction_table(), x.last, x.before_last));
  };
  reduce("stem.reduction1", full / 4);
  reduce("stem.reduction2", full / 2);
  for (std::int64_t s = 0; s < 3; ++s) {
    const std::string stage = "stage" + std::to_string(s + 1);
    if (s > 0) reduce(stage + ".reduction", full << s);
    normal_cells(net, stage, cells * (s + 1) / 3 - cells * s / 3, full << s, x);
  }
  net.classify(net.global_average(net.builder().add("relu", "relu", {x.last})));
  return net.build();
}

ZooOptions amoebanet_options(std::int64_t cells, std::int64_t filters) {
  ZooOptions options =
      image_options(16, "1 for each of 16 devices, weights take most of their memory", 224, 32);
  options.push_back(batch_norm_option());
  options.push_back(
      ZooOption::integer("layers", cells, 1, 1000, "normal cells, a third for each of three sizes"));
  options.push_back(ZooOption::integer("filters", filters, 16, 1 << 14,
                                       "channels of the first normal cells; a multiple of 16"));
  return options;
}

}  // namespace

std::vector<ZooModel> amoebanet_models() {
  return {{"amoebanet36", "AmoebaNet-D of 36 normal cells, no auxiliary classifier, no dropped paths",
           "Real et al., AAAI 2019; arXiv:1802.01548; cells as in tensorflow/tpu; size: Fan et al. (DAPPLE), "
           "PPoPP 2021, table 1",
           amoebanet_options(36, 512), amoebanet}};
}

}  // namespace pipesim
