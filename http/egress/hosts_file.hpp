// A file as /etc/hosts (hosts(5)), read once a version of it: look-ups are many, and the file may be long. A
// name has all addresses of its lines; letters of either case are the same. Blocks on the disk as it reads.
// Not here: which names may be asked for (resolver.hpp).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/access/ip_address.hpp"

namespace atl::http {

/// A text that changes when the file is written or replaced. Empty: there is no file.
std::string file_version(const std::string& path);

class HostsFile {
  public:
    struct Bounds {
        std::size_t bytes = 8UL * 1024 * 1024;
        std::size_t names = 200'000;  // with each of their addresses
    };
    explicit HostsFile(std::string path) : HostsFile(std::move(path), Bounds()) {}
    HostsFile(std::string path, Bounds bounds) : path_(std::move(path)), bounds_(bounds) {}
    HostsFile(const HostsFile&) = delete;
    HostsFile& operator=(const HostsFile&) = delete;

    /// The addresses of `name`, which has small letters alone, in the order of the file; none: the file does
    /// not have it, or cannot be read. Reads the file if it is another one than before; what lies beyond the
    /// bounds does not count, which the log says once.
    std::vector<IpAddress> find(std::string_view name);

  private:
    struct Entry {
        std::string_view name;  // of text_
        IpAddress address;
    };

    void read();
    /// False: there are too many names.
    bool add_line(std::string_view line);

    const std::string path_;
    const Bounds bounds_;
    std::string version_;
    std::string text_;
    std::vector<Entry> entries_;  // by name
    bool is_cut_told_ = false;
};

}  // namespace atl::http
