#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "models/hugging_face/decoder_reader.h"
#include "models/zoo/decoder/decoder_layers.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

namespace mixer = mixer_letters;
namespace ffn = ffn_letters;

struct LayerWord {
  std::string_view word;
  char mixer;
};
// "layer_types", "layers_block_type" and "indexer_types" of Transformers.
constexpr std::array kLayerWords{
    LayerWord{"full_attention", mixer::kFull},      LayerWord{"attention", mixer::kFull},
    LayerWord{"sliding_attention", mixer::kWindow}, LayerWord{"chunked_attention", mixer::kChunk},
    LayerWord{"linear_attention", mixer::kDelta},   LayerWord{"deepseek_sparse_attention", mixer::kSparse},
    LayerWord{"mamba", mixer::kStateSpace},         LayerWord{"full", mixer::kSparse},
    LayerWord{"shared", mixer::kSparseAgain}};

std::size_t count_of(const DecoderFeatures& f) { return static_cast<std::size_t>(f.layers); }

// A list with an item for each layer.
std::vector<JsonValue> items_of_layers(const JsonValue& list, const DecoderFeatures& f) {
  std::vector<JsonValue> items = list.items();
  // Layers for further tokens may follow those of the model.
  if (items.size() < count_of(f))
    list.fail(fmt::format("found {} items, allowed: one for each of the {} layers", items.size(), f.layers));
  if (static_cast<std::int64_t>(items.size()) > f.layers + f.further_layers)
    list.fail(
        f.further_layers == 0
            ? fmt::format("found {} items, allowed: one for each of the {} layers", items.size(), f.layers)
            : fmt::format("found {} items, allowed: one for each of the {} layers, or with {} more for "
                          "further tokens",
                          items.size(), f.layers, f.further_layers));
  items.erase(items.begin() + f.layers, items.end());
  return items;
}

std::string letters_by(const JsonValue& list, const DecoderFeatures& f, auto letter) {
  std::string letters;
  for (const JsonValue& item : items_of_layers(list, f)) letters += letter(item);
  return letters;
}

char mixer_of(const JsonValue& item) {
  const std::string word = item.string();
  const auto known = std::ranges::find(kLayerWords, word, &LayerWord::word);
  if (known != kLayerWords.end()) return known->mixer;
  std::vector<std::string> words;
  for (const LayerWord& w : kLayerWords) words.emplace_back(w.word);
  item.fail(fmt::format("layers of type \"{}\" can't be expressed{}; allowed: {}", word,
                        did_you_mean(word, words), list_names(words, words.size())));
}

// NVIDIA's hybrids: a letter for each layer, which is a mixer or a feed-forward part.
void read_hybrid_pattern(const JsonValue& pattern, const DecoderFamily& family, DecoderFeatures& f) {
  const std::string letters = pattern.string();
  if (letters.size() != count_of(f))
    pattern.fail(
        fmt::format("found {} letters, allowed: one for each of the {} layers", letters.size(), f.layers));
  for (const char letter : letters) {
    if (std::string_view("M*-E").find(letter) == std::string_view::npos)
      pattern.fail(fmt::format("found \"{}\", allowed: M, *, - and E", letter));
    f.mixers += letter == 'M' ? mixer::kStateSpace : letter == '*' ? family.attention_letter : mixer::kNone;
    f.ffns += letter == '-' ? ffn::kDense : letter == 'E' ? ffn::kExperts : ffn::kNone;
  }
}

// The same in words, as Transformers 5 writes it.
bool read_hybrid_words(const JsonValue& list, const DecoderFamily& family, DecoderFeatures& f) {
  const std::vector<JsonValue> items = items_of_layers(list, f);
  const bool parts = std::ranges::any_of(items, [](const JsonValue& item) {
    return item.is_string() && (item.string() == "moe" || item.string() == "mlp");
  });
  if (!parts) return false;
  for (const JsonValue& item : items) {
    const std::string word = item.string();
    const bool dense = word == "mlp", experts = word == "moe";
    f.ffns += dense ? ffn::kDense : experts ? ffn::kExperts : ffn::kNone;
    const char letter = dense || experts ? mixer::kNone : mixer_of(item);
    f.mixers += letter == mixer::kFull ? family.attention_letter : letter;
  }
  return true;
}

