#include "tests/isolation/lab.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <fstream>
#include <memory>
#include <sstream>

#include "tests/support/paths.hpp"

namespace atl::test {
namespace fs = std::filesystem;

namespace {

constexpr const char* k_inner_probe = "/workspace/atoll-probe";

ServerOptions options(Privilege privilege, Words arguments, fs::path data_dir, const HostServices& services) {
    ServerOptions made;
    made.data_dir = std::move(data_dir);
    made.privilege = privilege;
    made.arguments = std::move(arguments);
    for (const auto& variables : {secret_variables(services), passed_variables()}) {
        for (const auto& [name, value] : variables)
            made.environment.emplace_back(name, value);
    }
    return made;
}

const char* name_of(Privilege privilege) {
    if (privilege == Privilege::subordinate)
        return "subordinate";
    return privilege == Privilege::as_started && is_root() ? "root" : "rootless";
}

/// The bwrap processes of a server. Its other children come and go.
std::vector<pid_t> launchers(pid_t server) {
    std::vector<pid_t> found = descendants(server);
    std::erase_if(found, [](pid_t pid) {
        return read_host_file("/proc/" + std::to_string(pid) + "/comm") != "bwrap\n";
    });
    return found;
}

std::string hexadecimal(const std::string& bytes) {
    constexpr std::string_view k_digits = "0123456789abcdef";
    std::string text;
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        text += {k_digits[byte >> 4U], k_digits[byte & 15U]};
    }
    return text;
}

std::map<Privilege, std::unique_ptr<Lab>>& labs() {
    static std::map<Privilege, std::unique_ptr<Lab>> all;
    return all;
}

/// Stops the shared servers while everything that they need is still there.
class LabCloser : public Catch::EventListenerBase {
  public:
    using Catch::EventListenerBase::EventListenerBase;
    void testRunEnded(const Catch::TestRunStats&) override { labs().clear(); }
};
CATCH_REGISTER_LISTENER(LabCloser)

}  // namespace

std::map<std::string, std::string> secret_variables(const HostServices& services) {
    return {{"AWS_SECRET_ACCESS_KEY", "host-secret-aws"},
            {"SSH_AUTH_SOCK", services.socket_path()},
            {"DATABASE_URL", "postgres://user:host-secret@127.0.0.1/production"},
            {"GITHUB_TOKEN", "host-secret-github"}};
}

const std::map<std::string, std::string>& passed_variables() {
    static const std::map<std::string, std::string> variables = {{"NODE_PATH", "/usr/share/nodejs"},
                                                                 {"LANG", "C.UTF-8"},
                                                                 {"TERM", "dumb"},
                                                                 {"ANTHROPIC_API_KEY", "passed-on-purpose"},
                                                                 {"ASH_DEBUG_TIMING", "1"}};
    return variables;
}

Lab::Lab(Privilege privilege, Words arguments, fs::path data_dir)
    : name(name_of(privilege)),
      has_private_uids(name != "rootless"),
      server(options(privilege, std::move(arguments), std::move(data_dir), services)),
      api(server) {}

bool has_place(const std::set<std::string>& places, std::string_view end) {
    return std::any_of(places.begin(), places.end(),
                       [end](const std::string& place) { return place.ends_with(end); });
}

std::vector<Privilege> privileges() {
    if (!is_root())
        return {Privilege::as_started};
    std::vector<Privilege> all{Privilege::as_started, Privilege::rootless};
    if (::access("/usr/bin/newuidmap", X_OK) == 0)
        all.push_back(Privilege::subordinate);
    return all;
}

Lab& each_lab() {
    const Privilege privilege = GENERATE(from_range(privileges()));
    auto& lab = labs()[privilege];
    // A server that finds agents which are installed on this machine passes their keys to no sandbox.
    if (!lab)
        lab = std::make_unique<Lab>(privilege, Words{"--preview-domain", "preview.localhost", "--agents-file",
                                                     source_path("tests/isolation/no_agents.json")});
    // The others' cases may have taken longer than an idle connection is kept.
    lab->api.http().close();
    return *lab;
}

Sandbox::Sandbox(Lab& lab, const Json& request)
    : lab_(lab), others_(launchers(lab.server.pid())), conversation_(lab.api.create(request)) {
    const fs::path probe = workspace() / fs::path(k_inner_probe).filename();
    fs::copy_file(probe_program(), probe);
    own(probe);
}

