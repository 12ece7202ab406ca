// Zip and gzip: what goes out is read by Python, what Python and others make comes in, and archives that
// nobody should send end.
#include <sys/mman.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>

#include "bridge/guest/files/gzip_tar.hpp"
#include "bridge/guest/files/new_file.hpp"
#include "bridge/guest/files/zip_format.hpp"
#include "bridge/guest/files/zip_reader.hpp"
#include "bridge/guest/files/zip_writer.hpp"
#include "file_lab.hpp"

namespace atl::test::zip_test {
namespace {

using guest::ArchiveEntry;
using guest::ArchiveReader;
using guest::EntryType;
using guest::ZipWriter;

ArchiveEntry entry_of(std::string path, std::uint64_t size = 0, EntryType type = EntryType::file) {
    ArchiveEntry entry;
    entry.type = type;
    entry.path = std::move(path);
    entry.size = size;
    entry.mtime = 1'000'000'001;
    return entry;
}

void add(guest::ArchiveWriter& writer, std::string& out, const ArchiveEntry& entry,
         std::string_view bytes = {}) {
    writer.begin(out, entry);
    if (!bytes.empty())
        writer.write(out, bytes);
    writer.end_entry(out);
}

std::string zip_of(const ArchiveEntry& entry, std::string_view bytes = {}) {
    ZipWriter writer;
    std::string out;
    add(writer, out, entry, bytes);
    while (writer.finish(out)) {
    }
    return out;
}

std::string link_zip(const std::string& path, const std::string& target) {
    ArchiveEntry link = entry_of(path, 0, EntryType::symlink);
    link.target = target;
    return zip_of(link);
}

/// "path>target=bytes" of each entry; "!" and the refusal behind it.
std::string read(ArchiveReader& reader, std::string_view from) {
    using Found = ArchiveReader::Found;
    std::string seen;
    for (;;) {
        const Found found = reader.next(from);
        if (found == Found::refused)
            return seen + '!' + reader.refusal();
        if (found == Found::need_more || found == Found::end)
            return seen + (reader.is_complete() ? "" : "!incomplete");
        if (found == Found::entry)
            seen += reader.entry().path + '>' + reader.entry().target + '=';
        else
            seen += reader.bytes();
    }
}

std::string read_zip(std::string_view archive) {
    const base::UniqueFd file(memfd_create("zip", MFD_CLOEXEC));
    guest::write_all(file.get(), archive);
    guest::ZipReader reader(file.get(), archive.size());
    return read(reader, {});
}

std::string read_gzip(std::string_view archive) {
    guest::GzipTarReader reader;
    return read(reader, archive);
}

std::string gzip_of(const std::string& path, std::string_view bytes) {
    guest::GzipTarWriter writer;
    std::string out;
    add(writer, out, entry_of(path, bytes.size()), bytes);
    while (writer.finish(out)) {
    }
    return out;
}

CallClient unpack(const FileLab& lab, const std::string& archive, const std::string& path = "",
                  const nlohmann::json& members = nlohmann::json::object()) {
    CallClient client = lab.begin("unpack", path, members);
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

/// Gives what a program of Python prints; its standard input is `input`, its folder the one outside the
/// workspace.
std::string python(const FileLab& lab, const std::string& program, std::string_view input = {}) {
    lab.write_outside("program.py", "import io, os, stat, sys, tarfile, warnings, zipfile\n" + program);
    lab.write_outside("input", input);
    const std::string outside = lab.outside();
    const int status = std::system(
        ("cd " + outside + " && /usr/bin/python3 -I program.py < input > output 2> errors").c_str());
    INFO(lab.text_of(outside + "/errors"));
    CHECK(status == 0);
    return lab.text_of(outside + "/output");
}

const std::string k_zip_program = R"(warnings.simplefilter("ignore")
out = io.BytesIO()
z = zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED)
)";
const std::string k_zip_end = R"(
z.close()
sys.stdout.buffer.write(out.getvalue())
)";

/// A zip that Python makes with the object `z`.
std::string python_zip(const FileLab& lab, const std::string& program) {
    return python(lab, k_zip_program + program + k_zip_end);
}

