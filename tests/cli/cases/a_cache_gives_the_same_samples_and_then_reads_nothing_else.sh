cp -r "$PHOTOS" photos
find photos -type f -exec touch -d @1000000000 {} +
sum() { grep -o '"checksum":"[0-9a-f]*"'; }
plain=$(fullbore bench photos --epochs 2 --transform eval224 --json | sum)
first=$(fullbore bench photos --epochs 2 --transform eval224 --json --io slow:latency_us=2000 --cache-dir cache | sum)
second=$(fullbore bench photos --epochs 2 --transform eval224 --json --io fault:error=EIO --cache-dir cache | sum)
memory=$(fullbore bench photos --epochs 2 --transform eval224 --json --cache-ram 10MiB --memory 300MiB | sum)
test "$plain" = "$first"
test "$plain" = "$second"
test "$plain" = "$memory"
test "$(stat -c %a cache)" = 700
echo same
