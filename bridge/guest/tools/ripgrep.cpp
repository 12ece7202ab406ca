#include "bridge/guest/tools/ripgrep.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "bridge/guest/spawn.hpp"
#include "core/plain/inner_paths.hpp"
#include "core/plain/utf8.hpp"

namespace atl::guest {
namespace {

using namespace base::tool_error;

constexpr std::size_t k_piece_bytes = 64UL * 1024;
constexpr std::size_t k_error_bytes = 2000;
constexpr int k_status_error = 2;
// So much of ripgrep's stderr is kept, in the sandbox's memory. The rest is dropped now and then.
constexpr std::size_t k_told_bytes = 1024UL * 1024;
constexpr off_t k_dropped_bytes = off_t{1} << 40;
constexpr std::chrono::milliseconds k_drop_interval{250};
// "DEBUG|ignore::walk|…: ignoring ./a: 30 bytes", from version 14 on with "rg: " in front.
constexpr std::string_view k_debug_word = "DEBUG|";
constexpr std::string_view k_walk_word = "DEBUG|ignore::";

std::string beginning_of(int fd, std::size_t most_bytes) {
    struct stat about {};
    if (fd < 0 || fstat(fd, &about) != 0)
        return {};
    std::string text(std::min(most_bytes, static_cast<std::size_t>(about.st_size)), '\0');
    const ssize_t size = pread(fd, text.data(), text.size(), 0);
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
}

bool has_word(std::string_view line, std::string_view word) {
    return line.starts_with(word) || (line.starts_with("rg: ") && line.substr(4).starts_with(word));
}

bool ends_in_size(std::string_view line) {
    constexpr std::string_view k_end = " bytes";
    if (!line.ends_with(k_end))
        return false;
    line.remove_suffix(k_end.size());
    const std::size_t digits = line.find_last_not_of("0123456789");
    return digits != std::string_view::npos && digits + 1 < line.size() &&
           line.substr(0, digits + 1).ends_with(": ");
}

/// True if rg complains of the pattern: each such message names the regular expression. With
/// --no-messages it says nothing of files.
bool is_about_pattern(std::string_view said) {
    return said.find("regex") != std::string_view::npos && said.find("(os error") == std::string_view::npos;
}

}  // namespace

std::vector<std::string> ripgrep_walk_options() {
    return {"rg",
            "--no-config",
            "--no-messages",
            "--null",
            "--hidden",
            "--no-require-git",
            "--no-ignore-dot",
            "--no-ignore-exclude",
            "--no-ignore-global",
            "--glob=!.git",
            "--glob=!" + std::string(base::k_state_folder)};
}

Ripgrep::~Ripgrep() {
    run_.services.loop.cancel(deadline_);
    run_.services.loop.cancel(drop_);
    if (pid_ < 0)
        return;
    run_.services.children.forget(pid_);
    kill();
}

void Ripgrep::kill() {
    if (pid_ > 0)
        static_cast<void>(::kill(-pid_, SIGKILL));
}

std::optional<ToolResult> Ripgrep::start(std::vector<std::string> arguments, int directory_fd,
                                         std::string_view ignore_rules) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return ToolResult::failure(tool_unavailable, "The search cannot run: no pipe is to be had.",
                                   "The search could not be started.");
    output_.reset(ends[0]);
    const base::UniqueFd writing(ends[1]);
    fcntl(output_.get(), F_SETFL, O_NONBLOCK);
    errors_.reset(memfd_create("errors", MFD_CLOEXEC));
    const base::UniqueFd rules = ignore_rules.empty() ? base::UniqueFd() : memory_file(ignore_rules);
    const base::UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
    SpawnRequest request;
    request.input_fd = nothing.get();
    request.argv = std::move(arguments);
    request.directory_fd = directory_fd;
    request.output_fd = writing.get();
    request.error_fd = errors_.get();
    request.script_fd = rules.get();
    const pid_t pid = spawn(request);
    if (pid < 0) {
        const std::string why = -pid == ENOENT ? "ripgrep (rg) is not installed in this sandbox"
                                : -pid == EAGAIN
                                    ? "the sandbox is at its limit of processes"
                                    : "ripgrep (rg) does not start: " + std::string(strerrordesc_np(-pid));
        return ToolResult::failure(tool_unavailable, "The search cannot run: " + why + ".",
                                   "The search could not be started: " + why + ".");
    }
    pid_ = pid;
    end_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    run_.services.children.watch(pid, [this](const Ending& ending) {
        ending_ = ending;
        pid_ = -1;
    });
    deadline_ = run_.services.loop.arm(run_.services.search_timeout, [this] {
        timed_out_ = true;
        kill();
    });
    drop_words_later();
    return std::nullopt;
}

