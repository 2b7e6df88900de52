FULLBORE_AUDIT=logs fullbore bench "$PHOTOS" --batch-size 7 > bench.txt
size=$(stat -c %s logs/*.audit) # a byte inside the last batch but one
printf 'X' | dd of="$(echo logs/*.audit)" bs=1 seek=$((size - 90)) conv=notrunc 2> dd.txt
fullbore audit logs
