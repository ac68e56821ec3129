#include <string>
#include <vector>

#include "models/graph_builder.h"
#include "models/zoo/families.h"

namespace pipesim {

namespace {

/// Between two steps of one LSTM layer.
struct LstmState {
  TensorId h, c;
};

/// A network unrolled over the steps of a sequence: every step has operators of its own, and they share the
/// weights of their layer. Words, labels and states are tensors of one step.
class UnrolledNetwork {
 public:
  explicit UnrolledNetwork(const ZooValues& values)
      : builder(values.name(), values.integer("batch"), values.data_type()),
        batch(values.integer("batch")),
        hidden(values.integer("hidden")),
        embedded(values.integer("embedded")),
        vocabulary(values.integer("vocab")) {}

  TensorId words(const std::string& name) { return builder.data(name, {batch}, DataType::Int64); }

  /// `count` layers that start from given states of zeros.
  std::vector<LstmState> initial_states(const std::string& prefix, std::int64_t count) {
    std::vector<LstmState> states;
    for (std::int64_t layer = 1; layer <= count; ++layer) {
      const std::string name = prefix + "lstm" + std::to_string(layer);
      states.push_back(
          {builder.data(name + ".h0", {batch, hidden}), builder.data(name + ".c0", {batch, hidden})});
    }
    return states;
  }

  /// One word through the embedding `prefix`embedding and the LSTM layers `prefix`lstm1, …; the last layer's
  /// output.
  TensorId step(const std::string& prefix, TensorId word, std::vector<LstmState>& states) {
    TensorId x = builder.add("embedding", "embedding", {word}, {{"rows", vocabulary}, {"width", embedded}},
                             {prefix + "embedding.w"});
    for (std::size_t i = 0; i < states.size(); ++i) {
      const std::string layer = "lstm" + std::to_string(i + 1), weights = prefix + layer;
      const auto state =
          builder.add_all("lstm_cell", layer, {x, states[i].h, states[i].c}, {{"hidden", hidden}},
                          {weights + ".wx", weights + ".wh", weights + ".b"});
      states[i] = {state[0], state[1]};
      x = states[i].h;
    }
    return x;
  }

  /// The step's scores of all words and its loss.
  void predict(TensorId x, TensorId label) {
    const TensorId scores =
        builder.add("linear", "projection", {x}, {{"out", Sizes{vocabulary}}, {"uneven", 1}},
                    {"projection.w", "projection.b"});
    builder.add("cross_entropy", "loss", {scores, label});
  }

