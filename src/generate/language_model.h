// A decoder as a graph: which inputs and outputs mean what, and one step of it. Names are read from the graph as
// Optimum, Transformers and onnxruntime-genai write them, and may be said otherwise.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/session.h"
#include "generate/token_model.h"

namespace ferry {

// What an input or output is to the decoder: "input_ids", "attention_mask", "position_ids", "use_cache_branch",
// "past_length", "total_length", "num_logits_to_keep", "logits"; and "past=present" pairs of a cache.
struct LanguageModelNames {
  std::map<std::string, std::string> roles;                 // role to name, where the graph's own names do not tell
  std::vector<std::pair<std::string, std::string>> caches;  // past and present; empty: found by their names
  // The same as a file beside the model says it: taken where the graph has them. In names of caches %d is the layer.
  std::map<std::string, std::string> hinted_roles = {};
  std::vector<std::pair<std::string, std::string>> hinted_caches = {};
};

class LanguageModel {
 public:
  // Opens the session: its sizes that grow with the text are left open in its programs.
  LanguageModel(const std::string& path, SessionOptions options, const LanguageModelNames& names = {});
  LanguageModel(Model model, SessionOptions options, const LanguageModelNames& names = {});

  const Session& session() const { return *session_; }
  // How many tokens fit, where the graph says so.
  std::optional<int64_t> window() const { return window_; }
  bool has_cache() const { return !caches_.empty(); }
  bool shares_cache() const { return shares_cache_; }
  // Caches have room behind what is there, and the graph's Concat writes only what is new.
  bool appends_in_place() const { return appends_in_place_; }

 private:
  friend class Decoding;

  struct Cache {
    std::string past, present;
    DType dtype = DType::kUndefined;
    std::vector<Dim> shape;
    std::optional<size_t> growing;  // the axis of the tokens, where its size is open
  };

  void Understand(Model& model, const LanguageModelNames& names);
  void FindRoles(const Model& model, const LanguageModelNames& names);
  void FindCaches(const Model& model, const LanguageModelNames& names);
  void AddCache(const Model& model, const std::string& past, const std::string& present);
  void FindWindow(const Model& model);
  void FindStep();
  void FindSharing(const Model& model);
  void TurnCaches(Model& model);
  bool CountsMask(const Model& model) const;
  void RequireNoOthers(const Model& model) const;
  std::map<std::string, std::vector<size_t>> OpenAxes() const;
  const std::string& Role(const std::string& role) const;  // "" : the model has none

  std::shared_ptr<Session> session_;
  std::map<std::string, ValueInfo> roles_;
  std::vector<Cache> caches_;
  std::optional<int64_t> window_;
  size_t at_once_ = 0;  // tokens that one step reads at most
  bool shares_cache_ = false;
  bool appends_in_place_ = false;
  bool counts_mask_ = false;  // only the number of the mask's ones and its size matter
};

// One text in the making: what the model has read, and its cache.
class Decoding {
 public:
  // `most`: tokens that the text may have at all.
  Decoding(const LanguageModel& model, int64_t most);

  // Reads the tokens and gives the scores for the one that follows the last.
  std::vector<float> Read(std::span<const TokenId> ids, const std::atomic<bool>* cancelled = nullptr);
  int64_t length() const { return length_; }

 private:
  std::vector<float> Step(std::span<const TokenId> ids, const std::atomic<bool>* cancelled);
  void AddInputs(std::span<const TokenId> ids, std::vector<NamedValue>& inputs) const;
  void MakeCaches(int64_t rows);
  // The first tokens of a cache that has room for more.
  Tensor Tokens(size_t cache, int64_t count) const;
  // What a graph appends otherwise than one row for each token is kept as it comes from then on.
  void KeepCaches(const std::vector<Value>& results, int64_t total);
  // Room for so many tokens in caches that stay where they are: twice as much as there was, so that all growing copies
  // each row once or twice.
  void Reserve(int64_t rows);

  const LanguageModel& model_;
  const int64_t most_;
  bool appends_;  // where the caches are
  int64_t length_ = 0, room_ = 0;
  std::vector<TokenId> all_;    // without a cache everything is read again
  std::vector<Tensor> caches_;  // one per cache of the model
};

}  // namespace ferry