void Sandbox::bring(const fs::path& program) {
    const fs::path copy = workspace() / program.filename();
    fs::copy_file(program, copy);
    own(copy);
}

Sandbox::~Sandbox() {
    try {
        lab_.api.remove(id());
    } catch (const std::exception& error) {
        WARN("a conversation could not be deleted: " << error.what());
    }
}

fs::path Sandbox::workspace() const {
    const fs::path data = lab_.server.data_dir();
    return (fs::exists(data / "disk") ? data / "disk" : data) / "workspaces" / sandbox_id();
}

fs::path Sandbox::bridge_socket() const {
    const std::string generation = std::to_string(conversation_["generation"].get<int>());
    return lab_.server.data_dir() / "run" / (sandbox_id() + "-" + generation) / "bridge.sock";
}

fs::path Sandbox::reachable_bridge_socket() const {
    if (!lab_.has_private_uids)
        return bridge_socket();
    return "/proc/" + std::to_string(lab_.server.pid()) + "/root" + bridge_socket().string();
}

uid_t Sandbox::host_uid() const {
    struct stat about {};
    REQUIRE(::stat(workspace().c_str(), &about) == 0);
    return about.st_uid;
}

std::vector<pid_t> Sandbox::processes() const {
    std::vector<pid_t> own = launchers(lab_.server.pid());
    std::erase_if(
        own, [this](pid_t pid) { return std::find(others_.begin(), others_.end(), pid) != others_.end(); });
    REQUIRE(own.size() == 1);
    for (const pid_t pid : descendants(own.front())) {
        // A process without a command line has ended: only its parent has yet to ask how.
        if (!read_host_file("/proc/" + std::to_string(pid) + "/cmdline").empty())
            own.push_back(pid);
    }
    return own;
}

void Sandbox::own(const fs::path& path) {
    const uid_t uid = host_uid();
    if (uid != ::geteuid())
        REQUIRE(::chown(path.c_str(), uid, uid) == 0);
}

Turn Sandbox::run(const std::string& command) {
    return lab_.api.message(id(), command);
}

std::string Sandbox::output(const std::string& command) {
    Turn turn = run(command);
    INFO(lab_.name << ": " << command << " printed: " << turn.output);
    REQUIRE(turn.exit_code == 0);
    if (turn.output.ends_with('\n'))
        turn.output.pop_back();
    return turn.output;
}

std::string Sandbox::probe_command(const Words& arguments) {
    std::string command = k_inner_probe;
    for (const auto& word : arguments)
        command += " " + quoted(word);
    return command;
}

Results Sandbox::probe(const Words& arguments) {
    return Results(output(probe_command(arguments)));
}

std::string Sandbox::probe_in_background(const Words& arguments, const std::string& start) {
    return output("exec {told}< <(" + probe_command(arguments) + ")\n" +
                  "while read -r line <&$told; do echo \"$line\"; [[ $line == " + quoted(start) +
                  "* ]] && exit 0; done; exit 1");
}

Findings Sandbox::find(const std::map<std::string, std::string>& texts) {
    Json needles = Json::object();
    for (const auto& [name, text] : texts)
        needles[name] = hexadecimal(text);
    const std::string program = source_path("tests/agents/find_needles.py");
    put("find_needles.py", read_host_file(program));
    put("needles.json", needles.dump());
    const std::string inside = "python3 -I /workspace/find_needles.py /workspace/needles.json";
    auto found = Json::parse(output(inside)).get<Findings>();
    if (!is_root())
        return found;
    Words command{"/usr/bin/python3", "-I", program, workspace() / "needles.json"};
    for (const pid_t pid : processes())
        command.push_back(std::to_string(pid));
    const RunResult outside = run_outside(command, ::geteuid());
    INFO(outside.output);
    REQUIRE(outside.status == 0);
    for (const auto& [name, places] : Json::parse(outside.output).get<Findings>())
        found[name].insert(places.begin(), places.end());
    return found;
}

void Sandbox::put(const std::string& name, const std::string& text) {
    const fs::path path = workspace() / name;
    std::ofstream(path) << text;
    own(path);
}

bool Sandbox::is_well() {
    return output("echo well") == "well" && lab_.api.get(id())["generation"] == conversation_["generation"];
}

std::string read_host_file(const fs::path& path) {
    std::ifstream stream(path, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
}

std::string quoted(const std::string& word) {
    std::string out = "'";
    for (const char c : word)
        out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

}  // namespace atl::test
