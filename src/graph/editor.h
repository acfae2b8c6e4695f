// Rewriting a graph: who makes a value, who reads it, and replacing groups of nodes. Passes are written on top of it.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "graph/model.h"
#include "graph/name_table.h"

namespace ferry {

class GraphEditor {
 public:
  explicit GraphEditor(Graph& graph);
  ~GraphEditor();

  Graph& graph() { return graph_; }
  size_t size() const { return removed_.size(); }
  // Stays where it is, whatever is inserted, until the node itself is replaced or the editor finishes.
  const Node& node(size_t index) const {
    const size_t count = graph_.nodes.size();
    return index < count ? graph_.nodes[index] : inserted_[index - count].node;
  }
  bool removed(size_t index) const { return removed_[index]; }

  // The node that makes a value, or -1: it is an input, an initializer, or comes from outside.
  int Producer(const std::string& value) const;
  // Nodes that read a value as an input of their own (bodies and graph outputs are counted by Uses, not listed).
  const std::vector<size_t>& Readers(const std::string& value) const;
  // How often a value is read in all: inputs, bodies, graph outputs.
  size_t Uses(const std::string& value) const;
  // The only node that reads a value which nothing else reads and which is no graph output; -1 otherwise.
  int OnlyReader(const std::string& value) const;
  // The value of an initializer that no caller can override; null when there is none.
  const Tensor* Constant(const std::string& value) const;

  // Adds an initializer under a name that is free, and returns the name.
  std::string AddConstant(const std::string& hint, Tensor tensor);
  std::string FreshName(const std::string& hint);
  // Gives a value whose node was removed a constant instead.
  void DefineConstant(const std::string& name, Tensor tensor);

  // Changes take effect at once in Producer and Readers; removed nodes vanish in Finish.
  void Remove(size_t index);
  void Replace(size_t index, Node node);  // outputs and inputs may differ
  // Removes a node and gives it away, to be changed and put somewhere with Replace, also where it was.
  Node Take(size_t index);
  // Puts a node in front of the one at `position`; indices stay valid until Finish.
  void InsertBefore(size_t position, Node node);

  // Drops what was removed, then nodes whose outputs nobody reads, then initializers nobody reads. True if it changed
  // anything since the editor was made.
  bool Finish();

 private:
  struct Value {
    int producer = -1, constant = -1;  // node and initializer
    size_t other_uses = 0;             // by bodies and graph outputs
    std::vector<size_t> readers;
  };
  struct Inserted {
    size_t position;
    Node node;
  };
  const Value& Find(const std::string& name) const;
  Value& At(const std::string& name);
  void TakeNamesOfBodies();
  void Link(size_t index);
  void Unlink(size_t index);

  Graph& graph_;
  std::vector<bool> removed_;
  std::deque<Inserted> inserted_;  // their indices follow those of the graph's nodes
  NameTable names_;                // every name of the graph
  std::vector<Value> values_;      // by the name's number
  bool has_names_of_bodies_ = false;
  bool changed_ = false;
};

// Drops nodes whose outputs nobody reads, then initializers nobody reads.
void DropUnused(Graph& graph);

}  // namespace ferry
