// Path resolution: whatever a path is made of, what is opened lies beneath the root, and so do the directory
// of its place and the parents that are made for it. The tree has links up, out, to themselves, into /proc,
// and absolute ones back into it.
#include "core/plain/beneath.hpp"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>
#include <iterator>
#include <string>

#include "tests/fuzz/support.hpp"

using namespace atl;
using base::Beneath;
using base::LastLink;
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

void require_place(const Beneath::Place& place, const std::string& root) {
    require_beneath(place.directory.get(), root);
    require(!place.name.empty() && place.name != "." && place.name != ".." &&
                place.name.find('/') == std::string::npos,
            "a place has a name");
}

std::ptrdiff_t count_in(const std::string& folder) {
    return std::distance(std::filesystem::directory_iterator(folder), {});
}

/// Beside the root, and in it: each run begins with the same tree.
void require_unchanged(const std::string& root) {
    static const std::ptrdiff_t in_root = count_in(root);
    require(count_in(tree().folder) == 2 && count_in(tree().folder + "/outside") == 0,
            "nothing is made outside the root");
    require(count_in(root) == in_root, "what was made is taken back");
}

/// True for a path that a client may name, and whose parents are all taken back.
bool may_make(std::string_view path) {
    constexpr std::ptrdiff_t k_most_parts = 60;
    return path.size() < PATH_MAX && std::count(path.begin(), path.end(), '/') < k_most_parts;
}

void make_beneath(const Beneath& beneath, const std::string& path, const std::string& root) {
    {
        base::NewParents made(beneath);
        if (const auto place = beneath.make_place(path, &made))
            require_place(*place, root);
    }
    {
        base::NewParents made(beneath);
        if (beneath.make_parents(path, &made))
            if (const auto place = beneath.place(path))
                require_place(*place, root);
    }
    require_unchanged(root);
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
    require_unchanged(root);
    fuzz::Input input(data, size);
    std::string path = path_of(input.rest());
    if (size % 2 == 1 && path.ends_with('/'))
        path.pop_back();
    for (const LastLink last : {LastLink::followed, LastLink::itself})
        if (const auto found = beneath.look(path, last))
            require_beneath(found.get(), root);
    if (const auto found = beneath.open(path, O_RDONLY | O_DIRECTORY))
        require_beneath(found.get(), root);
    if (const auto place = beneath.place(path))
        require_place(*place, root);
    if (may_make(path))
        make_beneath(beneath, path, root);
    return 0;
}
