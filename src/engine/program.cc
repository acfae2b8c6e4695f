#include "engine/program.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/pages.h"
#include "base/run_scope.h"
#include "engine/profile.h"
#include "engine/shared_caches.h"
#include "ops/evaluate.h"
#include "tensor/copy.h"

namespace ferry {
namespace {

class BodyRunner final : public Subgraph {
 public:
  BodyRunner(const BodyPlan& body, const Program& program, const Graph& graph, const Frame& outer,
             const RunServices& services, Profile* profile)
      : body_(body), program_(program), graph_(graph), outer_(outer), services_(services), profile_(profile) {}

  size_t input_count() const override { return graph_.inputs.size(); }
  size_t output_count() const override { return graph_.outputs.size(); }

  std::vector<Value> Run(std::span<const Value> inputs) override {
    Require(inputs.size() <= graph_.inputs.size(), "body '", Printable(graph_.name), "' takes ", graph_.inputs.size(),
            " inputs, got ", inputs.size());
    std::vector<Value> all(inputs.begin(), inputs.end());
    all.resize(graph_.inputs.size());
    for (int slot : body_.captured_slots) all.push_back(outer_.values[static_cast<size_t>(slot)]);
    return program_.Run(all, services_, {.profile = profile_});
  }

 private:
  const BodyPlan& body_;
  const Program& program_;
  const Graph& graph_;
  const Frame& outer_;
  const RunServices& services_;
  Profile* profile_;
};

constexpr size_t kMostIdleFrames = 64;

[[noreturn]] void FailAtNode(const Error& error, const Node& node, std::span<const Value* const> inputs) {
  throw Error(error.code(), Cat(Describe(node), ": ", error.message(), " [inputs: ", DescribeInputs(inputs), "]"));
}

bool Overlaps(const Tensor& place, std::span<const Value> inputs) {
  for (const Value& input : inputs) {
    if (!input.is_tensor()) continue;
    const Tensor& tensor = input.tensor();
    if (&tensor.space() == &place.space() && tensor.address() < place.address() + place.bytes() &&
        place.address() < tensor.address() + tensor.bytes())
      return true;
  }
  return false;
}

Value RowsTogether(const Tensor& tensor, int64_t stride) {
  Tensor dense(tensor.dtype(), tensor.shape());
  const size_t rows = static_cast<size_t>(dense.size() / dense.shape().back()), width = dense.bytes() / rows;
  const size_t step = width / static_cast<size_t>(dense.shape().back()) * static_cast<size_t>(stride);
  for (size_t i = 0; i < rows; ++i) std::memcpy(dense.mutable_raw() + i * width, tensor.raw() + i * step, width);
  return dense;
}

// A value of the arena as the plan has it.
Tensor PlannedTensor(const Slot& slot, const Frame& frame) {
  return Tensor(slot.dtype, *slot.shape, frame.arenas[slot.arena].view, slot.offset);
}

// Memory for a result. What the caller has let go of is used again: new pages take longer than filling them.
Tensor MakeResult(const Slot& slot, std::shared_ptr<Buffer>& given) {
  constexpr size_t kWorthKeeping = 64 << 10, kTooMuch = 64 << 20;
  if (given && given.use_count() == 1) {
    std::shared_ptr<Buffer>(given).reset();  // counts up and down: what was done before the caller let go is done
    given->ChargeTo(RunScope::CurrentAccount());
    return Tensor(slot.dtype, *slot.shape, given);
  }
  Tensor made(slot.dtype, *slot.shape);
  given = made.bytes() >= kWorthKeeping && made.bytes() <= kTooMuch ? made.buffer() : nullptr;
  return made;
}

}  // namespace

Program::Program(std::shared_ptr<const Plan> plan, std::vector<StepKernels> kernels)
    : plan_(std::move(plan)), cache_inputs_(SharedCacheInputs(*plan_)) {
  for (size_t i = 0; i < plan_->steps.size(); ++i) {
    const StepPlan& step = plan_->steps[i];
    Runner& runner = runners_.emplace_back();
    runner.kernel = std::move(kernels[i].kernel);
    if (!runner.kernel && !step.chain)
      Fail(ErrorCode::kInternal, Describe(*step.node), ": it was planned for another place and cannot run here");
    if (runner.kernel) runner.kernel->SetRows(step.rows);
    for (size_t j = 0; j < step.bodies.size(); ++j)
      runner.bodies.push_back(std::make_unique<Program>(step.bodies[j].plan, std::move(kernels[i].bodies[j])));
    if (step.chain) runner.chain = std::make_unique<Program>(step.chain, std::move(kernels[i].chain));
  }
  result_of_source_.assign(plan_->slots.size(), -1);
  for (size_t i = 0; i < plan_->results.size(); ++i) {
    const auto copy = std::find_if(plan_->steps.begin(), plan_->steps.end(), [&](const StepPlan& step) {
      return step.is_copy && step.outputs[0] == plan_->results[i];
    });
    copied_results_.push_back(copy != plan_->steps.end());
    const int source = copy == plan_->steps.end() ? -1 : copy->inputs[0];
    const bool alone = source >= 0 && plan_->slots[static_cast<size_t>(source)].is_alone &&
                       result_of_source_[static_cast<size_t>(source)] < 0;
    sources_.push_back(alone ? source : -1);
    if (alone) result_of_source_[static_cast<size_t>(source)] = static_cast<int>(i);
  }
  FindSegments();
}

// Everything it makes has a place in an arena, and what it reads on the host is known beforehand.
bool Program::IsRecordable(const StepPlan& step) const {
  if (!step.kernel.is_recordable || !step.bodies.empty() || step.chain || step.is_view || step.is_copy) return false;
  auto place_of = [&](int slot) { return plan_->slots[static_cast<size_t>(slot)].place; };
  for (int slot : step.outputs)
    if (slot >= 0 && place_of(slot) != Slot::Place::kArena) return false;
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (step.inputs[i] >= 0 && Includes(step.kernel.reads_on_host, i) &&
        place_of(step.inputs[i]) != Slot::Place::kConstant)
      return false;
  return true;
}

void Program::FindSegments() {
  const std::vector<StepPlan>& steps = plan_->steps;
  for (size_t i = 0; i < steps.size();) {
    Segment segment{i, i, steps[i].provider, {}};
    for (; segment.last < steps.size() && steps[segment.last].provider == segment.provider; ++segment.last) {
      const StepPlan& step = steps[segment.last];
      if (!IsRecordable(step)) break;
      for (const std::vector<int>* slots : {&step.inputs, &step.outputs})
        for (int slot : *slots) {
          if (slot < 0) continue;
          const Slot::Place place = plan_->slots[static_cast<size_t>(slot)].place;
          const bool moves = place != Slot::Place::kArena && place != Slot::Place::kConstant;
          if (moves || result_of_source_[static_cast<size_t>(slot)] >= 0) segment.outer.push_back(slot);
        }
    }
    i = std::max(i + 1, segment.last);
    if (segment.last - segment.first >= 2) segments_.push_back(std::move(segment));
  }
}

// The first run with these addresses does what is done once; the second one is recorded, and those after it play that.
bool Program::Replays(size_t segment, Frame& frame, const RunServices& services, const RunExtras& extras) const {
  const Segment& steps = segments_[segment];
  Frame::Recorded& recorded = frame.recorded[segment];
  if (extras.profile || extras.watch || recorded.is_refused) return false;
  std::vector<const std::byte*> addresses;
  for (int slot : steps.outer) {
    const Value& value = frame.values[static_cast<size_t>(slot)];
    addresses.push_back(value.is_tensor() ? value.tensor().address() : nullptr);
  }
  const bool are_same = recorded.addresses == addresses;
  if (!are_same) {
    recorded.addresses = std::move(addresses);
    recorded.recording = nullptr;
    return false;
  }
  CheckRun();
  if (!recorded.recording)
    recorded.recording = steps.provider->Record([&] {
      for (size_t i = steps.first; i < steps.last; ++i) RunStep(i, frame, services, {});
    });
  recorded.is_refused = !recorded.recording;
  if (recorded.recording) recorded.recording->Replay();
  return !recorded.is_refused;
}

std::unique_ptr<Frame> Program::MakeFrame() const {
  auto frame = std::make_unique<Frame>();
  frame->values.resize(plan_->slots.size());
  frame->given.resize(plan_->results.size());
  frame->homes.resize(plan_->results.size());
  frame->recorded.resize(segments_.size());
  for (const ArenaPlan& arena : plan_->arenas) {
    std::shared_ptr<Buffer> memory = Buffer::Allocate(arena.bytes, *arena.space);
    if (arena.space == &HostMemory()) TakePages(memory->data(), arena.bytes);
    frame->arenas.push_back({memory, Buffer::Arena(memory->data(), arena.bytes, *arena.space)});
  }
  for (size_t i = 0; i < plan_->slots.size(); ++i) {
    const Slot& slot = plan_->slots[i];
    if (slot.place == Slot::Place::kConstant)
      frame->values[i] = slot.constant;
    else if (slot.place == Slot::Place::kArena)
      frame->values[i] = PlannedTensor(slot, *frame);
  }
  auto value_at = [&](int slot) { return slot < 0 ? nullptr : &frame->values[static_cast<size_t>(slot)]; };
  for (const StepPlan& step : plan_->steps) {
    auto& inputs = frame->inputs.emplace_back();
    auto& outputs = frame->outputs.emplace_back();
    for (int slot : step.inputs) inputs.push_back(value_at(slot));
    for (int slot : step.outputs) outputs.push_back(value_at(slot));
  }
  return frame;
}

Program::~Program() { delete spare_frame_.load(std::memory_order_acquire); }

std::unique_ptr<Frame> Program::TakeIdleFrame() const {
  if (Frame* spare = spare_frame_.exchange(nullptr, std::memory_order_acq_rel)) return std::unique_ptr<Frame>(spare);
  std::lock_guard lock(frames_mutex_);
  if (idle_frames_.empty()) return nullptr;
  std::unique_ptr<Frame> frame = std::move(idle_frames_.back());
  idle_frames_.pop_back();
  return frame;
}

std::unique_ptr<Frame> Program::TakeFrame() const {
  try {
    std::unique_ptr<Frame> frame = TakeIdleFrame();
    if (!frame) return MakeFrame();
    for (Frame::Arena& arena : frame->arenas) arena.memory->ChargeTo(RunScope::CurrentAccount());
    return frame;
  } catch (Error& error) {
    throw error.At("the arena for values between steps");
  }
}

void Program::GiveBack(std::unique_ptr<Frame> frame) const {
  for (Frame::Arena& arena : frame->arenas) arena.memory->ChargeTo(nullptr);
  Frame* none = nullptr;
  if (spare_frame_.compare_exchange_strong(none, frame.get(), std::memory_order_acq_rel)) {
    static_cast<void>(frame.release());
    return;
  }
  std::lock_guard lock(frames_mutex_);
  if (idle_frames_.size() < kMostIdleFrames) idle_frames_.push_back(std::move(frame));
}

void Program::BindInputs(Frame& frame, std::span<const Value> inputs) const {
  for (size_t i = 0; i < inputs.size() && i < plan_->inputs.size(); ++i)
    if (plan_->inputs[i] >= 0) frame.values[static_cast<size_t>(plan_->inputs[i])] = inputs[i];
}

std::vector<Tensor> Program::BindResults(Frame& frame, std::span<const Value> inputs, const RunExtras& extras) const {
  const PlaceResult* const place = extras.place;
  std::vector<Tensor> placed(place ? plan_->results.size() : 0);
  for (size_t i = 0; i < plan_->results.size(); ++i) {
    const Slot& slot = plan_->slots[static_cast<size_t>(plan_->results[i])];
    if (slot.place != Slot::Place::kResult) continue;
    if (!slot.shape) {
      if (i < extras.homes.size() && extras.homes[i].defined())
        frame.values[static_cast<size_t>(plan_->results[i])] = extras.homes[i];
      continue;
    }
    if (place && slot.dtype != DType::kString) placed[i] = (*place)(i, slot.dtype, *slot.shape);
    // Memory that an input lies in is written only when nobody reads the input any more.
    bool usable = place && placed[i].defined() && (placed[i].on_host() || copied_results_[i]) &&
                  (!Overlaps(placed[i], inputs) || IsSharedCache(placed[i], inputs, cache_inputs_[i]));
    frame.values[static_cast<size_t>(plan_->results[i])] = usable ? placed[i] : MakeResult(slot, frame.given[i]);
    BindSource(i, usable ? placed[i] : Tensor(), frame);
  }
  return placed;
}

void Program::BindSource(size_t result, const Tensor& placed, Frame& frame) const {
  if (sources_[result] < 0) return;
  const Slot& slot = plan_->slots[static_cast<size_t>(sources_[result])];
  const bool fits = placed.defined() && &placed.space() == slot.space && placed.dtype() == slot.dtype &&
                    placed.shape() == *slot.shape;
  frame.homes[result] = fits ? placed : Tensor();
  frame.values[static_cast<size_t>(sources_[result])] = PlaceOf(sources_[result], frame);
}

Tensor Program::PlaceOf(int slot, const Frame& frame) const {
  const int result = result_of_source_[static_cast<size_t>(slot)];
  if (result >= 0 && frame.homes[static_cast<size_t>(result)].defined())
    return frame.homes[static_cast<size_t>(result)];
  return PlannedTensor(plan_->slots[static_cast<size_t>(slot)], frame);
}

void Program::Show(const StepPlan& step, const Frame& frame, const RunExtras& extras) const {
  if (!extras.watch || step.is_copy) return;
  for (int index : step.outputs) {
    if (index < 0) continue;
    const Slot& slot = plan_->slots[static_cast<size_t>(index)];
    const Value& value = frame.values[static_cast<size_t>(index)];
    const bool apart = slot.row_stride > 0 && value.is_tensor() && value.tensor().shape() == *slot.shape;
    if (value.is_tensor() && !value.tensor().on_host())
      (*extras.watch)(slot.name, value.tensor().In(HostMemory()));
    else
      (*extras.watch)(slot.name, apart ? RowsTogether(value.tensor(), slot.row_stride) : value);
  }
}

void Program::RunStep(size_t index, Frame& frame, const RunServices& services, const RunExtras& extras) const {
  const StepPlan& step = plan_->steps[index];
  const Runner& runner = runners_[index];
  Profile* const profile = extras.profile;
  if (step.chain) {
    RunChain(index, frame, services, profile);
    return Show(step, frame, extras);
  }
  std::vector<BodyRunner> runners;
  std::vector<Subgraph*> bodies;
  if (!step.bodies.empty()) {
    runners.reserve(step.bodies.size());
    for (const Attribute& attribute : step.node->attributes)
      if (auto* graph = std::get_if<std::shared_ptr<Graph>>(&attribute.held))
        runners.emplace_back(step.bodies[runners.size()], *runner.bodies[runners.size()], **graph, frame, services,
                             profile);
    for (BodyRunner& body : runners) bodies.push_back(&body);
  }
  OpContext context(*step.node, frame.inputs[index], frame.outputs[index], services, bodies, runner.state.get(),
                    *step.space);
  Profile::Clock::time_point begin = profile ? Profile::Clock::now() : Profile::Clock::time_point();
  try {
    CheckRun();
    runner.kernel->Run(context);
    if (RunScope::IsCounted()) SettleText(frame.outputs[index]);
  } catch (const Error& error) {
    FailAtNode(error, *step.node, frame.inputs[index]);
  } catch (const std::bad_alloc&) {
    FailAtNode(Error(ErrorCode::kLimit, "no memory is left"), *step.node, frame.inputs[index]);
  }
  KeepInPlace(step, frame);
  // So that a step's time is its own and not that of whoever waits for it.
  if (profile && step.kernel.is_recordable) step.space->CopyToHost(nullptr, nullptr, 0);
  if (profile) profile->AddStep(*step.node, frame.inputs[index], frame.outputs[index], {begin, Profile::Clock::now()});
  Show(step, frame, extras);
  for (int slot : step.release) frame.values[static_cast<size_t>(slot)] = Value();
}

void Program::RunChain(size_t index, Frame& frame, const RunServices& services, Profile* profile) const {
  const StepPlan& step = plan_->steps[index];
  const int64_t turns = frame.inputs[index][0]->tensor().dim(0) / step.chain_images;
  auto part = [&](const Value& value, int64_t turn) {
    return value.tensor().Rows(turn * step.chain_images, step.chain_images);
  };
  auto run = [&](int64_t turn, const RunServices& inside) {
    std::vector<Value> inputs;
    for (const Value* input : frame.inputs[index]) inputs.push_back(part(*input, turn));
    PlaceResult place = [&](size_t result, DType dtype, const Shape& shape) {
      Tensor home = part(*frame.outputs[index][result], turn);
      return Tensor::Borrow(dtype, shape, home.raw(), home.buffer());
    };
    runners_[index].chain->Run(inputs, inside, {profile, &place});
  };
  // Threads with as many images each never wait for one another; else they share every loop.
  const bool shared_out = services.pool && turns % services.pool->threads() == 0;
  if (!shared_out) {
    for (int64_t turn = 0; turn < turns; ++turn) run(turn, services);
    return;
  }
  RunServices alone = services;
  alone.pool = nullptr;
  services.pool->ParallelFor(turns, 1, [&](int64_t begin, int64_t end) {
    for (int64_t turn = begin; turn < end; ++turn) run(turn, alone);
  });
}

// Kernels may answer with a tensor they were given instead of filling the place planned for it. Arena memory is used
// again by other values, so such an answer is moved to where the plan, or at least its lifetime, says.
void Program::KeepInPlace(const StepPlan& step, Frame& frame) const {
  for (int index : step.outputs) {
    if (index < 0) continue;
    const Slot& slot = plan_->slots[static_cast<size_t>(index)];
    Value& value = frame.values[static_cast<size_t>(index)];
    if (slot.place != Slot::Place::kArena) {
      bool may_outlive = !step.is_view && value.is_tensor() && value.tensor().buffer()->is_arena();
      if (may_outlive) value = value.Persistent();
      continue;
    }
    const bool moves = result_of_source_[static_cast<size_t>(index)] >= 0;
    const std::byte* planned =
        moves ? PlaceOf(index, frame).address() : frame.arenas[slot.arena].memory->data() + slot.offset;
    if (value.is_tensor() && value.tensor().address() == planned) continue;
    if (value.is_tensor() && value.tensor().dtype() == slot.dtype && value.tensor().shape() == *slot.shape) {
      Tensor tensor = PlaceOf(index, frame);
      CopyBytes(value.tensor(), tensor);
      value = std::move(tensor);
    } else {
      value = value.Persistent();
      frame.reusable = false;
    }
  }
}

std::vector<Value> Program::CollectResults(Frame& frame, std::vector<Tensor> placed, const PlaceResult* place) const {
  std::vector<Value> results;
  for (size_t i = 0; i < plan_->results.size(); ++i) {
    const Slot& slot = plan_->slots[static_cast<size_t>(plan_->results[i])];
    const Value& value = frame.values[static_cast<size_t>(plan_->results[i])];
    if (!value.present()) Fail(ErrorCode::kInternal, "output '", Printable(slot.name), "' was not made");
    if (place && value.is_tensor() && value.tensor().dtype() != DType::kString) {
      const Tensor& made = value.tensor();
      Tensor& home = placed[i];
      bool fits = home.defined() && home.dtype() == made.dtype() && home.shape() == made.shape();
      if (!fits) home = (*place)(i, made.dtype(), made.shape());
      if (home.defined()) {
        if (home.address() != made.address() || &home.space() != &made.space()) CopyBytes(made, home);
        results.push_back(home);
        continue;
      }
    }
    // A result that is another name for an input or a weight must not change when its owner's memory does.
    bool shares = value.is_tensor() && (slot.place != Slot::Place::kResult || value.tensor().buffer()->is_borrowed());
    results.push_back(shares ? Value(value.tensor().Clone()) : value);
  }
  return results;
}

std::vector<Value> Program::Run(std::span<const Value> inputs, const RunServices& services,
                                const RunExtras& extras) const {
  std::unique_ptr<Frame> frame = TakeFrame();
  BindInputs(*frame, inputs);
  std::vector<Tensor> placed = BindResults(*frame, inputs, extras);
  // A frame whose run fails is thrown away with whatever is half-written in it.
  auto segment = segments_.begin();
  for (size_t i = 0; i < plan_->steps.size();) {
    const bool begins = segment != segments_.end() && segment->first == i;
    const size_t last = begins ? segment->last : i + 1;
    const bool replayed = begins && Replays(static_cast<size_t>(segment - segments_.begin()), *frame, services, extras);
    if (begins) ++segment;
    for (; !replayed && i < last; ++i) RunStep(i, *frame, services, extras);
    i = last;
  }
  std::vector<Value> results = CollectResults(*frame, std::move(placed), extras.place);
  MemorySpace* awaited = nullptr;
  for (const Value& result : results) {
    if (!result.is_tensor() || result.tensor().on_host() || &result.tensor().space() == awaited) continue;
    awaited = &result.tensor().space();
    awaited->CopyToHost(nullptr, nullptr, 0);
  }
  for (size_t i = 0; i < frame->homes.size(); ++i)
    if (frame->homes[i].defined()) BindSource(i, Tensor(), *frame);
  for (int slot : plan_->per_run_slots) frame->values[static_cast<size_t>(slot)] = Value();
  if (frame->reusable) GiveBack(std::move(frame));
  return results;
}

std::unique_ptr<Program> BuildProgram(const PlanRequest& request) {
  PlannedProgram planned = MakePlan(request);
  return std::make_unique<Program>(std::move(planned.plan), std::move(planned.kernels));
}

}  // namespace ferry
