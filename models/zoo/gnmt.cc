#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "models/zoo/families.h"
#include "models/zoo/recurrent_network.h"

namespace pipesim {

namespace {

using PerStep = std::vector<TensorId>;  ///< a tensor of every step

/// One side of GNMT, built layer by layer and not step by step: a stage of a pipeline then holds whole
/// layers.
class GnmtSide {
 public:
  GnmtSide(UnrolledNetwork& net, std::string prefix) : net_(net), prefix_(std::move(prefix)) {}

  /// `make` gets a step from 0 and adds its operators within the step's repeat.
  PerStep each_step(const std::function<TensorId(std::size_t)>& make, bool backwards = false) {
    PerStep results(static_cast<std::size_t>(net_.steps));
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::size_t step = backwards ? results.size() - 1 - i : i;
      net_.builder.begin_repeat(prefix_ + "step", static_cast<std::int64_t>(step) + 1);
      results[step] = make(step);
      net_.builder.end_repeat();
    }
    return results;
  }

  PerStep embed(const std::string& data) {
    const PerStep words = inputs(data);
    return each_step([&](std::size_t step) { return net_.embed(prefix_, words[step]); });
  }

  PerStep inputs(const std::string& data) {
    PerStep words;
    for (std::int64_t step = 1; step <= net_.steps; ++step) words.push_back(net_.words(of_step(data, step)));
    return words;
  }

  /// A layer of LSTMs, from the last step to the first if `backwards`.
  PerStep lstm(const std::string& layer, const PerStep& below, bool backwards = false) {
    LstmState state = net_.initial_state(prefix_ + layer);
    return each_step([&](std::size_t step) { return net_.lstm(prefix_, layer, below[step], state); },
                     backwards);
  }

  PerStep concat(const std::string& name, const PerStep& a, const PerStep& b) {
    return each_step([&](std::size_t step) {
      return net_.builder.add("concat", name, {a[step], b[step]}, {{"axis", 1}});
    });
  }

  PerStep add(const std::string& name, const PerStep& a, const PerStep& b) {
    return each_step([&](std::size_t step) { return net_.builder.add("add", name, {a[step], b[step]}); });
  }

 private:
  UnrolledNetwork& net_;
  std::string prefix_;
};

/// The lowest layer reads the sentence in both directions; from the third on a layer adds what is below it.
EncodedSentence encode_both_ways(UnrolledNetwork& net, std::int64_t layers) {
  GnmtSide encoder(net, "encoder.");
  PerStep x = encoder.embed("source");
  const PerStep forward = encoder.lstm("lstm1.forward", x),
                backward = encoder.lstm("lstm1.backward", x, true);
  x = encoder.concat("lstm1.concat", forward, backward);
  for (std::int64_t layer = 2; layer <= layers; ++layer) {
    const std::string name = of_step("lstm", layer);
    const PerStep above = encoder.lstm(name, x);
    x = layer > 2 ? encoder.add(name + ".residual", above, x) : above;
  }
  return net.encoded(encoder.each_step([&](std::size_t step) { return net.row(x[step]); }));
}

/// The lowest layer's output of a step queries the attention; all layers above read its context beside the
/// output below them.
OperatorGraph gnmt(const ZooValues& values) {
  UnrolledNetwork net(values);
  const std::int64_t layers = values.integer("layers");
  const EncodedSentence source = encode_both_ways(net, layers);
  GnmtSide decoder(net, "decoder.");
  PerStep x = decoder.lstm("lstm1", decoder.embed("target"));
  const PerStep contexts = decoder.each_step([&](std::size_t step) { return net.context(source, x[step]); });
  for (std::int64_t layer = 2; layer <= layers; ++layer) {
    const std::string name = of_step("lstm", layer);
    const PerStep above = decoder.lstm(name, decoder.concat(name + ".concat", x, contexts));
    x = layer > 2 ? decoder.add(name + ".residual", above, x) : above;
  }
  const PerStep labels = decoder.inputs("labels");
  for (std::int64_t step = 1; step <= net.steps; ++step) {
    const auto i = static_cast<std::size_t>(step - 1);
    net.builder.begin_repeat("decoder.step", step);
    net.predict(x[i], labels[i]);
    net.builder.end_repeat();
  }
  return net.builder.build();
}

ZooModel gnmt_model(std::int64_t layers) {
  const std::string half = std::to_string(layers / 2);
  return {
      "gnmt" + std::to_string(layers),
      "translation, " + half + " + " + half + " LSTM layers, residual, with attention, over 40 steps",
      "Wu et al., 2016; arXiv:1609.08144; attention and sizes as in NVIDIA's GNMT v2",
      recurrent_options(lstm_layers_option(layers / 2, 2, "LSTM layers of the encoder, and of the decoder"),
                        1024, 32000, "words of each language"),
      gnmt};
}

}  // namespace

std::vector<ZooModel> gnmt_models() { return {gnmt_model(8), gnmt_model(16)}; }

}  // namespace pipesim
