#include "bridge/guest/files/file_command.hpp"

#include <errno.h>

#include <memory>
#include <utility>

#include "bridge/guest/file_error.hpp"
#include "bridge/guest/files/file_job.hpp"
#include "bridge/guest/files/new_file.hpp"
#include "bridge/json_scan.hpp"
#include "core/plain/entity_tag.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/plain/path_text.hpp"

namespace atl::guest {
namespace {

// The name of a file in a sentence is cut to so many bytes.
constexpr std::size_t k_told_name_bytes = 100;
constexpr std::uint64_t k_known_mode_bits = 07777;

struct FileVisitor : bridge::ObjectVisitor {
    FileRequest request;

    bool on_string(const std::string& key, std::string& value) {
        if (key == "op")
            request.op = std::move(value);
        else if (key == "path")
            request.path = base::path_bytes(value);
        else if (key == "to")
            request.to = base::path_bytes(value);
        else if (key == "after")
            request.after = base::path_bytes(value);
        else if (key == "ifRange")
            request.if_range = std::move(value);
        else if (key == "ifMatch")
            request.if_match = std::move(value);
        else if (key == "ifNoneMatch")
            request.if_none_match = std::move(value);
        else if (key == "format")
            request.format = std::move(value);
        return true;
    }
    bool on_unsigned(const std::string& key, std::uint64_t value) {
        if (key == "offset")
            request.offset = value;
        else if (key == "length")
            request.length = value;
        else if (key == "suffix")
            request.suffix = value;
        else if (key == "mode")
            request.mode = static_cast<mode_t>(value & k_known_mode_bits);
        else if (key == "depth")
            request.depth = value;
        else if (key == "limit")
            request.limit = value;
        return true;
    }
    bool on_bool(const std::string& key, bool value) {
        if (key == "inplace")
            request.in_place = value;
        else if (key == "recursive")
            request.recursive = value;
        else if (key == "overwrite")
            request.overwrite = value;
        else if (key == "all")
            request.all = value;
        return true;
    }
};

FileWork find_file_work(std::string_view op) {
    static constexpr std::pair<std::string_view, FileWork> k_table[] = {
        {"stat", stat_file},       {"read", read_file},      {"write", write_file},  {"list", list_files},
        {"mkdir", make_directory}, {"move", move_file},      {"copy", copy_file},    {"remove", remove_file},
        {"pack", pack_files},      {"unpack", unpack_files}, {"watch", watch_files},
    };
    for (const auto& [known, work] : k_table)
        if (known == op)
            return work;
    return nullptr;
}

/// False for a path that the kernel would refuse, too, but only after parents were made.
bool is_path(std::string_view path) {
    if (path.size() > base::k_max_path_bytes || path.find('\0') != std::string_view::npos)
        return false;
    while (path.size() > base::k_max_name_bytes) {
        const std::size_t slash = path.find('/');
        if (slash > base::k_max_name_bytes)
            return false;
        path.remove_prefix(slash + 1);
    }
    return true;
}

/// True if the op would make a name that only the guest itself makes.
bool makes_hidden_name(const FileRequest& request) {
    const bool makes_path = request.op == "write" || request.op == "mkdir" || request.op == "unpack";
    return has_hidden_name(request.to) || (makes_path && has_hidden_name(request.path));
}

}  // namespace

std::string told_name(std::string_view path) {
    return path.empty() ? "the workspace" : base::excerpt(path, k_told_name_bytes);
}

CallEnd refuse_errno(std::string_view path, int error_number) {
    return file_error(error_number, told_name(path));
}

CallEnd refuse_errno(std::string_view path) {
    return refuse_errno(path, errno);
}

CallEnd refuse_file(std::string_view path, std::string_view why, std::string_view code) {
    return {told_name(path).append(": ").append(why), code};
}

std::string entries_and_bytes(std::uint64_t entries, std::uint64_t bytes) {
    return "{\"entries\":" + std::to_string(entries) + ",\"bytes\":" + std::to_string(bytes) + "}";
}

// "", "/" and "./" are the workspace.
bool leaves_out_home(const FileRequest& request) {
    return !request.all && request.path.find_first_not_of("./") == std::string::npos &&
           request.path.find("..") == std::string::npos;
}

CallEnd check_conditions(const FileRequest& request, std::string_view tag) {
    using base::TagComparison;
    const bool holds =
        (request.if_match.empty() || base::names_tag(request.if_match, tag, TagComparison::strong)) &&
        (request.if_none_match.empty() || !base::names_tag(request.if_none_match, tag, TagComparison::weak));
    return holds ? CallEnd{}
                 : refuse_file(request.path, "the condition does not hold for what is there",
                               bridge::refusal::precondition_failed);
}

CallEnd check_slashes(const FileRequest& request, const struct stat& about) {
    if (S_ISDIR(about.st_mode))
        return {};
    if (request.path.ends_with('/'))
        return refuse_errno(request.path, ENOTDIR);
    if (request.to.ends_with('/'))
        return refuse_file(request.to,
                           "the name ends in a slash as that of a directory, and what gets it is none",
                           bridge::refusal::not_a_directory);
    return {};
}

void FileCommand::begin(Connection& connection, Command& command) {
    FileVisitor visitor;
    // Nothing nests in it.
    if (bridge::scan_object(command.line, 1, visitor) != bridge::Scan::complete)
        return refuse(connection, "not the form of a `file` command", bridge::refusal::invalid);
    FileRequest& request = visitor.request;
    const FileWork work = find_file_work(request.op);
    if (work == nullptr)
        return refuse(connection, "no such `op`", bridge::refusal::invalid);
    if (!is_path(request.path) || !is_path(request.to))
        return refuse(connection, "the path or a name in it is too long, or has a NUL",
                      bridge::refusal::invalid_path);
    if (makes_hidden_name(request))
        return refuse(connection, "names of this form are the server's own", bridge::refusal::invalid_path);
    const auto job = std::make_shared<const FileJob>(workspace_, std::move(request), abandoned_);
    if (!job->root.is_open()) {
        const CallEnd end = refuse_errno("");
        return refuse(connection, end.error, end.code);
    }
    calls_.emplace_back(loop_, connection);
    const auto call = std::prev(calls_.end());
    call->start([job, work](Call& in) { return work(in, *job); }, [this, call] { calls_.erase(call); });
}

}  // namespace atl::guest
