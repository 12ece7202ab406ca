#include "http/api/file_stream.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_writer.hpp"
#include "core/base/limits.hpp"
#include "http/api/detached_calls.hpp"
#include "http/api/progress_stream.hpp"
#include "http/wire/download.hpp"

namespace atl::http {
namespace {

using base::Error;
using base::Result;
using base::Task;

class FileStream final : public ProgressStream {
  public:
    FileStream(std::unique_ptr<GuestCall> call, Surroundings around, EventNames names,
               const ChangeCall& change, Api& api, RequestContext& context, std::string sandbox_id)
        : ProgressStream(std::move(call), std::move(around), names),
          change_(change),
          api_(api),
          context_(context),
          sandbox_id_(std::move(sandbox_id)) {}

  private:
    Task<> async_fill() override;
    void add_progress(std::string_view json) override;
    Task<Result<void>> async_send_input();
    void add_result(const Response& answer);
    void fail(const Error& error);

    ChangeCall change_;  // its input is null once that is at its end
    Api& api_;
    RequestContext& context_;
    const std::string sandbox_id_;
    std::unique_ptr<char[]> room_;
    bool is_over_ = false;
};

Task<> FileStream::async_fill() {
    if (is_over_)
        co_return;
    const auto sent = co_await async_send_input();
    if (sent.has_error())
        co_return fail(sent.error());
    const auto more = co_await async_add_progress();
    if (more.has_error())
        co_return fail(more.error());
    if (*more)
        co_return;
    const auto reply = co_await call_->async_reply();
    if (reply.has_error())
        co_return fail(reply.error());
    const auto answer = change_.answer(*reply);
    if (answer.has_error())
        co_return fail(answer.error());
    is_over_ = true;
    add_result(*answer);
}

/// To its end, or until there is progress to tell.
Task<Result<void>> FileStream::async_send_input() {
    if (change_.input != nullptr && room_ == nullptr)
        room_ = std::make_unique_for_overwrite<char[]>(base::k_source_piece_bytes);
    while (change_.input != nullptr && !call_->has_progress()) {
        const std::span<char> room(room_.get(), base::k_source_piece_bytes);
        const auto more = co_await call_->async_send_some(*change_.input, room);
        if (more.has_error())
            co_return more.error();
        if (*more)
            continue;
        change_.input = nullptr;
        const auto ended =
            co_await async_end_upload(api_, context_, sandbox_id_, *call_, change_.growth_bytes);
        if (ended.has_error())
            co_return ended.error();
    }
    co_return Result<void>();
}

void FileStream::add_progress(std::string_view json) {
    const Json told = Json::parse(json, nullptr, false);
    begin_frame(waiting_, "file_progress", names_);
    base::JsonWriter frame(waiting_);
    frame.begin_object().key("type").string("file_progress").key("op").string(change_.op);
    for (const char* const name : {"entries", "bytes"}) {
        const bool is_told = told.is_object() && told.contains(name) && told[name].is_number_unsigned();
        frame.key(name).number(is_told ? told[name].get<std::uint64_t>() : 0);
    }
    frame.end_object();
    waiting_ += "\n\n";
}

void FileStream::add_result(const Response& answer) {
    begin_frame(waiting_, "file_result", names_);
    base::JsonWriter frame(waiting_);
    frame.begin_object().key("type").string("file_result").key("op").string(change_.op);
    frame.key("status").number(answer.status).key("result");
    if (answer.body.empty())
        frame.null();
    else
        frame.raw(answer.body);
    frame.end_object();
    waiting_ += "\n\n";
}

void FileStream::fail(const Error& error) {
    is_over_ = true;
    if (is_begun())
        add_error(error);
    else
        broken_ = error;
}

Response progress_response(Api& api, RequestContext& context, const std::string& sandbox_id,
                           std::unique_ptr<GuestCall> call, EventNames names, const ChangeCall& change) {
    ProgressStream::Surroundings around{api.conversations.timers(), api.system.heartbeat_interval, {}};
    // Input that is not complete counts for nothing.
    if (change.on_disconnect == OnDisconnect::finish && change.input == nullptr)
        around.left = [&api, sandbox_id](std::unique_ptr<GuestCall> unread) {
            api.detached_calls->keep(std::move(unread), api.conversations.user_of_living(sandbox_id));
        };
    Response response;
    response.content_type = k_event_stream_type;
    forbid_scripts(response);
    response.headers.emplace_back("Content-Disposition", content_disposition("attachment", "events"));
    // nginx buffers responses unless told otherwise.
    response.headers.emplace_back("X-Accel-Buffering", "no");
    response.source = std::make_unique<FileStream>(std::move(call), std::move(around), names, change, api,
                                                   context, sandbox_id);
    return response;
}

}  // namespace

Task<Result<Response>> async_change_files(Api& api, RequestContext& context, const FileMembers& members,
                                          const ChangeCall& change) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const auto names = event_names(context);
    if (names.has_error())
        co_return names.error();
    const sandbox::CallSpec spec = members.spec();
    auto call = co_await async_call(api, context, *id, spec, change.growth_bytes);
    if (call.has_error())
        co_return call.error();
    if (context.accepts() == MediaType::event_stream)
        co_return progress_response(api, context, *id, std::move(*call), *names, change);
    if (change.input != nullptr) {
        const auto sent = co_await (*call)->async_send(*change.input);
        if (sent.has_error())
            co_return sent.error();
        const auto ended = co_await async_end_upload(api, context, *id, **call, change.growth_bytes);
        if (ended.has_error())
            co_return ended.error();
    }
    auto waiting = change.on_disconnect == OnDisconnect::cancel ? (*call)->async_reply_for_client()
                                                                : (*call)->async_reply();
    const auto reply = co_await std::move(waiting);
    if (reply.has_error())
        co_return reply.error();
    co_return change.answer(*reply);
}

}  // namespace atl::http
