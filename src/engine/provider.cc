#include "engine/provider.h"

#include <algorithm>

namespace ferry {

Kernel::~Kernel() = default;
void Kernel::SetRows(RowLayout rows) { rows_ = std::move(rows); }

Compiler::~Compiler() = default;
void Compiler::Rewrite(Graph&) const {}
std::shared_ptr<Graph> Compiler::RewriteForShapes(const Graph&, const FactsByName&, GraphFacts&) const {
  return nullptr;
}
std::vector<ImageChain> Compiler::FindChains(std::span<const Node* const>, const OuterFacts&,
                                             const std::vector<std::string>&) const {
  return {};
}
std::vector<PartPlace> Compiler::PlaceParts(const Plan&, const std::vector<int>&, const OuterFacts&) const {
  return {};
}
bool Compiler::LeavesToHost(const KernelRequest&) const { return false; }
void Compiler::Save() const {}

std::string Provider::WhyUnusable() const { return {}; }
std::string Provider::State() const { return {}; }
void Provider::Restore(std::string_view) const {}
void Provider::WaitForDevice() const {}

RecordedWork::~RecordedWork() = default;
std::unique_ptr<RecordedWork> Provider::Record(FunctionRef<void()>) const { return nullptr; }

CompilerList::CompilerList(std::span<const Provider* const> providers, const ProviderOptions& options) {
  for (const Provider* provider : providers) entries.push_back({provider, provider->Open(options)});
  const Provider* cpu = &CpuProvider();
  lists_cpu = std::find(providers.begin(), providers.end(), cpu) != providers.end();
  if (!lists_cpu) entries.push_back({cpu, cpu->Open(options)});
}

std::vector<const Provider*> FindProviders(std::string_view names, std::span<const Provider* const> more) {
  std::vector<const Provider*> there(more.begin(), more.end()), found;
  for (const Provider* provider : BuiltInProviders()) there.push_back(provider);
  for (std::string_view rest = names; !rest.empty() || found.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view name = rest.substr(0, comma);
    auto named = std::find_if(there.begin(), there.end(), [&](const Provider* p) { return p->name() == name; });
    if (named == there.end()) {
      std::vector<std::string> known;
      for (const Provider* provider : there) known.emplace_back(provider->name());
      Fail(ErrorCode::kInvalidArgument, "there is no provider '", Printable(name), "'; there is: ", Join(known, ", "));
    }
    if (std::find(found.begin(), found.end(), *named) == found.end()) found.push_back(*named);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return found;
}

}  // namespace ferry
