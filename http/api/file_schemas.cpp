// Schemas of files.
#include "http/api/file_call.hpp"
#include "http/api/schema_parts.hpp"

namespace atl::http {
namespace {

Schema entry() {
    Schema out = object(
        Members::required,
        {{"path",
          "The path in the workspace, as it is: nothing is escaped. What is not UTF-8 is U+FFFD, so that "
          "`href` and not this leads to the file.",
          text()},
         {"href",
          "The path percent-encoded, each byte as it is on disk: what stands behind `files/` in a URL, also "
          "`toHref` of a move and the query's `path` of an archive or a watch.",
          text()},
         {"name", "The last part of `path`.", text()},
         {"type", "What it is.", one_of({"file", "directory", "symlink", "fifo", "socket", "device"})},
         {"size", "Bytes.", counter()},
         {"mode", "Permissions in octal.", text()},
         {"mtime", "When its content changed last.", time()},
         {"etag", "Of a file: the ETag of its content.", text()},
         {"target", "Of a link: where it leads. What is not UTF-8 is U+FFFD.", text()}});
    out["required"] = {"path", "href", "name", "type", "size", "mode", "mtime"};
    return out;
}

Schema frame(const char* type, std::initializer_list<Property> members = {}) {
    Schema out = object(Members::required, members);
    out["properties"]["type"] = described(constant(type), "The type.");
    out["required"].push_back("type");
    return out;
}

void add_progress(Schema& out) {
    const Schema ops = one_of({"write", "mkdir", "move", "copy", "delete", "unpack"});
    out["FileProgress"] = described(
        frame("file_progress", {{"op", "What is being done.", ops},
                                {"entries", "Files, links and directories by now.", counter()},
                                {"bytes", "Bytes of files by now; 0 of what writes none.", counter()}}),
        "It is at work: twice a second, also where nothing moves.");
    out["FileResult"] = described(
        frame("file_result", {{"op", "What was done.", ops},
                              {"status", "The status that the answer has without a stream.", counter()},
                              {"result", "The body that it has then; null: none.",
                               any_of_these({ref("FileEntry"), ref("Unpacked"), Schema{{"type", "null"}}})}}),
        "It is done: the last frame.");
    out["FileStream"] =
        described(text(),
                  "Server-Sent Events without ids: `data` is a FileProgress, or the one frame "
                  "that ends them. What fails at once is a problem with its own status.");
    out["FileStream"]["contentMediaType"] = "text/event-stream";
    out["FileStream"]["contentSchema"] =
        any_of_these({ref("FileProgress"), ref("FileResult"), ref("ToolCallError")});
}

void add_watch(Schema& out) {
    Schema change =
        object(Members::required,
               {{"change",
                 "`created`: the name is there, perhaps in the place of what had it before. `renamed` "
                 "without `to`: it "
                 "went where the watch does not see it. `attributes`: permissions, owner or times.",
                 one_of({"created", "modified", "attributes", "deleted", "renamed"})},
                {"path", "The path in the workspace, as in a FileEntry; of `renamed` the old one.", text()},
                {"href", "The same as `href` of a FileEntry.", text()},
                {"to", "Of `renamed`: the new path.", text()},
                {"toHref", "Of `renamed`: the `href` of the new path.", text()},
                {"directory", "Whether it is a directory.", flag()}});
    change["required"] = {"change", "path", "href", "directory"};
    out["WatchedChange"] = described(std::move(change), "What became of a file.");
    out["WatchStarted"] = described(
        frame("started"), "All that changes from now on is told. The first frame of a running sandbox.");
    out["WatchChanges"] =
        described(frame("changes", {{"changes", "In their order. What comes together is told once.",
                                     list_of(ref("WatchedChange"))}}),
                  "What changed.");
    out["WatchRescan"] = described(
        frame("rescan"),
        "Changes may have been lost: list what you show again. All that changes from now on is told.");
    out["WatchIncomplete"] =
        described(frame("incomplete", {{"directories", "Directories that are not watched.", counter()}}),
                  "What changes in some directories is not told: there are too many, or the sandbox may not "
                  "read them.");
    out["WatchPaused"] = described(
        frame("paused"), "The sandbox does not run. `started` or `rescan` follows when it runs again.");
    out["WatchClosed"] =
        described(frame("stream_closed", {{"code", "Why, as the stable word of an error.", ref("ErrorCode")},
                                          {"detail", "Why, for people.", text()}}),
                  "The last frame: the sandbox is gone, cannot be watched, or the server ended the stream.");
    out["WatchStream"] =
        described(text(),
                  "Server-Sent Events: `data` is a frame; `event`, its type, is there with `?named=1` only. "
                  "`contentSchema` is that of each `data`.");
    out["WatchStream"]["contentMediaType"] = "text/event-stream";
    out["WatchStream"]["contentSchema"] =
        any_of_these({ref("WatchStarted"), ref("WatchChanges"), ref("WatchRescan"), ref("WatchIncomplete"),
                      ref("WatchPaused"), ref("WatchClosed")});
}

}  // namespace

void add_file_schemas(Schema& out) {
    out["FileEntry"] = described(entry(), "A file, a directory or another thing in the workspace.");
    out["FilePage"] = described(
        object(Members::required,
               {{"entries", "Those of this page.", list_of(ref("FileEntry"))},
                {"next", "`cursor` of the next page; null: this is the last.", nullable_text()},
                {"hidden", "Entries at the top of the workspace that the list leaves out without `all=1`.",
                 counter()}}),
        "Entries of a directory.");
    out["FileInfo"] = described(any_of_these({ref("FileEntry"), ref("FilePage")}),
                                "With `stat=1` an entry, with `list=1` a page of entries.");
    out["Unpacked"] = described(object(Members::required, {{"entries", "Entries of the archive.", counter()},
                                                           {"bytes", "Bytes of its files.", counter()}}),
                                "What an archive had.");
    out["ChangeFile"] = described(
        object(Members::optional,
               {{"op", "What to do with the path of the route.", one_of({"mkdir", "move", "copy"})},
                {"to",
                 "Where it goes: a path in the workspace, with or without `/workspace/` in front. It is text "
                 "as it is: nothing in it is decoded. A move or a copy has this or `toHref`.",
                 text_up_to(k_max_target_bytes)},
                {"toHref", "The same percent-encoded, as `href` of an entry: for names that are not UTF-8.",
                 text_up_to(k_max_target_bytes)},
                {"overwrite", "Whether a file at `to` gives way; it does not if this is not there.", flag()}},
               {"op"}),
        "A change of names.");
    add_progress(out);
    add_watch(out);
}

}  // namespace atl::http
