# SPDX-License-Identifier: BSD-3-Clause

# C11 with GNU extensions, C++17 for the tests' shim.
AC_DEFUN([KVL_STANDARDS], [
  kvl_std=gnu11
  KVL_CFLAGS="-std=gnu11 -fvisibility=hidden -fno-strict-aliasing"
  KVL_CXXFLAGS="-std=c++17"
  AC_SUBST([KVL_CFLAGS])
  AC_SUBST([KVL_CXXFLAGS])
])

AC_DEFUN([KVL_WARNINGS], [
  AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [warnings are errors (default: no)])],
    [], [enable_werror=no])
  KVL_WARN="-Wall -Wextra -Wshadow -Wundef -Wvla -Wpointer-arith -Wformat=2 -Wwrite-strings"
  KVL_WARN_C="-Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition"
  AS_IF([test "x$enable_werror" = xyes], [KVL_WARN="$KVL_WARN -Werror"])
  AC_SUBST([KVL_WARN])
  AC_SUBST([KVL_WARN_C])
])

AC_DEFUN([KVL_SANITIZERS], [
  AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers=LIST], [address,undefined or thread (default: none)])],
    [kvl_sanitizers=$enableval], [kvl_sanitizers=none])
  KVL_SAN=
  AS_CASE([$kvl_sanitizers],
    [none|no], [kvl_sanitizers=none],
    [address|undefined|address,undefined|undefined,address|thread],
      [KVL_SAN="-fsanitize=$kvl_sanitizers -fno-omit-frame-pointer -fno-sanitize-recover=all"],
    [AC_MSG_ERROR([--enable-sanitizers=$kvl_sanitizers: address, undefined, address,undefined or thread])])
  AS_IF([test -n "$KVL_SAN"], [
    kvl_save=$CFLAGS
    CFLAGS="$CFLAGS $KVL_SAN"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [],
      [AC_MSG_ERROR([$CC does not link with $KVL_SAN: apt-get install gcc, or clang and libclang-rt-dev])])
    CFLAGS=$kvl_save
  ])
  AC_SUBST([KVL_SAN])
])

AC_DEFUN([KVL_FUZZ], [
  AC_ARG_ENABLE([fuzz],
    [AS_HELP_STRING([--enable-fuzz], [build the fuzz targets, with clang and its libFuzzer (default: no)])],
    [kvl_fuzz=$enableval], [kvl_fuzz=no])
  AS_IF([test "x$kvl_fuzz" = xyes], [
    AC_LANG_PUSH([C])
    kvl_save=$CFLAGS
    CFLAGS="$CFLAGS -fsanitize=fuzzer-no-link"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [],
      [AC_MSG_ERROR([--enable-fuzz needs clang with libFuzzer: apt-get install clang libclang-rt-dev, then configure CC=clang CXX=clang++])])
    CFLAGS=$kvl_save
    KVL_SAN="$KVL_SAN -fsanitize=fuzzer-no-link"
    AC_LANG_POP([C])
  ])
  AM_CONDITIONAL([KVL_WANT_FUZZ], [test "x$kvl_fuzz" = xyes])
])

# NIXL and its plugins share C++ objects: those of GNU's library, 64 bits. Without them its backend is not built.
AC_DEFUN([KVL_CHECK_NIXL_ABI], [
  AC_LANG_PUSH([C++])
  kvl_save=$CXXFLAGS
  CXXFLAGS="$CXXFLAGS $KVL_CXXFLAGS"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([
      #include <mutex>
      #include <string>
      #include <unordered_map>
      #if !defined(__GLIBCXX__) || !_GLIBCXX_USE_CXX11_ABI
      #error
      #endif
      static_assert(sizeof(std::string) == 32 && sizeof(std::mutex) == 40 &&
                    sizeof(std::unordered_map<int, int>) == 56);
    ], [])],
    [kvl_nixl=yes], [kvl_nixl="no: $CXX with GNU's C++ library of 64 bits is wanted"])
  CXXFLAGS=$kvl_save
  AC_LANG_POP([C++])
  AM_CONDITIONAL([KVL_WANT_NIXL], [test "x$kvl_nixl" = xyes])
])
