#include <string>
#include <vector>

#include "models/zoo/families.h"
#include "models/zoo/recurrent_network.h"

namespace pipesim {

namespace {

/// Classifies a sentence from the last step's output.
OperatorGraph rnntc(const ZooValues& values) {
  UnrolledNetwork net(values);
  std::vector<LstmState> states = net.initial_states("", values.integer("layers"));
  TensorId last;
  for (std::int64_t step = 1; step <= net.steps; ++step) {
    const TensorId word = net.words(of_step("words", step));
    net.builder.begin_repeat("step", step);
    last = net.step("", word, states);
    net.builder.end_repeat();
  }
  last = net.builder.add("linear", "classifier", {last}, {{"out", Sizes{values.integer("classes")}}});
  net.builder.add("cross_entropy", "loss", {last, net.words("labels")});
  return net.builder.build();
}

/// Predicts the next word at every step.
OperatorGraph rnnlm(const ZooValues& values) {
  UnrolledNetwork net(values);
  std::vector<LstmState> states = net.initial_states("", values.integer("layers"));
  for (std::int64_t step = 1; step <= net.steps; ++step) {
    const TensorId word = net.words(of_step("words", step)), label = net.words(of_step("labels", step));
    net.builder.begin_repeat("step", step);
    net.predict(net.step("", word, states), label);
    net.builder.end_repeat();
  }
  return net.builder.build();
}

EncodedSentence encode(UnrolledNetwork& net, std::vector<LstmState>& states) {
  std::vector<TensorId> rows;
  for (std::int64_t step = 1; step <= net.steps; ++step) {
    const TensorId word = net.words(of_step("source", step));
    net.builder.begin_repeat("encoder.step", step);
    rows.push_back(net.row(net.step("encoder.", word, states)));
    net.builder.end_repeat();
  }
  return net.encoded(rows);
}

/// Attention on top of the last decoder layer, merged with its output before the projection.
TensorId attend(UnrolledNetwork& net, const EncodedSentence& source, TensorId h) {
  const TensorId context = net.context(source, h);
  const TensorId both = net.builder.add("concat", "concat", {context, h}, {{"axis", 1}});
  return net.builder.add("linear", "merge", {both},
                         {{"out", Sizes{net.hidden}}, {"bias", 0}, {"activation", "tanh"}},
                         {"attention.merge.w"});
}

/// The decoder starts from the encoder's last states.
OperatorGraph nmt(const ZooValues& values) {
  UnrolledNetwork net(values);
  std::vector<LstmState> states = net.initial_states("encoder.", values.integer("layers"));
  const EncodedSentence source = encode(net, states);
  for (std::int64_t step = 1; step <= net.steps; ++step) {
    const TensorId word = net.words(of_step("target", step)), label = net.words(of_step("labels", step));
    net.builder.begin_repeat("decoder.step", step);
    net.predict(attend(net, source, net.step("decoder.", word, states)), label);
    net.builder.end_repeat();
  }
  return net.builder.build();
}

ZooOptions rnntc_options() {
  ZooOptions options = recurrent_options(lstm_layers_option(4, 1, "LSTM layers"), 1024, 20000,
                                         "words (the movie reviews of the paper have 18,765)");
  options.push_back(ZooOption::integer("classes", 2, 2, 1000000, "labels"));
  return options;
}

}  // namespace

std::vector<ZooModel> recurrent_models() {
  const std::string source = "Jia, Zaharia and Aiken, MLSys 2019, section 8.1; arXiv:1807.05358";
  return {
      {"rnntc", "text classification, 4 LSTM layers unrolled over 40 steps", source, rnntc_options(), rnntc},
      {"rnnlm", "language model, 2 LSTM layers unrolled over 40 steps", source,
       recurrent_options(lstm_layers_option(2, 1, "LSTM layers"), 2048, 10000, "words of the Penn Treebank"),
       rnnlm},
      {"nmt", "translation, 2 + 2 LSTM layers with attention, unrolled over 40 steps",
       source + "; attention after Bahdanau et al., arXiv:1409.0473",
       recurrent_options(lstm_layers_option(2, 1, "LSTM layers of the encoder, and of the decoder"), 1024,
                         32000, "words of each language"),
       nmt}};
}

}  // namespace pipesim
