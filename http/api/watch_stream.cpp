#include "http/api/watch_stream.hpp"

#include <utility>

#include "core/plain/inner_paths.hpp"
#include "core/plain/json_text.hpp"
#include "core/plain/path_text.hpp"

namespace atl::http {
namespace {

using base::Error;
using conversation::WatchNote;
using sandbox::FileChange;

constexpr std::string_view k_watch_frame_end = "}\n\n";

/// The members `shown` and `exact` of the path that `text` stands for.
void write_path(std::string& out, std::string_view shown, std::string_view exact, std::string_view text) {
    const std::string bytes = base::path_bytes(text);
    out.append(",\"").append(shown).append("\":");
    base::append_json_string(out, base::shown_path(bytes));
    out.append(",\"").append(exact).append("\":");
    base::append_json_string(out, base::path_href(bytes));
}

void write_change(std::string& out, const FileChange& change) {
    out.append("{\"change\":\"").append(sandbox::to_string(change.kind)).append("\"");
    write_path(out, "path", "href", change.path);
    if (!change.to.empty())
        write_path(out, "to", "toHref", change.to);
    const bool is_folder = change.thing == FileChange::Thing::directory;
    out.append(",\"directory\":").append(is_folder ? "true" : "false").append("}");
}

}  // namespace

WatchScope::WatchScope(std::string_view path, Depth depth, Home home) : prefix_(path), depth_(depth) {
    while (prefix_.ends_with('/'))
        prefix_.pop_back();
    if (!prefix_.empty())
        prefix_ += '/';
    without_home_ = home == Home::left_out && prefix_.empty();
}

bool WatchScope::has(std::string_view path) const noexcept {
    if (!path.starts_with(prefix_) || path.size() == prefix_.size())
        return false;
    if (without_home_ && base::is_home_name(path.substr(0, path.find('/'))))
        return false;
    return depth_ == Depth::all || path.find('/', prefix_.size()) == std::string_view::npos;
}

// A rename over the border is an arrival or a departure.
std::optional<FileChange> WatchScope::seen(const FileChange& change) const {
    const bool arrives = !change.to.empty() && has(change.to);
    if (!has(change.path) && !arrives)
        return std::nullopt;
    FileChange seen = change;
    if (!has(change.path)) {
        seen.kind = FileChange::Kind::created;
        seen.path = std::exchange(seen.to, {});
    } else if (!arrives) {
        seen.to.clear();
    }
    return seen;
}

BodyStream::State FileWatchStream::pull(std::string& out, std::size_t limit_bytes) {
    while (out.size() < limit_bytes) {
        const auto note = watch_->next();
        if (!note)
            return State::waiting;
        write(out, *note);
        if (note->kind == WatchNote::Kind::ended)
            return State::finished;
    }
    return State::more;
}

void FileWatchStream::heartbeat(std::string& out) {
    out += ": heartbeat\n\n";
}

void FileWatchStream::end_early(base::Errc reason, std::string& out) {
    write_closed(out, Error(reason, reason == base::Errc::token_expired
                                        ? "The token's time is over. Get a new one, and open the watch again."
                                        : "The server stops. Open the watch again."));
}

void FileWatchStream::begin_frame(std::string& out, std::string_view type) const {
    if (names_ == EventNames::types)
        out.append("event: ").append(type).append("\n");
    out.append("data: {\"type\":\"").append(type).append("\"");
}

void FileWatchStream::write(std::string& out, const WatchNote& note) const {
    using Kind = WatchNote::Kind;
    switch (note.kind) {
        case Kind::started:
            begin_frame(out, "started");
            break;
        case Kind::changes:
            return write_changes(out, *note.changes);
        case Kind::rescan:
            begin_frame(out, "rescan");
            break;
        case Kind::uncovered:
            begin_frame(out, "incomplete");
            out.append(",\"directories\":").append(std::to_string(note.directories));
            break;
        case Kind::paused:
            begin_frame(out, "paused");
            break;
        case Kind::ended:
            return write_closed(out, note.why);
    }
    out += k_watch_frame_end;
}

void FileWatchStream::write_changes(std::string& out, const sandbox::FileChanges& changes) const {
    bool is_empty = true;
    for (const FileChange& change : changes) {
        const auto seen = scope_.seen(change);
        if (!seen)
            continue;
        if (std::exchange(is_empty, false)) {
            begin_frame(out, "changes");
            out += ",\"changes\":[";
        } else {
            out += ',';
        }
        write_change(out, *seen);
    }
    if (!is_empty)
        out.append("]").append(k_watch_frame_end);
}

void FileWatchStream::write_closed(std::string& out, const Error& why) const {
    begin_frame(out, "stream_closed");
    out += ",\"code\":";
    base::append_json_string(out, base::code_name(why.code()));
    out += ",\"detail\":";
    base::append_json_string(out, why.detail());
    out += k_watch_frame_end;
}

}  // namespace atl::http
