#include "executor/program/ring_views.h"

#include <algorithm>

#include "models/box.h"
#include "sim/base/errors.h"

namespace pipesim {

RingStages RingViews::stages(const PassOfShard& pass) const {
  const BoundOperator& b = bound(pass);
  return ring_stages(graph_, *b.op, pass.pass, b.config);
}

bool RingViews::gives_gradient(const PassOfShard& pass, std::size_t use) const {
  const Operator& op = *bound(pass).op;
  return rotates(op, op.uses[use]) && graph_.wants_gradient(op.uses[use].tensor);
}

View RingViews::arrived(const PassOfShard& pass, std::int32_t step, std::size_t use) {
  return block(pass, Content::Arrived, step).of_use[use];
}

View RingViews::made(const PassOfShard& pass, std::int32_t stage, std::size_t use) {
  return block(pass, Content::Made, stage).of_use[use];
}

View RingViews::arrived_gradient(const PassOfShard& pass, std::int32_t step, std::size_t use) {
  return block(pass, Content::ArrivedGradient, step).of_use[use];
}

// The stage that works on what is in the buffer; of gradients that come home, on the own block.
std::int32_t RingViews::stage_of(const PassOfShard& pass, Content content, std::int32_t number) const {
  const RingStages stages = this->stages(pass);
  if (content == Content::Own) return 1;
  if (content == Content::Made) return number;
  if (content == Content::Arrived) return stages.stage_of(number);
  const std::int32_t next = stages.stage_of(number) + 1;  // what arrives here was the block before there
  return stages.works(next) ? next : 1;
}

const RingViews::Block& RingViews::block(const PassOfShard& pass, Content content, std::int32_t number) {
  const auto [it, fresh] = blocks_.try_emplace({pass, content, number});
  Block& block = it->second;
  if (!fresh) return block;
  const BoundOperator& b = bound(pass);
  const Operator& op = *b.op;
  const bool gradients = content == Content::Made || content == Content::ArrivedGradient;
  std::vector<Range> ranges;
  ShardGrid(op, b.config).block_ranges(pass.at.shard, stage_of(pass, content, number) - 1, ranges);
  std::vector<std::pair<std::size_t, Box>> parts;
  std::int64_t elements = 0;
  std::optional<DataType> type;
  for (std::size_t u = 0; u < op.uses.size(); ++u) {
    if (!rotates(op, op.uses[u]) || (gradients && !gives_gradient(pass, u))) continue;
    const DataType here = graph_.tensor(op.uses[u].tensor).type;
    if (type && *type != here)
      throw InputError("operator \"" + op.name +
                       "\" has keys and values of different types, which can't pass round a ring together");
    type = here;
    parts.emplace_back(u, box_of(op.uses[u], op, ranges));
    elements += parts.back().second.elements();
  }
  block.of_use.resize(op.uses.size());
  if (!type) return block;
  const Range whole{0, elements};
  block.all = views_.buffers().add(views_.device_of(pass.op, pass.at), Box(std::span(&whole, 1)), *type,
                                   Buffer::Life::Uses, MemoryCategory::Transfers, {});
  std::int64_t offset = 0;
  for (const auto& [u, box] : parts) {
    block.of_use[u] = {block.all.buffer, offset, box};
    offset += box.elements();
  }
  return block;
}

RingViews::Message RingViews::message(const PassOfShard& pass, const InnerExchange& exchange,
                                      DeviceId device) {
  const bool sends = device == exchange.task.group.front();
  const bool keys = exchange.content == InnerExchange::Content::KeyBlock;
  const RingStages stages = this->stages(pass);
  const std::int32_t step = exchange.step, first = keys ? 0 : stages.key_steps();
  Message out;
  View all;
  if (!sends) {
    all = block(pass, keys ? Content::Arrived : Content::ArrivedGradient, step).all;
  } else if (!keys) {
    const Block& made = block(pass, Content::Made, stages.stage_of(step));
    all = made.all;
    for (std::size_t u = 0; step > first && u < made.of_use.size(); ++u) {
      const View& to = made.of_use[u];
      if (to.present()) out.before.moves.push_back({arrived_gradient(pass, step - 1, u), to, to.box, true});
    }
  } else if (step > first) {
    all = block(pass, Content::Arrived, step - 1).all;
  } else {
    const Block& own = block(pass, Content::Own, 0);
    all = own.all;
    for (std::size_t u = 0; u < own.of_use.size(); ++u) {
      const View& to = own.of_use[u];
      if (!to.present()) continue;
      const View from = views_.value({pass.op, static_cast<std::int32_t>(u)}, pass.at).view;
      out.before.moves.push_back({from, to, to.box, false});
    }
  }
  CommunicationWork& work = out.work;
  work.kind = Collective::Send;
  work.group = exchange.task.group;
  work.rank = sends ? 0 : 1;
  work.type = views_.buffers()[all.buffer].type;
  work.block = all.box.elements();
  work.part = {0, work.block};
  (sends ? work.give : work.get) = all;
  return out;
}

}  // namespace pipesim
