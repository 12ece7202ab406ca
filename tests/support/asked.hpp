// Requests whose answer comes from inside the call, as functions: of the conversations' manager over a store
// that answers at once, and of such a store.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/conversation/manager.hpp"
#include "core/conversation/store.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::test {

inline base::Result<conversation::View> get(conversation::Manager& manager, const std::string& id) {
    return conversation::answered_at_once<conversation::View>(
        [&](auto reply) { manager.get(id, std::move(reply)); });
}
inline base::Result<conversation::Page<conversation::View>> list(conversation::Manager& manager,
                                                                 const conversation::ListQuery& query = {}) {
    return conversation::answered_at_once<conversation::Page<conversation::View>>(
        [&](auto reply) { manager.list(query, std::move(reply)); });
}
inline base::Result<std::unique_ptr<conversation::Subscription>> subscribe(conversation::Manager& manager,
                                                                           const std::string& id,
                                                                           std::uint64_t after) {
    return conversation::answered_at_once<std::unique_ptr<conversation::Subscription>>([&](auto reply) {
        manager.subscribe(id, {after, {}}, std::move(reply));
    });
}
inline base::Result<conversation::SandboxView> get_sandbox(conversation::Manager& manager,
                                                           const std::string& id) {
    return conversation::answered_at_once<conversation::SandboxView>(
        [&](auto reply) { manager.get_sandbox(id, std::move(reply)); });
}
inline base::Result<conversation::Page<conversation::SandboxView>> list_sandboxes(
    conversation::Manager& manager, std::size_t limit, const std::string& cursor = "") {
    return conversation::answered_at_once<conversation::Page<conversation::SandboxView>>([&](auto reply) {
        manager.list_sandboxes({std::nullopt, limit, cursor}, std::move(reply));
    });
}
inline base::Result<conversation::SandboxUsage> sandbox_usage(conversation::Manager& manager,
                                                              const std::string& id) {
    return conversation::answered_at_once<conversation::SandboxUsage>(
        [&](auto reply) { manager.sandbox_usage(id, std::move(reply)); });
}
inline base::Result<sandbox::LogPage> sandbox_log(conversation::Manager& manager, const std::string& id) {
    return conversation::answered_at_once<sandbox::LogPage>(
        [&](auto reply) { manager.sandbox_log(id, 0, std::nullopt, std::move(reply)); });
}

inline base::Result<conversation::StartState> load_start(conversation::Store& store) {
    return conversation::answered_at_once<conversation::StartState>(
        [&](auto done) { store.load_start(std::move(done)); });
}
inline base::Result<std::optional<conversation::StoredConversation>> load(conversation::Store& store,
                                                                          const std::string& id) {
    return conversation::answered_at_once<std::optional<conversation::StoredConversation>>(
        [&](auto done) { store.load(id, std::move(done)); });
}
inline base::Result<std::optional<sandbox::Record>> find_sandbox(conversation::Store& store,
                                                                 const std::string& id) {
    return conversation::answered_at_once<std::optional<sandbox::Record>>(
        [&](auto done) { store.find_sandbox(id, std::move(done)); });
}

/// The store as a start of the sandboxes' manager takes it: the sandboxes of `state`, and a search by id.
inline sandbox::KnownSandboxes known_sandboxes(conversation::Store& store,
                                               const conversation::StartState& state = {}) {
    return {state.sandboxes, [&store](const std::string& id) { return find_sandbox(store, id); }};
}

}  // namespace atl::test
