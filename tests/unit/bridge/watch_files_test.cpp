// The watch of a workspace, as the guest answers it (bridge/guest/files).
#include <catch2/catch_test_macros.hpp>
#include <list>
#include <set>

#include "core/plain/operation_limits.hpp"
#include "file_lab.hpp"

namespace atl::test::watch_files_test {
namespace {

using nlohmann::json;

/// A watch that has begun, and the lines that it told.
struct Watcher {
    explicit Watcher(const FileLab& lab, std::uint64_t most_directories = 0)
        : call(lab.begin("watch", "", {{"limit", most_directories}})) {
        call.await_reply();
    }

    /// Reads on until a line is `word`.
    bool tells(const std::string& word) {
        while (!told.contains(word)) {
            if (!call.step())
                return false;
            take_lines();
        }
        return true;
    }
    void take_lines() {
        for (std::size_t end = 0; (end = call.output.find('\n')) != std::string::npos;) {
            const std::string word = word_of(json::parse(call.output.substr(0, end)));
            told.insert(word);
            order.push_back(word);
            call.output.erase(0, end + 1);
        }
    }
    /// "created a/b", "renamed a > b", "rescan", "uncovered 3"; a directory has a slash at its end.
    static std::string word_of(const json& line) {
        if (line.contains("rescan"))
            return "rescan";
        if (line.contains("uncovered"))
            return "uncovered " + std::to_string(line.at("uncovered").get<int>());
        const std::string end = line.at("directory").get<bool>() ? "/" : "";
        std::string word =
            line.at("change").get<std::string>() + ' ' + line.at("path").get<std::string>() + end;
        if (line.contains("to"))
            word += " > " + line.at("to").get<std::string>() + end;
        return word;
    }
    std::size_t place_of(const std::string& word) const {
        return static_cast<std::size_t>(std::find(order.begin(), order.end(), word) - order.begin());
    }

