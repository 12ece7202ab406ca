// The tar format against itself, against tar(1), and against archives that nobody should send; then archives
// in and out of a real guest.
#include "bridge/guest/files/tar.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdlib>

#include "file_lab.hpp"

namespace atl::test::tar_test {
namespace {

using guest::ArchiveEntry;
using guest::EntryType;
using guest::TarReader;

ArchiveEntry entry_of(EntryType type, std::string path, std::string target = "", std::uint64_t size = 0) {
    ArchiveEntry entry;
    entry.type = type;
    entry.path = std::move(path);
    entry.target = std::move(target);
    entry.size = size;
    return entry;
}

void add(std::string& archive, const ArchiveEntry& entry, std::string_view bytes = {}) {
    guest::append_tar_header(archive, entry);
    archive += bytes;
    guest::append_tar_padding(archive, bytes.size());
}

std::string file_archive(const std::string& path, std::string_view bytes) {
    std::string archive;
    add(archive, entry_of(EntryType::file, path, "", bytes.size()), bytes);
    guest::append_tar_end(archive);
    return archive;
}

std::string archive_of(const ArchiveEntry& entry) {
    std::string archive;
    add(archive, entry);
    guest::append_tar_end(archive);
    return archive;
}

/// "path>target=bytes" of each entry; "!" and the refusal behind it.
std::string read(std::string_view archive, std::size_t piece) {
    TarReader reader;
    std::string seen;
    for (std::size_t at = 0; at < archive.size(); at += piece) {
        std::string_view from = archive.substr(at, piece);
        for (bool more = true; more;) {
            switch (reader.next(from)) {
                case TarReader::Found::need_more:
                case TarReader::Found::end:
                    more = false;
                    break;
                case TarReader::Found::entry:
                    seen += reader.entry().path + '>' + reader.entry().target + '=';
                    break;
                case TarReader::Found::bytes:
                    seen += reader.bytes();
                    break;
                case TarReader::Found::refused:
                    return seen + '!' + reader.refusal();
            }
        }
    }
    return reader.is_complete() ? seen : seen + "!incomplete";
}

CallClient unpack(const FileLab& lab, const std::string& archive, const std::string& path = "") {
    CallClient client = lab.begin("unpack", path);
    if (client.await_ready()) {
        try {
            client.write(archive);
            client.end_input();
        } catch (const std::runtime_error&) {
            // It closed its end before all was sent.
        }
    }
    client.finish();
    return client;
}

ArchiveEntry folder_of(std::string path, std::uint32_t mode, std::int64_t mtime) {
    ArchiveEntry entry = entry_of(EntryType::directory, std::move(path));
    entry.mode = mode;
    entry.mtime = mtime;
    return entry;
}

std::int64_t mtime(const FileLab& lab, const std::string& path) {
    struct stat about {};
    lstat(lab.at(path).c_str(), &about);
    return about.st_mtim.tv_sec;
}

int run(const std::string& command) {
    return std::system(command.c_str());
}

}  // namespace

TEST_CASE("an archive is read as it was written, cut anywhere") {
    std::string archive;
    const std::string long_name = std::string(300, 'n') + "/\xff";
    add(archive, entry_of(EntryType::directory, "d/"));
    add(archive, entry_of(EntryType::file, "d/f", "", 5), "bytes");
    add(archive, entry_of(EntryType::file, long_name, "", 512), std::string(512, 'x'));
    add(archive, entry_of(EntryType::symlink, "link", std::string(200, 't')));
    guest::append_tar_end(archive);
    const std::string whole =
        "d/>=d/f>=bytes" + long_name + ">=" + std::string(512, 'x') + "link>" + std::string(200, 't') + "=";
    for (const std::size_t piece : {1UL, 7UL, 511UL, 512UL, 513UL, 100'000UL})
        CHECK(read(archive, piece) == whole);
    // Without its end, as some programs write it.
    CHECK(read(std::string_view(archive).substr(0, archive.size() - 1024), 100) == whole);
    CHECK(read(std::string_view(archive).substr(0, archive.size() - 1025), 100).ends_with("!incomplete"));
}

TEST_CASE("what is no archive is refused, and never read as one") {
    std::string archive = file_archive("f", "bytes");
    CHECK(read("", 1) == "!incomplete");
    CHECK(read(std::string(511, 'x'), 100) == "!incomplete");
    CHECK(read(std::string(512, 'x'), 100) == "!this is no tar archive");
    CHECK(read("\x1f\x8b" + std::string(600, 'x'), 100).find("gzip") != std::string::npos);
    SECTION("a header that was changed") {
        archive[0] = 'g';
        CHECK(read(archive, 512) == "!this is no tar archive");
    }
    SECTION("cut in the content") {
        CHECK(read(archive.substr(0, 514), 512) == "f>=by!incomplete");
    }
    SECTION("an extension that is too long") {
        const ArchiveEntry big = entry_of(EntryType::file, "x", "", 100'000);
        std::string changed;
        guest::append_tar_header(changed, big);
        changed[156] = 'x';
        unsigned sum = 0;
        for (std::size_t at = 0; at < 512; ++at)
            sum += at >= 148 && at < 156 ? ' ' : static_cast<unsigned char>(changed[at]);
        char text[8];
        snprintf(text, sizeof text, "%06o", sum);
        changed.replace(148, 7, text, 7);
        CHECK(read(changed, 512) == "!a name in it is too long");
    }
}

TEST_CASE("a workspace goes out as an archive that tar reads, and comes back") {
    const FileLab lab;
    const std::string long_name(200, 'l');
    lab.write("src/a.txt", "text");
    lab.write("src/" + long_name + "/\xff", std::string(100'000, 'x'));
    lab.write("src/empty", "");
    chmod(lab.at("src/a.txt").c_str(), 0750);
    symlink("a.txt", lab.at("src/link").c_str());
    mkfifo(lab.at("src/fifo").c_str(), 0600);
    CallClient packed = lab.call("pack", "src");
    REQUIRE(packed.has_ended);
    lab.write_outside("out.tar", packed.output);
    const std::string outside = lab.outside();
    REQUIRE(run("mkdir " + outside + "/x && tar -xf " + outside + "/out.tar -C " + outside + "/x") == 0);
    CHECK(run("rm " + lab.at("src/fifo").string()) == 0);
    CHECK(run("diff -r --no-dereference " + lab.at("src").string() + " " + outside + "/x") == 0);
    const CallClient unpacked = unpack(lab, packed.output, "deep/copy");
    CHECK(unpacked.reply.at("entries") == 5);
    CHECK(unpacked.reply.at("bytes") == 100'004);
    CHECK(run("diff -r --no-dereference " + lab.at("src").string() + " " + lab.at("deep/copy").string()) ==
          0);
    CHECK(lab.mode("deep/copy/a.txt") == 0750);
    // The guest unpacks archives that tar writes, in each of its formats.
    for (const char* const format : {"gnu", "pax", "ustar", "v7"}) {
        INFO(format);
        const bool is_old = std::string_view(format) == "ustar" || std::string_view(format) == "v7";
        const std::string what = is_old ? " a.txt empty link" : " .";
        REQUIRE(run("tar --format=" + std::string(format) + " -cf " + outside + "/in.tar -C " +
                    lab.at("src").string() + what) == 0);
        CHECK(unpack(lab, lab.text_of(outside + "/in.tar"), format).is_good());
        CHECK(lab.text(std::string(format) + "/link") == "text");
    }
    CHECK(lab.call("pack", "src/a.txt").output.starts_with("a.txt"));
    CHECK(lab.refusal("pack", "nothing") == "file_not_found");
}

TEST_CASE("an entry that leads out, or is no file, ends an archive and touches nothing outside") {
    const FileLab lab;
    symlink("..", lab.at("out").c_str());
    REQUIRE(lab.text("out/secret") == "outside");
    for (const char* const path :
         {"../made", "/tmp/made", "a/../../made", "a/..", "..", "out/made", "out/secret"}) {
        INFO(path);
        const CallClient client = unpack(lab, file_archive(path, "x"));
        CHECK((client.code() == "invalid_archive" || client.code() == "outside_workspace"));
    }
    for (const auto& [path, target] :
         {std::pair("link", "../x"), {"link", "/etc"}, {"a/link", "../../x"}, {"link", "a/../../x"}}) {
        INFO(path << ' ' << target);
        CHECK_FALSE(unpack(lab, archive_of(entry_of(EntryType::hard_link, path, target))).is_good());
    }
    CHECK(unpack(lab, archive_of(entry_of(EntryType::hard_link, "stolen", "out/secret"))).code() ==
          "outside_workspace");
    lab.write_outside("devices/x", "");
    REQUIRE(run("mkfifo " + lab.outside().string() + "/devices/fifo && tar -cf " + lab.outside().string() +
                "/fifo.tar -C " + lab.outside().string() + "/devices fifo") == 0);
    CHECK(unpack(lab, lab.text_of(lab.outside() / "fifo.tar")).code() == "invalid_archive");
    CHECK(lab.text_of(lab.outside() / "secret") == "outside");
    CHECK_FALSE(std::filesystem::exists(lab.outside() / "made"));
    CHECK_FALSE(std::filesystem::exists("/tmp/made"));
    CHECK_FALSE(lab.has("stolen"));
}

TEST_CASE("a link in an archive is stored whatever its target, and never followed out") {
    const FileLab lab;
    const std::string outside = lab.outside();
    for (const std::string& target : {std::string("../x"), outside, std::string("/usr/bin/python3")}) {
        INFO(target);
        REQUIRE(unpack(lab, archive_of(entry_of(EntryType::symlink, "bin/python", target))).is_good());
        CHECK(std::filesystem::read_symlink(lab.at("bin/python")) == target);
    }
    std::string archive;
    add(archive, entry_of(EntryType::symlink, "way", outside));
    add(archive, entry_of(EntryType::file, "way/made", "", 1), "x");
    guest::append_tar_end(archive);
    CHECK(unpack(lab, archive).code() == "outside_workspace");
    CHECK(unpack(lab, archive_of(entry_of(EntryType::directory, "way/"))).code() == "outside_workspace");
    CHECK_FALSE(std::filesystem::exists(lab.outside() / "made"));
    // The control: the link does lead there. As a file's name it is only replaced.
    CHECK(lab.text("way/secret") == "outside");
    CHECK(unpack(lab, file_archive("way", "x")).is_good());
    CHECK(lab.text("way") == "x");
}

TEST_CASE("a link entry for a name that is the same file already leaves nothing else") {
    const FileLab lab;
    std::string archive;
    add(archive, entry_of(EntryType::file, "a", "", 1), "x");
    add(archive, entry_of(EntryType::hard_link, "b", "a"));
    add(archive, entry_of(EntryType::hard_link, "b", "a"));
    add(archive, entry_of(EntryType::hard_link, "a", "a"));
    guest::append_tar_end(archive);
    CHECK(unpack(lab, archive).is_good());
    CHECK(lab.names() == std::vector<std::string>{"a", "b"});
    CHECK(unpack(lab, file_archive("d/.atoll-write-0123456789abcdef-1/x", "x")).code() == "invalid_path");
    CHECK(lab.names() == std::vector<std::string>{"a", "b"});
}

TEST_CASE("directories of an archive have its modes and times, whatever comes into them and in which order") {
    const FileLab lab;
    std::string archive;
    add(archive, folder_of("./", 0750, 1'000'000'005));
    add(archive, folder_of("./a/", 0555, 1'000'000'001));
    add(archive, folder_of("a/none//", 0, 1'000'000'002));
    add(archive, folder_of("b", 0700, 5));
    add(archive, entry_of(EntryType::file, "a/none/f", "", 1), "x");
    add(archive, folder_of("a/none/deep", 0311, 1'000'000'003));
    ArchiveEntry link = entry_of(EntryType::symlink, "a/none/deep/link", "f");
    link.mtime = 1'000'000'006;
    add(archive, link);
    add(archive, folder_of("b/", 0750, 1'000'000'004));
    add(archive, entry_of(EntryType::file, "b/late", "", 1), "x");
    guest::append_tar_end(archive);
    // The second time they are there, and closed.
    for (int i = 0; i < 2; ++i) {
        CHECK(unpack(lab, archive, "into").is_good());
        CHECK(lab.mode("into") == 0750);
        CHECK(mtime(lab, "into") == 1'000'000'005);
        CHECK(lab.mode("into/a") == 0555);
        CHECK(mtime(lab, "into/a") == 1'000'000'001);
        CHECK(lab.mode("into/a/none") == 0);
        CHECK(mtime(lab, "into/a/none") == 1'000'000'002);
        CHECK(lab.mode("into/b") == 0750);
        CHECK(mtime(lab, "into/b") == 1'000'000'004);
    }
    chmod(lab.at("into/a/none").c_str(), 0755);
    CHECK(lab.text("into/a/none/f") == "x");
    CHECK(lab.mode("into/a/none/deep") == 0311);
    CHECK(mtime(lab, "into/a/none/deep") == 1'000'000'003);
    chmod(lab.at("into/a/none/deep").c_str(), 0755);
    CHECK(lab.names("into/a/none/deep") == std::vector<std::string>{"link"});
    CHECK(mtime(lab, "into/a/none/deep/link") == 1'000'000'006);
    chmod(lab.at("into/a").c_str(), 0755);
}

TEST_CASE("the workspace has the time of an archive's own entry, and keeps its mode") {
    const FileLab lab;
    const mode_t before = lab.mode(".");
    std::string archive;
    add(archive, folder_of(".", 0, 1'000'000'001));
    add(archive, entry_of(EntryType::file, "f", "", 1), "x");
    guest::append_tar_end(archive);
    CHECK(unpack(lab, archive).is_good());
    CHECK(mtime(lab, ".") == 1'000'000'001);
    CHECK(lab.mode(".") == before);
}

TEST_CASE("directories go out as an archive and come back with their modes and times") {
    const FileLab lab;
    lab.write("src/closed/inner/f", "text");
    const auto set = [&](const std::string& path, mode_t mode, time_t when) {
        const timespec times[2] = {{when, 0}, {when, 0}};
        utimensat(AT_FDCWD, lab.at(path).c_str(), times, 0);
        chmod(lab.at(path).c_str(), mode);
    };
    set("src/closed/inner", 0500, 1'000'000'000);
    set("src/closed", 0555, 1'100'000'000);
    CHECK(unpack(lab, lab.call("pack", "src").output, "copy").is_good());
    CHECK(lab.mode("copy/closed") == 0555);
    CHECK(mtime(lab, "copy/closed") == 1'100'000'000);
    CHECK(lab.mode("copy/closed/inner") == 0500);
    CHECK(mtime(lab, "copy/closed/inner") == 1'000'000'000);
    CHECK(lab.text("copy/closed/inner/f") == "text");
    for (const char* const top : {"src", "copy"}) {
        chmod(lab.at(std::string(top) + "/closed").c_str(), 0755);
        chmod(lab.at(std::string(top) + "/closed/inner").c_str(), 0755);
    }
}

TEST_CASE("an archive that breaks off leaves no directory more open than it says") {
    const FileLab lab;
    std::string archive;
    add(archive, folder_of("d", 0555, 1'000'000'000));
    add(archive, entry_of(EntryType::file, "d/f", "", 1), "x");
    add(archive, entry_of(EntryType::file, "../out", "", 1), "x");
    CHECK(unpack(lab, archive).code() == "invalid_archive");
    CHECK(lab.mode("d") == 0555);
    CHECK(mtime(lab, "d") == 1'000'000'000);
    chmod(lab.at("d").c_str(), 0755);
}

TEST_CASE("more directories than are remembered have the modes and times of their archive, too") {
    const FileLab lab;
    const std::string part(250, 'p');
    std::string top = part;
    for (int i = 0; i < 9; ++i)
        top += '/' + part;
    std::string archive;
    add(archive, folder_of(part, 0700, 1'000'000'000));
    for (int i = 0; i < 2'000; ++i) {  // 5 MB of names
        const std::string path = top + '/' + std::to_string(i);
        add(archive, folder_of(path, 0555, i + 1));
        if (i % 100 == 0)
            add(archive, entry_of(EntryType::file, path + "/f", "", 1), "x");
    }
    guest::append_tar_end(archive);
    CHECK(unpack(lab, archive).is_good());
    int wrong = 0;
    for (int i = 0; i < 2'000; ++i) {
        const std::string path = top + '/' + std::to_string(i);
        wrong += lab.mode(path) == 0555 && mtime(lab, path) == i + 1 ? 0 : 1;
        chmod(lab.at(path).c_str(), 0755);
    }
    CHECK(wrong == 0);
    CHECK(lab.text(top + "/1900/f") == "x");
    CHECK(mtime(lab, part) == 1'000'000'000);
}

TEST_CASE("an archive of many entries in one piece is unpacked, and has all of them") {
    const FileLab lab;
    std::string archive;
    for (int i = 0; i < 2'000; ++i)
        add(archive, entry_of(EntryType::file, "d/" + std::to_string(i), "", 1), "x");
    guest::append_tar_end(archive);
    CHECK(unpack(lab, archive).reply.at("entries") == 2'000);
    CHECK(lab.names("d").size() == 2'000);
}

TEST_CASE("a sparse file of an archive is refused, not written as something else") {
    const FileLab lab;
    const std::string outside = lab.outside();
    REQUIRE(run("truncate -s 1M " + outside + "/holes && echo end >> " + outside +
                "/holes && tar --format=pax --sparse -cf " + outside + "/in.tar -C " + outside + " holes") ==
            0);
    CHECK(unpack(lab, lab.text_of(outside + "/in.tar")).code() == "invalid_archive");
    CHECK(lab.names().empty());
}

TEST_CASE("what is too deep, or becomes shorter or longer, does not end an archive") {
    const FileLab lab;
    const std::string bytes(4UL * 1024 * 1024, 'x');
    SECTION("too deep") {
        REQUIRE(run("cd " + lab.workspace().string() +
                    " && mkdir deep && cd deep && for i in $(seq 300); do mkdir d && cd -P d; done") == 0);
        lab.write("z", "text");
        const CallClient packed = lab.call("pack", "");
        CHECK(packed.has_ended);
        CHECK(unpack(lab, packed.output, "copy").is_good());
        CHECK(lab.text("copy/z") == "text");
    }
    SECTION("shorter") {
        lab.write("f", bytes);
        CallClient packed = lab.begin("pack", "");
        packed.await_reply();
        while (packed.output.size() < 4096)  // the header, which has the size, and bytes of the file
            REQUIRE(packed.step());
        std::filesystem::resize_file(lab.at("f"), 10);
        CHECK(packed.finish().has_ended);
        CHECK(unpack(lab, packed.output, "copy").is_good());
        CHECK(lab.text("copy/f").size() == bytes.size());
    }
    SECTION("longer") {
        lab.write("f", bytes);
        CallClient packed = lab.begin("pack", "");
        packed.await_reply();
        while (packed.output.size() < 4096)
            REQUIRE(packed.step());
        std::ofstream(lab.at("f"), std::ios::app) << "more";
        CHECK(packed.finish().has_ended);
        CHECK(unpack(lab, packed.output, "copy").is_good());
        CHECK(lab.text("copy/f") == bytes);
    }
}

TEST_CASE("an archive that breaks off leaves whole files only") {
    const FileLab lab;
    lab.write("second", "old");
    std::string archive;
    add(archive, entry_of(EntryType::file, "first", "", 5), "bytes");
    add(archive, entry_of(EntryType::file, "second", "", 2000), std::string(2000, 'x'));
    CHECK(unpack(lab, archive.substr(0, archive.size() - 1500)).code() == "invalid_archive");
    CHECK(lab.text("first") == "bytes");
    CHECK(lab.text("second") == "old");
    CHECK(lab.names() == std::vector<std::string>{"first", "second"});
    CHECK(unpack(lab, "").code() == "invalid_archive");
}

}  // namespace atl::test::tar_test
