#include "core/execution/engine.hpp"

#include <stdlib.h>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

namespace engine_test {

using namespace atl;
using execution::Engine;
using execution::Engines;
using execution::Language;
namespace fs = std::filesystem;

namespace {

/// A folder that goes with it.
struct Folder {
    Folder() {
        std::string pattern = (fs::temp_directory_path() / "atoll-engines-XXXXXX").string();
        path = ::mkdtemp(pattern.data());
    }
    ~Folder() { fs::remove_all(path); }
    void write(const std::string& name, const std::string& text) const {
        fs::create_directories((path / name).parent_path());
        std::ofstream(path / name) << text;
    }
    fs::path path;
};

Engine engine_of(const std::string& name, Language language, const std::string& reason = "") {
    Engine engine;
    engine.name = name;
    engine.languages = {language};
    engine.reason = reason;
    return engine;
}

constexpr const char* k_list = R"({"engines":[
 {"name":"container","package":"node","languages":["javascript","typescript"],
  "command":["node_modules/node/bin/node","--jitless","runner/container.mjs"],
  "environment":{"DIR":"$TMP/x"},"isolates":"i","weaknesses":["w"]},
 {"name":"python","languages":["python"],"command":["python3","-I","runner/runner.py"],"environment":{},
  "isolates":"","weaknesses":[]}]})";

}  // namespace

TEST_CASE("An engine is available where its package, its program and its runner are there") {
    const Folder runners;
    const Folder packages;
    runners.write("runner/engines.json", k_list);
    const auto read = [&] { return Engines::read({runners.path, packages.path}).value(); };
    CHECK_FALSE(read().all()[0].is_available());
    packages.write("node_modules/node/package.json", R"({"version":"22.1.0"})");
    CHECK_FALSE(read().all()[0].is_available());
    packages.write("node_modules/node/bin/node", "");
    packages.write("runner/container.mjs", "");
    const auto engines = read();
    const Engine& node = engines.all()[0];
    CHECK(node.is_available());
    CHECK(node.version == "22.1.0");
    CHECK(node.folder == packages.path);
    CHECK(node.argv ==
          std::vector<std::string>{"/agent/node_modules/node/bin/node", "--jitless", "runner/container.mjs"});
    CHECK(node.env == sandbox::Environment{{"DIR", "/tmp/x"}});
    const Engine& python = engines.all()[1];
    CHECK(python.folder == runners.path);
    CHECK(python.argv.front() == "python3");
}

TEST_CASE("A runner of another version of the server is told, with its file") {
    const Folder runners;
    const Folder packages;
    runners.write("runner/engines.json", k_list);
    runners.write("runner/session.mjs", "new");
    const auto read = [&] { return Engines::read({runners.path, packages.path}).value(); };
    CHECK(read().stale_runner().empty());
    packages.write("runner/session.mjs", "new");
    CHECK(read().stale_runner().empty());
    CHECK(read().all()[0].weaknesses == std::vector<std::string>{"w"});
    packages.write("runner/session.mjs", "old");
    const auto stale = read();
    CHECK(stale.stale_runner() == packages.path / "runner/session.mjs");
    CHECK(stale.all()[0].weaknesses.size() == 2);
    // Python's is the server's own.
    CHECK(stale.all()[1].weaknesses.empty());
    fs::remove(packages.path / "runner/session.mjs");
    CHECK_FALSE(read().stale_runner().empty());
}

TEST_CASE("A list that is missing or damaged is an error, not an empty list") {
    const Folder folder;
    CHECK(Engines::read({folder.path, folder.path}).has_error());
    for (const char* const text : {"", "[]", "{}", R"({"engines":[{"name":7}]})", R"({"engines":[{}]})",
                                   R"({"engines":[{"name":"x","languages":["cobol"]}]})"}) {
        folder.write("runner/engines.json", text);
        CHECK(Engines::read({folder.path, folder.path}).error().code() == base::Errc::host_unsupported);
    }
}

TEST_CASE("auto takes the first that is available, and a name takes that engine or nothing") {
    const Engines engines(
        {engine_of("vm2", Language::javascript), engine_of("container", Language::javascript),
         engine_of("deno", Language::javascript, "not installed"), engine_of("python", Language::python)});
    std::optional<Language> none;
    CHECK((*engines.choose("auto", none))->name == "container");
    CHECK(none == Language::javascript);
    std::optional<Language> python = Language::python;
    CHECK((*engines.choose("auto", python))->name == "python");
    std::optional<Language> own;
    CHECK((*engines.choose("python", own))->name == "python");
    CHECK(own == Language::python);
    CHECK(engines.choose("deno", none).error().code() == base::Errc::executor_unavailable);
    const auto unknown = engines.choose("nonsense", none);
    CHECK(unknown.error().code() == base::Errc::invalid_field);
    CHECK(unknown.error().pointer() == "/executor");
    CHECK(engines.choose("python", none).error().pointer() == "/language");
    std::optional<Language> typescript = Language::typescript;
    CHECK(engines.choose("auto", typescript).error().code() == base::Errc::executor_unavailable);
    const Engines fresh({engine_of("container", Language::javascript, "not there: run setup"),
                         engine_of("python", Language::python)});
    CHECK(fresh.languages() == std::vector{Language::python});
    CHECK(fresh.is_incomplete());
    std::optional<Language> first;
    CHECK(fresh.choose("auto", first).error().detail() ==
          "No executor for javascript is available here: not there: run setup. "
          "`\"language\":\"python\"` runs now. GET /v1/executors says more.");
}

}  // namespace engine_test
