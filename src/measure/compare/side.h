// One of the two things that a comparison holds against each other: a model, and how it is run.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/session.h"

namespace ferry {

class Side {
 public:
  struct How {
    std::string label;   // as reports name it
    bool widen = false;  // every float computed as double
    SessionOptions options = {};
  };
  static Side Open(const std::string& path, How how);
  static Side FromModel(Model model, How how);
  // The same model run in another way.
  Side With(How how) const;

  const std::string& label() const { return how_.label; }
  const How& how() const { return how_; }
  const Session& session() const { return *session_; }
  const Model& original() const { return *original_; }
  // Nodes of a widened side that compute in their own precision all the same.
  const std::vector<std::string>& kept_narrow() const { return kept_narrow_; }

  // Inputs are brought to the float types that this side declares. `names` may be any values of graph().
  std::vector<Value> Run(std::span<const NamedValue> inputs, std::span<const std::string> names = {}) const;

  // The graph that runs, node by node: of the newest opset, without functions, rewritten where options say so.
  const Graph& graph() const;
  // One node of graph() alone; inputs by position, empty values for those that are omitted. `outer` finds what the
  // node's bodies take from around it.
  std::vector<Value> RunNode(const Node& node, std::span<const Value> inputs, std::span<const NamedValue> outer) const;

 private:
  Side(std::shared_ptr<const Model> original, How how, const std::string& path);

  How how_;
  std::shared_ptr<const Model> original_;
  std::shared_ptr<Session> session_;
  std::vector<std::string> kept_narrow_;
  mutable std::shared_ptr<const Graph> graph_;
};

// A value whose floats are brought to the element type that `like` has; everything else stays.
Value WithFloatsLike(const Value& value, const Type& like);

}  // namespace ferry
