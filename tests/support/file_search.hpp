// Files that hold a text.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace atl::test {

inline std::string bytes_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// The regular files below `folder` that have this text.
inline std::vector<std::filesystem::path> files_with(const std::filesystem::path& folder,
                                                     const std::string& text) {
    using namespace std::filesystem;
    std::vector<path> found;
    for (const auto& entry : recursive_directory_iterator(folder, directory_options::skip_permission_denied))
        if (entry.is_regular_file() && bytes_of(entry.path()).find(text) != std::string::npos)
            found.push_back(entry.path());
    return found;
}

}  // namespace atl::test
