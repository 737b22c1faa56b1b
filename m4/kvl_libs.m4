# SPDX-License-Identifier: BSD-3-Clause

# KVL_REQUIRE_LIB(name, header, library, function, Debian package): sets NAME_LIBS and kvl_name_found
AC_DEFUN([KVL_REQUIRE_LIB], [
  kvl_save_libs=$LIBS
  AC_CHECK_HEADER([$2], [], [AC_MSG_ERROR([$2 not found: apt-get install $5])])
  AC_CHECK_LIB([$3], [$4], [], [AC_MSG_ERROR([lib$3 not found: apt-get install $5])])
  LIBS=$kvl_save_libs
  m4_toupper([$1])_LIBS="-l$3"
  kvl_$1_found=yes
  AC_SUBST(m4_toupper([$1])[_LIBS])
])

AC_DEFUN([KVL_CHECK_NUMA], [KVL_REQUIRE_LIB([numa], [numa.h], [numa], [numa_available], [libnuma-dev])])
AC_DEFUN([KVL_CHECK_XXHASH], [KVL_REQUIRE_LIB([xxhash], [xxhash.h], [xxhash], [XXH3_64bits], [libxxhash-dev])])
AC_DEFUN([KVL_CHECK_JANSSON], [KVL_REQUIRE_LIB([jansson], [jansson.h], [jansson], [json_object], [libjansson-dev])])

# optional: tells people what the rails can be
AC_DEFUN([KVL_CHECK_VERBS], [
  AC_CHECK_HEADER([infiniband/verbs.h], [kvl_verbs_found="yes (headers; UCX brings the transport)"],
    [kvl_verbs_found="no (libibverbs-dev)"])
])

# optional: values on NVMe
AC_DEFUN([KVL_CHECK_URING], [
  AC_CHECK_HEADER([liburing.h], [kvl_uring_found=yes], [kvl_uring_found="no (liburing-dev)"])
])

AC_DEFUN([KVL_CHECK_CUDA], [
  AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=DIR], [CUDA toolkit for device memory (default: no)])],
    [], [with_cuda=no])
  kvl_cuda_found=no
  CUDA_CFLAGS=
  AS_IF([test "x$with_cuda" != xno], [
    AS_IF([test "x$with_cuda" = xyes], [with_cuda=/usr/local/cuda])
    AS_IF([test -f "$with_cuda/include/cuda.h"], [],
      [AC_MSG_ERROR([--with-cuda=$with_cuda: no include/cuda.h there (Debian: nvidia-cuda-dev, then --with-cuda=/usr)])])
    AS_IF([test "x$with_cuda" != x/usr], [CUDA_CFLAGS="-isystem $with_cuda/include"])
    kvl_save_cflags=$CFLAGS
    CFLAGS="$CFLAGS $CUDA_CFLAGS"
    AC_COMPUTE_INT([kvl_cuda_version], [CUDA_VERSION / 10], [[#include <cuda.h>]], [kvl_cuda_version=0])
    CFLAGS=$kvl_save_cflags
    AS_IF([test "$kvl_cuda_version" -lt 1103],
      [AC_MSG_ERROR([--with-cuda=$with_cuda: its cuda.h is too old, or none: CUDA 11.3 or newer is needed])])
    kvl_cuda_built=$((kvl_cuda_version / 100)).$((kvl_cuda_version % 100))
    kvl_cuda_found="$kvl_cuda_built in $with_cuda"
    AC_DEFINE([KVL_HAVE_CUDA], [1], [The CUDA driver's header is there])
  ])
  AC_DEFINE_UNQUOTED([KVL_CUDA_BUILT], ["${kvl_cuda_built:-no}"], [CUDA's header that kvlane was built with])
  AC_SUBST([CUDA_CFLAGS])
  AM_CONDITIONAL([KVL_CUDA], [test "x$kvl_cuda_found" != xno])
])

# only the tests need it
AC_DEFUN([KVL_CHECK_GTEST], [
  PKG_CHECK_MODULES([GTEST], [gtest >= 1.11], [kvl_gtest_found=`$PKG_CONFIG --modversion gtest`],
    [kvl_gtest_found="no: make check runs the gates alone (libgtest-dev)"])
  AM_CONDITIONAL([KVL_HAVE_GTEST], [test -n "$GTEST_LIBS"])
])
