// Bad input to `file`: paths that lead out, names that no text holds, files that are no files, a full disk,
// and a workspace that changes under the call. What must not be reached is first shown to be there.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdlib>
#include <set>
#include <thread>

#include "file_lab.hpp"
#include "tests/bench/one_cpu.hpp"
#include "tests/support/deadline.hpp"

namespace atl::test::files_hostile_test {
namespace {

using nlohmann::json;

const json k_recursive = {{"recursive", true}};

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

/// Every op on `path`; its refusals are among `codes`.
void check_all_refused(const FileLab& lab, const std::string& path,
                       std::initializer_list<std::string_view> codes) {
    INFO(path);
    for (const char* const op : {"stat", "read", "list", "mkdir", "remove"}) {
        INFO(op);
        const std::string code = lab.refusal(op, path, k_recursive);
        INFO(code);
        CHECK(is_one_of(code, codes));
    }
    CHECK(is_one_of(lab.put(path, "x").code(), codes));
    CHECK(is_one_of(lab.put(path, "x", {{"inplace", true}}).code(), codes));
    lab.write("good", "good");
    for (const char* const op : {"move", "copy"}) {
        INFO(op);
        CHECK(is_one_of(lab.refusal(op, path, {{"to", "taken"}}), codes));
        CHECK(is_one_of(lab.refusal(op, "good", {{"to", base::path_text(path)}}), codes));
    }
    CHECK_FALSE(lab.has("taken"));
}

}  // namespace

TEST_CASE("no path leads out of the workspace by its text") {
    const FileLab lab;
    lab.write("dir/f", "inside");
    const std::string secret = lab.outside() / "secret";
    // The control: the same path is there for who may go there.
    REQUIRE(lab.text_of(lab.workspace() / "../secret") == "outside");
    REQUIRE(lab.get("dir/../dir/f") == "inside");
    for (const std::string& path :
         {std::string("../secret"), std::string("dir/../../secret"), secret, std::string("/etc/passwd"),
          std::string("dir/../../../../../../../../etc/passwd")})
        check_all_refused(lab, path, {"outside_workspace"});
    CHECK(lab.text_of(secret) == "outside");
    // No shell reads a path.
    CHECK(lab.put("~/x", "home").is_good());
    CHECK(lab.put("$HOME", "variable").is_good());
    CHECK(lab.text("~/x") == "home");
    CHECK(lab.text("$HOME") == "variable");
}

TEST_CASE("no link leads out of the workspace") {
    const FileLab lab;
    symlink("../secret", lab.at("to_file").c_str());
    symlink("..", lab.at("to_folder").c_str());
    symlink("/etc", lab.at("absolute").c_str());
    symlink("/proc/self/root", lab.at("magic").c_str());
    symlink("../made", lab.at("dangling").c_str());
    REQUIRE(lab.text("to_file") == "outside");
    REQUIRE(lab.text("to_folder/secret") == "outside");
    for (const char* const path : {"to_folder/secret", "absolute/passwd", "magic/etc/passwd"})
        check_all_refused(lab, path, {"outside_workspace"});
    for (const char* const path : {"to_file", "dangling"}) {
        CHECK(lab.get(path) == "!outside_workspace");
        CHECK(lab.put(path, "x").code() == "outside_workspace");
        CHECK(lab.put(path, "x", {{"inplace", true}}).code() == "outside_workspace");
        // The link itself is the workspace's.
        CHECK(lab.call("stat", path).reply.at("entry").at("type") == "symlink");
    }
    CHECK(lab.refusal("list", "to_folder") == "outside_workspace");
    CHECK(lab.text_of(lab.outside() / "secret") == "outside");
    CHECK_FALSE(std::filesystem::exists(lab.outside() / "made"));
    CHECK(lab.refusal("remove", "to_folder", k_recursive).empty());
    CHECK(std::filesystem::exists(lab.outside() / "secret"));
}

TEST_CASE("a write through a link reaches its target beneath the workspace") {
    const FileLab lab;
    lab.write("real/file", "old");
    lab.write("links/x", "");
    symlink("../real/file", lab.at("links/one").c_str());
    symlink("links/one", lab.at("two").c_str());
    symlink("real/fresh", lab.at("new").c_str());
    CHECK(lab.put("two", "through").reply.at("created") == false);
    CHECK(lab.text("real/file") == "through");
    CHECK(std::filesystem::is_symlink(lab.at("two")));
    CHECK(std::filesystem::is_symlink(lab.at("links/one")));
    CHECK(lab.put("two", "in place", {{"inplace", true}}).is_good());
    CHECK(lab.text("real/file") == "in place");
    CHECK(lab.put("new", "made").reply.at("created") == true);
    CHECK(lab.text("real/fresh") == "made");
}

TEST_CASE("an absolute link into the workspace is followed as a relative one is, and no other") {
    const FileLab lab;
    lab.write("d/file", "inside");
    lab.write_outside("workspace-2/file", "outside");
    const std::string root = lab.workspace();
    symlink((root + "/d/file").c_str(), lab.at("file").c_str());
    symlink((root + "/d").c_str(), lab.at("folder").c_str());
    symlink("folder", lab.at("chain").c_str());
    symlink((root + "//d/./later").c_str(), lab.at("dangling").c_str());
    symlink(root.c_str(), lab.at("d/top").c_str());
    symlink((root + "/loop").c_str(), lab.at("loop").c_str());
    symlink((root + "/../secret").c_str(), lab.at("up").c_str());
    symlink((root + "/to_etc/passwd").c_str(), lab.at("two_steps").c_str());
    symlink("/etc", lab.at("to_etc").c_str());
    symlink((root + "-2/file").c_str(), lab.at("beside").c_str());
    REQUIRE(lab.text("beside") == "outside");
    REQUIRE(lab.text("up") == "outside");
    for (const char* const path :
         {"file", "folder/file", "chain/file", "d/top/chain/../d/file", "d/top/d/top/file"})
        CHECK(lab.get(path) == "inside");
    CHECK(lab.paths("chain") == "chain/file chain/top");
    CHECK(lab.put("chain/new", "made").is_good());
    CHECK(lab.text("d/new") == "made");
    CHECK(lab.put("chain/more/new", "made").is_good());
    CHECK(lab.text("d/more/new") == "made");
    CHECK(lab.get("dangling") == "!file_not_found");
    CHECK(lab.put("dangling", "later").is_good());
    CHECK(lab.text("d/later") == "later");
    CHECK(lab.put("file", "through").is_good());
    CHECK(lab.text("d/file") == "through");
    CHECK(std::filesystem::is_symlink(lab.at("file")));
    for (const char* const path : {"file", "folder/top", "chain/top"})
        CHECK(lab.call("stat", path).reply.at("entry").at("type") == "symlink");
    CHECK(lab.refusal("remove", "folder/later").empty());
    CHECK(lab.get("loop") == "!invalid_path");
    for (const char* const path :
         {"up", "two_steps", "beside", "../workspace/d/file", "d/../../workspace/d/file"}) {
        CHECK(lab.get(path) == "!outside_workspace");
        CHECK(lab.put(path, "x").code() == "outside_workspace");
    }
    CHECK(lab.text_of(lab.outside() / "secret") == "outside");
    CHECK(lab.text_of(lab.outside() / "workspace-2" / "file") == "outside");
}

TEST_CASE("links to themselves are refused") {
    const FileLab lab;
    symlink("self", lab.at("self").c_str());
    symlink("b", lab.at("a").c_str());
    symlink("a", lab.at("b").c_str());
    for (const char* const path : {"self", "a", "self/x"}) {
        CHECK(lab.get(path) == "!invalid_path");
        CHECK(lab.put(path, "x").code() == "invalid_path");
        CHECK(lab.refusal("list", path) == "invalid_path");
    }
    CHECK(lab.paths("", 9) == "a b self");
}

TEST_CASE("names that are too long, and a NUL, are refused; the longest are not") {
    const FileLab lab;
    const std::string longest(255, 'n');
    CHECK(lab.put(longest, "x").is_good());
    CHECK(lab.get(longest) == "x");
    check_all_refused(lab, std::string(256, 'n'), {"invalid_path"});
    std::string deep;
    while (deep.size() + 300 < 4096)
        deep += std::string(250, 'd') + '/';
    CHECK(lab.put(deep + "f", "deep").is_good());
    CHECK(lab.get(deep + "f") == "deep");
    check_all_refused(lab, deep + std::string(5000 - deep.size(), 'd'), {"invalid_path"});
    // Path text of a NUL: the router refuses it, and so does the guest.
    json command = {{"cmd", "file"}, {"op", "read"}, {"path", "a%00b"}};
    CHECK(CallClient(lab.guest, command).finish().code() == "invalid_path");
    command["path"] = std::string("a\0b", 3);
    CHECK(CallClient(lab.guest, command).finish().code() == "invalid_path");
}

TEST_CASE("names of any bytes are listed as they are, with an href that leads back to them") {
    const FileLab lab;
    for (const std::string& name :
         {std::string("line\nbreak"), std::string("\xff\xfe"), std::string("a%41"), std::string("100%"),
          std::string("50%20off"), std::string("tab\t\"quote\"\\"), std::string("\x01\x7f"), std::string(" "),
          std::string("...")}) {
        INFO(name);
        CHECK(lab.put("d/" + name, name).is_good());
        const json page = lab.list("d");
        REQUIRE(page.at("entries").size() == 1);
        const json entry = page.at("entries").at(0);
        CHECK(entry.at("path") == base::shown_path("d/" + name));
        CHECK(entry.at("name") == base::shown_path(name));
        CHECK(entry.at("href") == base::path_href("d/" + name));
        CHECK(lab.get(base::path_bytes(entry.at("href").get<std::string>())) == name);
        CHECK(lab.refusal("remove", "d/" + name).empty());
    }
}

TEST_CASE("a list goes on behind a name that its text does not tell from others") {
    const FileLab lab;
    const std::vector<std::string> names = {"a%FF", "a%25FF", "a\xfe", "a\xff", "a\xff%41", "a\xff\n"};
    for (const std::string& name : names)
        REQUIRE(lab.put(name, name).is_good());
    std::string after;
    std::set<std::string> hrefs;
    for (std::size_t pages = 0; pages < names.size(); ++pages) {
        const json page = lab.list("", 1, 1, after);
        REQUIRE(page.at("entries").size() == 1);
        hrefs.insert(page.at("entries").at(0).at("href").get<std::string>());
        REQUIRE(page.at("next").is_null() == (pages + 1 == names.size()));
        after = page.at("next").is_null() ? "" : page.at("next").get<std::string>();
    }
    for (const std::string& name : names)
        CHECK(hrefs.contains(base::path_href(name)));
}

TEST_CASE("a FIFO and a device are said to be what they are and never opened") {
    const FileLab lab;
    mkfifo(lab.at("fifo").c_str(), 0600);
    symlink("fifo", lab.at("link").c_str());
    const bool has_device = mknod(lab.at("device").c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;
    // Opening the FIFO would wait for its other end, for ever.
    std::vector<std::string> paths = {"fifo", "link"};
    if (has_device)
        paths.emplace_back("device");
    for (const std::string& path : paths) {
        INFO(path);
        CHECK(lab.get(path) == "!not_a_file");
        CHECK(lab.put(path, "x").code() == "not_a_file");
        CHECK(lab.put(path, "x", {{"inplace", true}}).code() == "not_a_file");
        CHECK(lab.refusal("list", path) == "not_a_directory");
        CHECK(lab.refusal("stat", path).empty());
    }
    CHECK(lab.refusal("copy", "fifo", {{"to", "x"}}) == "not_a_file");
    CHECK(lab.get("") == "!is_directory");
    CHECK(lab.put("", "x").code() == "invalid_path");
    CHECK(lab.put("d/", "x").code() == "is_directory");
    lab.call("mkdir", "d");
    CHECK(lab.put("d", "x").code() == "is_directory");
}

TEST_CASE("a lease on a file makes nobody wait") {
    const FileLab lab;
    lab.write("f", "text");
    signal(SIGIO, SIG_IGN);  // by which the kernel asks the holder to give it back
    const base::UniqueFd holder(open(lab.at("f").c_str(), O_RDWR | O_CLOEXEC));
    if (fcntl(holder.get(), F_SETLEASE, F_WRLCK) != 0)
        SKIP("no leases on this file system");
    CHECK(lab.get("f") == "!file_changed");
    CHECK(lab.put("f", "x", {{"inplace", true}}).code() == "file_changed");
    REQUIRE(fcntl(holder.get(), F_SETLEASE, F_UNLCK) == 0);
    CHECK(lab.get("f") == "text");
}

TEST_CASE("a file that grows while it is read gives what it had, one that shrinks breaks off") {
    const FileLab lab;
    const std::string bytes(4UL * 1024 * 1024, 'x');
    lab.write("f", bytes);
    CallClient read = lab.begin("read", "f");
    read.await_reply();
    const bool grows = GENERATE(true, false);
    if (grows)
        std::ofstream(lab.at("f"), std::ios::app) << "more";
    else
        std::filesystem::resize_file(lab.at("f"), 10);
    read.finish();
    CHECK(read.has_ended == grows);
    CHECK((read.output.size() == bytes.size()) == grows);
}

TEST_CASE("a disk that is full in the middle of a write leaves the old file and nothing else") {
    // A file system of one MiB, in a mount namespace of this test's child.
    const FileLab lab;
    lab.write("kept", "old");
    const pid_t child = fork();
    if (child == 0) {
        const std::string folder = lab.at("small");
        std::filesystem::create_directory(folder);
        if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            mount("small", folder.c_str(), "tmpfs", 0, "size=1m") != 0)
            _exit(77);
        int failures = 0;
        {
            const GuestProcess guest(GuestProcess::Space::own, guest::Peers::outside, folder);
            std::ofstream(folder + "/f") << "old";
            const json command = {{"cmd", "file"}, {"op", "write"}, {"path", "f"}};
            CallClient put(guest, command);
            put.await_ready();
            try {
                put.write(std::string(8UL * 1024 * 1024, 'x'));
            } catch (const std::runtime_error&) {
                // It closed its end before all was sent.
            }
            put.finish();
            failures += put.code() != "disk_full";
            failures += FileLab::text_of(folder + "/f") != "old";
            failures += std::distance(std::filesystem::directory_iterator(folder), {}) != 1;
            CallClient again(guest, command);
            again.await_ready();
            again.write("new");
            again.end_input();
            failures += !again.finish().is_good();
        }
        _exit(failures);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("no mounts on this host");
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a file beyond the size that the guest may write is refused, and the guest lives") {
    if (!GuestProcess::can_isolate())
        SKIP("no pid namespace on this host");
    const FileLab lab;
    lab.write("f", "old");
    const rlimit limit{64UL * 1024, 64UL * 1024};
    REQUIRE(prlimit(lab.guest.pid(), RLIMIT_FSIZE, &limit, nullptr) == 0);
    CallClient put = lab.begin("write", "f");
    REQUIRE(put.await_ready());
    try {
        put.write(std::string(256UL * 1024, 'x'));
        put.end_input();
    } catch (const std::runtime_error&) {
        // It closed its end before all was sent.
    }
    CHECK(put.finish().code() == "disk_full");
    CHECK(lab.get("f") == "old");
}

TEST_CASE("a tree that is deeper than any path is removed, and not copied") {
    const FileLab lab(folder_for_many_files());
    std::filesystem::create_directory(lab.at("deep"));
    base::UniqueFd at(open(lab.at("deep").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (int level = 0; level < 3000; ++level) {
        REQUIRE(mkdirat(at.get(), "d", 0755) == 0);
        at.reset(openat(at.get(), "d", O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
    at.reset();
    CHECK(lab.refusal("copy", "deep", {{"to", "copy"}}) == "invalid_path");
    CHECK(lab.names() == std::vector<std::string>{"deep"});
    CHECK(lab.list("", 64, 1000).at("entries").size() == 64);
    CHECK(lab.refusal("remove", "deep", k_recursive).empty());
    CHECK(lab.names().empty());
}

namespace {

/// The hidden names in a directory, which may not be there.
std::vector<std::string> hidden_names(const FileLab& lab, const std::string& path) {
    std::vector<std::string> hidden;
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator(lab.at(path), gone)) {
        if (const std::string name = entry.path().filename(); name.starts_with(".atoll-write-"))
            hidden.push_back(name);
    }
    return hidden;
}

/// How many entries the copy under way to a name in `path` has.
std::size_t count_copied(const FileLab& lab, const std::string& path) {
    const auto hidden = hidden_names(lab, path);
    if (hidden.empty())
        return 0;
    std::error_code gone;
    const std::filesystem::directory_iterator entries(lab.at(path) / hidden.front(), gone);
    return static_cast<std::size_t>(std::distance(entries, {}));
}

/// The present size of the file `name` in the copy that is under way beside its original.
std::size_t size_of_copy(const FileLab& lab, const std::string& name) {
    const auto hidden = hidden_names(lab, ".");
    std::error_code gone;
    const auto size = hidden.empty() ? 0 : std::filesystem::file_size(lab.at(hidden.front()) / name, gone);
    return gone ? 0 : size;
}

}  // namespace

TEST_CASE("a copy of many files whose client leaves is removed in pieces, and others are served meanwhile") {
    constexpr int k_files = 40'000;
    constexpr std::size_t k_part = 20'000;  // a hundred pieces
    constexpr std::size_t k_least_answers = 5;
    const FileLab lab(folder_for_many_files());
    lab.write("one", "");
    std::filesystem::create_directory(lab.at("many"));
    const base::UniqueFd folder(open(lab.at("many").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (int i = 0; i < k_files; ++i)
        REQUIRE(symlinkat("one", folder.get(), std::to_string(i).c_str()) == 0);
    // The guest stands still while the client leaves, so that the tree is as large as it is then.
    bool is_caught = false;
    for (int tries = 0; tries < 20 && !is_caught; ++tries) {
        CallClient copy = lab.begin("copy", "many", {{"to", "made/copy"}});
        REQUIRE(eventually([&] { return count_copied(lab, "made") >= k_part || lab.has("made/copy"); }));
        lab.guest.signal(SIGSTOP);
        is_caught = !hidden_names(lab, "made").empty();
        if (is_caught)
            copy.close();
        lab.guest.signal(SIGCONT);
        if (!is_caught) {
            copy.finish();
            REQUIRE(lab.refusal("remove", "made", k_recursive).empty());
        }
    }
    REQUIRE(is_caught);
    std::size_t answers = 0;
    const bool is_gone = eventually([&] {
        if (!lab.has("made") && hidden_names(lab, ".").empty())
            return true;
        answers += lab.get("one").empty() ? 1 : 0;
        return false;
    });
    CHECK(is_gone);
    if (test::checks_bounds())
        CHECK(answers >= k_least_answers);
    CHECK(lab.names() == std::vector<std::string>{"many", "one"});
}

TEST_CASE("a file that grows while it is copied is copied as it was") {
    constexpr std::size_t k_bytes = 64UL * 1024 * 1024;  // many pieces
    // The guest takes turns with this test on one processor, and copies less than the whole in a turn. Not on
    // a disk that lets two files share their blocks: there a copy is done at once.
    const bench::OneCpu one;
    const FileLab lab(folder_in_memory());
    bool is_caught = false;  // the guest stood still before it had copied the whole
    for (int tries = 0; tries < 20 && !is_caught; ++tries) {
        lab.write("d/f", std::string(k_bytes, 'x'));
        CallClient copy = lab.begin("copy", "d", {{"to", "copy"}});
        REQUIRE(eventually([&] { return lab.has("copy") || size_of_copy(lab, "f") > 0; }));
        lab.guest.signal(SIGSTOP);
        const std::size_t copied = size_of_copy(lab, "f");
        is_caught = copied > 0 && copied < k_bytes;
        std::ofstream(lab.at("d/f"), std::ios::app) << "more";
        lab.guest.signal(SIGCONT);
        CHECK(copy.finish().is_good());
        CHECK(std::filesystem::file_size(lab.at("copy/f")) == k_bytes);
        CHECK(lab.refusal("remove", "copy", k_recursive).empty());
    }
    CHECK(is_caught);
}

namespace {

/// Swaps what `path` is, between a directory of the workspace and a link out of it, as fast as it can.
class Swapper {
  public:
    explicit Swapper(const FileLab& lab) : lab_(lab) {
        std::filesystem::create_directory(lab.at("swap"));
        symlink("..", lab.at("link").c_str());
        thread_ = std::thread([this] { run(); });
    }
    ~Swapper() {
        ends_ = true;
        thread_.join();
    }

  private:
    void run() const {
        const std::string swap = lab_.at("swap");
        const std::string link = lab_.at("link");
        while (!ends_)
            renameat2(AT_FDCWD, swap.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
    }

    const FileLab& lab_;
    std::atomic<bool> ends_ = false;
    std::thread thread_;
};

}  // namespace

TEST_CASE("a link that is swapped in during the call leads nowhere, whatever the op") {
    const FileLab lab;
    lab.write_outside("victim", "outside");
    lab.write_outside("folder/file", "outside");
    const Swapper swapper(lab);
    const bool is_soak = std::getenv("ATOLL_TEST_FULL") != nullptr;
    const auto begin = std::chrono::steady_clock::now();
    std::size_t rounds = 0;
    std::size_t through = 0;  // the control: a plain open does meet the link
    std::size_t refused = 0;
    std::size_t reached = 0;  // inside
    // Until each outcome was seen: how long that takes is the scheduler's choice.
    const auto goes_on = [&] {
        const auto spent = std::chrono::steady_clock::now() - begin;
        const bool has_all = through > 0 && refused > 0 && reached > 0;
        return spent < std::chrono::seconds(is_soak ? 30 : 2) ||
               (!has_all && spent < std::chrono::seconds(120));
    };
    while (goes_on()) {
        ++rounds;
        through += lab.text("swap/victim") == "outside";
        CHECK(lab.get("swap/victim") != "outside");
        const std::string put = lab.put("swap/victim", "x").code();
        refused += put == "outside_workspace";
        reached += put.empty();
        lab.put("swap/victim", "x", {{"inplace", true}});
        CHECK(lab.call("list", "swap", {{"depth", 9}, {"limit", 100}}).output.find("secret") ==
              std::string::npos);
        lab.refusal("mkdir", "swap/made");
        lab.refusal("copy", "swap/secret", {{"to", "stolen"}});
        lab.refusal("move", "swap/secret", {{"to", "stolen"}});
        lab.refusal("copy", "swap", {{"to", "stolen"}});
        CHECK(lab.call("stat", "swap/secret").reply.at("ok") == false);
        lab.refusal("remove", "stolen", k_recursive);
        lab.refusal("remove", "swap/victim");
        lab.refusal("remove", "swap/folder", k_recursive);
    }
    INFO(rounds << " rounds");
    CHECK(through > 0);
    CHECK(refused > 0);
    CHECK(reached > 0);
    CHECK(lab.text_of(lab.outside() / "victim") == "outside");
    CHECK(lab.text_of(lab.outside() / "secret") == "outside");
    CHECK(lab.text_of(lab.outside() / "folder/file") == "outside");
    CHECK_FALSE(std::filesystem::exists(lab.outside() / "made"));
    CHECK(std::distance(std::filesystem::directory_iterator(lab.outside()), {}) == 4);
}

}  // namespace atl::test::files_hostile_test
