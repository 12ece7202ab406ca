// A guest with a workspace of its own, and beside that what it must not reach.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "call_client.hpp"
#include "core/plain/path_text.hpp"
#include "tests/support/many_files.hpp"

namespace atl::test {

class FileLab {
  public:
    explicit FileLab(const std::filesystem::path& in = "/tmp") : folder_(make_folder(in)) {
        std::filesystem::create_directories(workspace());
        write_outside("secret", "outside");
    }
    ~FileLab() { std::filesystem::remove_all(folder_); }
    FileLab(const FileLab&) = delete;
    FileLab& operator=(const FileLab&) = delete;

    std::filesystem::path workspace() const { return folder_ / "workspace"; }
    std::filesystem::path at(const std::string& path) const { return workspace() / path; }
    std::filesystem::path outside() const { return folder_; }

    void write(const std::string& path, std::string_view text) const { write_to(at(path), text); }
    void write_outside(const std::string& name, std::string_view text) const {
        write_to(folder_ / name, text);
    }
    static std::string text_of(const std::filesystem::path& file) {
        std::ifstream stream(file, std::ios::binary);
        return {std::istreambuf_iterator<char>(stream), {}};
    }
    std::string text(const std::string& path) const { return text_of(at(path)); }
    bool has(const std::string& path) const {
        return std::filesystem::is_symlink(at(path)) || exists(at(path));
    }
    /// Names in a directory of the workspace, hidden ones too, in order.
    std::vector<std::string> names(const std::string& path = ".") const {
        std::vector<std::string> found;
        for (const auto& entry : std::filesystem::directory_iterator(at(path)))
            found.push_back(entry.path().filename());
        std::sort(found.begin(), found.end());
        return found;
    }
    mode_t mode(const std::string& path) const {
        struct stat about {};
        lstat(at(path).c_str(), &about);
        return about.st_mode & 07777;
    }

    /// `path` is bytes.
    CallClient begin(const std::string& op, const std::string& path,
                     nlohmann::json members = nlohmann::json::object()) const {
        members["cmd"] = "file";
        members["op"] = op;
        members["path"] = base::path_text(path);
        return CallClient(guest, members);
    }
    CallClient call(const std::string& op, const std::string& path,
                    const nlohmann::json& members = nlohmann::json::object()) const {
        CallClient client = begin(op, path, members);
        client.finish();
        return client;
    }
    /// The code of the refusal; "" for none.
    std::string refusal(const std::string& op, const std::string& path,
                        const nlohmann::json& members = nlohmann::json::object()) const {
        return call(op, path, members).code();
    }
    CallClient put(const std::string& path, std::string_view text,
                   const nlohmann::json& members = nlohmann::json::object()) const {
        CallClient client = begin("write", path, members);
        if (client.await_ready()) {
            client.write(text);
            client.end_input();
        }
        client.finish();
        return client;
    }
    /// The output of `read`, or "!CODE" if it is refused.
    std::string get(const std::string& path) const {
        const CallClient client = call("read", path);
        return client.is_good() ? client.output : "!" + client.code();
    }
    nlohmann::json list(const std::string& path, std::uint64_t depth = 1, std::uint64_t limit = 1000,
                        const std::string& after = "") const {
        return nlohmann::json::parse(
            call("list", path, {{"depth", depth}, {"limit", limit}, {"after", after}}).output);
    }
    /// The paths of a list, joined with spaces.
    std::string paths(const std::string& path, std::uint64_t depth = 1) const {
        std::string joined;
        const nlohmann::json page = list(path, depth);
        for (const auto& entry : page.at("entries"))
            joined += (joined.empty() ? "" : " ") + entry.at("path").get<std::string>();
        return joined;
    }

  private:
    static std::string make_folder(const std::filesystem::path& in) {
        std::string name = (in / "atoll-files-test-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr)
            throw std::runtime_error("mkdtemp");
        std::filesystem::create_directory(name + "/workspace");
        return name;
    }
    static void write_to(const std::filesystem::path& file, std::string_view text) {
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file, std::ios::binary) << text;
    }

    std::filesystem::path folder_;

  public:
    const GuestProcess guest{GuestProcess::Space::own, guest::Peers::outside, workspace().string()};
};

}  // namespace atl::test
