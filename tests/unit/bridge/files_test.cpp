// The operations of `file` in a real guest: good requests, and refusals that a client can run into.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <set>

#include "file_lab.hpp"

namespace atl::test::bridge_files_test {
namespace {

using nlohmann::json;

const json k_recursive = {{"recursive", true}};

}  // namespace

TEST_CASE("a file is written, told of and read, byte for byte") {
    const FileLab lab;
    const std::string bytes("a\0\xff\r\n%41", 9);
    CallClient put = lab.put("new/deep/file.bin", bytes);
    REQUIRE(put.is_good());
    CHECK(put.has_ended);
    CHECK(put.reply.at("created") == true);
    const json entry = put.reply.at("entry");
    CHECK(entry.at("path") == "new/deep/file.bin");
    CHECK(entry.at("name") == "file.bin");
    CHECK(entry.at("type") == "file");
    CHECK(entry.at("size") == bytes.size());
    CHECK(entry.at("mode") == "0644");
    CHECK(lab.text("new/deep/file.bin") == bytes);
    CallClient read = lab.call("read", "new/deep/file.bin");
    CHECK(read.output == bytes);
    CHECK(read.has_ended);
    CHECK(read.reply.at("entry") == entry);
    CHECK(lab.call("stat", "new/deep/file.bin").reply.at("entry") == entry);
    CHECK(lab.names("new/deep") == std::vector<std::string>{"file.bin"});
}

TEST_CASE("a write over a file keeps its mode, changes its tag, and says that it replaced") {
    const FileLab lab;
    lab.write("run.sh", "old");
    chmod(lab.at("run.sh").c_str(), 0751);
    const json before = lab.call("stat", "run.sh").reply.at("entry");
    CallClient put = lab.put("run.sh", "newer");
    CHECK(put.reply.at("created") == false);
    CHECK(put.reply.at("entry").at("mode") == "0751");
    CHECK(put.reply.at("entry").at("etag") != before.at("etag"));
    CHECK(lab.call("stat", "run.sh").reply.at("entry") == put.reply.at("entry"));
    CHECK(lab.put("run.sh", "x", {{"mode", 0600}}).reply.at("entry").at("mode") == "0600");
    CHECK(lab.put("empty", "").reply.at("entry").at("size") == 0);
    CHECK(lab.get("empty").empty());
}

TEST_CASE("an in-place write keeps the file, a plain one makes another") {
    const FileLab lab;
    lab.write("log", "a long old text");
    std::filesystem::create_hard_link(lab.at("log"), lab.at("twin"));
    CHECK(lab.put("log", "in place", {{"inplace", true}}).reply.at("created") == false);
    CHECK(lab.text("twin") == "in place");
    CHECK(lab.put("log", "replaced").is_good());
    CHECK(lab.text("twin") == "in place");
    CHECK(lab.text("log") == "replaced");
    CHECK(lab.put("d/fresh", "new", {{"inplace", true}, {"mode", 0600}}).reply.at("created") == true);
    CHECK(lab.mode("d/fresh") == 0600);
}

TEST_CASE("a part of a file is read, cut at its end, and the whole of a file that is not the one meant") {
    const FileLab lab;
    lab.write("f", "0123456789");
    const std::string tag = lab.call("stat", "f").reply.at("entry").at("etag");
    const auto read = [&](const json& members) {
        CallClient call = lab.call("read", "f", members);
        CHECK(call.reply.at("length") == call.output.size());
        return call.output;
    };
    const auto part = [&](std::uint64_t offset, std::uint64_t length) {
        return read({{"offset", offset}, {"length", length}, {"ifRange", tag}});
    };
    CHECK(part(2, 3) == "234");
    CHECK(part(8, 100) == "89");
    CHECK(part(100, 1).empty());
    CHECK(part(0, 0).empty());
    CHECK(part(0, ~0ULL) == "0123456789");
    CHECK(read({{"offset", 7}}) == "789");
    CHECK(read({{"suffix", 2}}) == "89");
    CHECK(read({{"suffix", 0}}).empty());
    CHECK(read({{"suffix", ~0ULL}}) == "0123456789");
    REQUIRE(lab.put("f", "other").is_good());
    CHECK(part(2, 3) == "other");
    CHECK(read({{"suffix", 2}, {"ifRange", tag}}) == "other");
}

TEST_CASE("conditions hold before the input and again when the file gets its name") {
    const FileLab lab;
    CHECK(lab.put("f", "x", {{"ifMatch", "*"}}).code() == "precondition_failed");
    CHECK(lab.put("f", "first", {{"ifNoneMatch", "*"}}).is_good());
    CHECK(lab.put("f", "second", {{"ifNoneMatch", "*"}}).code() == "precondition_failed");
    const std::string tag = lab.call("stat", "f").reply.at("entry").at("etag");
    CHECK(lab.put("f", "x", {{"ifMatch", "\"other\""}}).code() == "precondition_failed");
    CHECK(lab.put("f", "x", {{"ifMatch", "W/" + tag}}).code() == "precondition_failed");
    CHECK(lab.text("f") == "first");
    SECTION("it holds to the end") {
        CHECK(lab.put("f", "third", {{"ifMatch", "\"other\", " + tag}}).is_good());
        CHECK(lab.text("f") == "third");
    }
    SECTION("the file changes while the input comes") {
        CallClient put = lab.begin("write", "f", {{"ifMatch", tag}});
        REQUIRE(put.await_ready());
        put.write("late");
        REQUIRE(lab.put("f", "between").is_good());
        put.end_input();
        CHECK(put.finish().code() == "precondition_failed");
        CHECK(lab.text("f") == "between");
    }
    SECTION("the file appears while the input comes") {
        CallClient put = lab.begin("write", "g", {{"ifNoneMatch", "*"}});
        REQUIRE(put.await_ready());
        lab.write("g", "between");
        put.end_input();
        CHECK(put.finish().code() == "precondition_failed");
        CHECK(lab.text("g") == "between");
    }
    CHECK(lab.names().size() <= 2);
}

TEST_CASE("conditions hold for what is moved, copied or removed, and a refusal makes no directory") {
    const FileLab lab;
    lab.write("f", "text");
    const std::string tag = lab.call("stat", "f").reply.at("entry").at("etag");
    const auto refused = [&](const std::string& op, json members) {
        members["to"] = "new/g";
        members["recursive"] = true;
        return lab.refusal(op, "f", members) == "precondition_failed";
    };
    for (const char* const op : {"move", "copy", "remove"}) {
        CHECK(refused(op, {{"ifMatch", "\"other\""}}));
        CHECK(refused(op, {{"ifNoneMatch", "*"}}));
        CHECK(refused(op, {{"ifNoneMatch", tag}}));
    }
    CHECK(lab.put("new/h", "x", {{"ifMatch", "*"}}).code() == "precondition_failed");
    for (const char* const op : {"mkdir", "unpack"})
        CHECK(lab.refusal(op, "new/../../x") == "outside_workspace");
    CHECK(lab.put("new/../../x", "x").code() == "outside_workspace");
    CHECK(lab.refusal("move", "f", {{"to", "new/../../x"}}) == "outside_workspace");
    CHECK(lab.refusal("mkdir", "new/" + std::string(256, 'n') + "/x") == "invalid_path");
    CHECK(lab.names() == std::vector<std::string>{"f"});
    CHECK(lab.refusal("move", "f", {{"to", "new/g"}, {"ifMatch", tag}}).empty());
    CHECK(lab.refusal("remove", "new/g", {{"ifMatch", "*"}}).empty());
}

TEST_CASE("a move, copy or archive that is refused leaves no directory that it made") {
    const FileLab lab;
    lab.write("a/file", "text");
    lab.write("there/x", "");
    REQUIRE(mkfifo(lab.at("a/fifo").c_str(), 0600) == 0);
    CHECK(lab.refusal("move", "a", {{"to", "a/b/c"}}) == "invalid_path");
    CHECK(lab.refusal("copy", "a", {{"to", "a/b/c"}}) == "invalid_path");
    CHECK(lab.refusal("copy", "a", {{"to", "new/deep/er"}}) == "not_a_file");
    CHECK(lab.refusal("copy", "a", {{"to", "there/deep/er"}}) == "not_a_file");
    CHECK(lab.paths("", 9) == "a a/fifo a/file there there/x");
    const auto unpack = [&](std::string_view bytes, const std::string& into) {
        CallClient client = lab.begin("unpack", into);
        if (client.await_ready()) {
            client.write(bytes);
            client.end_input();
        }
        client.finish();
        return client.code();
    };
    CHECK(unpack("", "into") == "invalid_archive");
    CHECK(unpack(std::string(1024, 'x'), "into/deep") == "invalid_archive");
    CHECK(unpack("", "a/file") == "not_a_directory");
    CHECK(unpack("", "../into") == "outside_workspace");
    CHECK(lab.paths("", 9) == "a a/fifo a/file there there/x");
    // The controls: what is granted makes them.
    CHECK(unpack(lab.call("pack", "there").output, "into/deep").empty());
    CHECK(lab.refusal("move", "a/file", {{"to", "new/deep/er"}}).empty());
    CHECK(lab.paths("", 9) == "a a/fifo into into/deep into/deep/x new new/deep new/deep/er there there/x");
}

TEST_CASE("a write in place goes into the file that has the name when the input comes") {
    const FileLab lab;
    lab.write("f", "old");
    const std::string name = GENERATE("f", "g");
    CallClient put = lab.begin("write", name, {{"inplace", true}});
    REQUIRE(put.await_ready());
    if (name == "g") {
        lab.write("g", "other");  // it was not there
    } else if (GENERATE(true, false)) {
        lab.write("other", "other");
        std::filesystem::rename(lab.at("other"), lab.at("f"));
    } else {
        std::filesystem::remove(lab.at("f"));
    }
    put.write("late");  // the guest ends the call then
    CHECK(put.finish().code() == "file_changed");
    CHECK(lab.text("f") != "late");
    CHECK((!lab.has("g") || lab.text("g") == "other"));
}

TEST_CASE("a move of one name of a file to another takes the first away") {
    const FileLab lab;
    lab.write("a", "text");
    std::filesystem::create_hard_link(lab.at("a"), lab.at("b"));
    CHECK(lab.refusal("move", "a", {{"to", "b"}, {"overwrite", true}}).empty());
    CHECK(lab.names() == std::vector<std::string>{"b"});
    CHECK(lab.refusal("move", "b", {{"to", "./b"}, {"overwrite", true}}).empty());
    CHECK(lab.text("b") == "text");
}

TEST_CASE("a write that is given up leaves the old file and nothing else") {
    const FileLab lab;
    lab.write("f", "old");
    CallClient put = lab.begin("write", "f");
    REQUIRE(put.await_ready());
    put.write(std::string(300'000, 'x'));
    SECTION("by a close") {
        put.close();
    }
    SECTION("by frames that may not come") {
        put.send_raw(std::string("\0\0\0\0\x01", 5));
        CHECK_THROWS(put.finish());
    }
    CHECK(lab.put("other", "fine").is_good());
    CHECK(lab.text("f") == "old");
    CHECK(lab.names() == std::vector<std::string>{"f", "other"});
}

TEST_CASE("what an earlier guest left half-written is no entry, and a list removes it") {
    const FileLab lab;
    lab.write(".atoll-write-0123456789abcdef-1", "half");
    lab.write(".atoll-write-0123456789abcdef-2/sub/file", "half");
    lab.write(".hidden", "not ours");
    CHECK(lab.paths("") == ".hidden");
    CHECK(lab.names() == std::vector<std::string>{".hidden"});
}

TEST_CASE("what only looks like a half-written file is a file, and nobody can make one that is more alike") {
    const FileLab lab;
    const std::string begin = ".atoll-write-0123456789abcdef";
    const std::vector<std::string> files = {".atoll-write-",      ".atoll-write-0123456789ABCDEF-1",
                                            ".atoll-write-notes", begin,
                                            begin + "-",          begin + "-1x"};
    for (const std::string& name : files)
        CHECK(lab.put(name, "text").is_good());
    CHECK(lab.list("").at("entries").size() == files.size());
    CHECK(lab.names().size() == files.size());
    for (const std::string& name : {begin + "-1", begin + "-1/x", "d/" + begin + "-1/x"}) {
        CHECK(lab.put(name, "x").code() == "invalid_path");
        CHECK(lab.refusal("mkdir", name) == "invalid_path");
        CHECK(lab.refusal("move", begin, {{"to", name}}) == "invalid_path");
        CHECK(lab.refusal("copy", begin, {{"to", name}}) == "invalid_path");
        CHECK(lab.refusal("unpack", name) == "invalid_path");
    }
    CHECK(lab.names().size() == files.size());
}

TEST_CASE("a list sweeps no more than its share of what was left") {
    const FileLab lab(folder_for_many_files());
    const std::string stale = ".atoll-write-0123456789abcdef-1";
    std::filesystem::create_directory(lab.at(stale));
    for (int i = 0; i < 15'000; ++i)
        REQUIRE(symlink("x", lab.at(stale + "/" + std::to_string(i)).c_str()) == 0);
    CHECK(lab.paths("").empty());
    CHECK(lab.has(stale));
    for (int lists = 0; lab.has(stale) && lists < 5; ++lists)
        CHECK(lab.paths("").empty());
    CHECK_FALSE(lab.has(stale));
}

TEST_CASE("stat tells each kind of file, and of a link where it leads") {
    const FileLab lab;
    lab.write("dir/file", "12345");
    mkfifo(lab.at("fifo").c_str(), 0640);
    symlink("dir/file", lab.at("link").c_str());
    symlink("/nowhere/\xff", lab.at("dangling").c_str());
    const base::UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    lab.at("socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    const auto entry = [&](const std::string& path) { return lab.call("stat", path).reply.at("entry"); };
    CHECK(entry("dir").at("type") == "directory");
    CHECK_FALSE(entry("dir").contains("etag"));
    CHECK(entry("fifo").at("type") == "fifo");
    CHECK(entry("fifo").at("mode") == "0640");
    CHECK(entry("socket").at("type") == "socket");
    CHECK(entry("link").at("type") == "symlink");
    CHECK(entry("link").at("target") == "dir/file");
    CHECK(entry("dangling").at("target") == "/nowhere/\xef\xbf\xbd");
    CHECK(entry("").at("type") == "directory");
    CHECK(entry("").at("path") == "");
    timespec times[2] = {{0, 0}, {981'173'106, 789'000'000}};
    utimensat(AT_FDCWD, lab.at("dir/file").c_str(), times, 0);
    CHECK(entry("dir/file").at("mtime") == "2001-02-03T04:05:06.789Z");
}

TEST_CASE("a list has what is in a directory right behind it, in the order of bytes") {
    const FileLab lab;
    for (const char* path : {"b/x/1", "b/x/2", "b/y", "a.txt", "a/z", "\xc3\xa4", "B"})
        lab.write(path, "");
    symlink("b", lab.at("link").c_str());
    CHECK(lab.paths("") == "B a a.txt b link \xc3\xa4");
    CHECK(lab.paths("", 2) == "B a a/z a.txt b b/x b/y link \xc3\xa4");
    CHECK(lab.paths("", 9) == "B a a/z a.txt b b/x b/x/1 b/x/2 b/y link \xc3\xa4");
    CHECK(lab.paths("b/") == "b/x b/y");
    // A link at the start is followed, those below are not.
    CHECK(lab.paths("link", 2) == "link/x link/x/1 link/x/2 link/y");
    CHECK(lab.list("").at("next").is_null());
    CHECK(lab.refusal("list", "B") == "not_a_directory");
    CHECK(lab.refusal("list", "nothing") == "file_not_found");
}

TEST_CASE("pages of a list join without a gap, also when files come and go in between") {
    const FileLab lab;
    for (const char* path : {"a/1", "a/2/x", "a/3", "b", "c/1", "d"})
        lab.write(path, "");
    const std::string whole = lab.paths("", 9);
    for (std::uint64_t limit = 1; limit <= 11; ++limit) {
        std::string joined;
        std::string after;
        do {
            const json page = lab.list("", 9, limit, after);
            CHECK(page.at("entries").size() <= limit);
            for (const auto& entry : page.at("entries"))
                joined += (joined.empty() ? "" : " ") + entry.at("path").get<std::string>();
            after = page.at("next").is_null() ? "" : page.at("next").get<std::string>();
        } while (!after.empty());
        CHECK(joined == whole);
    }
    const json first = lab.list("", 9, 3);
    CHECK(first.at("next") == "a/2");
    std::filesystem::remove_all(lab.at("a/2"));
    lab.write("a/0", "");
    lab.write("a/25", "");
    const json second = lab.list("", 9, 3, "a/2");
    CHECK(second.at("entries").at(0).at("path") == "a/25");
    CHECK(second.at("entries").at(1).at("path") == "a/3");
}

TEST_CASE("a directory is made with its parents, once") {
    const FileLab lab;
    CallClient made = lab.call("mkdir", "a/b/c/");
    CHECK(made.reply.at("entry").at("type") == "directory");
    CHECK(std::filesystem::is_directory(lab.at("a/b/c")));
    CHECK(made.reply.at("created") == true);
    const json there = lab.call("mkdir", "a/b").reply;
    CHECK(there.at("created") == false);
    CHECK(there.at("entry").at("path") == "a/b");
    CHECK(lab.call("mkdir", "").reply.at("created") == false);
    lab.write("f", "");
    symlink("a", lab.at("inside").c_str());
    symlink("/usr", lab.at("outside").c_str());
    CHECK(lab.call("mkdir", "inside").reply.at("created") == false);
    CHECK(lab.refusal("mkdir", "outside") == "already_exists");
    CHECK(lab.refusal("mkdir", "f") == "already_exists");
    CHECK(lab.refusal("mkdir", "f/sub") == "not_a_directory");
}

TEST_CASE("a move is a rename: it replaces a file, and an empty directory, and nothing else") {
    const FileLab lab;
    lab.write("a", "a");
    lab.write("b", "b");
    lab.write("full/x", "");
    const auto move = [&](const std::string& from, const std::string& to, bool overwrite = true) {
        return lab.call("move", from, {{"to", to}, {"overwrite", overwrite}});
    };
    CHECK(move("a", "b", false).code() == "already_exists");
    CHECK(move("a", "b").reply.at("entry").at("path") == "b");
    CHECK(lab.text("b") == "a");
    CHECK_FALSE(lab.has("a"));
    CHECK(move("b", "new/parents/c").is_good());
    CHECK(move("new/parents/c", "full").code() == "is_directory");
    CHECK(move("new", "full").code() == "directory_not_empty");
    CHECK(move("new", "new/parents/inner").code() == "invalid_path");
    CHECK(move("nothing", "x/y").code() == "file_not_found");
    CHECK_FALSE(lab.has("x"));
    CHECK(move("", "x").code() == "invalid_path");
    symlink("/etc", lab.at("link").c_str());
    CHECK(move("link", "moved").reply.at("entry").at("target") == "/etc");
}

TEST_CASE("a copy has the same bytes and modes, links as links, and is there all at once") {
    const FileLab lab;
    lab.write("tree/sub/file", "text");
    lab.write("tree/run", "#!");
    chmod(lab.at("tree/run").c_str(), 0755);
    chmod(lab.at("tree/sub").c_str(), 0555);
    symlink("../outside", lab.at("tree/link").c_str());
    const auto copy = [&](const std::string& from, const std::string& to, bool overwrite = true) {
        return lab.call("copy", from, {{"to", to}, {"overwrite", overwrite}});
    };
    CHECK(copy("tree", "deep/copy").reply.at("entry").at("type") == "directory");
    CHECK(lab.text("deep/copy/sub/file") == "text");
    CHECK(lab.mode("deep/copy/run") == 0755);
    CHECK(lab.mode("deep/copy/sub") == 0555);
    CHECK(std::filesystem::read_symlink(lab.at("deep/copy/link")) == "../outside");
    CHECK(copy("tree", "deep/copy").code() == "already_exists");
    CHECK(copy("tree", "tree/run").code() == "already_exists");
    CHECK(copy("tree", "tree/copy").code() == "invalid_path");
    CHECK(copy("tree/run", "one").is_good());
    CHECK(lab.text("one") == "#!");
    CHECK(copy("tree/sub/file", "one", false).code() == "already_exists");
    CHECK(copy("tree/sub/file", "one").is_good());
    CHECK(lab.text("one") == "text");
    CHECK(copy("tree/link", "link").reply.at("entry").at("target") == "../outside");
    mkfifo(lab.at("tree/fifo").c_str(), 0600);
    CHECK(copy("tree", "third").code() == "not_a_file");
    CHECK(copy("tree/fifo", "third").code() == "not_a_file");
    CHECK(lab.names() == std::vector<std::string>{"deep", "link", "one", "tree"});
    chmod(lab.at("tree/sub").c_str(), 0755);
    chmod(lab.at("deep/copy/sub").c_str(), 0755);
}

TEST_CASE("what replaces a file, and what is copied of it, has its extended attributes") {
    const FileLab lab;
    lab.write("a", "one");
    const std::string file = lab.at("a");
    if (::setxattr(file.c_str(), "user.mark", "red", 3, 0) != 0)
        SKIP("no extended attributes of users where temporary folders are");
    const auto mark_of = [&](const std::string& path) {
        std::string value(16, '\0');
        const ssize_t size = ::getxattr(lab.at(path).c_str(), "user.mark", value.data(), value.size());
        return size < 0 ? std::string("none") : value.substr(0, static_cast<std::size_t>(size));
    };
    REQUIRE(lab.put("a", "two").is_good());
    CHECK(lab.text("a") == "two");
    CHECK(mark_of("a") == "red");
    REQUIRE(lab.call("copy", "a", {{"to", "d/b"}}).is_good());
    CHECK(mark_of("d/b") == "red");
    REQUIRE(lab.call("copy", "d", {{"to", "e"}}).is_good());
    CHECK(mark_of("e/b") == "red");
    REQUIRE(lab.put("new", "three").is_good());
    CHECK(mark_of("new") == "none");
}

TEST_CASE("a directory is removed with what is in it only if that is asked for") {
    const FileLab lab;
    lab.write("d/e/f", "");
    lab.write("kept/f", "kept");
    symlink("../kept", lab.at("d/link").c_str());
    CHECK(lab.refusal("remove", "d") == "directory_not_empty");
    CHECK(lab.refusal("remove", "d", k_recursive).empty());
    CHECK_FALSE(lab.has("d"));
    CHECK(lab.text("kept/f") == "kept");
    CHECK(lab.refusal("remove", "d", k_recursive) == "file_not_found");
    lab.call("mkdir", "empty");
    CHECK(lab.refusal("remove", "empty").empty());
    CHECK(lab.refusal("remove", "kept/f").empty());
    CHECK(lab.refusal("remove", "", k_recursive) == "invalid_path");
    CHECK(lab.refusal("remove", ".", k_recursive) == "invalid_path");
    CHECK(lab.refusal("remove", "kept/..", k_recursive) == "invalid_path");
    CHECK(lab.has("kept"));
}

TEST_CASE("a command of `file` that is of no form is refused") {
    const FileLab lab;
    const auto refusal = [&](std::string_view line) {
        return nlohmann::json::parse(lab.guest.send(line).rest().at(0)).at("code");
    };
    CHECK(refusal(R"({"cmd":"file"})") == "invalid");
    CHECK(refusal(R"({"cmd":"file","op":"format"})") == "invalid");
    CHECK(refusal(R"({"cmd":"file","op":"stat","path":{"a":[]}})") == "invalid");
}

TEST_CASE("a call that waits for input says that it is alive, and others are served meanwhile") {
    const FileLab lab;
    CallClient put = lab.begin("write", "slow");
    REQUIRE(put.await_ready());
    put.write("abc");
    CHECK(lab.put("quick", "x").is_good());
    put.end_input();
    CHECK(put.finish().is_good());
    CallClient waiting = lab.begin("write", "f");
    REQUIRE(waiting.await_ready());
    while (waiting.words.size() < 2)
        waiting.await_word();
    CHECK(waiting.words.back() == json{{"progress", {{"bytes", 0}, {"entries", 0}}}});
}

TEST_CASE("input may come in one piece with the command, or byte by byte") {
    const FileLab lab;
    std::string text = R"({"cmd":"file","op":"write","path":"f"})"
                       "\n";
    bridge::append_frame(text, bridge::FrameType::input, "ab");
    bridge::append_frame(text, bridge::FrameType::input, "");
    bridge::append_frame(text, bridge::FrameType::input, "c");
    bridge::append_frame(text, bridge::FrameType::input_end, {});
    const bool at_once = GENERATE(true, false);
    Client client = lab.guest.connect();
    for (std::size_t at = 0; at < text.size(); at += at_once ? text.size() : 1)
        client.send(text.substr(at, at_once ? text.size() : 1));
    CHECK(client.line() == R"({"ready":true})");
    CHECK(client.line()->starts_with(R"({"ok":true,"created":true)"));
    CHECK(lab.text("f") == "abc");
}

TEST_CASE("a connection serves calls one after the other, but nothing behind one with input") {
    const FileLab lab;
    lab.write("f", "text");
    Client client = lab.guest.send(R"({"cmd":"file","op":"read","path":"f"})");
    for (int i = 0; i < 3; ++i) {
        std::string got;
        while (!got.ends_with(bridge::encode_exit({})))
            got += client.bytes().value();
        std::string bytes;
        bridge::append_frame(bytes, bridge::FrameType::output, "text");
        CHECK(got.ends_with("}\n" + bytes + bridge::encode_exit({})));
        client.send("{\"cmd\":\"file\",\"op\":\"read\",\"path\":\"f\"}\n");
    }
    CallClient put = lab.begin("write", "g");
    REQUIRE(put.await_ready());
    put.write("new");
    put.end_input();
    put.finish();
    REQUIRE(put.has_ended);
    // The guest closes the connection of a write: no bytes for a file can be taken for a command.
    char byte = 0;
    pollfd ended{put.fd(), POLLIN, 0};
    CHECK(::poll(&ended, 1, k_client_deadline_ms) == 1);
    CHECK(::recv(put.fd(), &byte, 1, 0) == 0);
}

// [serial]: the guest's memory, with ATOLL_TEST_FULL=1.
TEST_CASE("a large file goes in and out at constant memory, whoever is slow", "[serial]") {
#ifdef __SANITIZE_ADDRESS__
    constexpr long k_slack_kb = 300L * 1024;  // it keeps 256 MB of what was freed
#else
    constexpr long k_slack_kb = 8L * 1024;
#endif
    if (!GuestProcess::can_isolate())
        SKIP("no pid namespace on this host");
    const FileLab lab;
    const auto anonymous_kb = [&lab] {
        std::ifstream rollup("/proc/" + std::to_string(lab.guest.pid()) + "/smaps_rollup");
        std::string word;
        long found = 0;
        while (rollup >> word)
            if (word == "Anonymous:")
                rollup >> found;
        return found;
    };
    // The guest is a fork of the test: it begins with what that has.
    const long first_kb = anonymous_kb();
    const std::string bytes(64UL * 1024 * 1024, 'x');
    CHECK(lab.put("big", bytes).is_good());
    CallClient read = lab.begin("read", "big");
    read.await_reply();
    // Nobody reads: the guest stands still and serves others.
    CHECK(lab.get("missing") == "!file_not_found");
    CHECK(first_kb > 0);
    if (checks_bounds())
        CHECK(anonymous_kb() < first_kb + k_slack_kb);
    while (read.output.size() < bytes.size() / 4 * 3 && read.step()) {
    }
    if (checks_bounds())
        CHECK(anonymous_kb() < first_kb + k_slack_kb);
    CHECK(read.finish().output.size() == bytes.size());
    CHECK(read.has_ended);
}

// The gate takes 40,000 of them.
TEST_CASE("the entries of a directory of 200,000 are found page by page, and others are served meanwhile") {
    const FileLab lab(folder_for_many_files());
    std::filesystem::create_directory(lab.at("many"));
    const base::UniqueFd folder(open(lab.at("many").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const int k_files = checks_bounds() ? 200'000 : 40'000;
    lab.write("one", "");
    for (int i = 0; i < k_files; ++i)
        REQUIRE(symlinkat("one", folder.get(), std::to_string(i).c_str()) == 0);
    std::string after;
    std::size_t entries = 0;
    int pages = 0;
    do {
        CallClient page = lab.begin("list", "many", {{"limit", 10'000}, {"after", after}});
        if (++pages == 1)
            CHECK(lab.get("one").empty());
        const json found = json::parse(page.finish().output);
        entries += found.at("entries").size();
        after = found.at("next").is_null() ? "" : found.at("next").get<std::string>();
    } while (!after.empty());
    CHECK(entries == static_cast<std::size_t>(k_files));
    CHECK(pages == k_files / 10'000);
    CHECK(lab.refusal("remove", "many", k_recursive).empty());
}

}  // namespace atl::test::bridge_files_test
