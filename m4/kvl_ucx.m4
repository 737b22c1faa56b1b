# SPDX-License-Identifier: BSD-3-Clause

# UCX: by pkg-config, or --with-ucx=DIR: a prefix, or an unpacked libucx wheel (DIR/include, DIR/lib).
# -isystem: the wheel's headers do not survive -Wextra -Werror.
AC_DEFUN([KVL_CHECK_UCX], [
  AC_ARG_WITH([ucx],
    [AS_HELP_STRING([--with-ucx=DIR], [UCX prefix, or the directory of an unpacked libucx wheel])],
    [], [with_ucx=yes])
  UCX_LIBS="-lucp -luct -lucs"
  AS_CASE([$with_ucx],
    [no], [AC_MSG_ERROR([kvlane is built on UCX: --without-ucx makes no sense])],
    [yes], [
      PKG_CHECK_MODULES([UCX_PC], [ucx], [],
        [AC_MSG_ERROR([UCX not found: apt-get install libucx-dev, or --with-ucx=DIR])])
      UCX_CFLAGS=`echo "$UCX_PC_CFLAGS" | sed 's/-I/-isystem /g'`
      UCX_LDFLAGS=`$PKG_CONFIG --libs-only-L ucx`
      kvl_ucx_where=`$PKG_CONFIG --variable=prefix ucx`],
    [
      AS_IF([test -f "$with_ucx/include/ucp/api/ucp.h"], [],
        [AC_MSG_ERROR([--with-ucx=$with_ucx: no include/ucp/api/ucp.h there])])
      kvl_ucx_where=`cd "$with_ucx" && pwd`
      kvl_ucx_lib=
      for kvl_dir in lib lib64 "lib/`$CC -print-multiarch 2>/dev/null`"; do
        AS_IF([test -e "$kvl_ucx_where/$kvl_dir/libucp.so"], [kvl_ucx_lib=$kvl_ucx_where/$kvl_dir])
      done
      AS_IF([test -n "$kvl_ucx_lib"], [], [AC_MSG_ERROR([--with-ucx=$with_ucx: no libucp.so in its lib folder])])
      UCX_CFLAGS="-isystem $kvl_ucx_where/include"
      UCX_LDFLAGS="-L$kvl_ucx_lib -Wl,-rpath,$kvl_ucx_lib"
      # by file name: libtool would read the wheel's .la files, which name folders of another machine
      UCX_LIBS="-l:libucp.so -l:libuct.so -l:libucs.so"])
  kvl_save_cflags=$CFLAGS; kvl_save_libs=$LIBS
  CFLAGS="$CFLAGS $UCX_CFLAGS"; LIBS="$UCX_LDFLAGS $UCX_LIBS $LIBS"
  AC_MSG_CHECKING([whether UCX links])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <ucp/api/ucp.h>]], [[unsigned a, b, c; ucp_get_version(&a, &b, &c);]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([UCX does not link, see config.log: apt-get install libucx-dev, or --with-ucx=DIR])])
  AC_COMPUTE_INT([kvl_ucx_major], [UCP_API_MAJOR], [[#include <ucp/api/ucp_version.h>]])
  AC_COMPUTE_INT([kvl_ucx_minor], [UCP_API_MINOR], [[#include <ucp/api/ucp_version.h>]])
  AS_IF([test "$kvl_ucx_major" -lt 1 || { test "$kvl_ucx_major" -eq 1 && test "$kvl_ucx_minor" -lt 13; }],
    [AC_MSG_ERROR([UCX $kvl_ucx_major.$kvl_ucx_minor is too old: 1.13 or newer is needed])])
  CFLAGS=$kvl_save_cflags; LIBS=$kvl_save_libs
  kvl_ucx_found="$kvl_ucx_major.$kvl_ucx_minor in $kvl_ucx_where"
  AC_DEFINE_UNQUOTED([KVL_UCX_BUILT], ["$kvl_ucx_major.$kvl_ucx_minor"], [UCX's API that kvlane was built with])
  AC_SUBST([UCX_CFLAGS])
  AC_SUBST([UCX_LDFLAGS])
  AC_SUBST([UCX_LIBS])
])
