#include "http/api/exec_answer.hpp"

#include <algorithm>
#include <utility>

#include "core/base/base64.hpp"
#include "core/plain/json_text.hpp"

namespace atl::http {
namespace {

// Bytes of output in a piece. A multiple of three needs no base64 padding; an escaped byte takes up to six.
constexpr std::size_t k_answer_piece_bytes = 12UL * 1024;
static_assert(k_answer_piece_bytes % 3 == 0);
constexpr std::size_t k_block_bytes = 16 * k_answer_piece_bytes;

std::string_view bool_word(bool value) {
    return value ? "true" : "false";
}

/// A part of a JSON string, without its quotes.
void append_escaped_output(std::string& out, std::string_view text) {
    const std::size_t at = out.size();
    base::append_json_string(out, text);
    out.pop_back();
    out.erase(at, 1);
}

}  // namespace

std::size_t open_character(std::string_view text) noexcept {
    for (std::size_t size = 1; size <= std::min<std::size_t>(3, text.size()); ++size) {
        const std::string_view tail = text.substr(text.size() - size);
        if ((static_cast<unsigned char>(tail[0]) & 0xC0U) == 0x80U)
            continue;
        base::Utf8Check check;
        return check.feed(tail) && !check.is_complete() ? size : 0;
    }
    return 0;
}

std::string SpareBlocks::take() {
    if (blocks_.empty())
        return {};
    std::string block = std::move(blocks_.back());
    blocks_.pop_back();
    block.clear();
    return block;
}

void SpareBlocks::give(std::vector<std::string> blocks) {
    // A shorter one comes from the heap, and goes back to it.
    for (std::string& block : blocks)
        if (block.capacity() >= k_block_bytes)
            blocks_.push_back(std::move(block));
    if (timer_ == 0 && !blocks_.empty())
        shrink();
}

void SpareBlocks::shrink() {
    timer_ = timers_.arm(base::Millis{1}, [this] {
        timer_ = 0;
        if (blocks_.empty())
            return;
        blocks_.pop_back();
        shrink();
    });
}

OutputBlocks::~OutputBlocks() {
    if (spare_)
        spare_->give(std::move(blocks_));
}

void OutputBlocks::append(std::string_view bytes) {
    while (!bytes.empty()) {
        if (size_ == blocks_.size() * k_block_bytes) {
            // Most outputs fit into a part of the first block, and hold no more than that.
            const bool is_first = blocks_.empty();
            blocks_.push_back(spare_ && !is_first ? spare_->take() : std::string());
            if (!is_first)
                blocks_.back().reserve(k_block_bytes);
        }
        std::string& block = blocks_.back();
        const std::string_view some = bytes.substr(0, k_block_bytes - block.size());
        block += some;
        size_ += some.size();
        bytes.remove_prefix(some.size());
    }
}

std::string_view OutputBlocks::piece(std::size_t at, std::size_t most) const {
    if (at == size_)
        return {};
    return std::string_view(blocks_[at / k_block_bytes]).substr(at % k_block_bytes, most);
}

void OutputBlocks::truncate(std::size_t size) {
    size_ = size;
    blocks_.resize((size + k_block_bytes - 1) / k_block_bytes);
    if (size > 0)
        blocks_.back().resize(size - (blocks_.size() - 1) * k_block_bytes);
}

void ExecCollector::take(sandbox::OutputKind kind, std::string_view bytes) {
    Output& output = outputs_[static_cast<std::size_t>(kind)];
    if (output.is_truncated)
        return;
    const std::size_t wanted = std::min(bytes.size(), limit_bytes_ - output.bytes.size());
    const std::size_t end = output.bytes.size() + wanted;
    // The reserved bytes are there already.
    const std::size_t more = end - std::clamp(base::k_exec_reserved_bytes, output.bytes.size(), end);
    const std::size_t lacking = more - share_.grow_up_to(more);
    const std::size_t size = wanted - lacking;
    output.is_truncated = size < bytes.size();
    if (lacking > 0 && !truncated_by_)
        truncated_by_ = share_.refusal(lacking).code();
    output.bytes.append(bytes.substr(0, size));
    output.is_text = output.is_text && output.check.feed(bytes.substr(0, size));
}

void ExecCollector::close() {
    share_.shrink(share_.amount() - outputs_[0].bytes.size() - outputs_[1].bytes.size());
    for (Output& output : outputs_) {
        if (!output.is_text || output.check.is_complete())
            continue;
        if (!output.is_truncated) {
            output.is_text = false;
            continue;
        }
        const std::size_t size = output.bytes.size();
        std::string tail;
        for (std::size_t at = size - std::min<std::size_t>(3, size); at < size; ++at)
            tail += output.bytes.piece(at, 1);
        output.bytes.truncate(size - open_character(tail));
    }
}

void write_exit_members(std::string& out, const sandbox::RunExit& exit) {
    out += "\"exitCode\":";
    out += exit.signal != 0 ? "null" : std::to_string(exit.code);
    out += ",\"signal\":";
    if (exit.signal != 0)
        base::append_json_string(out, signal_word(exit.signal));
    else
        out += "null";
    out.append(",\"timedOut\":").append(bool_word(exit.timed_out));
}

void ExecAnswer::write_head(std::string& out) const {
    out += '{';
    write_exit_members(out, end_.exit);
}

void ExecAnswer::write_tail(std::string& out) const {
    const auto is_truncated = [this](sandbox::OutputKind kind) {
        return bool_word(collector_->output(kind).is_truncated);
    };
    out.append(",\"truncated\":{\"stdout\":").append(is_truncated(sandbox::OutputKind::standard));
    out.append(",\"stderr\":").append(is_truncated(sandbox::OutputKind::error));
    out += '}';
    if (const auto by = collector_->truncated_by())
        out.append(",\"truncatedBy\":\"").append(base::code_name(*by)).append("\"");
    out.append(",\"durationMs\":").append(std::to_string(end_.duration.count())).append("}");
}

void ExecAnswer::write_output(std::string& out, sandbox::OutputKind kind, std::string_view name) {
    const ExecCollector::Output& output = collector_->output(kind);
    if (written_bytes_ == 0)
        out.append(",\"").append(name).append(output.is_text ? "\":\"" : "Base64\":\"");
    const std::string_view piece = output.bytes.piece(written_bytes_, k_answer_piece_bytes);
    if (output.is_text)
        append_escaped_output(out, piece);
    else
        base::append_base64(out, piece);
    written_bytes_ += piece.size();
    if (written_bytes_ < output.bytes.size())
        return;
    out += '"';
    written_bytes_ = 0;
    part_ = kind == sandbox::OutputKind::standard ? Part::error : Part::tail;
}

bool ExecAnswer::next(std::string& out) {
    switch (part_) {
        case Part::head:
            write_head(out);
            part_ = Part::output;
            return true;
        case Part::output:
            write_output(out, sandbox::OutputKind::standard, "stdout");
            return true;
        case Part::error:
            write_output(out, sandbox::OutputKind::error, "stderr");
            return true;
        case Part::tail:
            write_tail(out);
            part_ = Part::none;
            return true;
        case Part::none:
            return false;
    }
    return false;
}

base::Task<base::Result<std::size_t>> ExecAnswer::async_read_some(std::span<char> room) {
    if (sent_bytes_ == piece_.size()) {
        piece_.clear();
        sent_bytes_ = 0;
        while (piece_.size() < room.size() && next(piece_)) {
        }
    }
    const std::size_t size = std::min(room.size(), piece_.size() - sent_bytes_);
    std::copy_n(piece_.data() + sent_bytes_, size, room.data());
    sent_bytes_ += size;
    co_return size;
}

}  // namespace atl::http
