#pragma once

#include <vector>

#include "models/zoo/zoo.h"

namespace pipesim {

/// The families that zoo_models() is made of, one per source file.
std::vector<ZooModel> plain_models();      ///< mlp, lenet, alexnet, vgg16, vgg19
std::vector<ZooModel> resnet_models();     ///< resnet50, 101, 152, wide-resnet50-2, wide-resnet101-2
std::vector<ZooModel> inception_models();  ///< inception-v3
std::vector<ZooModel> densenet_models();   ///< densenet121
std::vector<ZooModel> amoebanet_models();  ///< amoebanet36
std::vector<ZooModel> recurrent_models();  ///< rnntc, rnnlm, nmt
std::vector<ZooModel> gnmt_models();       ///< gnmt8, gnmt16
std::vector<ZooModel> bert_models();       ///< bert-base, bert-large, bert48
std::vector<ZooModel> xlnet_models();      ///< xlnet36
std::vector<ZooModel> t5_models();         ///< t5-base, t5-large, t5-3b, t5-11b
std::vector<ZooModel> whisper_models();    ///< whisper-base, whisper-large
std::vector<ZooModel> gpt_models();        ///< gpt, gpt2, gpt3-125m … gpt3-175b, bloom-176b
std::vector<ZooModel> llama_models();      ///< llama, llama3-8b, 70b, 405b, qwen3-8b
std::vector<ZooModel> experts_models();    ///< mixtral-8x7b, 8x22b, qwen3-235b
std::vector<ZooModel> deepseek_models();   ///< deepseek-v3
std::vector<ZooModel> decoder_models();    ///< decoder
std::vector<ZooModel> mamba_models();      ///< mamba-130m … mamba-2.8b
std::vector<ZooModel> vision_models();     ///< vit-ti16, s16, b16, l16, h14
std::vector<ZooModel> swin_models();       ///< swin-t, s, b, l
std::vector<ZooModel> stitched_models();   ///< snnet
std::vector<ZooModel> unet_models();       ///< unet-sd15, unet-sdxl
std::vector<ZooModel> dit_models();        ///< dit-xl
std::vector<ZooModel> dlrm_models();       ///< dlrm

}  // namespace pipesim