/// `archive` with one more in the byte at `at`, from its end where that is negative.
std::string changed(std::string archive, std::ptrdiff_t at) {
    const std::size_t place =
        at < 0 ? archive.size() - static_cast<std::size_t>(-at) : static_cast<std::size_t>(at);
    archive[place] = static_cast<char>(archive[place] + 1);
    return archive;
}

/// `archive` with a field of its first entry in the directory set.
std::string with_central(std::string archive, std::size_t at, std::uint64_t value, int bytes) {
    std::string field;
    guest::zip::put(field, value, bytes);
    return archive.replace(archive.find("PK\x01\x02") + at, field.size(), field);
}

}  // namespace

TEST_CASE("a workspace goes out as zip and as tar.gz that Python reads, and comes back") {
    const FileLab lab;
    lab.write("src/a.txt", "text");
    lab.write("src/deep/\xc3\xa4", std::string(300'000, 'x'));
    lab.write("src/empty", "");
    chmod(lab.at("src/a.txt").c_str(), 0751);
    symlink("a.txt", lab.at("src/link").c_str());
    const timespec times[2] = {{1'000'000'001, 0}, {1'000'000'001, 0}};
    utimensat(AT_FDCWD, lab.at("src/a.txt").c_str(), times, 0);
    const std::string zipped = lab.call("pack", "src", {{"format", "zip"}}).output;
    const std::string told = python(lab, R"(z = zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read()))
assert z.testzip() is None
for i in sorted(z.infolist(), key=lambda i: i.filename):
    text = z.read(i)
    print(i.filename.encode(), oct(i.external_attr >> 16), len(text), text[:5].decode(), i.date_time[0])
)",
                                    zipped);
    CHECK(told.starts_with("b'a.txt' 0o100751 4 text 2001\nb'deep/' 0o40"));
    CHECK(told.find("300000 xxxxx") != std::string::npos);
    CHECK(told.find("b'empty' 0o100") != std::string::npos);
    CHECK(told.find("b'link' 0o120777 5 a.txt") != std::string::npos);
    CHECK(zipped.size() < 10'000);
    const std::string compressed = lab.call("pack", "src", {{"format", "tar.gz"}}).output;
    const std::string names = python(lab, R"(t = tarfile.open(fileobj=sys.stdin.buffer, mode="r|gz")
print(ascii(sorted(m.name for m in t)))
)",
                                     compressed);
    CHECK(names == "['a.txt', 'deep', 'deep/\\xe4', 'empty', 'link']\n");
    CHECK(compressed.size() < 10'000);
    for (const auto& [archive, to] : {std::pair(zipped, "zip"), std::pair(compressed, "gz")}) {
        INFO(to);
        const CallClient unpacked = unpack(lab, archive, to);
        CHECK(unpacked.is_good());
        CHECK(unpacked.reply.value("entries", 0) == 5);
        CHECK(unpacked.reply.value("bytes", 0) == 300'004);
        CHECK(std::system(("diff -r --no-dereference " + lab.at("src").string() + " " + lab.at(to).string())
                              .c_str()) == 0);
        struct stat about {};
        lstat((lab.at(to) / "a.txt").c_str(), &about);
        CHECK((about.st_mode & 07777) == 0751);
        CHECK(about.st_mtim.tv_sec == 1'000'000'001);
    }
    CHECK(lab.names() == std::vector<std::string>{"gz", "src", "zip"});
    CHECK(lab.refusal("pack", "src", {{"format", "rar"}}) == "invalid");
}

TEST_CASE("what others zip comes in: stored, streamed, without modes, and behind a program") {
    const FileLab lab;
    const std::string made = python_zip(lab, R"(z.writestr("in/plain", "text")
none = zipfile.ZipInfo("in/none"); none.create_system = 0
z.writestr(none, "no mode")
z.writestr("in/stored", "as it is", zipfile.ZIP_STORED)
z.writestr("in/", "")
link = zipfile.ZipInfo("in/link"); link.create_system = 3; link.external_attr = (stat.S_IFLNK | 0o777) << 16
z.writestr(link, "plain")
dos = zipfile.ZipInfo("dos"); dos.create_system = 0; dos.external_attr = 0x10
z.writestr(dos, "")
with z.open("in/large", "w", force_zip64=True) as f: f.write(b"x" * 200000)
z.writestr("in/twice", "first")
z.writestr("in/twice", "last")
z.comment = b"PK\x05\x06 is no end"
)");
    CHECK(unpack(lab, made).reply.value("entries", 0) == 9);
    CHECK(lab.text("in/plain") == "text");
    CHECK(lab.mode("in/plain") == 0600);
    CHECK(lab.text("in/none") == "no mode");
    CHECK(lab.mode("in/none") == 0644);
    CHECK(lab.text("in/stored") == "as it is");
    CHECK(std::filesystem::read_symlink(lab.at("in/link")) == "plain");
    CHECK(std::filesystem::is_directory(lab.at("dos")));
    CHECK(lab.text("in/large").size() == 200'000);
    CHECK(lab.text("in/twice") == "last");
    // A stream that cannot go back writes sizes behind the bytes.
    const std::string streamed = python(lab, R"(class Pipe(io.RawIOBase):
    def writable(self): return True
    def write(self, b): return sys.stdout.buffer.write(b)
z = zipfile.ZipFile(Pipe(), "w", zipfile.ZIP_DEFLATED)
z.writestr("streamed", "x" * 1000)
z.close()
)");
    CHECK(unpack(lab, streamed, "s").is_good());
    CHECK(lab.text("s/streamed") == std::string(1000, 'x'));
    const std::string program = "#!/bin/sh\n" + made;
    CHECK(unpack(lab, program).code() == "invalid_archive");
    CHECK(unpack(lab, program, "p", {{"format", "zip"}}).is_good());
    CHECK(lab.text("p/in/plain") == "text");
    CHECK(unpack(lab, made, "", {{"format", "tar"}}).reply.value("error", "").find("this is zip") !=
          std::string::npos);
    CHECK(unpack(lab, python_zip(lab, "")).reply.value("entries", 9) == 0);
}

TEST_CASE("a zip beyond 32 bits, or of more entries than 16 hold, is read by Python and here") {
    const FileLab lab;
    const std::string large = zip_of(entry_of("large", 5'000'000'000), "short");
    CHECK(read_zip(large) == "large>=short");
    ZipWriter writer;
    std::string many;
    for (int i = 0; i < 65'600; ++i)
        add(writer, many, entry_of(std::to_string(i)));
    std::size_t pieces = 1;
    for (std::size_t before = many.size(); writer.finish(many); before = many.size(), ++pieces)
        CHECK(many.size() - before < 130UL * 1024);
    CHECK(pieces > 2);
    const std::string seen = read_zip(many);
    CHECK(seen.starts_with("0>=1>=2>="));
    CHECK(seen.ends_with("65599>="));
    const std::string program = R"(z = zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read()))
print(len(z.infolist()), z.read(z.infolist()[0]).decode())
)";
    CHECK(python(lab, program, large) == "1 short\n");
    CHECK(python(lab, program, many) == "65600 \n");
}

TEST_CASE("a pipe that zip(1) has read is a file, and the end of such a zip says all numbers twice") {
    std::string piped = with_central(zip_of(entry_of("-", 2), "hi"), 40, 010600, 2);
    const std::size_t end = piped.size() - guest::zip::k_end_bytes;
    const std::size_t central = piped.find("PK\x01\x02");
    std::string both;
    for (const auto& [value, size] :
         std::initializer_list<std::pair<std::uint64_t, unsigned>>{{guest::zip::k_end64, 4},
                                                                   {44, 8},
                                                                   {45, 2},
                                                                   {45, 2},
                                                                   {0, 8},
                                                                   {1, 8},
                                                                   {1, 8},
                                                                   {end - central, 8},
                                                                   {central, 8},
                                                                   {guest::zip::k_locator64, 4},
                                                                   {0, 4},
                                                                   {end, 8},
                                                                   {1, 4}})
        guest::zip::put(both, value, size);
    piped.insert(end, both);
    CHECK(read_zip(piped) == "->=hi");
}

TEST_CASE("backslashes of a zip that Windows made are slashes, those of Unix are part of a name") {
    const std::string zip = zip_of(entry_of("a\\b", 2), "hi");
    CHECK(read_zip(zip) == "a\\b>=hi");
    CHECK(read_zip(with_central(zip, 5, 0, 1)) == "a/b>=hi");
    const std::string mixed = zip_of(entry_of("a\\b/c", 2), "hi");
    CHECK(read_zip(with_central(mixed, 5, 0, 1)) == "a\\b/c>=hi");
}

TEST_CASE("a zip that is damaged or hostile is refused, and no part of such a file is left") {
    const std::string text = std::string(50'000, 'x') + "end";
    const std::string good = zip_of(entry_of("f", text.size()), text);
    REQUIRE(read_zip(good) == "f>=" + text);
    const auto refusal = [](const std::string& archive) {
        const std::string seen = read_zip(archive);
        const std::size_t at = seen.find('!');
        return at == std::string::npos ? "" : seen.substr(at + 1);
    };
    CHECK(refusal(good.substr(0, good.size() - 1)).starts_with("this is no zip archive, or it ends"));
    CHECK(refusal(good + "more").starts_with("this is no zip archive, or it ends"));
    CHECK(refusal(good.substr(0, 21)).starts_with("this is no zip archive, or it ends"));
    CHECK(refusal(good.substr(1)).find("damaged") != std::string::npos);
    CHECK(refusal(with_central(good, 8, 1, 2)) == "f: it is encrypted, which is not supported");
    CHECK(refusal(with_central(good, 10, 14, 2)).find("14 (LZMA) is not supported") != std::string::npos);
    CHECK(refusal(with_central(good, 10, 99, 2)).find("99 is not supported") != std::string::npos);
    CHECK(refusal(with_central(good, 16, 7, 4)) == "f: its checksum does not match");
    CHECK(refusal(with_central(good, 24, text.size() - 1, 4)) == "f: it is longer than the archive says");
    CHECK(refusal(with_central(good, 24, text.size() + 1, 4)) == "f: it is not as long as the archive says");
    CHECK(refusal(with_central(good, 20, 10, 4)) == "f: its compressed bytes are damaged");
    CHECK(refusal(with_central(good, 20, 0xfffffff0, 4)) == "f: it lies outside the archive");
    CHECK(refusal(with_central(good, 42, good.size(), 4)) == "f: it lies outside the archive");
    CHECK(refusal(with_central(good, 46, 'g', 1)).starts_with("g: it has another name"));
    CHECK(refusal(with_central(good, 28, 0xffff, 2)) == "its directory of entries is damaged");
    CHECK(refusal(changed(good, -12)) == "its directory of entries is damaged");  // one more entry
    CHECK(refusal(changed(good, -18)) == "it is one of several parts");
    // Two entries with the same bytes.
    const std::size_t central = good.find("PK\x01\x02");
    const std::string entry = good.substr(central, good.size() - 22 - central);
    std::string twice = good;
    twice.insert(central, entry);
    std::string end;
    guest::zip::put(end, 2, 2);
    guest::zip::put(end, 2, 2);
    guest::zip::put(end, 2 * entry.size(), 4);
    twice.replace(twice.size() - 14, end.size(), end);
    CHECK(refusal(twice) == "f: it shares its bytes with other entries");
    CHECK(refusal(link_zip("l", std::string(5000, 't'))) == "l: the target of the link is too long");
    // In a workspace nothing is left of the file, nor of the archive.
    const FileLab lab;
    lab.write("f", "old");
    CHECK(unpack(lab, with_central(good, 16, 7, 4)).code() == "invalid_archive");
    CHECK(lab.text("f") == "old");
    CHECK(lab.names() == std::vector<std::string>{"f"});
    CHECK(unpack(lab, good).is_good());
    CHECK(lab.text("f") == text);
}

TEST_CASE("a name or a link of a zip leads nowhere else") {
    const FileLab lab;
    const std::string outside = lab.outside();
    for (const std::string path : {"../made", "/tmp/atoll-made", "a/../../made", "..", "way/made"}) {
        INFO(path);
        symlink(outside.c_str(), lab.at("way").c_str());
        const std::string code = unpack(lab, zip_of(entry_of(path, 1), "x")).code();
        CHECK((code == "invalid_archive" || code == "outside_workspace"));
    }
    CHECK(unpack(lab, zip_of(entry_of(std::string("a\0b", 3), 1), "x")).code() == "invalid_archive");
    // A link of the archive itself, and a file through it.
    ZipWriter writer;
    std::string archive;
    ArchiveEntry link = entry_of("out", 0, EntryType::symlink);
    link.target = outside;
    add(writer, archive, link);
    add(writer, archive, entry_of("out/made", 1), "x");
    while (writer.finish(archive)) {
    }
    CHECK(unpack(lab, archive).code() == "outside_workspace");
    CHECK_FALSE(std::filesystem::exists(lab.outside() / "made"));
    CHECK_FALSE(std::filesystem::exists("/tmp/atoll-made"));
    // The controls: the link is there and leads out, and the same archive without it is unpacked.
    CHECK(lab.text("out/secret") == "outside");
    CHECK(unpack(lab, zip_of(entry_of("inside/made", 1), "x")).is_good());
    const std::string device = with_central(zip_of(entry_of("device")), 38, 0020666UL << 16, 4);
    CHECK(unpack(lab, device).code() == "invalid_archive");
}

TEST_CASE("what is another format is named, however short it is") {
    const FileLab lab;
    const auto told = [&](const std::string& archive) {
        return unpack(lab, archive).reply.value("error", "");
    };
    const auto names = [&](const std::string& archive, const std::string& word) {
        const std::string error = told(archive);
        INFO(error);
        CHECK(error.find(word) != std::string::npos);
    };
    names("BZh91AY&SY", "this is bzip2, not tar");
    names(std::string("\xfd"
                      "7zXZ\0",
                      6),
          "this is xz, not tar");
    names("\x28\xb5\x2f\xfd....", "this is zstd, not tar");
    names("7z\xbc\xaf\x27\x1c..", "this is 7z, not tar");
    names("--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nPK", "this is a form (multipart)");
    names("#!/bin/sh\n" + zip_of(entry_of("a", 1), "x"), "this is zip behind something else");
    guest::Deflater deflater(guest::DeflateForm::gzip);
    std::string lone;
    deflater.add(lone, "a file that is no archive");
    deflater.finish(lone);
    names(lone, "in gzip: this is no tar archive");
    names(lone.substr(0, lone.size() - 1), "it ends in the middle");
    names("some text", "this is no tar archive, or it ends in the middle");
    names("", "it is empty");
}

TEST_CASE(
    "gzip is read in one stream or several, and refused where it is damaged, cut or followed by something") {
    const std::string good = gzip_of("f", "bytes");
    CHECK(read_gzip(good) == "f>=bytes");
    CHECK(read_gzip(good + std::string(100, '\0')) == "f>=bytes");
    CHECK(read_gzip(good.substr(0, good.size() - 1)) == "f>=bytes!incomplete");
    CHECK(read_gzip(good + "more") == "f>=bytes!something else stands behind its end");
    CHECK(read_gzip(changed(good, -5)).find('!') != std::string::npos);  // of the checksum
    CHECK(read_gzip("\x1f\x8b no gzip") == "!this is no stream of gzip, or it is damaged");
    guest::Deflater deflater(guest::DeflateForm::gzip);
    guest::TarWriter writer;
    std::string tar;
    add(writer, tar, entry_of("f", 700), std::string(700, 'x'));
    while (writer.finish(tar)) {
    }
    std::string parts;
    for (const std::size_t at : {0UL, 600UL}) {
        deflater.add(parts, std::string_view(tar).substr(at, at == 0 ? 600 : tar.size()));
        deflater.finish(parts);
    }
    CHECK(read_gzip(parts) == "f>=" + std::string(700, 'x'));
    // Behind the end of the tar zeros of any length are read, a bounded number in each step.
    const FileLab lab;
    std::string padded;
    deflater.add(padded, tar);
    for (int i = 0; i < 200; ++i)
        deflater.add(padded, std::string(64UL * 1024, '\0'));
    deflater.finish(padded);
    CHECK(unpack(lab, padded).is_good());
    CHECK(lab.text("f").size() == 700);
}

}  // namespace atl::test::zip_test
