// Path resolution: whatever a path is made of, what is opened lies beneath the root, and so does the
// directory of its place. The tree has links up, out, to themselves, into /proc, and absolute ones back
// into it.
#include "fs-guard/beneath.hpp"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>

#include "tests/fuzz/support.hpp"

using namespace atl;
using fs_guard::Beneath;
using fs_guard::LastLink;
using fuzz::require;

namespace {

/// A folder with the root `root` in it, removed at the end of the process.
class Tree {
  public:
    Tree() {
        char name[] = "/tmp/atoll-fuzz-beneath-XXXXXX";
        require(mkdtemp(name) != nullptr, "a folder can be made");
        folder = name;
        for (const char* const path : {"/root", "/root/a", "/root/a/b", "/root/a/b/c", "/outside"})
            require(mkdir((folder + path).c_str(), 0700) == 0, "a folder can be made");
        link("..", "/root/up");
        link("../../..", "/root/a/b/far");
        link("/", "/root/a/abs");
        link("a/b", "/root/in");
        link("self", "/root/self");
        link("../root/a", "/root/back");
        link("/proc/self/root", "/root/a/b/magic");
        link((folder + "/root/a").c_str(), "/root/a/b/into");
        link((folder + "/root/../outside").c_str(), "/root/away");
    }
    ~Tree() { static_cast<void>(system(("rm -rf " + folder).c_str())); }
    Tree(const Tree&) = delete;
    Tree& operator=(const Tree&) = delete;

    std::string folder;

  private:
    void link(const char* target, const std::string& path) const {
        require(symlink(target, (folder + path).c_str()) == 0, "a link can be made");
    }
};

const Tree& tree() {
    static const Tree made;
    return made;
}

void require_beneath(int fd, const std::string& root) {
    char path[PATH_MAX];
    const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
    require(size > 0, "what is open has a path");
    const std::string_view found(path, static_cast<std::size_t>(size));
    require(found == root || found.starts_with(root + '/'), "what is opened lies beneath the root");
}

/// A byte below the number of words is a word and a slash; another is itself.
std::string path_of(std::string_view bytes) {
    static constexpr auto k_words =
        std::to_array<std::string_view>({"a", "b", "c", "..", ".", "up", "far", "abs", "in", "self", "back",
                                         "magic", "", "outside", "proc", "into", "away"});
    std::string path;
    for (const char byte : bytes) {
        const auto number = static_cast<unsigned char>(byte);
        if (number < k_words.size())
            path.append(k_words[number]).append("/");
        else
            path.push_back(byte);
    }
    return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::string root = tree().folder + "/root";
    static const Beneath beneath(root);
    require(beneath.is_open(), "the root is there");
    fuzz::Input input(data, size);
    std::string path = path_of(input.rest());
    if (size % 2 == 1 && path.ends_with('/'))
        path.pop_back();
    for (const LastLink last : {LastLink::followed, LastLink::itself})
        if (const auto found = beneath.look(path, last))
            require_beneath(found.get(), root);
    if (const auto found = beneath.open(path, O_RDONLY | O_DIRECTORY))
        require_beneath(found.get(), root);
    if (const auto place = beneath.place(path)) {
        require_beneath(place->directory.get(), root);
        require(!place->name.empty() && place->name != "." && place->name != ".." &&
                    place->name.find('/') == std::string::npos,
                "a place has a name");
    }
    return 0;
}
