#include "core/conversation/manager.hpp"

#include <utility>

#include "core/conversation/manager_impl.hpp"

namespace atl::conversation {

Manager::Manager(const base::Clock& clock, base::Timers& timers, sandbox::Manager& sandboxes,
                 Journal& journal, Store& store, ManagerSettings settings)
    : impl_(std::make_unique<Impl>(clock, timers, sandboxes, journal, store, std::move(settings))) {}

Manager::~Manager() = default;

base::Result<void> Manager::restore(Snapshot snapshot) {
    return impl_->restore(std::move(snapshot));
}
void Manager::open_pool() {
    impl_->open_pool();
}
void Manager::create(CreateRequest request, Reply<View> reply) {
    impl_->create(std::move(request), std::move(reply));
}
base::Result<View> Manager::get(const std::string& id) const {
    return impl_->get(id);
}
base::Result<Page<View>> Manager::list(const ListQuery& query) const {
    return impl_->list(query);
}
void Manager::patch(const std::string& id, const PatchRequest& patch, Reply<View> reply) {
    impl_->patch(id, patch, std::move(reply));
}
void Manager::remove(const std::string& id, Reply<void> reply) {
    impl_->remove(id, std::move(reply));
}

void Manager::message(const std::string& id, std::string content, std::string idempotency_key,
                      MessageReply when, Reply<TurnTicket> reply) {
    impl_->message(id, std::move(content), std::move(idempotency_key), when, std::move(reply));
}

base::Result<View> Manager::interrupt(const std::string& id) {
    return impl_->interrupt(id);
}
void Manager::pause(const std::string& id, PauseMode mode, Reply<View> reply) {
    impl_->pause(id, mode, std::move(reply));
}
void Manager::resume(const std::string& id, Reply<View> reply) {
    impl_->resume(id, std::move(reply));
}

base::Result<std::unique_ptr<Subscription>> Manager::subscribe(const std::string& id, std::uint64_t after) {
    return impl_->subscribe(id, after);
}

void Manager::create_sandbox(SandboxRequest request, Reply<SandboxView> reply) {
    impl_->loose().create(std::move(request), std::move(reply));
}
base::Result<Manager::SandboxView> Manager::get_sandbox(const std::string& id) const {
    return impl_->loose().get(id);
}
base::Result<Page<Manager::SandboxView>> Manager::list_sandboxes(std::size_t limit,
                                                                 const std::string& cursor) const {
    return impl_->loose().list(limit, cursor);
}
base::Result<Manager::SandboxUsage> Manager::sandbox_usage(const std::string& id) const {
    return impl_->loose().usage(id);
}
base::Result<sandbox::LogPage> Manager::sandbox_log(const std::string& id, std::uint64_t after,
                                                    std::optional<sandbox::LogStream> only) const {
    return impl_->loose().log(id, after, only);
}
void Manager::remove_sandbox(const std::string& id, Reply<void> reply) {
    impl_->loose().remove(id, std::move(reply));
}

base::Result<void> Manager::ready() const {
    return impl_->accepts_work();
}
void Manager::shut_down(std::function<void()> done) {
    impl_->shut_down(std::move(done));
}
std::size_t Manager::count() const noexcept {
    return impl_->count();
}
const ConversationBounds& Manager::bounds() const noexcept {
    return impl_->bounds();
}
std::vector<PoolState> Manager::pool() const {
    return impl_->pool();
}
const std::vector<sandbox::AgentSpec>& Manager::agents() const noexcept {
    return impl_->agents();
}
const sandbox::Limits& Manager::default_limits() const noexcept {
    return impl_->default_limits();
}
const Stats& Manager::stats() const noexcept {
    return impl_->stats();
}

}  // namespace atl::conversation
