// The files that the tools have shown in this generation, so that an edit of a file that was not read, or
// changed since, can be refused. The tools' own writes count as reads. Bounded: the oldest is forgotten, and
// an edit then asks for another read. Pure.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

namespace atl::guest {

class ReadFiles {
  public:
    explicit ReadFiles(std::size_t most) : most_(most) {}

    /// `path` was shown, or written, and is as `state` says.
    void note(const std::string& path, const struct stat& state);
    /// The reason why `path`, which is now as `state` says, may not be edited: a clause such as "it was not
    /// read before"; empty: it may be.
    std::string objection(const std::string& path, const struct stat& state) const;

  private:
    struct State {
        std::uint64_t device;
        std::uint64_t inode;
        std::uint64_t size_bytes;
        std::int64_t modified_ns;
        std::int64_t changed_ns;

        bool operator==(const State&) const = default;
    };
    struct Entry {
        State state;
        std::list<std::string>::iterator age;
    };
    static State state_of(const struct stat& state);

    std::size_t most_;
    std::list<std::string> ages_;  // the oldest first
    std::unordered_map<std::string, Entry> entries_;
};

}  // namespace atl::guest
