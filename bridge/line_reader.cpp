#include "bridge/line_reader.hpp"

namespace atl::bridge {

Stream::Taken LineReader::on_bytes(Stream& stream, std::string_view bytes) {
    using Rest = Stream::Taken::Rest;
    std::size_t used = 0;
    for (std::size_t lines = 0; lines < k_lines_per_handler; ++lines) {
        const LineCutter::Cut cut = cutter_.next(bytes.substr(used));
        if (cut.found == LineCutter::Found::too_long)
            return {used, Rest::needs_more, "the guest sent a line beyond its bound"};
        if (cut.found == LineCutter::Found::part)
            return {used, Rest::needs_more, nullptr};
        stream.charge(base::k_paced_line_bytes);
        used += cut.line.size() + 1;
        on_line(cut.line);
        if (!stream.has_reader())
            return {used, Rest::needs_more, nullptr};  // this may be gone
    }
    return {used, Rest::go_on, nullptr};
}

}  // namespace atl::bridge
