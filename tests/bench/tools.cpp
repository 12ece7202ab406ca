// The filesystem tools beside a plain program that does the same. Reading and replacing: that program, and a
// round trip on the same connection. Searching: ripgrep itself on the same tree, with the same options.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/bench/measures.hpp"
#include "tests/bench/one_cpu.hpp"
#include "tests/bench/server.hpp"

extern char** environ;

namespace atl::bench {
namespace {

constexpr std::size_t k_file_bytes = 20'000;
constexpr std::size_t k_warm_up = 50;
constexpr std::size_t k_samples = 2000;
constexpr double k_budget_ms = 20'000;
constexpr double k_max_ratio = 2.5;
constexpr std::size_t k_tree_files = 50'000;
constexpr std::size_t k_files_a_folder = 500;
constexpr std::size_t k_searches = 15;
constexpr double k_max_search_ratio = 1.15;
constexpr std::array<std::string_view, 2> k_marks = {"the first mark", "another mark"};

using Json = nlohmann::json;

std::string file_text() {
    std::string text(k_marks[0]);
    text += '\n';
    for (int line = 0; text.size() < k_file_bytes; ++line)
        text += "line " + std::to_string(line) + " of a file that is of a common size\n";
    return text;
}

/// A sandbox of a conversation, and its workspace on the host.
struct Product {
    Product() : connection(server.port()) {
        const std::string id = server.create_conversation(connection, "echo");
        const Response got = connection.exchange(server.request("GET", "/v1/conversations/" + id));
        sandbox = Json::parse(got.body).at("sandboxId");
        for (const auto& folder :
             {server.data_dir() / "workspaces", server.data_dir() / "disk" / "workspaces"})
            if (std::filesystem::exists(folder / sandbox))
                workspace = folder / sandbox;
    }
    std::string request(const std::string& tool, const Json& arguments) const {
        const Json body = {{"sandboxId", sandbox}, {"args", arguments}};
        return server.request("POST", "/v1/tools/" + tool, body.dump());
    }
    /// Milliseconds of a call that succeeds.
    double call_ms(const std::string& request) {
        const auto began = Clock::now();
        const Response response = connection.exchange(request);
        const double ms = ms_since(began);
        if (response.status != 200 || !response.body.starts_with(R"({"success":true)"))
            throw std::runtime_error("a tool failed: " + response.body.substr(0, 500));
        return ms;
    }
    double round_trip_ms() {
        const auto began = Clock::now();
        if (connection.exchange(health).status != 200)
            throw std::runtime_error("/healthz");
        return ms_since(began);
    }