// Layers that neural architecture search chose one by one ("nemotron-nas").
void read_blocks(const JsonValue& blocks, const ConfigReader& c, DecoderFeatures& f) {
  constexpr std::int64_t kMultiple = 256, kMostWidths = 26;
  const std::int64_t heads = c.size({"num_attention_heads"});
  std::optional<std::int64_t> group;
  for (const JsonValue& block : items_of_layers(blocks, f)) {
    const JsonValue attention = block.at("attention"), part = block.at("ffn");
    const auto flag = [](const JsonValue& of, const char* key) {
      const auto found = of.find(key);
      return found && found->kind() != "null" && found->boolean();
    };
    for (const char* key : {"window_length", "num_sink_tokens", "sparsify"}) {
      if (const auto found = attention.find(key); found && found->kind() != "null")
        found->fail(
            fmt::format("found {}, allowed: null, since no such layer can be expressed", found->text()));
    }
    const bool none = flag(attention, "no_op"), linear = flag(attention, "replace_with_linear");
    if (!none && !linear) {
      const std::int64_t own = attention.at("n_heads_in_group").integer(1, heads);
      if (group && *group != own)
        attention.at("n_heads_in_group")
            .fail(fmt::format("found {} where layers before have {}, allowed: the same in all layers", own,
                              *group));
      group = own;
    }
    f.mixers += none ? mixer::kNone : linear ? mixer::kLinear : mixer::kFull;
    if (flag(part, "no_op") || flag(part, "replace_with_linear")) {
      f.ffns += flag(part, "no_op") ? ffn::kNone : ffn::kLinear;
      continue;
    }
    const double inner = part.at("ffn_mult").number(0, 1e3) * static_cast<double>(f.hidden) * 2 / 3;
    const std::int64_t width = (static_cast<std::int64_t>(inner) + kMultiple - 1) / kMultiple * kMultiple;
    const auto known = std::ranges::find(f.further_ffns, width);
    const auto index = known - f.further_ffns.begin();
    if (known == f.further_ffns.end()) f.further_ffns.push_back(width);
    if (index >= kMostWidths) part.fail(fmt::format("found more than {} widths in all layers", kMostWidths));
    f.ffns += static_cast<char>(ffn::kFirstFurther + index);
  }
  f.ffn = f.further_ffns.empty() ? f.hidden : f.further_ffns.front();
  f.attention.all.heads = heads;
  f.attention.all.kv_heads = heads / group.value_or(1);
  if (heads % group.value_or(1) != 0)
    blocks.fail(fmt::format("groups of {} heads do not divide the {} heads", *group, heads));
}

// One of `letter` each `period` layers, the one numbered `offset` within them; the others are `otherwise`.
std::string periodic(const DecoderFeatures& f, std::int64_t period, std::int64_t offset, char letter,
                     char otherwise) {
  std::string letters;
  for (std::int64_t i = 0; i < f.layers; ++i)
    letters += period > 0 && i % period == offset ? letter : otherwise;
  return letters;
}

// The number of a layer within a period.
std::int64_t offset_within(const ConfigReader& c, std::string_view key, std::int64_t period) {
  const auto offset = c.value(key);
  if (!offset) return 0;
  const std::int64_t number = offset->integer(0, std::int64_t{1} << 40);
  if (number >= period)
    offset->fail(
        fmt::format("found {}, allowed: 0 to {}, since the period is {}", number, period - 1, period));
  return number;
}

std::int64_t period_of(const JsonValue& value, const DecoderFeatures& f) {
  return value.integer(1, f.layers + 1);
}

// Numbers of layers, from `first` on, that have a letter of their own.
void set_letters(std::string& letters, const JsonValue& numbers, std::int64_t first, char letter) {
  const auto most = static_cast<std::int64_t>(letters.size()) - 1 + first;
  for (const JsonValue& number : numbers.items())
    letters[static_cast<std::size_t>(number.integer(first, most) - first)] = letter;
}

// GPT-Neo: [[["global", "local"], 12]] is a layer that sees all and one with a window, twelve times.
std::string letters_of_gpt_neo(const JsonValue& types, const DecoderFeatures& f) {
  std::string letters;
  for (const JsonValue& group : types.items()) {
    const std::vector<JsonValue> parts = group.items();
    if (parts.size() != 2) group.fail("found " + group.text() + ", allowed: a list of kinds, and a number");
    std::string once;
    for (const JsonValue& kind : parts[0].items())
      once += kind.string() == "local" ? mixer::kWindow : mixer::kFull;
    for (std::int64_t i = parts[1].integer(0, f.layers); i > 0; --i) letters += once;
  }
  if (letters.size() != count_of(f))
    types.fail(
        fmt::format("found {} layers, allowed: as many as the model has, {}", letters.size(), f.layers));
  return letters;
}

