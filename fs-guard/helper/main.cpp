// atoll-helper: slow work on the disk for the server. Reads one request a line on
// stdin, answers each with one line on stdout, in order, and ends with stdin or with the server.
//   {"id":N,"op":"remove","path":P,"ms":N}                   P relative to the working directory; goes on so
//                                                            long, and says if the tree is "gone"
//   {"id":N,"op":"checkpoint","path":P}                  P the database
//   {"id":N,"op":"sync-log","path":P}                        P the database
//   {"id":N,"op":"measure","path":P}                         P relative to the working directory
//   {"id":N,"op":"inspect","path":P,"pid":N,"members":[N]}   also the deleted files that the processes hold;
//                                                            without members: all processes below the pid
//   {"id":N,"op":"find","path":P,"question":Q}               P the database, Q as in
//   core/store/list_helper.hpp
//   {"id":N,"op":"close","path":P}                           the database of the last find
//   -> {"id":N,"ok":true, …} | {"id":N,"ok":false,"error":S}
// Before the answer to a removal, a measurement or an inspection: {"id":N,"progress":STEPS}, each second
// (progress.hpp)
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/plain/tree_remover.hpp"
#include "fs-guard/helper/checkpoint.hpp"
#include "fs-guard/helper/held_files.hpp"
#include "fs-guard/helper/lists.hpp"
#include "fs-guard/helper/progress.hpp"
#include "fs-guard/helper/tree_meter.hpp"

namespace {

using nlohmann::json;

// At the clock.
constexpr std::size_t k_entries_between_looks = 256;
static_assert(4 * atl::base::k_max_open_levels < k_entries_between_looks);

// A slice removes something or meets an error: it gets through more entries than a branch of open folders
// has. A slice that met an error and removed nothing is the last one.
json answer_remove(const json& request, const std::string& path) {
    const auto began = std::chrono::steady_clock::now();
    const std::chrono::milliseconds slice(request.at("ms"));
    atl::base::TreeRemover remover;
    remover.begin(path);
    bool is_gone = false;
    for (std::size_t entries = 1; !(is_gone = !remover.step(1)); ++entries) {
        atl::helper::note_progress();
        if (entries % k_entries_between_looks == 0 && std::chrono::steady_clock::now() - began >= slice)
            break;
    }
    if (!remover.error().empty() && (is_gone || remover.removed() == 0))
        return {{"ok", false}, {"error", remover.error()}};
    return {{"ok", true}, {"gone", is_gone}};
}

json answer_checkpoint(const std::string& path) {
    const auto result = atl::helper::checkpoint(path);
    if (result.done)
        return {{"ok", true}, {"logFrames", result.log_frames}, {"writtenFrames", result.written_frames}};
    return {{"ok", false}, {"error", result.error}};
}

json answer_sync_log(const std::string& path) {
    const std::string error = atl::helper::sync_log(path);
    if (error.empty())
        return {{"ok", true}};
    return {{"ok", false}, {"error", error}};
}

json answer_measure(const std::string& path) {
    atl::helper::TreeMeter meter;
    if (!meter.measure(path))
        return {{"ok", false}, {"error", meter.error()}};
    return {{"ok", true},
            {"bytes", meter.bytes()},
            {"inodes", meter.inodes()},
            {"complete", meter.is_complete()},
            {"tooLarge", meter.is_too_large()}};
}

// The processes come first: if they do not stand still, a file that they delete meanwhile is then not counted
// twice.
json answer_inspect(const json& request, const std::string& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0)
        return {{"ok", false}, {"error", std::string("lstat: ") + std::strerror(errno)}};
    atl::helper::HeldFiles held(status.st_dev);
    std::vector<pid_t> members = request.at("members");
    if (members.empty())
        members = atl::helper::family_of(request.at("pid"));
    for (const pid_t member : members) {
        held.add(member);
        atl::helper::note_progress();
    }
    json found = answer_measure(path);
    found["heldBytes"] = held.bytes();
    found["heldInodes"] = held.inodes();
    found["outOfSight"] = held.out_of_sight();
    found["written"] = held.written_bytes();
    return found;
}

json answer(const json& request) {
    const std::string op = request.at("op");
    const std::string path = request.at("path");
    if (op == "remove")
        return answer_remove(request, path);
    if (op == "measure")
        return answer_measure(path);
    if (op == "inspect")
        return answer_inspect(request, path);
    if (op == "sync-log")
        return answer_sync_log(path);
    if (op == "checkpoint")
        return answer_checkpoint(path);
    if (op == "close") {
        atl::helper::close_database();
        return {{"ok", true}};
    }
    return {{"ok", false}, {"error", "unknown op"}};
}

std::string handle(const std::string& line) {
    json reply;
    json id = nullptr;
    try {
        const json request = json::parse(line);
        id = request.value("id", json());
        atl::helper::begin_progress(id.dump());
        if (request.at("op") == "find")
            return "{\"id\":" + id.dump() + ",\"ok\":true," +
                   atl::helper::find(request.at("path"), request.at("question")) + "}";
        reply = answer(request);
    } catch (const std::exception& error) {
        reply = {{"ok", false}, {"error", error.what()}};
    }
    reply["id"] = id;
    return reply.dump(-1, ' ', true, json::error_handler_t::replace);
}

}  // namespace

int main() {
    // It is for the server (signal(7)), and may be sent to all processes of its unit.
    std::signal(SIGHUP, SIG_IGN);
    std::string line;
    while (std::getline(std::cin, line))
        std::cout << handle(line) << '\n' << std::flush;
    return 0;
}