    CallClient call;
    std::set<std::string> told;
    std::vector<std::string> order;
};

}  // namespace

TEST_CASE("A watch tells what is created, modified, renamed and deleted, in this order") {
    const FileLab lab;
    lab.write("old/there", "1");
    Watcher watch(lab);
    REQUIRE(watch.call.is_good());
    CHECK(watch.call.reply.at("directories") == 2);
    lab.write("old/a", "text");
    CHECK(watch.tells("modified old/a"));
    std::filesystem::rename(lab.at("old/a"), lab.at("b"));
    CHECK(watch.tells("renamed old/a > b"));
    std::filesystem::permissions(lab.at("b"), std::filesystem::perms::owner_read);
    CHECK(watch.tells("attributes b"));
    std::filesystem::remove(lab.at("b"));
    CHECK(watch.tells("deleted b"));
    CHECK(watch.place_of("created old/a") < watch.place_of("modified old/a"));
    CHECK_FALSE(watch.told.contains("created old/there"));
}

TEST_CASE("A new directory is watched, with all that was made in it before its watch was there") {
    const FileLab lab;
    Watcher watch(lab);
    std::string deep;
    for (int level = 0; level < 30; ++level)
        deep += "d" + std::to_string(level) + '/';
    lab.write(deep + "first", "1");
    CHECK(watch.tells("created " + deep + "first"));
    lab.write(deep + "second", "2");
    CHECK(watch.tells("modified " + deep + "second"));
    std::filesystem::create_directories(lab.outside() / "made/inner");
    lab.write_outside("made/inner/f", "x");
    std::filesystem::rename(lab.outside() / "made", lab.at("moved-in"));
    CHECK(watch.tells("created moved-in/inner/f"));
    lab.write("moved-in/inner/g", "x");
    CHECK(watch.tells("created moved-in/inner/g"));
}

TEST_CASE(
    "A directory that moves is followed under its new path, and no more once it has left the workspace") {
    const FileLab lab;
    lab.write("a/b/c/f", "1");
    Watcher watch(lab);
    std::filesystem::rename(lab.at("a/b"), lab.at("moved"));
    CHECK(watch.tells("renamed a/b/ > moved/"));
    lab.write("moved/c/g", "2");
    CHECK(watch.tells("created moved/c/g"));
    std::filesystem::rename(lab.at("moved"), lab.outside() / "away");
    CHECK(watch.tells("renamed moved/"));
    lab.write_outside("away/c/secret", "3");
    lab.write("last", "4");
    CHECK(watch.tells("created last"));
    CHECK_FALSE(watch.told.contains("created moved/c/secret"));
}

TEST_CASE("A link to a directory outside is not followed, whether it was there or comes later") {
    const FileLab lab;
    const auto outside = lab.outside() / "elsewhere";
    std::filesystem::create_directories(outside);
    std::filesystem::create_directories(lab.at("real"));
    std::filesystem::create_directory_symlink(outside, lab.at("link"));
    Watcher watch(lab);
    CHECK(watch.call.reply.at("directories") == 2);
    std::filesystem::create_directory_symlink(outside, lab.at("real/late"));
    CHECK(watch.tells("created real/late"));
    lab.write_outside("elsewhere/seen", "x");
    // The positive control: the same in a directory of the workspace is told.
    lab.write("real/seen", "x");
    CHECK(watch.tells("created real/seen"));
    CHECK_FALSE(watch.told.contains("created link/seen"));
    CHECK_FALSE(watch.told.contains("created real/late/seen"));
}

TEST_CASE("What a full queue of the kernel lost is told as a rescan, behind which all is told again") {
    const FileLab lab;
    Watcher watch(lab);
    // Nothing is read meanwhile: the guest's socket is full first, then the queue.
    const std::string name(200, 'n');
    for (int file = 0; file < 12'000 && !watch.told.contains("rescan"); ++file) {
        const std::string path = name + std::to_string(file);
        lab.write(path, "");
        std::filesystem::remove(lab.at(path));
    }
    std::filesystem::create_directories(lab.at("unseen/inner"));
    CHECK(watch.tells("rescan"));
    lab.write("unseen/inner/f", "x");
    CHECK(watch.tells("created unseen/inner/f"));
}

TEST_CASE("Two thousand directories are watched, and a change in each of the last ones is seen") {
    const FileLab lab(folder_for_many_files());
    for (int i = 0; i < 2000; ++i)
        std::filesystem::create_directories(lab.at("d" + std::to_string(i % 50) + "/e" + std::to_string(i)));
    Watcher watch(lab);
    CHECK(watch.call.reply.at("directories") == 2051);
    for (const int i : {0, 999, 1999}) {
        const std::string path = "d" + std::to_string(i % 50) + "/e" + std::to_string(i) + "/f";
        lab.write(path, "x");
        CHECK(watch.tells("created " + path));
    }
}

TEST_CASE("Beyond its bound of directories a watch says how many it does not cover") {
    const FileLab lab;
    for (const char* name : {"a", "b", "c", "d"})
        std::filesystem::create_directories(lab.at(name));
    Watcher watch(lab, 3);
    CHECK(watch.call.reply.at("directories") == 3);
    CHECK(watch.tells("uncovered 2"));
    std::filesystem::create_directories(lab.at("e"));
    CHECK(watch.tells("uncovered 3"));
    lab.write("top", "x");
    CHECK(watch.tells("created top"));
}

TEST_CASE("A write of the guest's own is told under the name of the file alone") {
    const FileLab lab;
    lab.write("f", "old");
    std::filesystem::create_directories(lab.at("folder/inner"));
    Watcher watch(lab);
    lab.put("f", "new");
    CHECK(watch.tells("created f"));
    lab.call("copy", "folder", {{"to", "copied"}});
    CHECK(watch.tells("created copied/inner/"));
    lab.write("copied/inner/g", "x");
    CHECK(watch.tells("created copied/inner/g"));
    for (const std::string& word : watch.order)
        CHECK(word.find(".atoll-write-") == std::string::npos);
}

TEST_CASE("Names of any bytes are told in the form in which lists have them") {
    const FileLab lab;
    Watcher watch(lab);
    lab.write("line\nbreak \"\xff", "x");
    CHECK(watch.tells("created line\nbreak \"%FF"));
}

TEST_CASE("A guest has a bounded number of watches, and one that ends makes room") {
    const FileLab lab;
    std::list<Watcher> watches;
    for (std::size_t i = 0; i < base::k_max_guest_watches; ++i)
        CHECK(watches.emplace_back(lab).call.is_good());
    CHECK(lab.refusal("watch", "") == "busy");
    watches.pop_front();
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    bool is_granted = false;
    while (!is_granted && std::chrono::steady_clock::now() < deadline)
        is_granted = Watcher(lab).call.is_good();
    CHECK(is_granted);
    CHECK(lab.refusal("watch", "folder") == "invalid");
}

}  // namespace atl::test::watch_files_test