std::optional<std::string> named_mixers(const ConfigReader& c, const DecoderFamily& family,
                                        const DecoderFeatures& f) {
  if (const auto types = c.value({"layer_types", "layers_block_type"}))
    return letters_by(*types, f, mixer_of);
  if (const auto pattern = c.value("hybrid_layer_pattern"))
    return letters_by(*pattern, f, [](const JsonValue& item) {
      return item.integer(0, 1) == 1 ? mixer::kWindow : mixer::kFull;
    });
  if (const auto linear = c.object("linear_attn_config")) {
    std::string letters(count_of(f), mixer::kFull);
    const JsonValue layers = linear->config().at("kda_layers");
    set_letters(letters, layers, 1, mixer::kDelta);
    return letters;
  }
  if (const auto interval = c.value("full_attention_interval")) {
    const std::int64_t period = period_of(*interval, f);
    return periodic(f, period, period - 1, mixer::kFull, mixer::kDelta);
  }
  if (const auto period = c.value("attn_layer_period"))
    return periodic(f, period_of(*period, f), offset_within(c, "attn_layer_offset", period_of(*period, f)),
                    family.attention_letter, mixer::kSelective);
  if (const auto indices = c.value("attn_layer_indices")) {
    std::string letters(count_of(f), mixer::kStateSpace);
    set_letters(letters, *indices, 0, mixer::kFull);
    return letters;
  }
  if (const auto types = c.value("attention_types")) return letters_of_gpt_neo(*types, f);
  if (const auto types = c.value("attn_type_list")) {
    for (const JsonValue& item : items_of_layers(*types, f)) {
      if (item.integer(0, 1) == 0)
        item.fail("found 0, lightning attention, which can't be expressed; allowed: 1");
    }
  }
  return std::nullopt;
}

// "LLLG": layers that see a window, and those that see all; the last layer sees all (EXAONE 4).
std::string letters_of_pattern(const JsonValue& pattern, const DecoderFeatures& f) {
  const std::string letters = pattern.string();
  if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos)
    pattern.fail(fmt::format("found {}, allowed: letters L and G, or a number of layers", pattern.text()));
  std::string mixers;
  for (std::size_t i = 0; i < count_of(f); ++i)
    mixers += letters[i % letters.size()] == 'L' ? mixer::kWindow : mixer::kFull;
  mixers.back() = mixer::kFull;
  return mixers;
}

// Layers that see a window, where no list names them.
std::string windowed_mixers(const ConfigReader& c, const DecoderFamily& family, const DecoderFeatures& f) {
  const std::string none(count_of(f), mixer::kFull);
  const bool used = c.flag_or({"use_sliding_window"}, true);
  const std::int64_t window = c.size_or({"sliding_window"}, 0);
  if (!used || window == 0) return none;
  const auto given = c.value({"sliding_window_pattern", "_sliding_window_pattern"});
  if (given && given->is_string()) return letters_of_pattern(*given, f);
  const std::int64_t period = given ? period_of(*given, f) : family.window_period;
  // The last layer of each period sees all; with a period of two, all versions let the first one have a
  // window.
  if (period > 0) return periodic(f, period, period - 1, mixer::kFull, mixer::kWindow);
  if (const auto first = c.value("max_window_layers"); first && c.value("use_sliding_window")) {
    std::string letters = none;
    const auto from = static_cast<std::size_t>(first->integer(0, std::int64_t{1} << 20));
    for (std::size_t i = from; i < letters.size(); ++i) letters[i] = mixer::kWindow;
    return letters;
  }
  return family.windows_everywhere ? std::string(count_of(f), mixer::kWindow) : none;
}

// Layers without positions: a list that says 0 for them, or every so many-th.
void leave_positions_out(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f) {
  std::string& letters = f.mixers;
  const auto list = c.value("no_rope_layers");
  const auto interval = c.value("no_rope_layer_interval");
  std::string places(count_of(f), '1');
  if (list && !list->items().empty()) {
    places = letters_by(*list, f, [](const JsonValue& item) { return item.integer(0, 1) == 1 ? '1' : '0'; });
  } else if (interval || family.type == "llama4_text" || family.type == "smollm3") {
    const std::int64_t period = interval ? period_of(*interval, f) : 4;
    places = periodic(f, period, period - 1, '0', '1');
  }
  const bool chunks = c.size_or({"attention_chunk_size"}, 0) > 0 && family.type == "llama4_text";
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if (letters[i] != mixer::kFull && letters[i] != mixer::kChunk) continue;
    if (places[i] == '0') letters[i] = mixer::kUnplaced;
    if (places[i] == '1' && chunks) letters[i] = mixer::kChunk;
    if (letters[i] == mixer::kFull) letters[i] = family.attention_letter;
  }
}

