// Files, links and folders that are made beside the name that they get at the end, all at once: a program
// that opens the name finds the old thing or the new one, complete. A file has no name until then, where the
// file system can do that (open(2), O_TMPFILE); else, and every other thing, it has a hidden name in the same
// directory. What is given up leaves nothing, a large folder after a while. Only a guest that ends may leave
// a hidden name: the next guest's lists leave those out and remove them.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/plain/unique_fd.hpp"

namespace atl::guest {

/// A new hidden name. Nobody outside this process can guess it.
std::string hidden_name();
/// True if the name has the exact form of those that guests make: no client may make one.
bool is_hidden_name(std::string_view name);
/// True if a part of this path is such a name.
bool has_hidden_name(std::string_view path);
/// True if it is such a name, and an earlier guest made it.
bool is_stale_name(std::string_view name);

/// Says if something that has the name already is replaced.
enum class Replace : std::uint8_t { yes, no };

class AbandonedCopies;

/// Something under a hidden name, removed with the object unless it was published: a file or a link at once,
/// a folder by the `abandoned`, which it needs.
class HiddenName {
  public:
    /// `folder` and `abandoned` must outlive this. The thing is made by the caller.
    HiddenName(int folder, std::string name, AbandonedCopies* abandoned = nullptr)
        : folder_(folder), name_(std::move(name)), abandoned_(abandoned) {}
    HiddenName(HiddenName&& other) noexcept;
    HiddenName& operator=(HiddenName&&) = delete;
    ~HiddenName();

    const std::string& name() const noexcept { return name_; }
    /// False, and errno as of rename(2); EEXIST: there is something, and it does not give way. Also where
    /// `as` is a hard link of the same file, nothing is left of the hidden name.
    bool publish(const std::string& as, Replace replace);

  private:
    int folder_ = -1;
    std::string name_;  // empty: nothing to remove
    AbandonedCopies* abandoned_ = nullptr;
};

class NewFile {
  public:
    /// Opens a new file in `folder`, which must outlive this. is_open() says whether; errno says why not.
    explicit NewFile(int folder);
    bool is_open() const noexcept { return static_cast<bool>(fd_); }
    int fd() const noexcept { return fd_.get(); }

    /// Writes all of `bytes`. False, and errno.
    bool write(std::string_view bytes);
    /// Gives it its mode and its name, and moves its time on where it replaces a file. Errors as of
    /// HiddenName::publish().
    bool publish(const std::string& as, mode_t mode, Replace replace);

  private:
    int folder_;
    base::UniqueFd fd_;
    std::optional<HiddenName> hidden_;  // of a file that has a name already
};

/// Writes all of `bytes`. False, and errno.
bool write_all(int fd, std::string_view bytes);

/// After a write: moves the open file's time of modification behind `former`, that of the content before.
/// The clock of a file system moves in ticks of milliseconds, and two contents of one size must differ in
/// their tags. A `former` that is more than a second ahead is no matter of ticks: it is left. Does nothing
/// where the guest may not: of a file that is another user's.
void move_time_on(int fd, const timespec& former);

}  // namespace atl::guest
