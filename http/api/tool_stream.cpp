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

void begin_frame(std::string& out, std::string_view type, EventNames names) {
    if (names == EventNames::types)
        out.append("event: ").append(type).append("\n");
    out += "data: ";
}

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
           code == Errc::bridge_failed || code == Errc::deadline_exceeded;
}

ToolStream::~ToolStream() {
    around_.timers.cancel(timer_);
    if (around_.left && (phase_ == Phase::begin || phase_ == Phase::working))
        around_.left(std::move(call_));
}

Task<Result<std::size_t>> ToolStream::async_read_some(std::span<char> room) {
    if (sent_bytes_ == waiting_.size()) {
        waiting_.clear();
        sent_bytes_ = 0;
        co_await async_fill();
        if (broken_)
            co_return *broken_;
    }
    const std::size_t size = std::min(room.size(), waiting_.size() - sent_bytes_);
    std::copy_n(waiting_.data() + sent_bytes_, size, room.data());
    sent_bytes_ += size;
    co_return size;
}

Task<> ToolStream::async_fill() {
    if (phase_ == Phase::begin) {
        phase_ = Phase::working;
        add_progress("started", {});
    } else if (phase_ == Phase::working) {
        timer_ = around_.timers.arm(around_.heartbeat, [this] {
            timer_ = 0;
            call_->wake();
        });
        const auto progress = co_await call_->async_progress();
        around_.timers.cancel(std::exchange(timer_, 0));
        if (progress.has_error())
            co_return end_without_reply(progress.error());
        if (*progress && (*progress)->empty()) {
            waiting_ = ": heartbeat\n\n";
            co_return;
        }
        if (*progress)
            co_return add_progress("running", **progress);
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

void ToolStream::add_progress(std::string_view status, std::string_view progress) {
    begin_frame(waiting_, "tool_progress", names_.events);
    JsonWriter json(waiting_);
    json.begin_object();
    write_names(json, "tool_progress", names_);
    json.key("status").string(status).key("progress").null();
    json.key("message").string(progress.empty() ? std::string() : progress_message(progress));
    json.end_object();
    waiting_ += "\n\n";
}

void ToolStream::begin_result() {
    phase_ = Phase::result;
    std::string frame;
    begin_frame(frame, "tool_result", names_.events);
    JsonWriter json(frame);
    json.begin_object();
    write_names(json, "tool_result", names_);
    json.key("result");
    result_.emplace(std::move(frame));
}

void ToolStream::end_without_reply(const Error& error) {
    if (!means_lost_sandbox(error.code()))
        return fail(error);
    phase_ = Phase::over;
    waiting_ += result_frame(names_, unavailable_);
}

void ToolStream::fail(const Error& error) {
    phase_ = Phase::over;
    begin_frame(waiting_, "error", names_.events);
    JsonWriter json(waiting_);
    json.begin_object();
    json.key("type").string("error").key("code").string(base::code_name(error.code()));
    json.key("detail").string(error.detail());
    json.end_object();
    waiting_ += "\n\n";
}

}  // namespace atl::http
