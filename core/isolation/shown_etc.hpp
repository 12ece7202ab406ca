// The parts of the host's /etc that a sandbox sees beside its generated files: the configuration that
// packages keep there for all to read, without which programs of /usr fail (the JVM's java.security,
// fontconfig, services). A rule chooses them: targets of symlinks of /usr, and files that programs open by
// well-known names; each only if everyone may read it, and nothing that can hold a secret. They are looked up
// once at the start of the server and copied (etc_template.hpp): a file that appears later is not shown.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace atl::isolation {

/// An entry to be copied. A folder is one that is empty; others come with what is in them.
struct EtcCopy {
    enum class Kind : std::uint8_t { file, link, folder };
    Kind kind = Kind::file;
    std::string path;      // below /etc
    std::string target{};  // of a link
    bool operator==(const EtcCopy&) const = default;
};

/// In the order of their paths, each once, at most base::k_max_etc_copies with base::k_max_etc_bytes; a line
/// of the log names the first that finds no place. `added` are the operator's: files and folders below /etc,
/// each of which must be there, may be shown and finds a place with all that is in it, otherwise
/// invalid_field. `shown_whole` are paths that are shown as they are and need no copy. `root` stands for "/".
base::Result<std::vector<EtcCopy>> find_shown_etc(const std::vector<std::filesystem::path>& added,
                                                  const std::vector<std::string>& shown_whole,
                                                  const std::filesystem::path& root = "/");

}  // namespace atl::isolation
