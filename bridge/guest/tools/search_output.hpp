// The output of ripgrep in the form `PATH NUL NUMBER : LINE`, as it comes in pieces. Of long lines only the
// beginning is kept, so that memory is bounded whatever the files hold. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace atl::guest {

struct SearchMatch {
    std::string path;  // as ripgrep printed it
    std::uint64_t line_number = 0;
    std::string line;  // without its line end, at most so many bytes of it
};

class SearchOutput {
  public:
    /// `seen` gets each match, and returns whether more are wanted.
    using Seen = std::function<bool(const SearchMatch&)>;
    /// Returns true if there is a file of that path, as ripgrep would print it.
    using IsFile = std::function<bool(const std::string&)>;

    SearchOutput(std::size_t line_bytes, Seen seen, IsFile is_file)
        : line_bytes_(line_bytes), seen_(std::move(seen)), is_file_(std::move(is_file)) {}
    /// False once no more is wanted.
    bool feed(std::string_view bytes);
    /// True if the output ended in ripgrep's notice that the file `path` is binary. This is for a file that
    /// ripgrep was told by its name: nothing comes behind its notice.
    bool ends_in_notice(std::string_view path) const;

  private:
    enum class Part : std::uint8_t { path, number, line };

    bool end_line();
    void drop_notice();

    std::size_t line_bytes_;
    Seen seen_;
    IsFile is_file_;
    Part part_ = Part::path;
    SearchMatch match_;
    std::size_t digits_ = 0;  // of the number so far
    std::string last_path_;
};

}  // namespace atl::guest