void select_in_layers(const ConfigReader& c, DecoderFeatures& f) {
  if (const auto types = c.value("indexer_types")) {
    f.mixers = letters_by(*types, f, mixer_of);
  } else if (c.value("index_topk")) {
    f.mixers.assign(count_of(f), mixer::kSparse);
  } else if (const auto sparse = c.object("sparse_attention_config")) {
    const JsonValue list = sparse->config().at("sparse_attention_freq");
    f.mixers = letters_by(list, f, [](const JsonValue& item) {
      return item.integer(0, 1) == 1 ? mixer::kSparse : mixer::kFull;
    });
  }
}

// Experts in every so many-th layer from `first` on: the last of each period, or the one numbered `offset`.
std::string experts_by_period(const DecoderFeatures& f, std::int64_t first, std::int64_t period,
                              std::int64_t offset) {
  std::string letters = periodic(f, period, offset, ffn::kExperts, ffn::kDense);
  for (std::int64_t i = 0; i < std::min(first, f.layers); ++i)
    letters[static_cast<std::size_t>(i)] = ffn::kDense;
  return letters;
}

std::string letters_of_feed_forward(const ConfigReader& c, const DecoderFeatures& f) {
  const bool routed =
      c.size_or({"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}, 0) > 1;
  if (!routed) return std::string(count_of(f), ffn::kDense);
  if (c.value("enable_moe_block"))
    return std::string(count_of(f), c.flag_or({"enable_moe_block"}, false) ? ffn::kBoth : ffn::kDense);
  if (const auto types = c.value("mlp_layer_types"))
    return letters_by(*types, f, [](const JsonValue& item) {
      const std::string word = item.string();
      if (word != "dense" && word != "sparse") item.fail("found \"" + word + "\", allowed: dense, sparse");
      return word == "sparse" ? ffn::kExperts : ffn::kDense;
    });
  const std::int64_t first =
      c.size_or({"first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"}, 0);
  if (first > f.layers)
    c.value({"first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"})
        ->fail(fmt::format("found {}, allowed: up to the {} layers", first, f.layers));
  const auto frequency = c.value("moe_layer_freq");
  if (frequency && frequency->is_array())
    return letters_by(*frequency, f, [](const JsonValue& item) {
      return item.integer(0, 1) == 1 ? ffn::kExperts : ffn::kDense;
    });
  if (frequency) return experts_by_period(f, first, period_of(*frequency, f), 0);
  if (const auto layers = c.value("moe_layers"); layers && layers->is_array()) {
    std::string letters(count_of(f), ffn::kDense);
    set_letters(letters, *layers, 0, ffn::kExperts);
    return letters;
  }
  if (const auto step = c.value({"interleave_moe_layer_step", "moe_layer_interval"})) {
    const std::int64_t period = period_of(*step, f);
    return experts_by_period(f, first, period, period - 1);
  }
  if (const auto period = c.value("expert_layer_period"))
    return periodic(f, period_of(*period, f), offset_within(c, "expert_layer_offset", period_of(*period, f)),
                    ffn::kExperts, ffn::kDense);
  const auto step = c.value("decoder_sparse_step");
  const std::int64_t period = step ? period_of(*step, f) : 1;
  std::string letters = experts_by_period(f, first, period, period - 1);
  if (const auto dense = c.value("mlp_only_layers")) set_letters(letters, *dense, 0, ffn::kDense);
  return letters;
}

}  // namespace

void read_layers(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f) {
  if (const auto blocks = c.value("block_configs")) return read_blocks(*blocks, c, f);
  if (const auto pattern = c.value("hybrid_override_pattern")) {
    c.pass_over({"layers_block_type", "layer_types"});
    return read_hybrid_pattern(*pattern, family, f);
  }
  if (const auto words = c.value({"layers_block_type", "layer_types"});
      words && read_hybrid_words(*words, family, f))
    return;
  const std::optional<std::string> named = named_mixers(c, family, f);
  f.mixers = named ? *named : windowed_mixers(c, family, f);
  c.pass_over({"sliding_window_pattern", "_sliding_window_pattern", "max_window_layers", "use_sliding_window",
               "attn_layer_offset", "full_attention_interval"});
  leave_positions_out(c, family, f);
  select_in_layers(c, f);
  f.ffns = letters_of_feed_forward(c, f);
  if (family.type == "mamba" || family.type == "falcon_mamba" || family.type == "mamba2") {
    f.mixers.assign(count_of(f), family.type == "mamba2" ? mixer::kStateSpace : mixer::kSelective);
    f.ffns.assign(count_of(f), ffn::kNone);
  }
}

}  // namespace pipesim