  GraphBuilder builder;
  const std::int64_t batch, hidden, embedded, vocabulary;
};

std::string numbered(const std::string& name, std::int64_t step) { return name + std::to_string(step); }

/// Classifies a sentence from the last step's output.
OperatorGraph rnntc(const ZooValues& values) {
  UnrolledNetwork net(values);
  std::vector<LstmState> states = net.initial_states("", values.integer("layers"));
  TensorId last;
  for (std::int64_t step = 1; step <= values.integer("steps"); ++step) {
    const TensorId word = net.words(numbered("words", step));
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
  for (std::int64_t step = 1; step <= values.integer("steps"); ++step) {
    const TensorId word = net.words(numbered("words", step)), label = net.words(numbered("labels", step));
    net.builder.begin_repeat("step", step);
    net.predict(net.step("", word, states), label);
    net.builder.end_repeat();
  }
  return net.builder.build();
}

/// What the attention of every decoder step reads.
struct EncodedSentence {
  TensorId values;  ///< [n, s, hidden], the last encoder layer's outputs
  TensorId keys;    ///< [n, s, hidden], projected once per sentence
};

EncodedSentence encode(UnrolledNetwork& net, std::int64_t steps, std::vector<LstmState>& states) {
  std::vector<TensorId> outputs;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const TensorId word = net.words(numbered("source", step));
    net.builder.begin_repeat("encoder.step", step);
    const TensorId h = net.step("encoder.", word, states);
    outputs.push_back(net.builder.add("reshape", "row", {h}, {{"shape", Sizes{net.batch, 1, net.hidden}}}));
    net.builder.end_repeat();
  }
  const TensorId values = net.builder.add("concat", "encoder.rows", outputs, {{"axis", 1}});
  const Attributes keys = {{"out", Sizes{net.hidden}}, {"bias", 0}};
  return {values, net.builder.add("linear", "attention.keys", {values}, keys)};
}

/// Attention on top of the last decoder layer, merged with its output before the projection.
TensorId attend(UnrolledNetwork& net, const EncodedSentence& source, TensorId h) {
  GraphBuilder& builder = net.builder;
  const TensorId query =
      builder.add("linear", "query", {h}, {{"out", Sizes{net.hidden}}, {"bias", 0}}, {"attention.query.w"});
  const TensorId context = builder.add("bahdanau_attention", "attention", {query, source.keys, source.values},
                                       {}, {"attention.v"});
  const TensorId both = builder.add("concat", "concat", {context, h}, {{"axis", 1}});
  return builder.add("linear", "merge", {both},
                     {{"out", Sizes{net.hidden}}, {"bias", 0}, {"activation", "tanh"}},
                     {"attention.merge.w"});
}

/// The decoder starts from the encoder's last states.
OperatorGraph nmt(const ZooValues& values) {
  UnrolledNetwork net(values);
  const std::int64_t steps = values.integer("steps");
  std::vector<LstmState> states = net.initial_states("encoder.", values.integer("layers"));
  const EncodedSentence source = encode(net, steps, states);
  for (std::int64_t step = 1; step <= steps; ++step) {
    const TensorId word = net.words(numbered("target", step)), label = net.words(numbered("labels", step));
    net.builder.begin_repeat("decoder.step", step);
    net.predict(attend(net, source, net.step("decoder.", word, states)), label);
    net.builder.end_repeat();
  }
  return net.builder.build();
}

ZooOptions recurrent_options(std::int64_t layers, const std::string& layers_help, std::int64_t hidden,
                             std::int64_t vocabulary, const std::string& vocabulary_help) {
  return {batch_option(1024, "64 for each of 16 devices"),
          dtype_option(),
          ZooOption::integer("steps", 40, 1, 1000, "unrolled steps, the length of a sentence"),
          ZooOption::integer("layers", layers, 1, 64, layers_help),
          ZooOption::integer("hidden", hidden, 1, 1 << 18, "width of an LSTM layer"),
          ZooOption::integer("embedded", hidden, 1, 1 << 18, "width of a word's embedding"),
          ZooOption::integer("vocab", vocabulary, 2, 1000000, vocabulary_help)};
}

ZooOptions rnntc_options() {
  ZooOptions options =
      recurrent_options(4, "LSTM layers", 1024, 20000, "words (the movie reviews of the paper have 18,765)");
  options.push_back(ZooOption::integer("classes", 2, 2, 1000000, "labels"));
  return options;
}

}  // namespace

std::vector<ZooModel> recurrent_models() {
  const std::string source = "Jia, Zaharia and Aiken, MLSys 2019, section 8.1; arXiv:1807.05358";
  return {
      {"rnntc", "text classification, 4 LSTM layers unrolled over 40 steps", source, rnntc_options(), rnntc},
      {"rnnlm", "language model, 2 LSTM layers unrolled over 40 steps", source,
       recurrent_options(2, "LSTM layers", 2048, 10000, "words of the Penn Treebank"), rnnlm},
      {"nmt", "translation, 2 + 2 LSTM layers with attention, unrolled over 40 steps",
       source + "; attention after Bahdanau et al., arXiv:1409.0473",
       recurrent_options(2, "LSTM layers of the encoder, and of the decoder", 1024, 32000,
                         "words of each language"),
       nmt}};
}

}  // namespace pipesim
