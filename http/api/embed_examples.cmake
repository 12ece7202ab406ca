# Writes OUTPUT, a source file that holds the text of INPUT.
# Run as: cmake -DOUTPUT=… -DINPUT=… -P embed_examples.cmake
file(READ "${INPUT}" text)
file(WRITE "${OUTPUT}"
"#include \"http/api/examples.hpp\"

namespace atl::http {

std::string_view examples_text() noexcept {
    return R\"examples(${text})examples\";
}

}  // namespace atl::http
")
