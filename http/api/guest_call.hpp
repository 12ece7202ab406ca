// A call to the guest (core/sandbox/calls.hpp) as a handler sees it: begun under a lease, fed from a
// request's body, its reply awaited, and what follows the reply as the source of a response's body. Memory is
// bounded in both directions, whatever the size of what passes. Destroying it cancels the call and gives the
// lease back. Not here: what calls there are.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/conversation/end_cause.hpp"
#include "core/sandbox/calls.hpp"
#include "core/sandbox/operations.hpp"
#include "http/api/api.hpp"
#include "http/api/output_room.hpp"
#include "http/server/context.hpp"
#include "http/wire/body_source.hpp"

namespace atl::http {

class GuestCall final : public BodySource, private sandbox::CallObserver {
  public:
    using Lease = std::unique_ptr<conversation::Lease>;

    /// `context` must outlive this.
    GuestCall(RequestContext& context, Lease lease) : context_(context), lease_(std::move(lease)) {}
    ~GuestCall() override;

    /// Begins the call, in the generation of the lease. Once, first. Errors: those of
    /// conversation::end_error().
    base::Result<void> begin(Api& api, const sandbox::CallSpec& spec);
    /// The same for a call that `start` makes, which keeps to the rules of the guest's calls.
    using Start = std::function<std::unique_ptr<sandbox::Call>(sandbox::Operations&, sandbox::CallObserver&)>;
    base::Result<void> begin(Api& api, const Start& start);
    /// `seen` is called for each progress, with the text of an object.
    void on_each_progress(std::function<void(std::string_view json)> seen) { seen_ = std::move(seen); }

    /// `replied` is called once, with the reply, also if nobody waits for it.
    void on_replied(std::function<void(std::string_view json)> replied);
    /// Nobody will ask for anything any more, and the context may go. `over` is called once, from the loop,
    /// with the reply or when there will be none; this must outlive that call.
    void leave(std::function<void()> over);

    /// Passes `body` on as the input, to its end. Errors: those of the body; those of async_reply(), which
    /// end a wait for the client, too.
    base::Task<base::Result<void>> async_send(BodySource& body);
    /// The same for the next piece of it, which is read into `room`. False: at its end, or where nobody takes
    /// more.
    base::Task<base::Result<bool>> async_send_some(BodySource& body, std::span<char> room);
    /// Behind async_send(): the input is complete.
    void end_input();
    /// True if async_progress() has something to give now.
    bool has_progress() const noexcept { return progress_.has_value(); }
    /// Waits for the reply, the text of an object. Errors: what the guest refuses with; sandbox_failed,
    /// bridge_failed, deadline_exceeded; those of conversation::Lease; shutting_down.
    base::Task<base::Result<std::string>> async_reply();
    /// The same for a reply that nobody needs once the client has left. Not after async_send(). Errors:
    /// request_timeout, too: it left.
    base::Task<base::Result<std::string>> async_reply_for_client();
    /// Beside on_each_progress(): waits for the next progress, or the latest one that came meanwhile,
    /// the text of an object; an empty text after wake(); nothing once there is a reply. Errors as of
    /// async_reply().
    base::Task<base::Result<std::optional<std::string>>> async_progress();
    void wake();
    /// The bytes behind the reply. Errors as of async_reply().
    base::Task<base::Result<std::size_t>> async_read_some(std::span<char> room) override;
    bool is_at_end() const override { return ended_ && waiting_bytes() == 0; }

  private:
    void on_ready() override;
    void on_progress(std::string_view json) override;
    void on_reply(std::string_view json) override;
    void on_bytes(std::string_view bytes) override;
    void on_writable() override { changed(); }
    void on_end() override;
    void on_failed(const base::Error& error) override;
    bool is_full() const override;

    void fail(const base::Error& error);
    std::size_t waiting_bytes() const noexcept { return reading_.size() - read_bytes_ + bytes_.size(); }
    base::Task<base::Result<void>> async_change();
    void changed();

    RequestContext& context_;
    Lease lease_;
    std::optional<conversation::EndCause> cause_;  // since begin()
    std::unique_ptr<sandbox::Call> call_;
    std::function<void(std::string_view)> seen_;
    std::function<void(std::string_view)> replied_;
    std::function<void()> over_;           // once nobody waits any more
    std::optional<std::string> progress_;  // that nobody took
    std::function<void(base::Result<void>)> waiter_;
    std::function<void()> wake_body_;  // whoever waits for more of a body, or for its client
    bool ready_ = false;
    bool ended_ = false;
    bool woken_ = false;
    std::optional<std::string> reply_;
    std::optional<base::Error> failure_;
    std::string reading_;
    std::size_t read_bytes_ = 0;  // of reading_
    std::string bytes_;           // behind those
    OutputRoom room_;
};

/// Leases the sandbox and begins a call in it. `growth_bytes`: the bytes by which the workspace will grow,
/// where they are known: then it is checked before the first of them whether they fit. Errors: those of
/// async_lease() and GuestCall::begin(); disk_full.
base::Task<base::Result<std::unique_ptr<GuestCall>>> async_call(
    Api& api, RequestContext& context, const std::string& sandbox_id, const sandbox::CallSpec& spec,
    std::optional<std::uint64_t> growth_bytes = std::nullopt);
/// Ends the input of an upload. Without `growth_bytes`, as async_call() had them, it is checked whether the
/// workspace is over its limit by now, and what was written counts for nothing where the call does not write
/// in place. Errors: disk_full.
base::Task<base::Result<void>> async_end_upload(Api& api, RequestContext& context,
                                                const std::string& sandbox_id, GuestCall& call,
                                                std::optional<std::uint64_t> growth_bytes);

}  // namespace atl::http
