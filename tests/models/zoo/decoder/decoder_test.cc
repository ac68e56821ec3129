#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <string>

#include "models/zoo/zoo.h"
#include "tests/models/zoo/measures.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

using testing::HasSubstr;

std::int64_t decoder_parameters(const std::string& options) {
  return make_zoo_model("decoder:" + options).parameter_count();
}

TEST(Decoder, IsLlamaWhereNothingElseIsAsked) {
  const OperatorGraph decoder = make_zoo_model("decoder"), llama = make_zoo_model("llama:kv_heads=32");
  ASSERT_EQ(decoder.operators().size(), llama.operators().size());
  for (std::size_t i = 0; i < llama.operators().size(); ++i) {
    EXPECT_EQ(decoder.operators()[i].name, llama.operators()[i].name);
    EXPECT_EQ(decoder.operators()[i].attributes, llama.operators()[i].attributes);
  }
  EXPECT_EQ(decoder.parameter_count(), 6'738'415'616);
}

TEST(Decoder, IsDeepseekWithItsLatentsAndExperts) {
  EXPECT_EQ(decoder_parameters("layers=61,hidden=7168,heads=128,head_width=128,value_width=128,"
                               "latent_of_keys=512,latent_of_queries=1536,latent_rotary_width=64,ffns=D3E58,"
                               "ffn=18432,expert_ffn=2048,shared_ffn=2048,experts=256,top_k=8,router=sigmoid,"
                               "vocab=129280"),
            make_zoo_model("deepseek-v3").parameter_count());
}

// Each layer has the operators of its letters, and only layers of one kind share names.
TEST(Decoder, HasTheLayersOfItsLetters) {
  const OperatorGraph graph = make_zoo_model(
      "decoder:layers=6,hidden=64,heads=4,ffn=96,vocab=100,mixers=(WF-)2,window=16,window_kv_heads=2,"
      "ffns=DEa,further_ffns=48,experts=4,top_k=2,expert_ffn=32");
  EXPECT_EQ(count_kind(graph, "attention"), 4);
  EXPECT_EQ(count_kind(graph, "moe_dispatch"), 2);
  std::set<std::string> names;
  for (const Operator& op : graph.operators()) names.insert(op.name);
  for (const char* name : {"layer1.window_query", "layer1.dense_gate", "layer2.query", "layer2.dispatch",
                           "layer3.a_gate", "layer6.a_down"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_FALSE(names.contains("layer3.query"));
  // Repeats of one another are alike.
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const Operator& op : graph.operators()) {
    if (op.repeat.empty()) continue;
    const std::vector<std::int64_t>& shape = graph.tensor(op.uses.back().tensor).shape;
    EXPECT_EQ(shapes.emplace(op.repeat, shape).first->second, shape) << op.name;
  }
}

TEST(Decoder, CountsWhatEachFeatureAdds) {
  const std::string base = "layers=1,hidden=64,heads=4,ffn=96,vocab=100";
  const auto more = [&](const std::string& options) {
    return decoder_parameters(base + "," + options) - decoder_parameters(base);
  };
  EXPECT_EQ(more("head_norm=each"), 2 * 16);
  EXPECT_EQ(more("head_norm=all"), 2 * 64);
  EXPECT_EQ(more("attention_gate=element"), 64 * 64);
  EXPECT_EQ(more("attention_gate=head"), 64 * 4);
  EXPECT_EQ(more("norms=both"), 2 * 64);
  EXPECT_EQ(more("norms=after"), 0);
  EXPECT_EQ(more("residual=parallel"), -64);
  EXPECT_EQ(more("residual=parallel-two-norms"), 0);
  EXPECT_EQ(more("norm=layer"), 3 * 64);
  EXPECT_EQ(more("attention_bias=all,ffn_bias=yes"), 4 * 64 + 2 * 96 + 64);
  EXPECT_EQ(more("gated=no"), -64 * 96);
  EXPECT_EQ(more("values=keys"), -64 * 64);
  EXPECT_EQ(more("position=learned,positions=2048"), 2048 * 64);
  EXPECT_EQ(more("projection_bias=yes,embedding_norm=yes"), 100 + 64);
  EXPECT_EQ(more("mixers=-"), -4 * 64 * 64 - 64);
  EXPECT_EQ(more("mixers=N"), -3 * 64 * 64);
  EXPECT_EQ(more("ffns=-"), -3 * 64 * 96 - 64);
  // A router and two experts of two products each, in a latent of 32; and the shared one, which has none.
  EXPECT_EQ(
      more("gated=no,ffns=E,experts=2,top_k=1,expert_ffn=40,expert_latent=32,shared_ffn=48") - more("ffns=-"),
      64 + 2 * 64 + 2 * 2 * 32 * 40 + 2 * 64 * 32 + 2 * 64 * 48);
  EXPECT_EQ(more("sinks=all"), 4);
  // Patches, one layer, and the merger of four.
  EXPECT_EQ(more("vision_words=8,vision_layers=1,vision_hidden=32,vision_heads=2,vision_ffn=48,"
                 "vision_patch_values=12,vision_positions=64"),
            (12 * 32 + 32) + 64 * 32 + 4 * (32 * 32 + 32) + 2 * (2 * 32) + (2 * 32 * 48 + 48 + 32) + 2 * 32 +
                (128 * 128 + 128) + (128 * 64 + 64));
}

TEST(Decoder, CountsScans) {
  const std::string base = "layers=1,hidden=64,heads=4,ffn=96,vocab=100,mixers=";
  const auto mixer = [&](const std::string& options) {
    return decoder_parameters(base + options) - decoder_parameters(base + "-") - 64;
  };
  // Products, convolutions of four taps, a and the bias of steps of each head, a norm of each head.
  EXPECT_EQ(mixer("D,delta_key_heads=2,delta_value_heads=4,delta_key_width=8,delta_value_width=16"),
            64 * (2 * 16 + 64 + 64 + 4 + 4) + 4 * (2 * 16 + 64) + 2 * 4 + 16 + 64 * 64);
  // Decays by channel through a latent, and the gate through one.
  EXPECT_EQ(mixer("D,delta_key_heads=2,delta_value_heads=2,delta_key_width=8,delta_value_width=8,"
                  "delta_decay=channel,delta_decay_latent=8,delta_gate_latent=8"),
            64 * (3 * 16 + 2) + 2 * (64 * 8 + 8 * 16) + 4 * 3 * 16 + 2 + 16 + 8 + 16 * 64);
  EXPECT_EQ(mixer("M,ssm_heads=8,ssm_head_width=16,ssm_groups=2,ssm_states=8"),
            64 * (2 * 128 + 2 * 16 + 8) + 5 * (128 + 2 * 16) + 3 * 8 + 128 + 128 * 64);
  EXPECT_EQ(mixer("V,ssm_heads=1,ssm_head_width=128,ssm_states=8,ssm_rank=4"),
            64 * 256 + 5 * 128 + 128 * (4 + 16) + (4 * 128 + 128) + 128 * 8 + 128 + 128 * 64);
}

TEST(Decoder, SelectsKeysByWeightsThatAreFrozen) {
  const std::string sizes =
      "layers=4,hidden=64,heads=4,ffn=96,vocab=100,sequence=32,mixers=SR3,index_heads=2,index_width=8,"
      "index_keys=16";
  const OperatorGraph graph = make_zoo_model("decoder:" + sizes);
  EXPECT_EQ(count_kind(graph, "select_keys"), 1);
  EXPECT_EQ(count_kind(graph, "selected_attention"), 4);
  EXPECT_EQ(graph.frozen_parameter_count(), 64 * 16 + 64 * 8 + 2 * 8 + 64 * 2);
}

TEST(Decoder, PredictsFurtherTokensWithItsOwnProjection) {
  const std::string base = "layers=2,hidden=64,heads=4,ffn=96,vocab=100";
  for (const char* projection : {"tied", "untied"}) {
    const std::string text = fmt::format("{},projection={}", base, projection);
    // A layer like the others, the product that merges, and three norms.
    EXPECT_EQ(decoder_parameters(text + ",further_tokens=1") - decoder_parameters(text),
              4 * 64 * 64 + 3 * 64 * 96 + 2 * 64 + 128 * 64 + 3 * 64);
  }
}

TEST(Decoder, SaysWhichOptionsContradict) {
  const auto message = [](const std::string& options) {
    return refusal([&] { (void)make_zoo_model("decoder:" + options); });
  };
  EXPECT_THAT(message("layers=4,mixers=W3"),
              HasSubstr("mixers: pattern \"W3\" has 3 layers, allowed: a divisor "));
  EXPECT_THAT(message("mixers=X"), HasSubstr("mixers: pattern \"X\" at character 1"));
  EXPECT_THAT(message("mixers=F;W"), HasSubstr("mixers must be letters, digits"));
  EXPECT_THAT(message("ffns=ab,further_ffns=64"),
              HasSubstr("ffns has 'b', allowed: letters of the 1 widths"));
  EXPECT_THAT(message("ffns=a,further_ffns=64+0"), HasSubstr("further_ffns=64+0 has a part of width 0"));
  EXPECT_THAT(message("mixers=RS"), HasSubstr("mixers has R before any S"));
  EXPECT_THAT(message("latent_of_keys=512,head_width=128,attention_bias=qkv"),
              HasSubstr("leave out attention_bias"));
  EXPECT_THAT(message("mixers=S,document_length=64"),
              HasSubstr("document_length needs layers without S and R"));
  EXPECT_THAT(message("residual=parallel,norms=both"), HasSubstr("residual=parallel needs norms=before"));
  EXPECT_THAT(message("heads=32,mixers=W,window_kv_heads=5"),
              HasSubstr("window_kv_heads=5 does not divide window_heads=32"));
  EXPECT_THAT(message("kv_heads=5"), HasSubstr("kv_heads=5 does not divide heads=32"));
  EXPECT_THAT(message("mixers=C,chunk=100,document_length=64"), HasSubstr("one must divide the other"));
  EXPECT_THAT(message("mixers=D,delta_key_heads=3"),
              HasSubstr("delta_key_heads=3 does not divide delta_value_heads=32"));
  EXPECT_THAT(message("mixers=M,ssm_groups=3"), HasSubstr("ssm_groups=3 does not divide ssm_heads=64"));
  EXPECT_THAT(message("logit_cap=30,loss_chunks=4"), HasSubstr("logit_cap needs loss_chunks=0"));
  EXPECT_THAT(message("sequence=64,vision_words=64"), HasSubstr("leaves no word of sequence=64"));
  EXPECT_THAT(message("ffns=E,experts=2,top_k=3"), HasSubstr("top_k=3 is more than experts=2"));
}

// An option that no letter of the patterns uses would be a mistake that nobody sees.
TEST(Decoder, RefusesOptionsThatNoLayerUses) {
  const auto message = [](const std::string& options) {
    return refusal([&] { (void)make_zoo_model("decoder:" + options); });
  };
  EXPECT_EQ(message("ssm_rank=8,mixers=(MF)16"),
            "model \"decoder:mixers=(MF)16,ssm_rank=8\": ssm_rank=8 has no effect: no layer of "
            "mixers=(MF)16 uses it, allowed with one of V");
  const auto used_with = [&](const std::string& options, const std::string& letters) {
    EXPECT_THAT(message(options), testing::EndsWith("uses it, allowed with one of " + letters)) << options;
  };
  used_with("window=64", "W");
  used_with("mixers=W,window=64,chunk=64", "C");
  used_with("index_keys=64", "S");
  used_with("delta_kernel=3", "D");
  used_with("ssm_heads=8", "M, V");
  used_with("mixers=V,ssm_groups=2", "M");
  used_with("mixers=V,head_norm=each", "F, W, C, G, S, R");
  used_with("mixers=W,window=64,values=keys", "F, C, G, S, R");
  used_with("experts=16", "E, B");
  used_with("further_ffns=64", "a to z");
  used_with("ffns=N,activation=gelu", "D, E, B, a to z");
  // A model that is cut short keeps the options of the layers that it lost.
  const std::string cut = "hidden=64,heads=4,ffn=96,vocab=100,ffns=D3E5,experts=4,expert_ffn=32,layers=";
  EXPECT_EQ(decoder_parameters(cut + "2"), decoder_parameters("hidden=64,heads=4,ffn=96,vocab=100,layers=2"));
}

}  // namespace
}  // namespace pipesim
