#include "http/api/tool_stream.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/json_writer.hpp"
#include "http/api/tool_progress.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::JsonWriter;
using base::Result;
using base::Task;

constexpr std::size_t k_tool_piece_bytes = 16UL * 1024;

void write_names(JsonWriter& json, std::string_view type, const ToolStream::Names& names) {
    json.key("type").string(type).key("toolCallId");
    if (names.tool_call_id.empty())
        json.null();
    else
        json.string(names.tool_call_id);
    json.key("toolName").string(names.tool);
}

}  // namespace

std::string ToolStream::result_frame(const Names& names, std::string_view result) {
    std::string frame;
    begin_frame(frame, "tool_result", names.events);
    JsonWriter json(frame);
    json.begin_object();
    write_names(json, "tool_result", names);
    json.key("result").raw(result);
    json.end_object();
    return frame += "\n\n";
}

bool ToolStream::means_lost_sandbox(Errc code) noexcept {
    return code == Errc::not_found || code == Errc::conversation_ended || code == Errc::sandbox_gone ||
           code == Errc::disk_full || code == Errc::bridge_failed || code == Errc::deadline_exceeded;
}

Task<> ToolStream::async_fill() {
    if (phase_ == Phase::begin) {
        phase_ = Phase::working;
        add_status("started", {});
    } else if (phase_ == Phase::working) {
        const auto more = co_await async_add_progress();
        if (more.has_error())
            co_return end_without_reply(more.error());
        if (*more)
            co_return;
        const auto reply = co_await call_->async_reply();
        if (reply.has_error())
            co_return end_without_reply(reply.error());
        begin_result();
        co_await async_take_result();
    } else if (phase_ == Phase::result) {
        co_await async_take_result();
    }
}

Task<> ToolStream::async_take_result() {
    std::array<char, k_tool_piece_bytes> piece;
    const std::span<char> all(piece);
    while (waiting_.empty()) {
        const auto size = co_await call_->async_read_some(all);
        if (size.has_error() && result_->is_begun()) {
            phase_ = Phase::over;
            broken_ = size.error();
            co_return;
        }
        if (size.has_error())
            co_return end_without_reply(size.error());
        if (*size == 0) {
            result_->end();
            phase_ = Phase::over;
        } else {
            result_->add({piece.data(), *size});
        }
        result_->take(waiting_);
    }
}

void ToolStream::add_progress(std::string_view json) {
    add_status("running", progress_message(json));
}

void ToolStream::add_status(std::string_view status, std::string_view message) {
    begin_frame(waiting_, "tool_progress", names_);
    JsonWriter json(waiting_);
    json.begin_object();
    write_names(json, "tool_progress", tool_);
    json.key("status").string(status).key("progress").null();
    json.key("message").string(message);
    json.end_object();
    waiting_ += "\n\n";
}

void ToolStream::begin_result() {
    phase_ = Phase::result;
    std::string frame;
    begin_frame(frame, "tool_result", names_);
    JsonWriter json(frame);
    json.begin_object();
    write_names(json, "tool_result", tool_);
    json.key("result");
    result_.emplace(std::move(frame));
}

void ToolStream::end_without_reply(const Error& error) {
    phase_ = Phase::over;
    if (means_lost_sandbox(error.code()))
        waiting_ += result_frame(tool_, unavailable_(error));
    else
        add_error(error);
}

}  // namespace atl::http
