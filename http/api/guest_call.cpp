#include "http/api/guest_call.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/limits.hpp"
#include "http/api/leased_sandbox.hpp"

namespace atl::http {

using base::Error;
using base::Result;
using base::Task;

GuestCall::~GuestCall() {
    call_.reset();
}

Result<void> GuestCall::begin(Api& api, const sandbox::CallSpec& spec) {
    return begin(api, [&spec](sandbox::Operations& operations, sandbox::CallObserver& observer) {
        return operations.call(spec, observer);
    });
}

Result<void> GuestCall::begin(Api& api, const Start& start) {
    const auto operations = operations_of(api, *lease_);
    if (operations.has_error())
        return operations.error();
    cause_.emplace(*lease_, api.conversations.timers(), [this](const Error& why) {
        call_.reset();
        if (!ended_)
            fail(why);
    });
    room_ = OutputRoom(api.budgets.connections, holder_of(context_.principal));
    call_ = start(**operations, *this);
    return {};
}

void GuestCall::on_replied(std::function<void(std::string_view)> replied) {
    if (reply_)
        return replied(*reply_);
    replied_ = std::move(replied);
}

void GuestCall::leave(std::function<void()> over) {
    waiter_ = nullptr;
    seen_ = nullptr;
    wake_body_ = nullptr;
    over_ = std::move(over);
    changed();
}

void GuestCall::wake() {
    woken_ = true;
    changed();
}

void GuestCall::changed() {
    if (over_ && (reply_ || failure_))
        return std::exchange(over_, nullptr)();
    if (waiter_)
        std::exchange(waiter_, nullptr)(Result<void>());
    else if (wake_body_)
        wake_body_();
}

/// Waits for the next callback.
Task<Result<void>> GuestCall::async_change() {
    auto start = [this](std::function<void(Result<void>)> reply) { waiter_ = std::move(reply); };
    co_return co_await context_.async_reply<void>(start);
}

Task<Result<void>> GuestCall::async_send(BodySource& body) {
    std::array<char, base::k_source_piece_bytes> room;
    const std::span<char> all(room);
    for (;;) {
        const auto more = co_await async_send_some(body, all);
        if (more.has_error())
            co_return more.error();
        if (!*more)
            co_return Result<void>();
    }
}

Task<Result<bool>> GuestCall::async_send_some(BodySource& body, std::span<char> room) {
    while (!ready_ && !failure_ && !reply_)
        if (const auto change = co_await async_change(); change.has_error())
            co_return change.error();
    if (!wake_body_) {
        body.give_up_if([this] { return failure_ || reply_; });
        wake_body_ = context_.waker();
    }
    if (!failure_ && !reply_) {
        const auto count = co_await body.async_read_some(room);
        // A reply or failure that came while the client was silent counts, not an error of the body.
        const bool is_wanted = !failure_ && !reply_;
        if (is_wanted && count.has_error())
            co_return count.error();
        std::string_view left(room.data(), is_wanted ? *count : 0);
        while (!left.empty() && !failure_ && call_) {
            left.remove_prefix(call_->write(left));
            if (left.empty())
                co_return true;
            if (const auto change = co_await async_change(); change.has_error())
                co_return change.error();
        }
    }
    if (failure_)
        co_return *failure_;
    co_return false;
}

void GuestCall::end_input() {
    if (call_ && !reply_ && !failure_)
        call_->end_input();
}

Task<Result<std::string>> GuestCall::async_reply() {
    while (!failure_ && !reply_)
        if (const auto change = co_await async_change(); change.has_error())
            co_return change.error();
    if (reply_)
        co_return *reply_;
    co_return *failure_;
}

Task<Result<std::string>> GuestCall::async_reply_for_client() {
    wake_body_ = context_.waker();
    const std::function<bool()> is_over = [this] { return failure_ || reply_; };
    const auto waited = co_await context_.async_until(is_over);
    wake_body_ = nullptr;
    if (waited.has_error())
        co_return waited.error();
    co_return co_await async_reply();
}

Task<Result<std::optional<std::string>>> GuestCall::async_progress() {
    while (!failure_ && !reply_ && !progress_ && !woken_)
        if (const auto change = co_await async_change(); change.has_error())
            co_return change.error();
    if (failure_ && !reply_)
        co_return *failure_;
    if (reply_)
        co_return std::optional<std::string>();
    woken_ = false;
    std::string progress = std::exchange(progress_, std::nullopt).value_or("");
    co_return std::optional(std::move(progress));
}

Task<Result<std::size_t>> GuestCall::async_read_some(std::span<char> room) {
    while (waiting_bytes() == 0 && !ended_ && !failure_)
        if (const auto change = co_await async_change(); change.has_error())
            co_return change.error();
    if (read_bytes_ == reading_.size()) {
        reading_.clear();
        reading_.swap(bytes_);
        read_bytes_ = 0;
    }
    const std::size_t size = std::min(room.size(), reading_.size() - read_bytes_);
    if (size == 0 && failure_)
        co_return *failure_;
    std::copy_n(reading_.data() + read_bytes_, size, room.data());
    read_bytes_ += size;
    room_.fit(waiting_bytes());
    if (call_ && !ended_ && waiting_bytes() <= room_.bytes() / 2)
        call_->resume();
    co_return size;
}

void GuestCall::on_ready() {
    ready_ = true;
    changed();
}

void GuestCall::on_progress(std::string_view json) {
    if (seen_)
        seen_(json);
    progress_.emplace(json);
    changed();
}

void GuestCall::on_reply(std::string_view json) {
    reply_.emplace(json);
    if (replied_)
        std::exchange(replied_, nullptr)(json);
    changed();
}

void GuestCall::on_bytes(std::string_view bytes) {
    bytes_.append(bytes);
    room_.fit(waiting_bytes());
    changed();
}

bool GuestCall::is_full() const {
    return waiting_bytes() >= room_.bytes();
}

void GuestCall::on_end() {
    ended_ = true;
    changed();
}

void GuestCall::on_failed(const Error& error) {
    cause_->met(error);
}

void GuestCall::fail(const Error& error) {
    if (!failure_)
        failure_.emplace(error);
    changed();
}

namespace {

Task<Result<void>> async_check_room(Api& api, RequestContext& context, const std::string& sandbox_id,
                                    std::optional<std::uint64_t> bytes) {
    auto start = [&](conversation::Reply<void> reply) {
        api.conversations.check_room(sandbox_id, bytes, std::move(reply));
    };
    co_return co_await context.async_reply<void>(start);
}

}  // namespace

Task<Result<void>> async_end_upload(Api& api, RequestContext& context, const std::string& sandbox_id,
                                    GuestCall& call, std::optional<std::uint64_t> growth_bytes) {
    if (!growth_bytes) {
        const auto room = co_await async_check_room(api, context, sandbox_id, std::nullopt);
        if (room.has_error())
            co_return room.error();
    }
    call.end_input();
    co_return Result<void>();
}

Task<Result<std::unique_ptr<GuestCall>>> async_call(Api& api, RequestContext& context,
                                                    const std::string& sandbox_id,
                                                    const sandbox::CallSpec& spec,
                                                    std::optional<std::uint64_t> growth_bytes) {
    using conversation::LeaseUse;
    const Method method = context.request.method;
    const bool adds_none = method == Method::get || method == Method::head || method == Method::delete_;
    const LeaseUse use = adds_none ? LeaseUse::no_new_files : LeaseUse::request;
    auto lease = co_await async_lease(api, context, sandbox_id, use);
    if (lease.has_error())
        co_return lease.error();
    if (growth_bytes) {
        const auto room = co_await async_check_room(api, context, sandbox_id, growth_bytes);
        if (room.has_error())
            co_return room.error();
    }
    auto call = std::make_unique<GuestCall>(context, std::move(*lease));
    if (const auto begun = call->begin(api, spec); begun.has_error())
        co_return begun.error();
    co_return call;
}

}  // namespace atl::http
