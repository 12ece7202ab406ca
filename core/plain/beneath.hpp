// Paths beneath a root, as the kernel resolves them (openat2(2), RESOLVE_BENEATH). A path may hold links and
// `..`, and others may swap its parts meanwhile: what is opened lies beneath the root, or nothing is opened.
// A link to an absolute path below the root counts as one to the same path relative to the root; any other
// absolute link leads outside. The program inside a sandbox uses it, with the rights of the workspace's user
// alone; the server itself opens no workspace. Errors are errno.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/plain/unique_fd.hpp"

namespace atl::base {

/// True where the text of a relative path, read without links, goes above its start on its way.
bool climbs_out(std::string_view path);

/// The treatment of a link at the end of a path.
enum class LastLink : std::uint8_t { followed, itself };

class NewParents;

class Beneath {
  public:
    /// Opens the directory at `root`, an absolute path. is_open() says whether that worked; errno says why
    /// not.
    explicit Beneath(const std::string& root);
    bool is_open() const noexcept { return static_cast<bool>(root_); }
    int fd() const noexcept { return root_.get(); }

    /// Opens as openat2(2) does, close-on-exec. `path` is relative to the root; empty and "." are the root.
    /// Not for O_PATH-less opening of what may be a FIFO or a device: use look(). EXDEV: the path leads
    /// outside.
    UniqueFd open(std::string_view path, int flags, mode_t mode = 0) const;
    /// The target of an absolute link, relative to the root ("." is the root); nothing: it lies elsewhere.
    std::optional<std::string> below_root(std::string_view absolute) const;
    /// Finds what is at `path` without opening it (open(2), O_PATH).
    UniqueFd look(std::string_view path, LastLink last) const {
        return open(path, O_PATH | (last == LastLink::itself ? O_NOFOLLOW : 0));
    }
    /// Opens what look() has found, whatever is at its path by now, without waiting for anybody: EAGAIN, if
    /// a process has a lease on it. `flags` without O_CREAT.
    static UniqueFd reopen(int looked_at, int flags);

    /// The place of something that is or will be there, for the *at() system calls, which follow no link at
    /// `name` when told so.
    struct Place {
        UniqueFd directory;
        std::string name;  // a name: not empty, not "." or "..", no slash
    };
    /// Nothing, and errno, if the directory cannot be opened; EINVAL where the path ends in no name, as that
    /// of the root does.
    std::optional<Place> place(std::string_view path) const;
    /// Does the same, and makes the directory where it is missing. EXDEV, and nothing made: by its text the
    /// path leads above the root. `made`, if given, takes note of what was made.
    std::optional<Place> make_place(std::string_view path, NewParents* made = nullptr) const;
    /// Makes the directories that `path` goes through but for its last part, mode 0777 less the umask. False,
    /// and errno: a part is no directory, or cannot be made.
    bool make_parents(std::string_view path, NewParents* made = nullptr) const;

  private:
    UniqueFd open_as_written(const std::string& path, int flags, mode_t mode) const;
    std::optional<std::string> without_absolute_links(std::string path, LastLink last) const;

    std::string root_path_;
    UniqueFd root_;
};

/// Directories that were made on the way to something. Unless that came to be, they are removed with the
/// object, as far as they are empty.
class NewParents {
  public:
    /// `root` must outlive this.
    explicit NewParents(const Beneath& root) : root_(root) {}
    ~NewParents();
    NewParents(const NewParents&) = delete;
    NewParents& operator=(const NewParents&) = delete;

    void keep() noexcept { paths_.clear(); }

  private:
    friend class Beneath;
    void add(std::string_view path);

    const Beneath& root_;
    std::vector<std::string> paths_;  // the deepest ones last
};

}  // namespace atl::base
