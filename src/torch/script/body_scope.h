// A body of If or Loop while its statements are followed.
#pragma once

#include "torch/script/interpreter.h"

namespace ferry::torch::script {

// Notes every place outside that the body changes, and puts all of them back in the end: what the body makes of them
// becomes outputs of the node.
class Interpreter::BodyScope {
 public:
  BodyScope(Interpreter& in, Builder& inner)
      : in_(in),
        frame_(*in.frame_),
        variables_(in.frame_->variables),
        outer_(in.scope_),
        lowering_(in.lowerer_, inner, &tensors_) {
    in.scope_ = this;
  }
  ~BodyScope();
  BodyScope(const BodyScope&) = delete;
  BodyScope& operator=(const BodyScope&) = delete;

  void Remember(const Slot& slot);
  std::vector<Change> Changes();
  // What was there before the body; nothing when there was no such variable.
  std::optional<ScriptValue> Before(const Slot& slot);

 private:
  Interpreter& in_;
  Frame& frame_;
  Variables variables_;
  BodyScope* outer_;
  std::vector<std::pair<Slot, ScriptValue>> before_;
  Lowerer::TensorChanges tensors_;
  Lowerer::InBody lowering_;
};

}  // namespace ferry::torch::script