    Server server;
    Connection connection;
    std::string sandbox;
    std::filesystem::path workspace;
    std::string health = server.request("GET", "/healthz");
};

std::string read_plainly(const std::string& path) {
    const base::UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string text(2 * k_file_bytes, '\0');
    const ssize_t size = read(file.get(), text.data(), text.size());
    if (size <= 0)
        throw std::runtime_error("cannot read " + path);
    text.resize(static_cast<std::size_t>(size));
    return text;
}

void replace_plainly(const std::string& path, std::string_view by, std::string_view what) {
    std::string text = read_plainly(path);
    text.replace(text.find(what), what.size(), by);
    const std::string beside = path + ".new";
    const base::UniqueFd file(open(beside.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644));
    if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        rename(beside.c_str(), path.c_str()) != 0)
        throw std::runtime_error("cannot write " + path);
}

void fill(Result& result, const Samples& floors, const Samples& products, double most) {
    if (!floors.empty())
        result.floor = floors.p50();
    if (!products.empty()) {
        result.p50 = products.p50();
        result.p95 = products.p95();
    }
    if (floors.empty() || products.empty())
        return;
    result.ratio = *result.p50 / *result.floor;
    result.reached = *result.ratio <= most;
}

/// Runs the ripgrep of this machine in `directory`; milliseconds.
double ripgrep_ms(const std::string& directory, const std::vector<std::string>& arguments) {
    std::vector<char*> argv;
    for (const std::string& argument : arguments)
        argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
    const auto began = Clock::now();
    pid_t pid = -1;
    const int error = posix_spawnp(&pid, "rg", &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    if (error != 0 || waitpid(pid, &status, 0) != pid || status != 0)
        throw std::runtime_error("ripgrep does not run, or finds nothing");
    return ms_since(began);
}

/// 50,000 small source files; one in a thousand has the word.
void make_tree(const std::filesystem::path& workspace) {
    for (std::size_t i = 0; i < sized(k_tree_files); ++i) {
        const auto folder = workspace / ("folder" + std::to_string(i / k_files_a_folder));
        if (i % k_files_a_folder == 0) {
            std::filesystem::create_directory(folder);
            std::filesystem::permissions(folder, std::filesystem::perms(0755));
        }
        std::ofstream file(folder / ("file" + std::to_string(i) + ".ts"));
        for (int line = 0; line < 20; ++line)
            file << "export const value" << line << " = compute(" << i << ", " << line << ");\n";
        if (i % 1000 == 0)
            file << "// needle in file " << i << "\n";
    }
}

}  // namespace

std::vector<Result> measure_tools(Scope scope) {
    Result read{.key = "tool_read_ms", .unit = "ms", .target = "ratio <= 2.5"};
    Result replace{.key = "tool_replace_ms", .unit = "ms", .target = "ratio <= 2.5"};
    const OneCpu confined;
    Product product;
    const std::string plain = product.server.data_dir() / "plain.txt";
    std::ofstream(plain) << file_text();
    product.call_ms(product.request("write_file", {{"file_path", "f.txt"}, {"content", file_text()}}));
    const std::string reading = product.request("read_file", {{"absolute_path", "f.txt"}});
    std::array<std::string, 2> replacing;
    for (std::size_t i = 0; i < 2; ++i)
        replacing[i] = product.request(
            "replace", {{"file_path", "f.txt"}, {"old_string", k_marks[i]}, {"new_string", k_marks[1 - i]}});
    Samples read_floors, reads, replace_floors, replaces;
    const auto began = Clock::now();
    for (std::size_t i = 0; i < k_warm_up + sized(k_samples) && ms_since(began) < k_budget_ms; ++i) {
        const auto plain_began = Clock::now();
        static_cast<void>(read_plainly(plain));
        const double read_ms = ms_since(plain_began) + product.round_trip_ms();
        const auto replace_began = Clock::now();
        replace_plainly(plain, k_marks[1 - i % 2], k_marks[i % 2]);
        const double replace_ms = ms_since(replace_began) + product.round_trip_ms();
        const double product_read_ms = product.call_ms(reading);
        const double product_replace_ms = product.call_ms(replacing[i % 2]);
        if (i < k_warm_up)
            continue;
        read_floors.add(read_ms);
        replace_floors.add(replace_ms);
        reads.add(product_read_ms);
        replaces.add(product_replace_ms);
    }
    if (scope != Scope::paired_run) {
        fill(read, read_floors, reads, k_max_ratio);
        fill(replace, replace_floors, replaces, k_max_ratio);
    } else {
        fill(read, {}, reads, k_max_ratio);
        fill(replace, {}, replaces, k_max_ratio);
    }
    return {read, replace};
}

Result measure_grep() {
    Result result{.key = "grep_ms", .unit = "ms", .target = "ratio <= 1.15"};
    Product product;
    make_tree(product.workspace);
    const std::string request =
        product.request("search_file_content", {{"pattern", "needle in \\w+"}, {"max_matches", 1000}});
    const std::vector<std::string> plain = {"rg",
                                            "--no-config",
                                            "--no-messages",
                                            "--null",
                                            "--hidden",
                                            "--no-require-git",
                                            "--no-ignore-dot",
                                            "--no-ignore-exclude",
                                            "--no-ignore-global",
                                            "--glob=!.git",
                                            "--no-heading",
                                            "--with-filename",
                                            "--line-number",
                                            "--color=never",
                                            "--sort=path",
                                            "--crlf",
                                            "--max-filesize=20971520",
                                            "--ignore-case",
                                            "--regexp=needle in \\w+",
                                            "--",
                                            "./"};
    Samples floors, products;
    const auto began = Clock::now();
    for (std::size_t i = 0; i < sized(k_searches) + 1 && ms_since(began) < 2 * k_budget_ms; ++i) {
        const double floor_ms = ripgrep_ms(product.workspace, plain);
        const double product_ms = product.call_ms(request);
        if (i == 0)
            continue;  // fills the caches
        floors.add(floor_ms);
        products.add(product_ms);
    }
    fill(result, floors, products, k_max_search_ratio);
    return result;
}

}  // namespace atl::bench
