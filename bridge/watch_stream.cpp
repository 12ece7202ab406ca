#include "bridge/watch_stream.hpp"

#include <array>
#include <utility>

#include "bridge/json_scan.hpp"
#include "bridge/protocol.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::bridge {
namespace {

using base::Errc;
using base::Error;
using sandbox::FileChange;

// A path as text is at most so long: each byte of the path is an escape of three at the most.
constexpr std::size_t k_max_text_bytes = 3 * base::k_max_path_bytes;

struct LineVisitor : ObjectVisitor {
    std::optional<FileChange::Kind> kind;
    FileChange change;
    std::optional<std::uint64_t> uncovered;
    bool rescan = false;
    bool is_refused = false;

    bool on_string(const std::string& key, std::string& value) {
        if (key == "change")
            read_kind(value);
        else if (key == "path")
            read_path(change.path, value);
        else if (key == "to")
            read_path(change.to, value);
        return true;
    }
    bool on_bool(const std::string& key, bool value) {
        if (key == "rescan")
            rescan = value;
        else if (key == "directory" && value)
            change.thing = FileChange::Thing::directory;
        return true;
    }
    bool on_unsigned(const std::string& key, std::uint64_t value) {
        if (key == "uncovered")
            uncovered = value;
        return true;
    }

  private:
    void read_kind(std::string_view word) {
        using Kind = FileChange::Kind;
        for (const Kind known :
             {Kind::created, Kind::modified, Kind::attributes, Kind::deleted, Kind::renamed})
            if (sandbox::to_string(known) == word)
                kind = known;
    }
    void read_path(std::string& path, std::string& text) {
        is_refused = is_refused || text.empty() || text.size() > k_max_text_bytes;
        path = std::move(text);
    }
};

sandbox::CallSpec watch_spec() {
    return {cmd::file, "\"op\":\"watch\",\"path\":\"\"", sandbox::CallSpec::Silence::allowed};
}

}  // namespace

WatchStream::WatchStream(std::shared_ptr<StreamContext> context, const std::string& path,
                         sandbox::WatchObserver& observer)
    : observer_(observer),
      call_(std::move(context), path, std::make_shared<IdleStream>(), watch_spec(), *this) {}

void WatchStream::on_bytes(std::string_view bytes) {
    Lines lines;
    for (std::size_t newline = 0; (newline = bytes.find('\n')) != std::string_view::npos;) {
        const std::string_view end = bytes.substr(0, newline);
        bytes.remove_prefix(newline + 1);
        std::string whole;
        if (!open_line_.empty())
            whole = std::exchange(open_line_, {}).append(end);
        if (!handle_line(whole.empty() ? end : std::string_view(whole), lines))
            return observer_.on_failed(Error(Errc::bridge_failed, "the guest's watch is not of its form"));
    }
    if (!lines.changes.empty())
        observer_.on_changes(std::move(lines.changes));
    if (lines.rescan)
        observer_.on_rescan();
    if (lines.uncovered)
        observer_.on_uncovered(*lines.uncovered);
    open_line_.append(bytes);
    if (open_line_.size() > base::k_max_watch_line_bytes)
        observer_.on_failed(Error(Errc::bridge_failed, "a line of the guest's watch is too long"));
}

/// False if it is not of the form of one.
bool WatchStream::handle_line(std::string_view line, Lines& lines) {
    LineVisitor visitor;
    if (line.size() > base::k_max_watch_line_bytes || scan_object(line, 1, visitor) != Scan::complete ||
        visitor.is_refused)
        return false;
    if (visitor.kind) {
        visitor.change.kind = *visitor.kind;
        lines.changes.push_back(std::move(visitor.change));
        return !lines.changes.back().path.empty();
    }
    lines.rescan = lines.rescan || visitor.rescan;
    if (visitor.uncovered)
        lines.uncovered = visitor.uncovered;
    return true;
}

void WatchStream::on_end() {
    observer_.on_failed(Error(Errc::bridge_failed, "the guest ended its watch"));
}

}  // namespace atl::bridge
