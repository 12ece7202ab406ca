// list: the entries of a directory and of those below it, a page at a time, in the order of the bytes of
// their names, what is inside a directory right behind it. A page goes on behind the path where the one
// before ended, whether that still exists or not, so no change of other files moves it. Memory: the names of
// one page for each level, whatever a directory holds.
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "bridge/guest/files/file_entry.hpp"
#include "bridge/guest/files/file_job.hpp"
#include "bridge/guest/files/folder.hpp"
#include "bridge/guest/files/new_file.hpp"
#include "core/plain/inner_paths.hpp"
#include "core/plain/json_text.hpp"
#include "core/plain/path_text.hpp"
#include "core/plain/tree_remover.hpp"

namespace atl::guest {
namespace {

constexpr std::size_t k_listed_names_at_once = 500;
constexpr std::size_t k_listed_at_once = 100;
constexpr std::size_t k_most_swept = 10'000;  // entries of earlier guests, looked at or removed by one list

/// A page that is being written.
struct Page {
    Call& call;
    std::uint64_t left;  // entries that fit
    std::string text;    // not sent yet
    std::string last;    // the path of the last entry
    bool is_empty = true;
    bool has_more = false;
    std::size_t since_turn = 0;
    std::size_t sweep_left = k_most_swept;
    std::size_t hidden = 0;  // entries that are left out
};

/// A directory of which entries are listed.
struct ListLevel {
    Folder folder;
    std::string path;                // with a slash at the end, unless it is empty
    std::string after;               // begin behind this path, relative to the directory; empty: at the front
    std::vector<std::string> names;  // the greatest first
    bool without_home = false;       // leaves out base::k_home_names
};

enum class LevelBelow : bool { left_out, listed };

std::string first_part(const std::string& path) {
    return path.substr(0, path.find('/'));
}

std::string behind_first_part(const std::string& path) {
    const std::size_t slash = path.find('/');
    return slash == std::string::npos ? std::string() : path.substr(slash + 1);
}

/// Removes what a killed guest left behind. A list removes only its share; the rest waits for the next list.
Task<void> remove_stale(Page& page, DIR* folder, std::string name) {
    if (page.sweep_left == 0)
        co_return;
    --page.sweep_left;
    base::TreeRemover remover;
    remover.begin(dirfd(folder), name);
    bool has_more = true;
    while (has_more && page.sweep_left > 0) {
        const std::size_t share = std::min(page.sweep_left, k_listed_at_once);
        has_more = remover.step(share);
        page.sweep_left -= share;
        co_await page.call.turn();
    }
}

/// Reads the names that the page may need: the smallest from `after` on.
Task<void> read_names(Page& page, ListLevel& level) {
    std::priority_queue<std::string> smallest;
    const std::string begin = first_part(level.after);
    // The first name more tells that there are more, the second is `begin` itself, which is not listed again.
    const std::size_t most = page.left + 2;
    std::size_t read = 0;
    while (const char* const name = next_name(level.folder.get())) {
        if (is_stale_name(name)) {
            auto sweeping = remove_stale(page, level.folder.get(), name);
            co_await sweeping;
        } else if (level.without_home && base::is_home_name(name)) {
            ++page.hidden;
        } else if (!is_hidden_name(name) && begin <= name) {
            smallest.emplace(name);
            if (smallest.size() > most)
                smallest.pop();
        }
        if (++read % k_listed_names_at_once == 0)
            co_await page.call.turn();
    }
    for (; !smallest.empty(); smallest.pop())
        level.names.push_back(smallest.top());
}

void add_entry(Page& page, const ListLevel& level, const std::string& name, const struct stat& about) {
    if (page.left == 0) {
        page.has_more = true;
        return;
    }
    --page.left;
    page.last = level.path + name;
    if (!std::exchange(page.is_empty, false))
        page.text += ',';
    append_entry(page.text, page.last, about, dirfd(level.folder.get()), name);
}

/// Takes the next name of the deepest level. Gives the level to go on in, if it is a directory.
std::optional<ListLevel> take_name(Page& page, ListLevel& level, LevelBelow below) {
    const std::string name = std::move(level.names.back());
    level.names.pop_back();
    struct stat about {};
    const int fd = dirfd(level.folder.get());
    if (fstatat(fd, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0)
        return std::nullopt;
    const bool was_listed = !level.after.empty() && name == first_part(level.after);
    if (!was_listed)
        add_entry(page, level, name, about);
    if (page.has_more || below == LevelBelow::left_out || !S_ISDIR(about.st_mode))
        return std::nullopt;
    // A directory that may not be read is listed without its entries.
    Folder inner = open_folder(fd, name.c_str());
    if (!inner)
        return std::nullopt;
    return ListLevel{std::move(inner),
                     level.path + name + '/',
                     was_listed ? behind_first_part(level.after) : std::string(),
                     {}};
}

Task<void> send_if_long(Page& page) {
    if (++page.since_turn % k_listed_at_once != 0 && page.text.size() < base::k_max_frame_bytes)
        co_return;
    page.call.output(page.text);
    page.text.clear();
    co_await page.call.turn();
    co_await page.call.room();
}

Task<void> list_levels(Page& page, ListLevel start, std::uint64_t depth) {
    std::vector<ListLevel> levels;
    levels.push_back(std::move(start));
    auto reading = read_names(page, levels.back());
    co_await reading;
    while (!levels.empty() && !page.has_more) {
        ListLevel& level = levels.back();
        if (level.names.empty()) {
            levels.pop_back();
            continue;
        }
        std::optional<ListLevel> inner =
            take_name(page, level, levels.size() < depth ? LevelBelow::listed : LevelBelow::left_out);
        if (inner) {
            levels.push_back(std::move(*inner));
            auto inner_reading = read_names(page, levels.back());
            co_await inner_reading;
        }
        auto sending = send_if_long(page);
        co_await sending;
    }
}

/// `after` without the path of the directory itself.
std::string relative_after(const FileRequest& request, const std::string& prefix) {
    return request.after.starts_with(prefix) ? request.after.substr(prefix.size()) : std::string();
}

}  // namespace

Task<CallEnd> list_files(Call& call, const FileJob& job) {
    const FileRequest& request = job.request;
    Folder folder = read_folder(job.root.open(request.path, O_RDONLY | O_DIRECTORY));
    if (!folder)
        co_return refuse_errno(request.path);
    std::string prefix = request.path;
    while (prefix.ends_with('/'))
        prefix.pop_back();
    prefix += prefix.empty() ? "" : "/";
    call.reply({});
    Page page{call, request.limit, "{\"entries\":[", {}};
    ListLevel start{std::move(folder), prefix, relative_after(request, prefix), {}, leaves_out_home(request)};
    auto listing = list_levels(page, std::move(start), request.depth);
    co_await listing;
    page.text += "],\"next\":";
    if (page.has_more)  // exact: an entry's shown path may not lead back
        base::append_json_string(page.text, base::path_text(page.last));
    else
        page.text += "null";
    page.text.append(",\"hidden\":").append(std::to_string(page.hidden)).append("}");
    call.output(page.text);
    co_return CallEnd{};
}

}  // namespace atl::guest