void Ripgrep::drop_words_later() {
    drop_ = run_.services.loop.arm(k_drop_interval, [this] {
        static_cast<void>(fallocate(errors_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, k_told_bytes,
                                    k_dropped_bytes));
        drop_words_later();
    });
}

Task<std::string_view> Ripgrep::async_read() {
    piece_.resize(k_piece_bytes);
    for (;;) {
        const ssize_t size = read(output_.get(), piece_.data(), piece_.size());
        if (size >= 0)
            co_return std::string_view(piece_.data(), static_cast<std::size_t>(size));
        if (errno == EAGAIN)
            co_await run_.call.readable(output_.get());
        else if (errno != EINTR)
            co_return std::string_view();
    }
}

Task<void> Ripgrep::async_finish() {
    while (!ending_) {
        if (end_)
            co_await run_.call.readable(end_.get());
        if (!ending_)
            co_await run_.call.turn();
    }
    run_.services.loop.cancel(std::exchange(deadline_, 0));
    run_.services.loop.cancel(std::exchange(drop_, 0));
}

std::optional<int> Ripgrep::status() const {
    if (!ending_ || ending_->signalled)
        return std::nullopt;
    return ending_->code;
}

// Messages about the pattern come before those about the walk, whose file names may hold line ends.
std::string Ripgrep::errors() const {
    const std::string told = beginning_of(errors_.get(), k_told_bytes);
    std::string text;
    for (std::string_view left = told; !left.empty() && text.size() < k_error_bytes;) {
        const std::size_t end = std::min(left.find('\n'), left.size());
        const std::string_view line = left.substr(0, end);
        left.remove_prefix(std::min(end + 1, left.size()));
        if (has_word(line, k_walk_word))
            break;
        if (!has_word(line, k_debug_word))
            text.append(text.empty() ? "" : "\n").append(line);
    }
    while (text.ends_with('\n'))
        text.pop_back();
    return base::excerpt(text, k_error_bytes);
}

std::size_t Ripgrep::skipped_files() const {
    const std::string told = beginning_of(errors_.get(), k_told_bytes);
    std::size_t count = 0;
    bool is_walk = false;  // the latest word, which goes on where a name has a line end
    for (std::string_view left = told; !left.empty();) {
        const std::size_t end = std::min(left.find('\n'), left.size());
        const std::string_view line = left.substr(0, end);
        if (has_word(line, k_debug_word))
            is_walk = has_word(line, k_walk_word);
        if (is_walk && ends_in_size(line))
            ++count, is_walk = false;
        left.remove_prefix(std::min(end + 1, left.size()));
    }
    return count;
}

std::optional<ToolResult> Ripgrep::failure(std::string_view feedback) const {
    const std::string said = errors();
    if (timed_out_)
        return ToolResult::failure(
            timeout,
            "The search did not end within " +
                std::to_string(run_.services.search_timeout / std::chrono::seconds(1)) +
                " s and was stopped. Search a smaller directory, or with another pattern.",
            std::string(feedback) + ": it took too long.");
    if (!status())
        return ToolResult::failure(tool_unavailable,
                                   "The search broke off: ripgrep " + describe(*ending_) + ".",
                                   std::string(feedback) + ": the search broke off.");
    if (*status() < k_status_error || (*status() == k_status_error && said.empty()))
        return std::nullopt;
    if (*status() > k_status_error || !is_about_pattern(said))
        return ToolResult::failure(tool_unavailable,
                                   "The search broke off: ripgrep " + describe(*ending_) + ". " + said,
                                   std::string(feedback) + ": the search broke off.");
    return ToolResult::failure(invalid_pattern, "The pattern is not a valid one: " + said,
                               std::string(feedback) + ": the pattern is not valid.");
}

}  // namespace atl::guest
