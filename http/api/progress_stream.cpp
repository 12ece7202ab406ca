#include "http/api/progress_stream.hpp"

#include <algorithm>
#include <utility>

#include "core/base/json_writer.hpp"

namespace atl::http {

using base::Result;
using base::Task;

void begin_frame(std::string& out, std::string_view type, EventNames names) {
    if (names == EventNames::types)
        out.append("event: ").append(type).append("\n");
    out += "data: ";
}

ProgressStream::~ProgressStream() {
    around_.timers.cancel(timer_);
    if (around_.left && is_at_work_)
        around_.left(std::move(call_));
}

Task<Result<std::size_t>> ProgressStream::async_read_some(std::span<char> room) {
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
    is_begun_ = true;
    co_return size;
}

Task<Result<bool>> ProgressStream::async_add_progress() {
    timer_ = around_.timers.arm(around_.heartbeat, [this] {
        timer_ = 0;
        call_->wake();
    });
    const auto progress = co_await call_->async_progress();
    around_.timers.cancel(std::exchange(timer_, 0));
    is_at_work_ = progress.has_value() && progress->has_value();
    if (progress.has_error())
        co_return progress.error();
    if (!*progress)
        co_return false;
    if ((*progress)->empty())
        waiting_ += ": heartbeat\n\n";
    else
        add_progress(**progress);
    co_return true;
}

void ProgressStream::add_error(const base::Error& error) {
    begin_frame(waiting_, "error", names_);
    base::JsonWriter json(waiting_);
    json.begin_object();
    json.key("type").string("error").key("code").string(base::code_name(error.code()));
    json.key("detail").string(error.detail());
    json.end_object();
    waiting_ += "\n\n";
}

}  // namespace atl::http
