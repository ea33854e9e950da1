#!/bin/sh
# Takes out of an environment's site-packages what no program runs: tests, headers and sources of extensions, debug
# symbols, and parts that nothing here speaks to. import_everything.py shows afterwards that nothing is missing.
set -eu
cd "$1"
find . -type d -name tests -prune -exec rm -rf {} +
find . \( -name '*.pyi' -o -name '*.py[xd]' -o -name '*.pxi' -o -name '*.h' -o -name '*.hpp' -o -name '*.a' -o -name '*_test.py' \) -delete
# Arrow writes and reads Parquet here: no Flight, S3, data sets or other formats. Of the three names of a library the loader asks for the second.
rm -rf pyarrow/include pyarrow/includes pyarrow/src pyarrow/lib*_flight.so* pyarrow/_flight.* pyarrow/libarrow_s3.so* pyarrow/_s3fs.* \
  pyarrow/_dataset* pyarrow/_acero.* pyarrow/_substrait.* pyarrow/_orc.* pyarrow/_csv.* pyarrow/_json.* pyarrow/_feather.* \
  pyarrow/_pyarrow_cpp_tests.* pyarrow/libarrow_python*.so pyarrow/lib*.so.*.*.*
# A copy of zstd for PyPy.
rm -f zstandard/_cffi.*
# Libraries that auditwheel moved (*.libs) do not survive it.
find . \( -name '*.so' -o -name '*.so.*' \) -not -path '*.libs/*' -exec strip --strip-unneeded {} +
