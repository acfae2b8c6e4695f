# ferry-server: a binary of its own over the library (docs/server.md). Its packages are those of 'scripts/setup server'.
set(protocol ${PROJECT_SOURCE_DIR}/src/server/protocol)
set(embedded "#include \"server/frontend.h\"\n#include \"server/proto_schema.h\"\n\nnamespace ferry::server {\n\n")
string(APPEND embedded "std::vector<std::pair<std::string, std::string>> ProtocolTexts() {\n  return {\n")
foreach(name model_config inference health reflection_v1 reflection_v1alpha)
  file(READ ${protocol}/${name}.proto text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${protocol}/${name}.proto)
  string(APPEND embedded "      {\"${name}.proto\", R\"__(${text})__\"},\n")
endforeach()
file(READ ${PROJECT_SOURCE_DIR}/src/server/page.html text)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/server/page.html)
string(APPEND embedded "  };\n}\n\nstd::string_view PageText() {\n  return R\"__(${text})__\";\n}\n\n}  // namespace ferry::server\n")
file(GENERATE OUTPUT ${FERRY_GENERATED}/server/embedded.cc CONTENT "${embedded}")

find_path(BOOST_BEAST_INCLUDE boost/beast/http/basic_parser.hpp)
find_path(NGHTTP2_INCLUDE nghttp2/nghttp2.h)
find_library(NGHTTP2_LIBRARY NAMES libnghttp2.a nghttp2)
find_path(OPENSSL_INCLUDE openssl/ssl.h)
find_library(SSL_LIBRARY NAMES libssl.a ssl)
find_library(CRYPTO_LIBRARY NAMES libcrypto.a crypto)
if(NOT BOOST_BEAST_INCLUDE OR NOT NGHTTP2_INCLUDE OR NOT NGHTTP2_LIBRARY OR NOT OPENSSL_INCLUDE OR NOT SSL_LIBRARY)
  message(FATAL_ERROR "the server needs Boost, nghttp2 and OpenSSL: 'scripts/setup server' installs them (-DFERRY_SERVER=OFF builds without)")
endif()

# What runs once per request is compiled for speed.
add_room(server size WITHOUT main.cc SOURCES ${FERRY_GENERATED}/server/embedded.cc
  BUT_SPEED batch_cost.cc connection.cc datatype.cc event_loop.cc grpc_api.cc http1.cc http1_parser.cc http2.cc http_api.cc http_message.cc
  infer_codec.cc infer_grpc.cc infer_http.cc json_cursor.cc model_stats.cc scheduler.cc served_model.cc service.cc tensor_join.cc
  tensor_json.cc)
foreach(target ferry_room_server ferry_room_server_speed)
  target_include_directories(${target} SYSTEM PRIVATE ${PROTOZERO_INCLUDE_DIR} ${BOOST_BEAST_INCLUDE} ${NGHTTP2_INCLUDE} ${OPENSSL_INCLUDE})
endforeach()
set_source_files_properties(${FERRY_GENERATED}/server/embedded.cc PROPERTIES GENERATED ON)

add_library(ferry_server_room STATIC ${ferry_room_server_OBJECTS})
set_target_properties(ferry_server_room PROPERTIES LINKER_LANGUAGE CXX EXCLUDE_FROM_ALL ON)
target_link_libraries(ferry_server_room PUBLIC ferry ${NGHTTP2_LIBRARY} ${SSL_LIBRARY} ${CRYPTO_LIBRARY} ${ZLIB_STATIC} ${CMAKE_DL_LIBS} Threads::Threads)

# Images stay out, as in ferry-runtime.
add_executable(ferry_server src/server/main.cc src/image/no_codecs.cc)
set_target_properties(ferry_server PROPERTIES OUTPUT_NAME ferry-server)
ferry_compile(ferry_server ${ferry_size})
target_include_directories(ferry_server PRIVATE src)
target_link_libraries(ferry_server PRIVATE ferry_server_room)
if(NOT FERRY_SANITIZE)
  target_sources(ferry_server PRIVATE src/base/plain_terminate.cc)
  target_link_options(ferry_server PRIVATE -Wl,--gc-sections -static-libstdc++ -static-libgcc -Wl,-z,pack-relative-relocs)
endif()
