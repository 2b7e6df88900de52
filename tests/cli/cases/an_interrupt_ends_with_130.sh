fullbore bench "$PHOTOS" --epochs 1000000 --step-ms 5 >out &
sleep 1
kill -INT $!
wait $! || exit $?
